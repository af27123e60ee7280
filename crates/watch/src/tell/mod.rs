//! Telling: the journal, a command, e-mail, a file of metrics.

mod hook;
mod journal;
mod mail;
mod metrics;

use serde_json::{Value, json};

use crate::plan::{Channels, WatchPlan};
use crate::state::{Channel, Letter, WatchState};

pub use hook::check_hook;
pub use mail::{SENDMAIL, check_address};
pub use metrics::metrics_text;

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
                Channel::Mail => mail::send(plan.channels.mail.as_deref().unwrap_or(""), &plan.name, letter),
            };
            match result {
                Ok(()) => letter.told.push(channel),
                Err(why) => failed.push(why),
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
pub fn write_metrics(plan: &WatchPlan, state: &WatchState) -> Result<(), String> {
    let Some(path) = &plan.channels.metrics else { return Ok(()) };
    let text = metrics_text(plan, state);
    // The exporter that reads it has a user of its own.
    crate::folder::replace(path, text.as_bytes(), 0o644)
        .map_err(|error| format!("writing {}: {error}; is its folder there?", path.display()))
}

fn channels(of: &Channels) -> Vec<Channel> {
    let hook = of.hook.as_ref().map(|_| Channel::Hook);
    let mail = of.mail.as_ref().map(|_| Channel::Mail);
    [Some(Channel::Journal), hook, mail].into_iter().flatten().collect()
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
        "text": alert.text,
        "advice": alert.advice,
    })
}
