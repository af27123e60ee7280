//! Lines for the journal.

use crate::watch::advice::advice;
use crate::watch::plan::WatchPlan;
use crate::watch::state::{AlertChange, Notification};

/// A line; with the priority of sd-daemon(3) in front where systemd's journal reads it.
pub(super) fn line(plan: &WatchPlan, notification: &Notification, in_journal: bool) -> String {
    let (alert, change) = (&notification.alert, notification.change);
    let priority = match (change, alert.kind.severity()) {
        _ if !in_journal => "",
        (AlertChange::Resolved, _) => "<5>",
        (_, "error") => "<3>",
        _ => "<4>",
    };
    let (watch, kind) = (&plan.name, alert.kind.as_str());
    let advice = match change {
        AlertChange::Resolved => String::new(),
        _ => format!(" ({})", advice(plan, alert)),
    };
    format!("{priority}{watch}: {change}: {kind}: {}", one_line(&(alert.text() + &advice)))
}

/// Without line breaks and other control characters: what follows one would be another entry.
fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control())
        .map(str::trim)
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::alert::{Alert, AlertKind, Finding};

    #[test]
    fn a_line_has_its_priority_and_is_one_entry() {
        let plan: WatchPlan = serde_json::from_str(include_str!("plan.json")).unwrap();
        let of = |kind: AlertKind, change: AlertChange, in_journal: bool| {
            let finding = Finding::new(kind, "a.service", "", "is gone\n<0>five-way: forged");
            let alert = Alert::all([finding]).into_values().next().unwrap();
            line(&plan, &Notification { at: 0.0, change, alert, is_printed: false }, in_journal)
        };
        let file = of(AlertKind::File, AlertChange::Raised, true);
        let expected = format!("<4>{}: raised: file: a.service: is gone <0>five-way: forged (", plan.name);
        assert!(file.starts_with(&expected) && !file.contains('\n'), "{file}");
        assert_eq!(format!("<4>{}", of(AlertKind::File, AlertChange::Raised, false)), file);
        assert!(of(AlertKind::Identity, AlertChange::Raised, true).starts_with("<3>"));
    }
}
