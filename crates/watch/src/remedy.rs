//! Commands that would mend what is alerted. They are shown to a person and never run.

use crate::alert::{Alert, AlertKind};
use crate::plan::WatchPlan;

/// The commands for an alert, one a line of a shell; what cannot be told is a comment.
pub fn remedies(plan: &WatchPlan, alert: &Alert) -> Vec<String> {
    let service = alert.service.as_deref().map_or("SERVICE".to_owned(), quoted);
    let report = format!("heaptrial report {}", quoted(&crate::stored_name(&plan.name)));
    let lines: Vec<String> = match alert.kind {
        AlertKind::Level | AlertKind::Growth => vec![report],
        AlertKind::Memory => vec![report, format!("systemctl restart {service}")],
        AlertKind::Identity => {
            vec![
                format!("heaptrial allocators identify $(systemctl show -P MainPID {service})"),
                format!("systemctl restart {service}"),
            ]
        }
        AlertKind::File => {
            vec!["dpkg --verify".to_owned(), "# put the file back before a service is restarted".to_owned()]
        }
        AlertKind::DropIn => vec![
            format!("systemctl cat {service}"),
            "# put the drop-in back and restart the service; where it is gone, a rollout writes it anew:"
                .to_owned(),
            bring(plan, &service),
        ],
        AlertKind::NewService => vec![bring(plan, &service)],
        AlertKind::Failures => vec![format!("journalctl -p warning -u {service}")],
        AlertKind::NoData => {
            vec!["systemctl status heaptrial-agent.service".to_owned(), format!("systemctl status {service}")]
        }
    };
    lines
}

/// The rollout that brings the arm to a service.
fn bring(plan: &WatchPlan, service: &str) -> String {
    format!("heaptrial rollout start {} --arm {} --services {service}", quoted(&plan.name), quoted(&plan.arm))
}

/// As one word of a shell.
fn quoted(text: &str) -> String {
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
