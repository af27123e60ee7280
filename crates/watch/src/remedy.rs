//! Commands that would mend what is alerted. They are shown to a person and never run.

use heaptrial_host::Paths;
use heaptrial_model::ServiceName;

use crate::alert::{Alert, AlertKind};
use crate::judge::{CHANGED, GONE, NOT_IN_FORCE};
use crate::plan::{WatchPlan, WatchedService};

/// The commands for an alert, one a line of a shell; what cannot be told is a comment.
/// `running` tells whether the trial after which it watches has not ended: until then that one brings treatments.
pub fn remedies(plan: &WatchPlan, alert: &Alert, running: bool) -> Vec<String> {
    let services = match alert.about().next() {
        Some(_) => alert.about().map(|service| quoted(service)).collect::<Vec<_>>().join(" "),
        None => "SERVICE".to_owned(),
    };
    let report = format!("heaptrial report {}", quoted(&crate::stored_name(&plan.name)));
    match alert.kind {
        AlertKind::Level | AlertKind::Growth => vec![report],
        AlertKind::Memory => vec![report, format!("systemctl restart {services}")],
        AlertKind::Identity => {
            vec![
                format!("heaptrial allocators identify $(systemctl show -P MainPID {services})"),
                format!("systemctl restart {services}"),
            ]
        }
        AlertKind::File => {
            vec!["dpkg --verify".to_owned(), "# put the file back before a service is restarted".to_owned()]
        }
        AlertKind::DropIn => drop_in(plan, alert, &services, running),
        AlertKind::NewService if running => {
            vec![format!("# once {} has ended:", plan.name), bring(plan, &services)]
        }
        AlertKind::NewService => vec![bring(plan, &services)],
        AlertKind::Stopped => vec![
            format!("systemctl status {services}"),
            "# if it is meant to run:".to_owned(),
            format!("systemctl start {services}"),
        ],
        AlertKind::Failures => vec![format!("journalctl -p warning -u {services}")],
        AlertKind::Work | AlertKind::Flags => vec![
            format!("journalctl -u {services}"),
            "# its page of a relay search tells what the authorities measured".to_owned(),
        ],
        AlertKind::NoData => {
            vec![
                "systemctl status heaptrial-agent.service".to_owned(),
                format!("systemctl status {services}"),
            ]
        }
        AlertKind::Transaction => {
            let status = alert.key.split_once(':').map(|(kind, name)| status_command(kind, name));
            let end = format!("heaptrial watch stop {}", quoted(&plan.name));
            let note = "# if it is meant to stay so, this ends the watch:".to_owned();
            status.into_iter().chain([note, end]).collect()
        }
    }
}

/// The commands for drop-ins, by what is wrong with them.
fn drop_in(plan: &WatchPlan, alert: &Alert, services: &str, running: bool) -> Vec<String> {
    let has = |state: &str| alert.state.contains(state);
    let reload = || "systemctl daemon-reload".to_owned();
    let (by, again) = match running {
        true => ("the trial, which has not ended,", format!("heaptrial trial resume {}", quoted(&plan.name))),
        false => ("a rollout", bring(plan, services)),
    };
    let mut lines = vec![format!("systemctl cat {services}")];
    let foreign: Vec<&WatchedService> = plan
        .services
        .iter()
        .filter(|own| own.drop_in_path.is_some() && alert.about().any(|name| *name == own.service.as_str()))
        .collect();
    if (has(CHANGED) || has(GONE)) && !foreign.is_empty() {
        for own in foreign {
            let (Some(path), Some(sha256)) = (&own.drop_in_path, &own.drop_in) else { continue };
            let path = quoted(&path.display().to_string());
            lines
                .push(format!("# nobody but you knows its text: put {path} back (its SHA-256 was {sha256})"));
        }
        lines.push(reload());
    } else if has(CHANGED) {
        let paths = Paths::default();
        let names = alert.about().filter_map(|service| service.parse().ok());
        let files: Vec<String> =
            names.map(|name: ServiceName| quoted(&paths.drop_in(&name).display().to_string())).collect();
        let keep = quoted(&plan.name);
        lines.push(format!(
            "# a change that is meant to stay: end this watch (heaptrial watch stop {keep}) and start another. Else {by} \
             writes it anew:"
        ));
        lines.extend([format!("rm {}", files.join(" ")), reload(), again]);
    } else if has(GONE) {
        lines.push(format!("# {by} writes it anew:"));
        lines.extend([reload(), again]);
    } else {
        if !has(NOT_IN_FORCE) {
            lines.push("# take the other value away, then:".to_owned());
        }
        lines.extend([reload(), format!("systemctl restart {services}")]);
    }
    lines
}

/// The rollout that brings the arm to services.
fn bring(plan: &WatchPlan, services: &str) -> String {
    format!(
        "heaptrial rollout start {} --arm {} --services {services}",
        quoted(&plan.name),
        quoted(&plan.arm)
    )
}

/// The command that tells where a trial or rollout stands.
pub(crate) fn status_command(kind: &str, name: &str) -> String {
    format!("heaptrial {kind} status {}", quoted(name))
}

/// As one word of a shell.
pub(crate) fn quoted(text: &str) -> String {
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
