//! What is known of services before a rollout, and what they can report at all.

use std::time::Duration;

use heaptrial_evaluate::analysis::FleetService;
use heaptrial_evaluate::analysis::{LEAST_WORK_SECONDS, UsualWork};
use heaptrial_fleet::rollout::{Before, Reports, RolloutPlan};
use heaptrial_host::{HostRoot, ProcessTree, ServiceSampler};
use heaptrial_inspect::{MainProcess, Service};
use heaptrial_model::{HumanDuration, Metric, ServiceName, units};
use heaptrial_relay::{Relay, RelayReadings};

use super::target::Target;
use crate::exit::Failure;
use crate::output::some;

/// A relay that does not answer within this time does not answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Roles of relays that the consensus lists.
const LISTED: [&str; 2] = ["relay", "exit"];

/// From the trial's readings, or from what the service uses and reports now.
pub fn before(target: &Target, services: &[Service], name: &ServiceName, judges_work: bool) -> Before {
    let fleet = target.fleet.as_ref();
    let found = fleet.and_then(|fleet| fleet.services.iter().find(|own| own.name == name.as_str()));
    let service = services.iter().find(|service| service.name() == name);
    let process = service.and_then(|service| service.process.as_ref());
    let known = found.map(of_trial).unwrap_or_default();
    let known = match (known.bytes, process) {
        (None, Some(process)) => Before { bytes: level_now(process, target.verdict.metric), ..known },
        _ => known,
    };
    let relay = service.and_then(|service| service.relay.as_ref()).filter(|relay| has_a_way(relay));
    let (Some(relay), true) = (relay, judges_work) else { return known };
    let asked = relay.readings(PATIENCE).ok();
    with_readings(known, relay, asked.as_ref(), process.map(|process| process.age_seconds))
}

/// What a service uses now, by the reading that gates compare.
fn level_now(process: &MainProcess, metric: Metric) -> Option<f64> {
    let own = process.sample.level(metric);
    let proportional = || (metric == Metric::Pss).then(|| proportional_bytes(process.life.pid)).flatten();
    own.or_else(proportional).map(|bytes| bytes as f64)
}

/// `None` where it cannot be read.
fn proportional_bytes(pid: i32) -> Option<u64> {
    let root = HostRoot::default();
    let mut sampler = ServiceSampler::open(&root, pid).ok()?;
    sampler.follow(&ProcessTree::scan(&root).ok()?);
    Some(sampler.read_slow().ok()?.pss_bytes)
}

fn of_trial(service: &FleetService) -> Before {
    let Some(life) = service.current() else { return Before::default() };
    Before {
        bytes: heaptrial_fleet::rollout::level(service),
        work: UsualWork::of_life(life),
        flags: life.flags(),
        reports: Reports::default(),
    }
}

/// Whether it can be asked at all.
fn has_a_way(relay: &Relay) -> bool {
    has_control(relay) || relay.metrics_port.is_some()
}

fn has_control(relay: &Relay) -> bool {
    relay.control_socket.is_some() || relay.control_port.is_some()
}

/// What is known, with what a relay reports now; `None` where it did not answer, which does not mean that it never can.
fn with_readings(
    known: Before,
    relay: &Relay,
    read: Option<&RelayReadings>,
    age_seconds: Option<f64>,
) -> Before {
    let bytes = read.and_then(|read| Some(read.read_bytes? + read.written_bytes?));
    let flags = read.and_then(|read| Some(read.flags.as_ref()?.iter().copied().collect()));
    Before {
        reports: Reports {
            work: read.is_none() || bytes.is_some() || known.work.is_some(),
            flags: has_control(relay) && LISTED.contains(&relay.role.as_str()),
        },
        work: known.work.or_else(|| UsualWork::since_start(bytes? as f64, age_seconds?)),
        flags: flags.or(known.flags),
        ..known
    }
}

