//! What trials and rollouts of this host did to watched services.

use heaptrial_change::journal::{self, Record};
use heaptrial_change::{ChangeError, read_prepared, trials};
use heaptrial_host::Paths;

use crate::watch::plan::WatchPlan;
use crate::watch::seen::Seen;

/// Adds by whom services were changed since the watch began.
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
