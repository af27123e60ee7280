//! What the files leave open, as notes.

use std::collections::BTreeSet;

use heaptrial_store::{ImportedEvent, ImportedList};

use super::event;
use super::service::Service;
use super::summary::some_of;
use crate::lives::{self, Weight};

/// Counts events that are about nobody.
pub(super) fn note_events(events: &[ImportedEvent], notes: &mut Vec<String>) {
    let unattributed = events.iter().filter(|event| event::is_unattributed(event)).count();
    if unattributed > 0 {
        notes.push(format!(
            "events about groups that are no arms: {unattributed}; they date no starts, and are in the report's list of events"
        ));
    }
}

/// Names services that do not show a restart which operators noted, where it would be their last one: if most of their arm
/// shows it, or their readings have no VmHWM.
pub(super) fn note_hidden_restarts(
    services: &[Service],
    lists: &[ImportedList],
    arms_of: &[Vec<usize>],
    events: &[ImportedEvent],
    notes: &mut Vec<String>,
) {
    let (mut hidden, mut no_peak) = (BTreeSet::new(), BTreeSet::new());
    for event in events.iter().filter(|event| Weight::of(&event.kind) == Some(Weight::Start)) {
        if event::is_unattributed(event) || event.service.is_some() {
            continue;
        }
        for (index, list) in lists.iter().enumerate() {
            let about = event.arm.is_none_or(|arm| arm == index);
            let members = || list.members.iter().filter(|member| arms_of[**member].contains(&index));
            if !about {
                continue;
            }
            let (samples, at) = (|member: usize| &services[member].samples, event.wall_us);
            let starts = |member: usize| event::starts_of(events, member, &arms_of[member]);
            let restarted = members()
                .filter(|member| lives::shows_restart(samples(**member), &starts(**member), at))
                .count();
            let suspects: Vec<usize> = members()
                .copied()
                .filter(|member| lives::could_hide_last_restart(samples(*member), &starts(*member), at))
                .collect();
            if restarted > suspects.len() {
                hidden.extend(suspects);
            } else {
                no_peak
                    .extend(suspects.into_iter().filter(|member| lives::has_no_peak(samples(*member), at)));
            }
        }
    }
    let mut note = |found: &BTreeSet<usize>, what: &str| {
        if !found.is_empty() {
            let names = some_of(found.iter().map(|index| services[*index].name.as_str()));
            notes.push(format!("{what}: {} ({names})", found.len()));
        }
    };
    note(
        &hidden,
        "services that may have been restarted with most of their arm without showing it, so that their ages may be too high",
    );
    note(
        &no_peak,
        "services whose readings, without VmHWM, do not show a start that the events have, so that their ages may be too high",
    );
}