/// What gates will not go by, in a line; nothing where they go by all.
pub fn unjudged(plan: &RolloutPlan) -> String {
    if !plan.judges_work {
        return "gates go by health, crashes and memory alone, and not by work and flags (--no-work)\n"
            .to_owned();
    }
    let lacks = |wanted: fn(Reports) -> bool| plan.before.values().filter(|own| !wanted(own.reports)).count();
    match (lacks(|reports| reports.work), lacks(|reports| reports.flags), plan.before.len()) {
        (0, 0, _) => String::new(),
        (work, flags, of) => format!(
            "no relays, or relays that cannot be asked: gates do not go by the work of {work} and the flags of {flags} of {}\n",
            units::counted(of, "service")
        ),
    }
}

/// Refuses what is certain to be held up by a gate in the end: work and flags before are known now or never, and the work
/// of a service that is restarted soon never.
pub fn require_known(plan: &RolloutPlan, restart_every: Option<HumanDuration>) -> Result<(), Failure> {
    let lacks = |before: &Before| {
        (before.reports.work && before.work.is_none()) || (before.reports.flags && before.flags.is_none())
    };
    let unknown: Vec<&ServiceName> =
        plan.before.iter().filter(|(_, before)| lacks(before)).map(|(service, _)| service).collect();
    let without = "--no-work has gates go by health, crashes and memory alone";
    if !unknown.is_empty() {
        return Err(Failure::refused(format!(
            "gates cannot check that {} do no less than before, because their work or flags before the rollout are not known. A \
             relay reports its work ten minutes after its start, and its flags once the consensus lists it: start the rollout \
             then. {without}",
            some(unknown)
        )));
    }
    let is_short = |every: &HumanDuration| every.0.as_secs_f64() < 4.0 * LEAST_WORK_SECONDS;
    match restart_every.filter(is_short) {
        Some(every) if plan.before.values().any(|before| before.reports.work) => {
            Err(Failure::refused(format!(
                "services are restarted every {every}, which is too short for readings of relays' work. {without}"
            )))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use heaptrial_model::TorFlag;

    use super::*;

    fn relay(role: &str, way: &str) -> Relay {
        let mut relay = Relay { role: role.to_owned(), ..Relay::default() };
        match way {
            "metrics_port" => relay.metrics_port = Some("127.0.0.1:9035".to_owned()),
            _ => relay.control_socket = Some("/run/tor/control".into()),
        }
        relay
    }

    fn read(bytes: Option<u64>, flags: Option<&[TorFlag]>) -> RelayReadings {
        let flags = flags.map(|flags| flags.iter().copied().collect());
        RelayReadings { read_bytes: bytes, written_bytes: bytes, flags, ..RelayReadings::default() }
    }

    #[test]
    fn a_relay_reports_what_its_ways_and_its_age_allow() {
        let (control, metrics) = ("control_socket", "metrics_port");
        let of = |role, way, read: Option<RelayReadings>, age| {
            with_readings(Before::default(), &relay(role, way), read.as_ref(), Some(age))
        };
        let now = of("relay", control, Some(read(Some(5_000_000), Some(&[TorFlag::Guard]))), 1000.0);
        assert_eq!((now.work, now.flags), (UsualWork::since_start(1e7, 1000.0), Some(vec![TorFlag::Guard])));
        let both = Reports { work: true, flags: true };
        assert_eq!(now.reports, both);
        // One that does not answer or is young is not known, and might be.
        let silent = of("exit", control, None, 1e5);
        assert_eq!((silent.reports, silent.work, silent.flags), (both, None, None));
        let young = of("exit", control, Some(read(Some(10), None)), 60.0);
        assert_eq!((young.reports, young.work), (both, None));
        // What cannot be reported is not asked for.
        assert_eq!(of("relay", metrics, Some(read(None, None)), 1e5).reports, Reports::default());
        for role in ["bridge", "client"] {
            let unlisted = of(role, control, Some(read(Some(1), None)), 1e5);
            assert_eq!(unlisted.reports, Reports { work: true, flags: false }, "{role}");
        }
    }
}
