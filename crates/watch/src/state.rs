//! What a watch remembers between checks: looks, alerts that stand, and what is still to be told.

use std::collections::BTreeMap;

use heaptrial_analysis::Fleet;
use serde::{Deserialize, Serialize};

use crate::alert::{Alert, AlertKind};
use crate::folder::SCHEMA_VERSION;
use crate::judge::{LookResult, NO_LOOK, facts, look, read_last, waiting, waits};
use crate::plan::WatchPlan;
use crate::schedule::look_days;
use crate::seen::{Seen, ServiceSeen};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WatchState {
    pub schema_version: u32,
    /// The last check, in seconds since 1970.
    pub checked_at: Option<f64>,
    /// The looks that were taken.
    pub looks: Vec<LookResult>,
    /// Alerts that stand, by key.
    pub standing: BTreeMap<String, Standing>,
    /// What is still to be told.
    pub outbox: Vec<Letter>,
}

impl Default for WatchState {
    fn default() -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            checked_at: None,
            looks: Vec::new(),
            standing: BTreeMap::new(),
            outbox: Vec::new(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// The alert as it is now.
    pub alert: Alert,
    /// Since when, in seconds since 1970.
    pub since: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Letter {
    /// When it was found, in seconds since 1970.
    pub at: f64,
    /// What happened to the alert.
    pub news: News,
    pub alert: Alert,
    /// Channels to which it was told already.
    pub told: Vec<Channel>,
}

/// What happened to an alert.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    Raised,
    /// It was there and is another now.
    Changed,
    /// What it was about is over.
    Resolved,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channel {
    Journal,
    Hook,
}

impl News {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Raised => "raised",
            Self::Changed => "changed",
            Self::Resolved => "resolved",
        }
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

    /// Takes in what a check sees: takes the looks that are due on `fleet`, and puts into the outbox which alerts are
    /// new, changed or over. Without a fleet looks stay due.
    pub fn check(&mut self, plan: &WatchPlan, seen: &Seen, fleet: Option<&Fleet>) {
        let mut alerts = facts(plan, seen, &self.standing);
        let mut no_look = None;
        if let Some(fleet) = fleet {
            let last = read_last(fleet);
            for number in self.due(plan, seen.at) {
                if waits(plan, number, last) {
                    no_look = waiting(plan, number, last, seen.at);
                    continue;
                }
                let before = self.looks.last().map_or(&[][..], |look| &look.alerts);
                let taken = look(plan, fleet, seen, number, before);
                self.looks.extend(taken);
            }
        }
        // Tests are of looks: what the last one found stands until the next.
        let of_last = self.looks.last().into_iter().flat_map(|look| &look.alerts);
        alerts.extend(of_last.filter(|alert| no_look.is_none() || alert.key != NO_LOOK).cloned());
        alerts.extend(no_look);
        // What cannot be seen now is not over.
        let hidden = self.standing.values().filter(|standing| is_hidden(seen, &standing.alert));
        let hidden = hidden.filter(|standing| alerts.iter().all(|alert| alert.key != standing.alert.key));
        let hidden: Vec<Alert> = hidden.map(|standing| standing.alert.clone()).collect();
        alerts.extend(hidden);
        self.checked_at = Some(seen.at);
        self.take_in(seen.at, alerts);
    }

    fn take_in(&mut self, at: f64, alerts: Vec<Alert>) {
        let mut now: BTreeMap<String, Standing> = BTreeMap::new();
        for alert in alerts {
            let before = self.standing.get(&alert.key);
            let since = before.map_or(at, |standing| standing.since);
            let news = match before {
                None => Some(News::Raised),
                Some(standing) if standing.alert.state != alert.state => Some(News::Changed),
                Some(_) => None,
            };
            if let Some(news) = news {
                self.outbox.push(Letter { at, news, alert: alert.clone(), told: Vec::new() });
            }
            now.insert(alert.key.clone(), Standing { alert, since });
        }
        let over = self.standing.values().filter(|standing| !now.contains_key(&standing.alert.key));
        let letters = over.map(|standing| {
            let mut alert = standing.alert.clone();
            if let Some(heir) = heir(&alert, &now) {
                alert.text = format!("{} is told as {} from now on", alert.key, heir.key);
            }
            Letter { at, news: News::Resolved, alert, told: Vec::new() }
        });
        self.outbox.extend(letters);
        self.standing = now;
    }
}

/// The alert in which one goes on that is no more: it is of the same kind, or of what caused both, and about its services.
fn heir<'n>(alert: &Alert, now: &'n BTreeMap<String, Standing>) -> Option<&'n Alert> {
    let takes = |other: &&Alert| {
        (other.kind == alert.kind || other.kind == AlertKind::Transaction)
            && alert.about().next().is_some()
            && alert.about().all(|service| other.about().any(|own| own == service))
    };
    now.values().map(|standing| &standing.alert).find(takes)
}

/// Whether nothing is known now of what an alert is about.
fn is_hidden(seen: &Seen, alert: &Alert) -> bool {
    let any = |unseen: fn(&ServiceSeen) -> bool| {
        let of = |name: &String| seen.services.iter().find(|service| service.service == *name);
        alert.about().filter_map(of).any(unseen)
    };
    match alert.kind {
        AlertKind::Identity => any(|service| service.runs.is_none()),
        // Both are from systemd.
        AlertKind::DropIn | AlertKind::Stopped => any(|service| service.drop_in.is_none()),
        AlertKind::Transaction => any(|service| service.runs.is_none() || service.drop_in.is_none()),
        AlertKind::Memory => any(|service| service.bytes.is_none()),
        AlertKind::Work => any(|service| service.worked.is_none()),
        AlertKind::NewService | AlertKind::Failures | AlertKind::Flags => !seen.unreadable.is_empty(),
        AlertKind::Level | AlertKind::Growth | AlertKind::File | AlertKind::NoData => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn alert(key: &str, state: &str, text: &str) -> Alert {
        Alert {
            key: key.to_owned(),
            kind: AlertKind::File,
            state: state.to_owned(),
            service: None,
            services: Vec::new(),
            text: text.to_owned(),
            advice: String::new(),
        }
    }

    fn told(state: &mut WatchState) -> Vec<(News, String)> {
        state.outbox.drain(..).map(|letter| (letter.news, letter.alert.key)).collect()
    }

    #[test]
    fn an_alert_is_told_once_until_it_changes_and_when_it_is_over() {
        let mut state = WatchState::default();
        state.take_in(1.0, vec![alert("a", "x", "12 days")]);
        assert_eq!(told(&mut state), [(News::Raised, "a".to_owned())]);
        state.take_in(2.0, vec![alert("a", "x", "11 days"), alert("b", "y", "")]);
        assert_eq!(told(&mut state), [(News::Raised, "b".to_owned())]);
        assert_eq!((state.standing["a"].since, state.standing["a"].alert.text.as_str()), (1.0, "11 days"));
        state.take_in(3.0, vec![alert("a", "z", "3 days")]);
        assert_eq!(told(&mut state), [(News::Changed, "a".to_owned()), (News::Resolved, "b".to_owned())]);
        state.take_in(4.0, vec![]);
        assert_eq!(told(&mut state), [(News::Resolved, "a".to_owned())]);
        state.take_in(5.0, vec![]);
        assert_eq!(told(&mut state), []);
    }
}
