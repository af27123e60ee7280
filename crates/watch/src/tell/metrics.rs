//! Alerts as OpenMetrics text, for the textfile collector of node_exporter and then Alertmanager.

use std::fmt::Write;

use crate::plan::WatchPlan;
use crate::schedule::look_days;
use crate::state::WatchState;

/// The text (OpenMetrics 1.0, <https://prometheus.io/docs/specs/om/open_metrics_spec/>).
pub fn metrics_text(plan: &WatchPlan, state: &WatchState) -> String {
    let watch = label(&plan.name);
    let mut text = String::new();
    let mut family = |name: &str, help: &str, rows: Vec<(String, f64)>| {
        let _ = writeln!(text, "# TYPE heaptrial_watch_{name} gauge\n# HELP heaptrial_watch_{name} {help}");
        for (labels, value) in rows {
            let _ = writeln!(text, "heaptrial_watch_{name}{{watch=\"{watch}\"{labels}}} {value}");
        }
    };
    let alerts = state.standing.values().map(|standing| {
        let alert = &standing.alert;
        let labels = format!(
            ",kind=\"{}\",severity=\"{}\",service=\"{}\",key=\"{}\"",
            alert.kind.as_str(),
            alert.kind.severity().as_str(),
            label(alert.service.as_deref().unwrap_or("")),
            label(&alert.key)
        );
        (labels, 1.0)
    });
    family("alert", "An alert that stands.", alerts.collect());
    let one = |value: f64| vec![(String::new(), value)];
    family("alerts", "Alerts that stand.", one(state.standing.len() as f64));
    let checked = state.checked_at.unwrap_or(plan.started_at);
    family("last_check_timestamp_seconds", "When the last check was.", one(checked));
    family("end_timestamp_seconds", "When the watch ends.", one(plan.ends_at()));
    family("services", "Services under watch.", one(plan.services.len() as f64));
    family("looks_taken", "Looks that were taken.", one(state.looks.len() as f64));
    family("looks_planned", "Looks that were planned.", one(look_days(plan.days).len() as f64));
    text += "# EOF\n";
    text
}

/// The value of a label, escaped.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_meaning_in_a_label_is_escaped() {
        assert_eq!(label("tor@a\\x2d.service\"\n"), "tor@a\\\\x2d.service\\\"\\n");
    }
}
