//! Telling: the journal, a command, a file of metrics.

mod error;
mod hook;
mod journal;
mod metrics;

use std::fmt::Display;

use serde_json::{Value, json};

use crate::plan::{Channels, WatchPlan};
use crate::state::{Channel, Letter, WatchState};

pub use error::TellError;
pub use hook::check_hook;

/// Tells what is in the outbox, and takes out what every channel has. Lines go to `print`, with priorities where the
/// journal reads them; after each letter the state goes to `keep`, so that who is ended in between repeats no other one. What failed
/// stays for the next check, and so does all else for a channel that failed: each letter may take as long as the first. Gives why.
pub fn deliver<E: Display>(
    plan: &WatchPlan,
    state: &mut WatchState,
    print: &mut dyn FnMut(&str),
    in_journal: bool,
    keep: &dyn Fn(&WatchState) -> Result<(), E>,
) -> Vec<String> {
    let mut failed = Vec::new();
    let mut open = channels(&plan.channels);
    for index in 0..state.outbox.len() {
        let letter = &mut state.outbox[index];
        let missing: Vec<Channel> =
            open.iter().copied().filter(|channel| !letter.told.contains(channel)).collect();
        if missing.is_empty() {
            continue;
        }
        for channel in missing {
            let result = match channel {
                Channel::Journal => {
                    print(&journal::line(&plan.name, letter, in_journal));
                    Ok(())
                }
                Channel::Hook => {
                    hook::run(plan.channels.hook.as_deref().unwrap_or(&[]), &document(plan, letter))
                }
            };
            match result {
                Ok(()) => letter.told.push(channel),
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
    state.outbox.retain(|letter| all.iter().any(|channel| !letter.told.contains(channel)));
    if let Err(error) = keep(state) {
        failed.push(error.to_string());
    }
    failed.sort();
    failed.dedup();
    failed
}

/// Writes the file of metrics, where one is wanted.
pub fn write_metrics(plan: &WatchPlan, state: &WatchState) -> Result<(), TellError> {
    let Some(path) = &plan.channels.metrics else { return Ok(()) };
    let fail = |source| TellError::Metrics { path: path.clone(), source };
    let text = metrics::metrics_text(plan, state).map_err(|error| fail(std::io::Error::other(error)))?;
    // The exporter that reads it has a user of its own.
    crate::folder::replace(path, text.as_bytes(), 0o644).map_err(fail)
}

fn channels(of: &Channels) -> Vec<Channel> {
    let hook = of.hook.as_ref().map(|_| Channel::Hook);
    [Some(Channel::Journal), hook].into_iter().flatten().collect()
}

/// An alert as the command gets it.
fn document(plan: &WatchPlan, letter: &Letter) -> Value {
    let alert = &letter.alert;
    json!({
        "schema_version": 1,
        "watch": plan.name,
        "arm": plan.arm,
        "news": letter.news,
        "at_unix_seconds": letter.at,
        "key": alert.key,
        "kind": alert.kind,
        "severity": alert.kind.severity(),
        "service": alert.service,
        "services": alert.about().collect::<Vec<_>>(),
        "text": alert.text,
        "advice": alert.advice,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::{Alert, AlertKind};
    use crate::state::News;

    fn letter(key: &str) -> Letter {
        let alert = Alert {
            key: key.to_owned(),
            kind: AlertKind::File,
            state: String::new(),
            service: None,
            services: Vec::new(),
            text: key.to_owned(),
            advice: String::new(),
        };
        Letter { at: 0.0, news: News::Raised, alert, told: Vec::new() }
    }

    /// A plan with a command that writes its own name down and fails from the second letter on.
    fn plan(script: &str) -> WatchPlan {
        let mut plan: WatchPlan = serde_json::from_str(include_str!("plan.json")).unwrap();
        let hook = ["/bin/sh", "-c", script].map(str::to_owned);
        plan.channels = Channels { hook: Some(hook.into()), ..Channels::default() };
        plan
    }

    #[test]
    fn a_command_that_failed_is_left_until_the_next_check_and_what_was_told_is_kept_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let count = folder.path().join("count");
        let script = format!("echo >> {0}; test $(wc -l < {0}) -lt 2", count.display());
        let plan = plan(&script);
        let mut state = WatchState { outbox: ["a", "b", "c"].map(letter).into(), ..WatchState::default() };
        let kept = std::cell::RefCell::new(Vec::new());
        let keep = |state: &WatchState| -> Result<(), std::io::Error> {
            let told: Vec<usize> = state.outbox.iter().map(|letter| letter.told.len()).collect();
            kept.borrow_mut().push(told);
            Ok(())
        };
        let mut lines = Vec::new();
        let failed = deliver(&plan, &mut state, &mut |line| lines.push(line.to_owned()), false, &keep);
        assert_eq!((failed.len(), lines.len()), (1, 3), "{failed:?}");
        // The command ran for two letters, and each letter was kept before the next one was told.
        assert_eq!(std::fs::read_to_string(&count).unwrap().lines().count(), 2);
        assert_eq!(kept.take(), [vec![2, 0, 0], vec![2, 1, 0], vec![2, 1, 1], vec![1, 1]]);
        // The next check tells those that are left, to the command alone.
        std::fs::remove_file(&count).unwrap();
        let failed = deliver(&plan, &mut state, &mut |line| lines.push(line.to_owned()), false, &keep);
        assert_eq!((failed.len(), lines.len(), state.outbox.len()), (1, 3, 1));
    }
}
