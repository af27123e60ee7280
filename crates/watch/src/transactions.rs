//! What the journals of this host's trials and rollouts tell of watched services.

use std::collections::BTreeSet;

use heaptrial_change::journal::{self, Event, Record};
use heaptrial_change::{
    ChangeError, FileState, Lock, ServiceState, Stage, TrialStage, TrialState, read_prepared, trials,
};
use heaptrial_host::Paths;
use heaptrial_model::{Identity, ServiceName};

use crate::plan::{Fingerprint, WatchPlan};
use crate::seen::{Seen, ServiceSeen, TransactionSeen};

/// Adds what they tell; a journal that cannot be read is told in [`Seen::unreadable`].
pub(crate) fn see(plan: &WatchPlan, paths: &Paths, seen: &mut Seen) {
    let since = (plan.started_at * 1e6) as i64;
    let at_work = at_work(paths);
    let mut found: Vec<(i64, TransactionSeen)> = Vec::new();
    let names = trials(paths).unwrap_or_else(|error| {
        seen.unreadable.push(error.to_string());
        Vec::new()
    });
    for name in names {
        match read(paths, &name) {
            Err(error) => seen.unreadable.push(format!("what `{name}` did: {error}")),
            Ok((kind, records)) => {
                let state = TrialState::of(&records);
                mark_written(paths, &state, seen);
                let last = last_touch(&records, since);
                let is_at_work = at_work.as_deref() == Some(&name);
                found.extend(last.map(|last| (last, of((kind, name), &records, &state, is_at_work, seen))));
            }
        }
    }
    found.sort_by_key(|(last, _)| std::cmp::Reverse(*last));
    seen.transactions = found.into_iter().map(|(_, transaction)| transaction).collect();
}

fn read(paths: &Paths, name: &str) -> Result<(String, Vec<Record>), ChangeError> {
    let kind = read_prepared(paths, name)?.owner.kind;
    Ok((kind, journal::read(&paths.trial(name))?))
}

/// Whose process changes services now.
fn at_work(paths: &Paths) -> Option<String> {
    Some(Lock::holder(&paths.state)?.name)
}

/// When it last did something to a service or took files of the host away, if that was after a time.
fn last_touch(records: &[Record], since: i64) -> Option<i64> {
    let touches = |record: &&Record| {
        record.wall_us >= since
            && (record.event.service().is_some() || matches!(record.event, Event::HostReverted))
    };
    records.iter().rfind(touches).map(|record| record.wall_us)
}

/// Marks drop-ins that are as a transaction wrote them.
fn mark_written(paths: &Paths, state: &TrialState, seen: &mut Seen) {
    for own in &mut seen.services {
        let Ok(name) = own.service.parse::<ServiceName>() else { continue };
        let Some(changed) = state.services.get(&name).filter(|found| found.stage == Stage::Committed) else {
            continue;
        };
        let Some(present) = own.drop_in.as_mut() else { continue };
        let path = paths.drop_in(&name);
        let after = changed.changes.iter().find(|change| change.path == path);
        let after = after.map(|change| &change.after);
        if let Some(FileState::File { sha256, .. }) = after {
            present.written_by_transaction |= present.sha256.as_ref() == Some(sha256);
        }
    }
}

fn of(
    (kind, name): (String, String),
    records: &[Record],
    state: &TrialState,
    at_work: bool,
    seen: &Seen,
) -> TransactionSeen {
    // What was looked at in this check may have been in the middle of a restart that is over by now.
    let began = (seen.at * 1e6) as i64;
    let later = records.iter().filter(|record| record.wall_us >= began);
    let touched: BTreeSet<&ServiceName> = later.filter_map(|record| record.event.service()).collect();
    let is_busy = |service: &ServiceName, stage: Stage| is_in_flight(stage) || touched.contains(service);
    let runs = |service: &ServiceName| {
        let own = |seen: &&ServiceSeen| seen.service == service.as_str();
        seen.services.iter().find(own).and_then(|seen| seen.runs.as_ref())
    };
    let is_own = |(service, changed): &(&ServiceName, &ServiceState)| {
        is_busy(service, changed.stage) || is_as_left(changed, runs(service))
    };
    let left: Vec<(&ServiceName, &ServiceState)> = state.services.iter().filter(is_own).collect();
    let names = |of: &dyn Fn(&ServiceName, Stage) -> bool| -> Vec<String> {
        let found = left.iter().filter(|(service, changed)| of(service, changed.stage));
        found.map(|(service, _)| service.to_string()).collect()
    };
    let backwards = matches!(state.stage, TrialStage::Reverting | TrialStage::Reverted);
    let files = records.iter().filter(|_| backwards).flat_map(|record| match &record.event {
        Event::HostIntent { changes } => changes.as_slice(),
        _ => &[],
    });
    TransactionSeen {
        kind,
        name,
        did: did(state.stage, at_work).to_owned(),
        services: names(&|_, _| true),
        in_flight: names(&is_busy),
        put_back: names(&|_, stage| stage == Stage::Reverted),
        files: files.map(|change| change.path.clone()).collect(),
    }
}

