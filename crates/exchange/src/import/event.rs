//! Operators' events, attributed to arms.

use heaptrial_model::{EventKind, KnownEvent};
use heaptrial_store::ImportedEvent;

use super::lists::WantedList;
use super::service::Service;
use crate::lives::{StartEvent, Weight};
use crate::tables::OperatorEvent;

/// The events of the files: one per arm that it is about, one without an arm if it is about all or about none.
pub(super) fn attribute(events: &[OperatorEvent], lists: &[WantedList]) -> Vec<ImportedEvent> {
    let mut attributed = Vec::new();
    for event in events {
        let mut add = |arm: Option<usize>, kind: EventKind, text: String| {
            attributed.push(ImportedEvent { wall_us: event.wall_us, service: None, arm, kind, text });
        };
        if event.is_about_all() {
            add(None, event.kind.clone(), event.text.clone());
            continue;
        }
        let arms: Vec<usize> = lists
            .iter()
            .enumerate()
            .filter(|(_, list)| event.is_about(&list.arm.name))
            .map(|(index, _)| index)
            .collect();
        if arms.is_empty() {
            // About nobody: it must not be taken for one about all.
            add(
                None,
                KnownEvent::Unattributed.into(),
                format!("{} of `{}`: {}", event.kind, event.group, event.text),
            );
        }
        for arm in arms {
            add(Some(arm), event.kind.clone(), event.text.clone());
        }
    }
    attributed
}

/// Changes of a service's group in the measurements themselves, as migrations.
pub(super) fn of_groups<'s>(services: impl Iterator<Item = &'s Service>) -> Vec<ImportedEvent> {
    let mut events = Vec::new();
    for (index, service) in services.enumerate() {
        let begun = service.samples.first().map(|sample| sample.wall_us);
        let mut last: Option<&str> = None;
        for (since, group) in service.groups.iter().filter(|(_, group)| !group.is_empty()) {
            let text = match last {
                Some(last) if last == group => continue,
                Some(last) => format!("from group {last} to {group}"),
                None if begun < Some(*since) => format!("into group {group}"),
                None => String::new(),
            };
            last = Some(group);
            if !text.is_empty() {
                events.push(ImportedEvent {
                    wall_us: *since,
                    service: Some(index),
                    arm: None,
                    kind: KnownEvent::Migration.into(),
                    text,
                });
            }
        }
    }
    events
}

/// How many events are about nobody.
pub(super) fn note_unattributed(events: &[ImportedEvent]) -> Option<String> {
    let unattributed = events.iter().filter(|event| event.kind == KnownEvent::Unattributed).count();
    (unattributed > 0).then(|| {
        format!(
            "events about groups that are no arms: {unattributed}; they date no starts, and are in the report's list of events"
        )
    })
}

/// The events that may date starts of a service in these arms.
pub(super) fn starts_of(events: &[ImportedEvent], service: usize, arms: &[usize]) -> Vec<StartEvent> {
    let about = |event: &ImportedEvent| match (event.service, event.arm) {
        (Some(of), _) => of == service,
        (None, Some(arm)) => arms.contains(&arm),
        (None, None) => event.kind != KnownEvent::Unattributed,
    };
    let events = events.iter().enumerate().filter(|(_, event)| about(event));
    events
        .filter_map(|(index, event)| {
            // Of a service's own change of group the first reading after it is known, and no more.
            let dated = event.service.is_none();
            Some(StartEvent { wall_us: event.wall_us, weight: Weight::of(&event.kind)?, dated, index })
        })
        .collect()
}
