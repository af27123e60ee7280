//! Telling: the journal, a command, a file of metrics.

mod error;
mod hook;
mod journal;
mod metrics;

use serde_json::{Value, json};

use crate::plan::{Channels, WatchPlan};
use crate::state::{Channel, Letter, WatchState};

pub use error::TellError;
pub use hook::check_hook;

/// Tells what is in the outbox, and takes out what every channel has. Lines go to `print`, with priorities where the
/// journal reads them. What failed stays for the next check; gives why.
pub fn deliver(
    plan: &WatchPlan,
    state: &mut WatchState,
    print: &mut dyn FnMut(&str),
    in_journal: bool,
) -> Vec<String> {
    let mut failed = Vec::new();
    for letter in &mut state.outbox {
        for channel in channels(&plan.channels) {
            if letter.told.contains(&channel) {
                continue;
            }
            let result = match channel {
                Channel::Journal => {
                    print(&journal::line(&plan.name, letter, in_journal));
                    Ok(())
                }
                Channel::Hook => {
                    hook::run(plan.channels.hook.as_deref().unwrap_or(&[]), &document(plan, letter))
                }
                // No plan of this version asks for it.
                Channel::Mail => Ok(()),
            };
            match result {
                Ok(()) => letter.told.push(channel),
                Err(error) => failed.push(error.to_string()),
            }
        }
    }
    let all = channels(&plan.channels);
    state.outbox.retain(|letter| all.iter().any(|channel| !letter.told.contains(channel)));
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
