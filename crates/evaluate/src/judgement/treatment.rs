//! Which lives had their arm's treatment, as the events of a trial's start and end say.
//!
//! An allocator is proved in the process. An option of a torrc and restarts at intervals leave nothing there to prove,
//! so that a service which was put back, or never reached, would look as one that has its treatment.

use heaptrial_model::KnownEvent;
use heaptrial_store::{EventRecord, LifeRecord};

/// What of a life is known from events.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Treated {
    /// It had its arm's treatment, or nothing says otherwise.
    Yes,
    /// It ended before its service had its treatment for the first time: none of the trial's data.
    Before,
    /// It had not, and why.
    No(String),
}

/// What is known of each of `lives` from the events until `until_us` (microseconds since 1970).
pub(crate) fn of_lives(lives: &[LifeRecord], events: &[EventRecord], until_us: i64) -> Vec<Treated> {
    if !events.iter().any(|event| event.kind == KnownEvent::TreatmentsRecorded) {
        return vec![Treated::Yes; lives.len()];
    }
    lives.iter().map(|life| of_life(life, lives, events, until_us)).collect()
}

fn tells_treatment(kind: KnownEvent) -> bool {
    matches!(
        kind,
        KnownEvent::TreatmentCommitted | KnownEvent::TreatmentFailed | KnownEvent::TreatmentReverted
    )
}

fn of_life(life: &LifeRecord, lives: &[LifeRecord], events: &[EventRecord], until_us: i64) -> Treated {
    let later = |other: &&LifeRecord| {
        other.service_id == life.service_id
            && (other.started_wall_us, other.id) > (life.started_wall_us, life.id)
    };
    let successor = lives.iter().filter(later).map(|other| other.started_wall_us).min();
    let ending = life
        .ended_boottime_us
        .map(|end| life.started_wall_us.saturating_add(end.saturating_sub(life.started_boottime_us)));
    let end = ending.into_iter().chain(successor).min().unwrap_or(i64::MAX);
    let mut own: Vec<&EventRecord> = events
        .iter()
        .filter(|event| event.service_id == Some(life.service_id) && event.wall_us <= until_us)
        .filter(|event| event.kind.known().is_some_and(tells_treatment))
        .collect();
    // A command that went on with another's work may have written of what was before.
    own.sort_by_key(|event| event.wall_us);
    let first_committed =
        own.iter().find(|event| event.kind == KnownEvent::TreatmentCommitted).map(|event| event.wall_us);
    if successor.zip(first_committed).is_some_and(|(next, committed)| next <= committed) {
        return Treated::Before;
    }
    let before_end: Vec<&EventRecord> = own.into_iter().take_while(|event| event.wall_us < end).collect();
    match before_end.split_last() {
        Some((last, _)) if last.kind == KnownEvent::TreatmentCommitted => Treated::Yes,
        Some((last, earlier)) => {
            // Of a failure and the putting back that follows, the failure says why.
            let why =
                earlier.last().filter(|event| event.kind == KnownEvent::TreatmentFailed).unwrap_or(last);
            Treated::No(format!("its arm's treatment was put back: {}", why.text))
        }
        None => Treated::No("its arm's treatment is not applied".to_owned()),
    }
}
