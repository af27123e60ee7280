//! What happened to services: crashes, kills, restarts.

use heaptrial_model::{KnownEvent, units};
use heaptrial_stats::median;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::data::Data;
use crate::analysis::fleet::{Fleet, FleetEvent};
use crate::analysis::outcome::{Finding, FindingKind, Severity};
use crate::analysis::shares::{self, Share};
use crate::analysis::thresholds::FEWEST_OF_A_GROUP;

/// A service is restarted often if it was this many times more than those it is compared with usually are.
const MORE: f64 = 2.0;

/// Events of an arm's services, by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArmEvents {
    /// The main process ended by itself with a failure.
    pub crashes: u32,
    /// The kernel killed it for its memory.
    pub oom_kills: u32,
    /// It was restarted by something that is no part of the trial.
    pub unplanned_restarts: u32,
    /// It was restarted by the trial.
    pub planned_restarts: u32,
    /// It began to run something else.
    pub identity_changes: u32,
    /// Nothing was read of it for a while.
    pub gaps: u32,
    /// Its host was started again.
    pub reboots: u32,
    /// The wall clock was set.
    pub clock_jumps: u32,
    /// Services with a crash, a kill or an unplanned restart.
    pub services_failed: u32,
    pub lives: u32,
    /// Of these, lives that were proved not to run its treatment.
    pub contaminated_lives: u32,
}

impl ArmEvents {
    /// Where events of a kind are counted; `None` for those that are no failure and no restart.
    fn counter(&mut self, kind: KnownEvent) -> Option<&mut u32> {
        match kind {
            KnownEvent::Crash => Some(&mut self.crashes),
            KnownEvent::OomKill => Some(&mut self.oom_kills),
            KnownEvent::RestartUnplanned => Some(&mut self.unplanned_restarts),
            KnownEvent::RestartPlanned => Some(&mut self.planned_restarts),
            KnownEvent::IdentityChange => Some(&mut self.identity_changes),
            KnownEvent::Gap => Some(&mut self.gaps),
            KnownEvent::Reboot => Some(&mut self.reboots),
            KnownEvent::ClockJump => Some(&mut self.clock_jumps),
            _ => None,
        }
    }
}

/// Counts by arm. An event without a service or an arm is about none, but for those of the host, which are about all.
pub(crate) fn of_arms(fleet: &Fleet, members: &[Vec<usize>]) -> Vec<ArmEvents> {
    let count = |(arm, members): (usize, &Vec<usize>)| {
        let lives = || members.iter().flat_map(|index| &fleet.services[*index].lives);
        let mut counted = ArmEvents {
            lives: lives().count() as u32,
            contaminated_lives: lives().filter(|life| life.contamination.is_some()).count() as u32,
            services_failed: members.iter().filter(|index| failed(fleet, **index)).count() as u32,
            ..ArmEvents::default()
        };
        for event in fleet.events.iter().filter(|event| about(fleet, event, arm, members)) {
            if let Some(counter) = event.kind.known().and_then(|kind| counted.counter(kind)) {
                *counter += 1;
            }
        }
        counted
    };
    members.iter().enumerate().map(count).collect()
}

fn about(fleet: &Fleet, event: &FleetEvent, arm: usize, members: &[usize]) -> bool {
    let on_host = |index: &usize| event.host.is_none() || fleet.services[*index].host == event.host;
    match event.service {
        Some(service) => members.contains(&service),
        None => match event.arm {
            Some(of) => of == arm,
            None => event.kind.known().is_some_and(KnownEvent::is_of_the_host) && members.iter().any(on_host),
        },
    }
}

fn failed(fleet: &Fleet, service: usize) -> bool {
    let failure = |kind: KnownEvent| kind.is_failure() || kind == KnownEvent::RestartUnplanned;
    let mut own = fleet.events.iter().filter(|event| event.service == Some(service));
    own.any(|event| event.kind.known().is_some_and(failure))
}

