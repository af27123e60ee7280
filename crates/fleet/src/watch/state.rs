//! What a watch remembers between checks: looks, alerts that stand, and what is still to be reported.

use std::collections::BTreeMap;
use std::fmt;

use heaptrial_evaluate::analysis::Fleet;
use serde::{Deserialize, Serialize};

use crate::watch::alert::{Alert, AlertKind, Finding};
use crate::watch::folder::SCHEMA_VERSION;
use crate::watch::judge::{LookResult, facts, is_read, look};
use crate::watch::plan::WatchPlan;
use crate::watch::schedule::look_days;
use crate::watch::seen::Seen;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchState {
    pub schema_version: u32,
    /// The last check, in seconds since 1970.
    pub checked_at: Option<f64>,
    pub looks: Vec<LookResult>,
    pub standing: BTreeMap<AlertKind, Standing>,
    pub pending: Vec<Notification>,
}

impl Default for WatchState {
    fn default() -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            checked_at: None,
            looks: Vec::new(),
            standing: BTreeMap::new(),
            pending: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    pub alert: Alert,
    /// Since when, in seconds since 1970.
    pub since: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Notification {
    /// When it was found, in seconds since 1970.
    pub at: f64,
    pub change: AlertChange,
    pub alert: Alert,
    /// Whether its line was printed, and only the command has to get it yet.
    pub is_printed: bool,
}

/// What happened to an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlertChange {
    Raised,
    Changed,
    Resolved,
}

impl fmt::Display for AlertChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

impl WatchState {
    /// Numbers of the looks that are due at a time and were not taken.
    pub fn due(&self, plan: &WatchPlan, at: f64) -> Vec<u32> {
        let elapsed = plan.elapsed_days(at);
        let days = look_days(plan.days);
        let numbers = days.iter().zip(1..).filter(|(day, _)| **day <= elapsed).map(|(_, number)| number);
        numbers.filter(|number| self.looks.iter().all(|look| look.number != *number)).collect()
    }

    /// Takes in what a check sees: takes the looks that are due and of which the time was read, and adds to what is pending which alerts
    /// are new, changed or over. What cannot be seen now keeps its state.
    pub fn check(&mut self, plan: &WatchPlan, seen: &Seen, fleet: Option<&Fleet>) {
        if let Some(fleet) = fleet {
            for number in self.due(plan, seen.at) {
                // A clock that is ahead for the moment would have all looks taken without data.
                if is_read(plan, number, fleet) {
                    let before = self.looks.last().map_or(&[][..], |look| &look.findings);
                    let taken = look(plan, fleet, number, before);
                    self.looks.extend(taken);
                }
            }
        }
        let mut findings = facts(plan, seen, &self.standing);
        // Tests are of looks: what the last one found stands until the next.
        findings.extend(self.looks.last().into_iter().flat_map(|look| look.findings.clone()));
        let unknown = self.standing.values().flat_map(|standing| {
            let kind = standing.alert.kind;
            let hidden =
                standing.alert.found.iter().filter(move |(service, _)| is_unknown(seen, kind, service));
            hidden.map(move |(service, found)| Finding {
                kind,
                service: service.clone(),
                found: found.clone(),
            })
        });
        findings.extend(unknown);
        self.checked_at = Some(seen.at);
        self.take_in(seen.at, Alert::all(findings));
    }

    fn take_in(&mut self, at: f64, alerts: BTreeMap<AlertKind, Alert>) {
        let mut now: BTreeMap<AlertKind, Standing> = BTreeMap::new();
        let mut report = |change: AlertChange, alert: &Alert| {
            self.pending.push(Notification { at, change, alert: alert.clone(), is_printed: false });
        };
        for (kind, alert) in alerts {
            let before = self.standing.get(&kind);
            match before {
                None => report(AlertChange::Raised, &alert),
                Some(standing) if !alert.is_same(&standing.alert) => report(AlertChange::Changed, &alert),
                Some(_) => {}
            }
            now.insert(kind, Standing { since: before.map_or(at, |standing| standing.since), alert });
        }
        for (kind, standing) in &self.standing {
            if !now.contains_key(kind) {
                report(AlertChange::Resolved, &standing.alert);
            }
        }
        self.standing = now;
    }
}

/// Whether nothing is known now of what was found of a service.
fn is_unknown(seen: &Seen, kind: AlertKind, service: &str) -> bool {
    let own = seen.services.iter().find(|own| own.service == service);
    match kind {
        AlertKind::Identity => own.is_some_and(|own| own.runs.is_none()),
        // Both are from systemd.
        AlertKind::DropIn | AlertKind::Stopped => own.is_some_and(|own| own.next_lacks.is_none()),
        AlertKind::Memory => own.is_some_and(|own| own.bytes.is_none()),
        AlertKind::Work => own.is_some_and(|own| own.worked.is_none()),
        AlertKind::NewService | AlertKind::Failures => !seen.unreadable.is_empty(),
        AlertKind::Level | AlertKind::Growth | AlertKind::File | AlertKind::NoData => false,
    }
}
