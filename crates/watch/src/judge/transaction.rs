//! What trials and rollouts of this host did to what is watched: whatever follows from one of them is one alert.

use std::path::PathBuf;

use heaptrial_model::units;

use super::cause::{Finding, SILENT, quoted, status_command};
use crate::alert::{Alert, AlertKind};
use crate::plan::WatchPlan;
use crate::seen::{AGENT, Seen, TransactionSeen};

/// Takes out what follows from transactions, and gives an alert for each of them.
pub(super) fn explained(
    plan: &WatchPlan,
    seen: &Seen,
    findings: &mut Vec<Finding>,
    files: &mut Vec<(PathBuf, Alert)>,
) -> Vec<Alert> {
    let mut alerts = Vec::new();
    for transaction in &seen.transactions {
        let (own, others): (Vec<Finding>, Vec<Finding>) =
            findings.drain(..).partition(|finding| explains(transaction, finding));
        *findings = others;
        let before = files.len();
        files.retain(|(path, _)| !transaction.files.contains(path));
        let gone = before - files.len();
        if !own.is_empty() || gone > 0 {
            alerts.push(alert(plan, transaction, &own, gone));
        }
    }
    alerts
}

fn explains(transaction: &TransactionSeen, finding: &Finding) -> bool {
    match finding.kind {
        AlertKind::NoData if finding.cause == SILENT => transaction.takes_agent(),
        // Whoever stopped it, a transaction that is through with it has left it running, or said so.
        AlertKind::NoData | AlertKind::Stopped => transaction.in_flight.contains(&finding.service),
        // What a restart takes of these is not told, and that a service does less is no state in which somebody left it.
        AlertKind::Work | AlertKind::Flags => false,
        _ => transaction.services.contains(&finding.service),
    }
}

fn alert(plan: &WatchPlan, transaction: &TransactionSeen, found: &[Finding], files: usize) -> Alert {
    let TransactionSeen { kind, name, .. } = transaction;
    let mut services: Vec<String> = found.iter().map(|finding| finding.service.clone()).collect();
    services.sort();
    services.dedup();
    // A wave that was put back, of a rollout that as a whole was not.
    let back = !services.is_empty() && services.iter().all(|service| transaction.put_back.contains(service));
    let did = match (back, transaction.did.contains("put back")) {
        (true, false) => "has put services back",
        _ => &transaction.did,
    };
    let mut text = format!(
        "{kind} `{name}` {did}: {} of {} not as when the watch began",
        services.len(),
        units::counted(plan.services.len(), "service")
    );
    if !services.is_empty() {
        text += &format!(" ({})", services.join(", "));
    }
    if files > 0 {
        text += &format!(", {} that they ran changed", units::counted(files, "file"));
    }
    if found.iter().any(|finding| finding.cause == SILENT) {
        text += &format!(", and {AGENT}, which samples them, went with it");
    }
    Alert {
        key: format!("{kind}:{name}"),
        kind: AlertKind::Transaction,
        state: did.to_owned(),
        service: None,
        services,
        text,
        advice: format!(
            "`{}` tells of it; if it is meant to stay so, `heaptrial watch stop {}` ends this watch",
            status_command(kind, name),
            quoted(&plan.name)
        ),
    }
}