fn is_in_flight(stage: Stage) -> bool {
    !matches!(stage, Stage::Committed | Stage::Reverted)
}

/// Whether a service is as a transaction left it, or is being changed by it: what somebody else did since is not its doing.
fn is_as_left(changed: &ServiceState, runs: Option<&Fingerprint>) -> bool {
    let is = |wanted: fn(&journal::Change) -> &FileState| {
        changed
            .changes
            .iter()
            .all(|change| FileState::read(&change.path).is_ok_and(|present| present.is_same(wanted(change))))
    };
    match changed.stage {
        Stage::Committed => {
            let proved = changed.identity.as_ref();
            is(|change| &change.after)
                && proved.zip(runs).is_none_or(|(identity, runs)| runs_as_proved(identity, runs))
        }
        Stage::Reverted => is(|change| &change.before),
        _ => is_in_flight(changed.stage),
    }
}

fn runs_as_proved(identity: &Identity, runs: &Fingerprint) -> bool {
    let build = identity.sha256.as_ref().or(identity.build_id.as_ref());
    identity.label() == runs.allocator && build == runs.build.as_ref() && identity.settings == runs.settings
}

fn did(stage: TrialStage, at_work: bool) -> &'static str {
    match (stage, at_work) {
        (TrialStage::Reverting, true) => "is being put back",
        (TrialStage::Reverting, false) => "was cut short while it was put back",
        (TrialStage::Reverted, _) => "was put back",
        (TrialStage::Starting, true) => "is changing services",
        (TrialStage::Starting, false) => "changed services and has not ended",
        _ => "changed services",
    }
}

#[cfg(test)]
mod tests {
    use heaptrial_model::Linkage;

    use super::*;

    #[test]
    fn what_runs_with_other_settings_than_were_proved_is_not_as_a_transaction_left_it() {
        let proved = Identity {
            family: "jemalloc".into(),
            version: None,
            version_range: None,
            path: None,
            build_id: Some("a".into()),
            sha256: None,
            linkage: Linkage::Preloaded,
            settings: [("MALLOC_CONF".to_owned(), "narenas:2".to_owned())].into(),
            evidence: Vec::new(),
            libraries: Vec::new(),
        };
        let mut runs = Fingerprint {
            allocator: proved.label(),
            build: proved.build_id.clone(),
            settings: proved.settings.clone(),
            libc: None,
        };
        assert!(runs_as_proved(&proved, &runs));
        runs.settings.insert("MALLOC_CONF".to_owned(), "narenas:9".to_owned());
        assert!(!runs_as_proved(&proved, &runs));
    }

    #[test]
    fn a_service_that_was_put_back_while_a_check_looked_counts_as_being_changed() {
        let service: ServiceName = "tor@a.service".parse().unwrap();
        let record = |seconds: i64, event: Event| Record { wall_us: seconds * 1_000_000, event };
        let intent =
            Event::Intent { service: service.clone(), arm: "a".into(), changes: Vec::new(), life: None };
        let records = [
            record(1, intent),
            record(20, Event::Reverting { service: service.clone() }),
            record(21, Event::Reverted { service }),
        ];
        let in_flight = |at: f64| {
            let seen = Seen { at, ..Seen::default() };
            let name = ("trial".to_owned(), "t".to_owned());
            let found = of(name, &records, &TrialState::of(&records), false, &seen);
            assert_eq!((found.services.len(), found.put_back.len()), (1, 1));
            found.in_flight.len()
        };
        assert_eq!([19.5, 20.5, 21.5].map(in_flight), [1, 1, 0]);
        assert_eq!(
            [0.0, 15.0, 30.0].map(|since| last_touch(&records, (since * 1e6) as i64).is_some()),
            [true, true, false]
        );
    }
}
