//! What trials and rollouts of this host did to watched services.

use heaptrial_change::journal::{self, Record};
use heaptrial_change::{ChangeError, FileState, Stage, TrialState, read_prepared, trials};
use heaptrial_host::Paths;
use heaptrial_model::ServiceName;

use crate::watch::plan::WatchPlan;
use crate::watch::seen::Seen;

/// Adds by whom services were changed since the watch began, and which drop-ins are as a trial or rollout wrote them.
pub(crate) fn see(plan: &WatchPlan, paths: &Paths, seen: &mut Seen) {
    let since = (plan.started_at * 1e6) as i64;
    let names = trials(paths).unwrap_or_else(|error| {
        seen.unreadable.push(error.to_string());
        Vec::new()
    });
    for name in names {
        match read(paths, &name) {
            Err(error) => seen.unreadable.push(format!("what `{name}` did: {error}")),
            Ok((kind, records)) => {
                mark_written(paths, &TrialState::of(&records), seen);
                let later = records.iter().filter(|record| record.wall_us >= since);
                for service in later.filter_map(|record| record.event.service()) {
                    let own = seen.services.iter_mut().find(|own| own.service == service.as_str());
                    own.into_iter().for_each(|own| own.changed_by = Some(format!("{kind} `{name}`")));
                }
            }
        }
    }
}

fn read(paths: &Paths, name: &str) -> Result<(String, Vec<Record>), ChangeError> {
    let kind = read_prepared(paths, name)?.owner.kind;
    Ok((kind, journal::read(&paths.trial(name))?))
}

fn mark_written(paths: &Paths, state: &TrialState, seen: &mut Seen) {
    for own in &mut seen.services {
        let Ok(name) = own.service.parse::<ServiceName>() else { continue };
        let committed = state.services.get(&name).filter(|found| found.stage == Stage::Committed);
        let (Some(changed), Some(present)) = (committed, own.drop_in.as_mut()) else { continue };
        let path = paths.drop_in(&name);
        let after = changed.changes.iter().find(|change| change.path == path).map(|change| &change.after);
        if let Some(FileState::File { sha256, .. }) = after {
            present.written_by_transaction |= present.sha256.as_ref() == Some(sha256);
        }
    }
}
