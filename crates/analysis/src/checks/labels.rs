//! Services whose server changed its label: whoever brought the data in decided what is one service.

use heaptrial_model::{EventKind, KnownEvent};

use crate::fleet::Fleet;
use crate::outcome::{Finding, FindingKind, Severity};

/// What each event says that tells of labels.
pub(super) fn told(fleet: &Fleet) -> Vec<Finding> {
    let finding = |kind: &EventKind, text: &str| {
        let (kind, severity, effect) = match kind.known()? {
            KnownEvent::Relabelled => (
                FindingKind::Relabelled,
                Severity::Note,
                "Each counts as one service. If they were different ones, there are more services than shown; the import \
                 can keep them apart.",
            ),
            KnownEvent::KeptApart => (
                FindingKind::KeptApart,
                Severity::Caution,
                "If they are the same, services are counted twice, and intervals are narrower than they should be.",
            ),
            _ => return None,
        };
        Some(Finding {
            kind,
            severity,
            arms: Vec::new(),
            services: Vec::new(),
            evidence: text.to_owned(),
            effect: effect.to_owned(),
        })
    };
    let events = fleet.events.iter();
    events
        .filter_map(|event| {
            let text = event.text.strip_prefix(event.kind.as_str()).unwrap_or(&event.text);
            finding(&event.kind, text.trim_start_matches(": "))
        })
        .collect()
}