/// Arms of which more services fail or restart than of the control, or a control of which more do than of the other arms. The service
/// is the unit: one that crashes every hour crashes for one reason. `members` are those put into an arm, `treated` those that belong
/// to it.
pub(crate) fn findings(data: Data<'_>, members: &[Vec<usize>], treated: &[Vec<usize>]) -> Vec<Finding> {
    let Some(control) = data.fleet.control() else { return Vec::new() };
    let arms = || 0..members.len();
    let mut findings: Vec<Finding> =
        arms().filter_map(|arm| fails_more(data, members, control, arm)).collect();
    if data.fleet.clock.has_calendar() {
        let compared = arms().filter(|arm| !data.fleet.arms[*arm].restarted);
        findings.extend(compared.filter_map(|arm| restarts_more(data, treated, control, arm)));
    }
    findings
}

fn fails_more(data: Data<'_>, members: &[Vec<usize>], control: usize, arm: usize) -> Option<Finding> {
    let fleet = data.fleet;
    let (others, whom) = shares::others(members, control, arm, |_| true);
    let failed = |index: usize| failed(fleet, index);
    let (own, usual) = (Share::of(&members[arm], failed), Share::of(&others, failed));
    if usual.of == 0 || own.value() <= usual.value() {
        return None;
    }
    // Fewer of the others than chance would put there.
    let p = usual.fewer_than(own);
    let evidence = format!(
        "{} of {} services of {} failed ({}), {whom} {} of {} ({}); exact test, p {}",
        own.with,
        own.of,
        data.name(arm),
        counts(fleet, &members[arm]),
        usual.with,
        usual.of,
        counts(fleet, &others),
        units::p_value(p)
    );
    let severity = if shares::is_shown(p) { Severity::Grave } else { Severity::Caution };
    let who: Vec<usize> = members[arm].iter().copied().filter(|index| failed(*index)).collect();
    Some(Finding::new(FindingKind::FailsMoreOften, severity, evidence).of_arm(arm).naming(fleet.names(&who)))
}

/// That services are restarted more often, without that being their treatment: of an import nothing else shows failures.
fn restarts_more(data: Data<'_>, members: &[Vec<usize>], control: usize, arm: usize) -> Option<Finding> {
    let (others, whom) = shares::others(members, control, arm, |other| !data.fleet.arms[other].restarted);
    let restarts = |of: &[usize]| data.values(of, |service| Some(f64::from(service.restarts)));
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
    let often = median(&restarts(&others))? + MORE;
    let is_often = |index: usize| f64::from(data.services[index].restarts) >= often;
    let (own, usual) = (Share::of(&members[arm], is_often), Share::of(&others, is_often));
    if own.with < FEWEST_OF_A_GROUP || !shares::is_shown(usual.fewer_than(own)) {
        return None;
    }
    let frequent: Vec<usize> = members[arm].iter().copied().filter(|index| is_often(*index)).collect();
    let in_no_level = match own.with - data.values(&frequent, |service| service.level_bytes).len() {
        0 => String::new(),
        without => format!(", and {without} of these are in no level"),
    };
    let evidence = format!(
        "each service of {} was restarted {:.1} times, {whom} {:.1} times (means), {} of {} of its services {often:.0} times \
         or more{in_no_level}; restarts are no part of its treatment",
        data.name(arm),
        mean(&restarts(&members[arm])),
        mean(&restarts(&others)),
        own.with,
        own.of
    );
    let finding = Finding::new(FindingKind::FailsMoreOften, Severity::Grave, evidence);
    Some(finding.of_arm(arm).naming(data.fleet.names(&frequent)))
}

/// `2 crashes, 1 OOM kill, 3 unplanned restarts`.
fn counts(fleet: &Fleet, members: &[usize]) -> String {
    let count = |kind: KnownEvent| {
        let own = |event: &&FleetEvent| event.service.is_some_and(|service| members.contains(&service));
        fleet.events.iter().filter(|event| event.kind == kind).filter(own).count()
    };
    let counts = [
        (count(KnownEvent::Crash), "crash", "crashes"),
        (count(KnownEvent::OomKill), "OOM kill", "OOM kills"),
        (count(KnownEvent::RestartUnplanned), "unplanned restart", "unplanned restarts"),
    ];
    let some = counts.into_iter().filter(|(count, ..)| *count > 0);
    let parts: Vec<String> =
        some.map(|(count, one, more)| format!("{count} {}", if count == 1 { one } else { more })).collect();
    if parts.is_empty() { "no failures".to_owned() } else { parts.join(", ") }
}
