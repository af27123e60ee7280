//! What happened to services: crashes, kills, restarts.

use heaptrial_model::KnownEvent;
use heaptrial_stats::fisher_fewer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::fleet::{Fleet, FleetEvent};
use crate::analysis::outcome::{ArmResult, Finding, FindingKind, Severity};

/// An exact test up to this p-value is no accident.
const ALPHA: f64 = 0.05;

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

/// Arms of which more services fail than of the control, or a control of which more fail than of the other arms. The service is the unit: one
/// that crashes every hour crashes for one reason.
pub(crate) fn findings(fleet: &Fleet, members: &[Vec<usize>], arms: &[ArmResult]) -> Vec<Finding> {
    let Some(control) = fleet.arms.iter().position(|arm| arm.control) else { return Vec::new() };
    let of_arm = |arm: usize| {
        let with: Vec<usize> = match arm == control {
            true => (0..arms.len()).filter(|other| *other != control).collect(),
            false => vec![control],
        };
        let usual = together(with.iter().map(|other| &arms[*other].events));
        let all: usize = with.iter().map(|other| members[*other].len()).sum();
        let (events, of) = (&arms[arm].events, members[arm].len());
        let share = |events: &ArmEvents, of: usize| f64::from(events.services_failed) / of.max(1) as f64;
        if all == 0 || share(events, of) <= share(&usual, all) {
            return None;
        }
        // Fewer of the others than chance would put there.
        let p = fisher_fewer((usual.services_failed as usize, all), (events.services_failed as usize, of));
        let who = members[arm].iter().filter(|index| failed(fleet, **index));
        Some(Finding {
            kind: FindingKind::FailsMoreOften,
            severity: if p <= ALPHA { Severity::Grave } else { Severity::Caution },
            arms: vec![arm],
            services: who.map(|index| fleet.services[*index].name.clone()).collect(),
            evidence: format!(
                "{} of {of} services of {} failed ({}), {} {} of {all} ({}); exact test, p {}",
                events.services_failed,
                fleet.arms[arm].name,
                counts(events),
                if arm == control { "of the other arms" } else { "of the control" },
                usual.services_failed,
                counts(&usual),
                heaptrial_model::units::p_value(p)
            ),
        })
    };
    (0..arms.len()).filter_map(of_arm).collect()
}

fn together<'a>(arms: impl Iterator<Item = &'a ArmEvents>) -> ArmEvents {
    arms.fold(ArmEvents::default(), |all, arm| ArmEvents {
        crashes: all.crashes + arm.crashes,
        oom_kills: all.oom_kills + arm.oom_kills,
        unplanned_restarts: all.unplanned_restarts + arm.unplanned_restarts,
        services_failed: all.services_failed + arm.services_failed,
        ..all
    })
}

/// `2 crashes, 1 OOM kill, 3 unplanned restarts`.
fn counts(events: &ArmEvents) -> String {
    let counts = [
        (events.crashes, "crash", "crashes"),
        (events.oom_kills, "OOM kill", "OOM kills"),
        (events.unplanned_restarts, "unplanned restart", "unplanned restarts"),
    ];
    let some = counts.into_iter().filter(|(count, ..)| *count > 0);
    let parts: Vec<String> =
        some.map(|(count, one, more)| format!("{count} {}", if count == 1 { one } else { more })).collect();
    if parts.is_empty() { "no failures".to_owned() } else { parts.join(", ") }
}
