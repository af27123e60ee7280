//! What the journals of this host's trials and rollouts tell of watched services.

use std::collections::BTreeSet;
use std::fs;

use heaptrial_change::journal::{self, Event, Record};
use heaptrial_change::{
    ChangeError, FileState, Holder, Lock, ServiceState, Stage, TrialStage, TrialState, read_prepared,
    read_state, trials,
};
use heaptrial_host::Paths;
use heaptrial_model::{Identity, ServiceName};

use crate::plan::{Fingerprint, WatchPlan};
use crate::seen::{Seen, ServiceSeen, TransactionSeen};

/// Services that trials and rollouts are changing now.
pub(crate) fn in_flight(paths: &Paths) -> BTreeSet<ServiceName> {
    let states =
        trials(paths).unwrap_or_default().into_iter().filter_map(|name| read_state(paths, &name).ok());
    states.flat_map(|state| state.in_flight()).collect()
}

/// Adds what they tell; a journal that cannot be read is told in [`Seen::unreadable`]. Services that were `busy` before the
/// others were looked at may have been seen in the middle of a restart, and be done by now.
pub(crate) fn see(plan: &WatchPlan, paths: &Paths, busy: &BTreeSet<ServiceName>, seen: &mut Seen) {
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
                found.extend(
                    last.map(|last| (last, of((kind, name), &records, &state, (is_at_work, busy), seen))),
                );
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
    if !Lock::is_held(&paths.state) {
        return None;
    }
    let holder: Holder = serde_json::from_slice(&fs::read(paths.state.join("lock")).ok()?).ok()?;
    Some(holder.name)
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
        let (path, Some(present)) = (paths.drop_in(&name), own.drop_in.as_mut()) else { continue };
        let after = changed.changes.iter().find(|change| change.path == path).map(|change| &change.after);
        if let Some(FileState::File { sha256, .. }) = after {
            present.written_by_transaction |= present.sha256.as_ref() == Some(sha256);
        }
    }
}

fn of(
    (kind, name): (String, String),
    records: &[Record],
    state: &TrialState,
    (at_work, busy): (bool, &BTreeSet<ServiceName>),
    seen: &Seen,
) -> TransactionSeen {
    let runs = |service: &ServiceName| {
        let own = |seen: &&ServiceSeen| seen.service == service.as_str();
        seen.services.iter().find(own).and_then(|seen| seen.runs.as_ref())
    };
    let left: Vec<(&ServiceName, &ServiceState)> = state
        .services
        .iter()
        .filter(|(service, changed)| busy.contains(*service) || is_as_left(changed, runs(service)))
        .collect();
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
        in_flight: names(&|service, stage| is_in_flight(stage) || busy.contains(service)),
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
                && proved.zip(runs).is_none_or(|(identity, runs)| is_same_build(identity, runs))
        }
        Stage::Reverted => is(|change| &change.before),
        _ => true,
    }
}

fn is_same_build(identity: &Identity, runs: &Fingerprint) -> bool {
    let build = identity.sha256.as_ref().or(identity.build_id.as_ref());
    identity.label() == runs.allocator && build == runs.build.as_ref()
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
