//! Alerts as OpenMetrics text, for the textfile collector of node_exporter and then Alertmanager.

use std::fmt::Write as _;

use crate::watch::plan::WatchPlan;
use crate::watch::schedule::look_days;
use crate::watch::state::WatchState;

pub(super) fn metrics_text(plan: &WatchPlan, state: &WatchState) -> String {
    let mut text = String::new();
    describe(&mut text, "heaptrial_watch_alert", "A service of an alert that stands.");
    let watch = format!("watch=\"{}\"", escaped(&plan.name));
    for standing in state.standing.values() {
        let kind = standing.alert.kind;
        let labels = format!("kind=\"{}\",severity=\"{}\"", kind.as_str(), kind.severity());
        for service in standing.alert.services() {
            let service = escaped(service);
            line(&mut text, &format!("heaptrial_watch_alert{{{watch},{labels},service=\"{service}\"}} 1"));
        }
    }
    for (name, help, value) in [
        ("alerts", "Alerts that stand.", state.standing.len() as f64),
        (
            "last_check_timestamp_seconds",
            "When the last check was.",
            state.checked_at.unwrap_or(plan.started_at),
        ),
        ("end_timestamp_seconds", "When the watch ends.", plan.ends_at()),
        ("services", "Services under watch.", plan.services.len() as f64),
        ("looks_taken", "Looks that were taken.", state.looks.len() as f64),
        ("looks_planned", "Looks that were planned.", look_days(plan.days).len() as f64),
    ] {
        let name = format!("heaptrial_watch_{name}");
        describe(&mut text, &name, help);
        line(&mut text, &format!("{name}{{{watch}}} {value}"));
    }
    text + "# EOF\n"
}

fn describe(text: &mut String, name: &str, help: &str) {
    line(text, &format!("# HELP {name} {help}"));
    line(text, &format!("# TYPE {name} gauge"));
}

fn line(text: &mut String, line: &str) {
    // Writing into a string does not fail.
    let _ = writeln!(text, "{line}");
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::alert::{Alert, AlertKind, Finding};
    use crate::watch::state::Standing;

    #[test]
    fn alerts_that_stand_are_openmetrics_whatever_their_names_hold() {
        let plan: WatchPlan = serde_json::from_str(include_str!("plan.json")).unwrap();
        let alerts = Alert::all([Finding::new(AlertKind::Identity, "tor@a\\x2d.service\"\n", "", "")]);
        let standing = |(kind, alert)| (kind, Standing { alert, since: 0.0 });
        let state =
            WatchState { standing: alerts.into_iter().map(standing).collect(), ..WatchState::default() };
        let text = metrics_text(&plan, &state);
        let line = r#"heaptrial_watch_alert{watch="simulated",kind="identity",severity="error",service="tor@a\\x2d.service\"\n"} 1"#;
        assert!(text.lines().any(|found| found == line) && text.ends_with("# EOF\n"), "{text}");
    }
}
