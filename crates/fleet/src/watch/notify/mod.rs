//! Notifying: the journal, a command, a file of metrics.

mod hook;
mod journal;
mod metrics;

use std::fmt::Display;

use serde_json::{Value, json};

use crate::watch::advice::advice;
use crate::watch::alert::Alert;
use crate::watch::error::WatchError;
use crate::watch::plan::WatchPlan;
use crate::watch::state::{Notification, WatchState};

pub use hook::check_hook;

/// Sends what is pending: a line each to `print`, with priorities where the journal reads them, and to the command. After each
/// notification the state goes to `keep`, so that who is ended in between repeats no other one. Once the command has failed,
/// what is left waits for the next check: each may take as long as the first. Gives why.
pub fn deliver<E: Display>(
    plan: &WatchPlan,
    state: &mut WatchState,
    print: &mut dyn FnMut(&str),
    in_journal: bool,
    keep: &dyn Fn(&WatchState) -> Result<(), E>,
) -> Vec<String> {
    let mut failed = Vec::new();
    for index in 0..state.pending.len() {
        let notification = &mut state.pending[index];
        if !std::mem::replace(&mut notification.is_printed, true) {
            print(&journal::line(plan, notification, in_journal));
            failed.extend(keep(state).err().map(|error| error.to_string()));
        }
    }
    while let (Some(notification), true) = (state.pending.first(), failed.is_empty()) {
        let sent =
            plan.channels.hook.as_ref().map_or(Ok(()), |hook| hook::run(hook, &document(plan, notification)));
        if let Err(error) = sent {
            failed.push(error.to_string());
            break;
        }
        state.pending.remove(0);
        failed.extend(keep(state).err().map(|error| error.to_string()));
    }
    failed
}

/// Writes the file of metrics, where one is wanted.
pub fn write_metrics(plan: &WatchPlan, state: &WatchState) -> Result<(), WatchError> {
    let Some(path) = &plan.channels.metrics else { return Ok(()) };
    let text = metrics::metrics_text(plan, state);
    // The exporter that reads it has a user of its own.
    crate::watch::folder::replace(path, text.as_bytes(), 0o644).map_err(|error| {
        WatchError::Failed(format!("cannot write {}: {error}; is its folder there?", path.display()))
    })
}

/// An alert for other programs.
pub fn alert_document(plan: &WatchPlan, alert: &Alert) -> Value {
    json!({
        "kind": alert.kind,
        "severity": alert.kind.severity(),
        "services": alert.services(),
        "text": alert.text(),
        "advice": advice(plan, alert),
    })
}

/// A notification as the command gets it.
fn document(plan: &WatchPlan, notification: &Notification) -> Value {
    let mut document = alert_document(plan, &notification.alert);
    document["schema_version"] = json!(1);
    document["watch"] = json!(plan.name);
    document["change"] = json!(notification.change);
    document["at_unix_seconds"] = json!(notification.at);
    document
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::alert::{AlertKind, Finding};
    use crate::watch::state::AlertChange;

    #[test]
    fn a_command_that_failed_is_left_until_the_next_check_and_what_was_sent_is_kept_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        let script = format!("echo >> {0}; test $(wc -l < {0}) -lt 2", count.display());
        let mut plan: WatchPlan = serde_json::from_str(include_str!("plan.json")).unwrap();
        plan.channels.hook = Some(["/bin/sh", "-c", &script].map(str::to_owned).into());
        let notification = |service: &str| {
            let alerts = Alert::all([Finding::new(AlertKind::File, service, "", "is gone")]);
            let alert = alerts.into_values().next().unwrap();
            Notification { at: 0.0, change: AlertChange::Raised, alert, is_printed: false }
        };
        let pending = ["a", "b", "c"].map(notification).into();
        let mut state = WatchState { pending, ..WatchState::default() };
        let kept = std::cell::RefCell::new(Vec::new());
        let keep = |state: &WatchState| -> Result<(), std::io::Error> {
            kept.borrow_mut().push(state.pending.len());
            Ok(())
        };
        let mut lines = Vec::new();
        let failed = deliver(&plan, &mut state, &mut |line| lines.push(line.to_owned()), false, &keep);
        assert_eq!((failed.len(), lines.len(), kept.take()), (1, 3, vec![3, 3, 3, 2]), "{failed:?}");
        // The next check sends those that are left, to the command alone.
        std::fs::remove_file(&count).unwrap();
        let failed = deliver(&plan, &mut state, &mut |line| lines.push(line.to_owned()), false, &keep);
        assert_eq!((failed.len(), lines.len(), state.pending.len()), (1, 3, 1));
    }
}
