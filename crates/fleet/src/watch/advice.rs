//! What to do about an alert, by its kind.

use crate::watch::alert::{Alert, AlertKind};
use crate::watch::plan::WatchPlan;

/// What to do about an alert, with commands that can be copied.
pub fn advice(plan: &WatchPlan, alert: &Alert) -> String {
    let services: Vec<String> = alert.found.keys().map(|service| quoted(service)).collect();
    let (words, name) = (services.join(" "), quoted(&plan.name));
    match alert.kind {
        AlertKind::Level | AlertKind::Growth => format!(
            "`heaptrial report '{}'` shows their memory by day; compare versions, settings and load with those of before",
            crate::watch::stored_name(&plan.name)
        ),
        AlertKind::Memory => {
            "restart them or raise their MemoryMax before the kernel kills a process".to_owned()
        }
        AlertKind::Identity => format!(
            "what was measured does not hold for them; put the file back and restart them, or end this watch with `heaptrial watch \
             stop {name}`"
        ),
        AlertKind::File => {
            "put the file back before services are restarted, as by installing the package's version before"
                .to_owned()
        }
        AlertKind::DropIn => {
            format!("`systemctl cat {words}` shows what is in force; {}", drop_in(plan, &words))
        }
        AlertKind::NewService => match &plan.trial {
            Some(trial) => format!("`{}` brings it, or leave it as it is", rollout(plan, trial, &words)),
            None => "leave it as it is, or give it what the others have".to_owned(),
        },
        AlertKind::Failures => "`journalctl -u SERVICE` shows why they ended".to_owned(),
        AlertKind::Stopped => {
            format!("`systemctl status {words}` shows how it ended; a new watch is without it")
        }
        AlertKind::Work => format!(
            "`journalctl -u {words}` shows whether it can be reached and what it waits for; where others of the network do less as \
             well, it is not the treatment"
        ),
        AlertKind::NoData => {
            "`systemctl status heaptrial-agent.service` and that of the service show why".to_owned()
        }
    }
}

fn rollout(plan: &WatchPlan, trial: &str, words: &str) -> String {
    let arm = plan.arms.first().map(|arm| quoted(arm)).unwrap_or_default();
    format!("heaptrial rollout start {} --arm {arm} --services {words}", quoted(trial))
}

fn drop_in(plan: &WatchPlan, words: &str) -> String {
    match &plan.trial {
        Some(trial) => format!(
            "if it was changed, remove it; `{}` writes it again, or `heaptrial trial resume {}` while the trial runs",
            rollout(plan, trial, words),
            quoted(trial)
        ),
        None => "put it back and run `systemctl daemon-reload`".to_owned(),
    }
}

/// As one word of a shell.
fn quoted(text: &str) -> String {
    shell_words::quote(text).into_owned()
}
