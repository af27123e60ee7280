//! Notifying: the journal, a command, a file of metrics.

mod hook;
mod journal;
mod metrics;

use std::fmt::Display;

use heaptrial_model::{Classified, ErrorClass};
use serde_json::{Value, json};

use crate::watch::advice::advice;
use crate::watch::alert::Alert;
use crate::watch::plan::{Channels, WatchPlan};
use crate::watch::state::{Channel, Notification, WatchState};

pub use hook::check_hook;

/// Why an alert cannot go through a channel.
#[derive(Debug, thiserror::Error)]
pub enum NotifyError {
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Failed(String),
}

impl Classified for NotifyError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Usage(_) => ErrorClass::Usage,
            Self::Refused(_) => ErrorClass::Refused,
            Self::Failed(_) => ErrorClass::Failed,
        }
    }
}

/// Sends what is pending, and takes out what every channel has. Lines go to `print`, with priorities where the
/// journal reads them; after each notification the state goes to `keep`, so that who is ended in between repeats no other one. What
/// failed stays for the next check, and so does all else for a channel that failed: each may take as long as the first. Gives why.
pub fn deliver<E: Display>(
    plan: &WatchPlan,
    state: &mut WatchState,
    print: &mut dyn FnMut(&str),
    in_journal: bool,
    keep: &dyn Fn(&WatchState) -> Result<(), E>,
) -> Vec<String> {
    let mut failed = Vec::new();
    let mut open = channels(&plan.channels);
    for index in 0..state.pending.len() {
        let notification = &mut state.pending[index];
        let missing: Vec<Channel> =
            open.iter().copied().filter(|channel| !notification.sent.contains(channel)).collect();
        if missing.is_empty() {
            continue;
        }
        for channel in missing {
            let result = match channel {
                Channel::Journal => {
                    print(&journal::line(plan, notification, in_journal));
                    Ok(())
                }
                Channel::Hook => {
                    hook::run(plan.channels.hook.as_deref().unwrap_or(&[]), &document(plan, notification))
                }
            };
            match result {
                Ok(()) => notification.sent.push(channel),
                Err(error) => {
                    failed.push(error.to_string());
                    open.retain(|other| *other != channel);
                }
            }
        }
        if let Err(error) = keep(state) {
            failed.push(error.to_string());
        }
    }
    let all = channels(&plan.channels);
    state.pending.retain(|notification| all.iter().any(|channel| !notification.sent.contains(channel)));
    if let Err(error) = keep(state) {
        failed.push(error.to_string());
    }
    failed.sort();
    failed.dedup();
    failed
}

/// Writes the file of metrics, where one is wanted.
pub fn write_metrics(plan: &WatchPlan, state: &WatchState) -> Result<(), NotifyError> {
    let Some(path) = &plan.channels.metrics else { return Ok(()) };
    let text = metrics::metrics_text(plan, state);
    // The exporter that reads it has a user of its own.
    crate::watch::folder::replace(path, text.as_bytes(), 0o644).map_err(|error| {
        NotifyError::Failed(format!("cannot write {}: {error}; is its folder there?", path.display()))
    })
}

fn channels(of: &Channels) -> Vec<Channel> {
    let hook = of.hook.as_ref().map(|_| Channel::Hook);
    [Some(Channel::Journal), hook].into_iter().flatten().collect()
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

    fn notification(service: &str) -> Notification {
        let alerts = Alert::all([Finding::new(AlertKind::File, service, "", "is gone")]);
        let alert = alerts.into_values().next().unwrap();
        Notification { at: 0.0, change: AlertChange::Raised, alert, sent: Vec::new() }
    }

    /// A plan with a command that writes its own name down and fails from the second notification on.
    fn plan(script: &str) -> WatchPlan {
        let mut plan: WatchPlan = serde_json::from_str(include_str!("plan.json")).unwrap();
        let hook = ["/bin/sh", "-c", script].map(str::to_owned);
        plan.channels = Channels { hook: Some(hook.into()), ..Channels::default() };
        plan
    }

    #[test]
    fn a_command_that_failed_is_left_until_the_next_check_and_what_was_sent_is_kept_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        let script = format!("echo >> {0}; test $(wc -l < {0}) -lt 2", count.display());
        let plan = plan(&script);
        let mut state =
            WatchState { pending: ["a", "b", "c"].map(notification).into(), ..WatchState::default() };
        let kept = std::cell::RefCell::new(Vec::new());
        let keep = |state: &WatchState| -> Result<(), std::io::Error> {
            let sent: Vec<usize> = state.pending.iter().map(|notification| notification.sent.len()).collect();
            kept.borrow_mut().push(sent);
            Ok(())
        };
        let mut lines = Vec::new();
        let failed = deliver(&plan, &mut state, &mut |line| lines.push(line.to_owned()), false, &keep);
        assert_eq!((failed.len(), lines.len()), (1, 3), "{failed:?}");
        // The command ran for two notifications, and each notification was kept before the next one was sent.
        assert_eq!(std::fs::read_to_string(&count).unwrap().lines().count(), 2);
        assert_eq!(kept.take(), [vec![2, 0, 0], vec![2, 1, 0], vec![2, 1, 1], vec![1, 1]]);
        // The next check sends those that are left, to the command alone.
        std::fs::remove_file(&count).unwrap();
        let failed = deliver(&plan, &mut state, &mut |line| lines.push(line.to_owned()), false, &keep);
        assert_eq!((failed.len(), lines.len(), state.pending.len()), (1, 3, 1));
    }
}
