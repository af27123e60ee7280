//! What was found of services, told by cause: what has one cause is one alert.

use std::collections::BTreeMap;

use heaptrial_model::units;

use crate::alert::{Alert, AlertKind};
use crate::plan::{WatchPlan, WatchedService};

/// Findings of services without readings have this cause.
pub(super) const SILENT: &str = "silent";
/// Findings of relays that do not answer have this one.
pub(super) const UNTOLD: &str = "untold";

/// What was found of one service.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub(super) kind: AlertKind,
    pub(super) service: String,
    /// Findings of one kind and cause are one alert.
    pub(super) cause: String,
    /// Key of an alert about this one alone, after the kind.
    pub(super) key: String,
    pub(super) state: String,
    /// The text before and after whom it is about.
    pub(super) text: (&'static str, String),
}

/// One alert for the findings of each cause; `all` is how many services there are.
pub(super) fn together(plan: &WatchPlan, all: usize, findings: Vec<Finding>) -> Vec<Alert> {
    let mut by_cause: BTreeMap<(AlertKind, String), Vec<Finding>> = BTreeMap::new();
    for finding in findings {
        by_cause.entry((finding.kind, finding.cause.clone())).or_default().push(finding);
    }
    by_cause.into_iter().map(|((kind, cause), found)| alert(plan, all, kind, &cause, &found)).collect()
}

fn alert(plan: &WatchPlan, all: usize, kind: AlertKind, cause: &str, found: &[Finding]) -> Alert {
    let services: Vec<String> = found.iter().map(|finding| finding.service.clone()).collect();
    let advice = advice(plan, kind, &services);
    let (before, after) = found.first().map_or(("", ""), |finding| (finding.text.0, finding.text.1.as_str()));
    let word = kind.as_str();
    if let [only] = found {
        return Alert {
            key: format!("{word}:{}", only.key),
            kind,
            state: only.state.clone(),
            service: Some(only.service.clone()),
            services: Vec::new(),
            text: format!("{before}{}{after}", only.service),
            advice,
        };
    }
    let count = units::counted(services.len(), "service");
    // That nobody reads any more has one cause, whichever services are read again first.
    let is_all = cause == SILENT && services.len() == all;
    let states: Vec<String> = found.iter().map(|one| format!("{} {}", one.service, one.state)).collect();
    Alert {
        key: format!("{word}:{}", if is_all { "all" } else { cause }),
        kind,
        state: if is_all { SILENT.to_owned() } else { states.join("; ") },
        service: None,
        text: match is_all {
            true => format!("{before}all {count}{after}"),
            false => format!("{before}each of {count}{after}: {}", services.join(", ")),
        },
        services,
        advice,
    }
}

fn advice(plan: &WatchPlan, kind: AlertKind, services: &[String]) -> String {
    let words: Vec<String> = services.iter().map(|service| quoted(service)).collect();
    let (words, name) = (words.join(" "), quoted(&plan.name));
    match kind {
        AlertKind::Identity => format!(
            "what was measured does not hold for it; put the file back and restart it, or measure anew: `heaptrial watch \
             stop {name}` ends this watch"
        ),
        AlertKind::DropIn => drop_in(plan, services, &words),
        AlertKind::NewService => format!(
            "`heaptrial rollout start {name} --arm {} --services {words}` brings it, or leave it as it is",
            quoted(&plan.arm)
        ),
        AlertKind::Stopped => format!(
            "`systemctl status {words}` tells how it ended; if it is meant to stay so, a watch that is started anew leaves it out"
        ),
        AlertKind::Work => format!(
            "`journalctl -u {words}` tells whether it can be reached and what it waits for; where others of the network do less \
             as well, it is not the treatment"
        ),
        AlertKind::Flags => format!(
            "`journalctl -u {words}` tells whether it can be reached; authorities take a flag from a relay that is slow or away"
        ),
        _ => "`systemctl status heaptrial-agent.service` and that of the service tell why".to_owned(),
    }
}

/// A drop-in that somebody wrote by hand is theirs to put back.
fn drop_in(plan: &WatchPlan, services: &[String], words: &str) -> String {
    let by_hand = |own: &WatchedService| {
        let (path, sha256) = (own.drop_in_path.as_ref()?, own.drop_in.as_ref()?);
        let is_one = services.iter().any(|name| *name == own.service.as_str());
        is_one.then(|| format!("{} (SHA-256 {sha256})", quoted(&path.display().to_string())))
    };
    let files: Vec<String> = plan.services.iter().filter_map(by_hand).collect();
    let name = quoted(&plan.name);
    let again = match files.is_empty() {
        true => format!(
            "if it was changed, remove it; `heaptrial rollout start {name} --arm {} --services {words}` writes it again, or `heaptrial \
             trial resume {name}` while the trial runs",
            quoted(&plan.arm)
        ),
        false => format!("put {} back and run `systemctl daemon-reload`", files.join(", ")),
    };
    format!("`systemctl cat {words}` shows what is in force; {again}")
}

/// The command that tells where a trial or rollout stands.
pub(super) fn status_command(kind: &str, name: &str) -> String {
    format!("heaptrial {kind} status {}", quoted(name))
}

/// As one word of a shell.
pub(super) fn quoted(text: &str) -> String {
    shell_words::quote(text).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word_of_a_shell() {
        assert_eq!(quoted("tor@a.service"), "tor@a.service");
        assert_eq!(quoted("a\\x2db; rm"), "'a\\x2db; rm'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
    }
}
