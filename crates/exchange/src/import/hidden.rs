//! What cannot be told from the files, said in notes.

use heaptrial_store::{ImportedEvent, ImportedList};

use super::event;
use super::merge::MergedService;
use super::summary::some_of;
use crate::lives::{self, Weight};

/// Tells of events that are about nobody.
pub(super) fn note_events(events: &[ImportedEvent], notes: &mut Vec<String>) {
    let unattributed = events.iter().filter(|event| event::is_unattributed(event)).count();
    if unattributed > 0 {
        notes.push(format!(
            "events about groups that are no arms: {unattributed}; they tell no starts, and stand in the report's list of events"
        ));
    }
}

/// Tells of services that do not show a restart which most of their arm shows, where it would be their last one.
pub(super) fn note_hidden_restarts(
    services: &[MergedService],
    lists: &[ImportedList],
    arms_of: &[Vec<usize>],
    events: &[ImportedEvent],
    notes: &mut Vec<String>,
) {
    let mut hidden = std::collections::BTreeSet::new();
    for event in events.iter().filter(|event| Weight::of(&event.kind) == Some(Weight::Start)) {
        if event::is_unattributed(event) || event.service.is_some() {
            continue;
        }
        for (index, list) in lists.iter().enumerate() {
            let about = event.arm.is_none_or(|arm| arm == index) && list.earlier_list_of.is_none();
            let members = || list.members.iter().filter(|member| arms_of[**member].contains(&index));
            if !about {
                continue;
            }
            let restarted =
                members().filter(|member| restarted_at(&services[**member], event.wall_us)).count();
            let suspects: Vec<usize> = members()
                .copied()
                .filter(|member| lives::could_hide_last_restart(&services[*member].samples, event.wall_us))
                .collect();
            if restarted > suspects.len() {
                hidden.extend(suspects);
            }
        }
    }
    if !hidden.is_empty() {
        let names = some_of(
            hidden.iter().map(|index| services[*index].name.as_str()).collect::<Vec<_>>().into_iter(),
        );
        notes.push(format!(
            "services that may have been restarted with most of their arm without showing it, \
             so that their ages may be too high: {} ({names})",
            hidden.len()
        ));
    }
}

fn restarted_at(service: &MergedService, wall_us: i64) -> bool {
    let after = service.samples.partition_point(|sample| sample.wall_us < wall_us);
    after > 0
        && after < service.samples.len()
        && lives::is_restart(&service.samples[after - 1], &service.samples[after])
}
