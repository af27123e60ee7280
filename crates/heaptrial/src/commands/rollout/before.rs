//! What is known of services before a rollout, and what they can tell at all.

use std::time::Duration;

use heaptrial_evaluate::analysis::FleetService;
use heaptrial_evaluate::analysis::{LEAST_WORK_SECONDS, UsualWork};
use heaptrial_evaluate::judgement::LifeFigures;
use heaptrial_fleet::rollout::{Before, Reports, RolloutPlan};
use heaptrial_host::{HostRoot, ProcessTree, ServiceSampler};
use heaptrial_inspect::{MainProcess, Service};
use heaptrial_model::{HumanDuration, Metric, ServiceName, units};
use heaptrial_relay::{Relay, RelayReadings};

use super::target::Target;
use crate::exit::Failure;

/// A relay that does not answer within this time does not answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Roles of relays that the consensus lists.
const LISTED: [&str; 2] = ["relay", "exit"];
/// Services named in one line.
const NAMED: usize = 5;

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
    with_told(known, relay, asked.as_ref(), process.map(|process| process.age_seconds))
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
fn with_told(known: Before, relay: &Relay, told: Option<&RelayReadings>, age_seconds: Option<f64>) -> Before {
    let bytes = told.and_then(|told| Some(told.read_bytes? + told.written_bytes?));
    let flags = told.and_then(|told| Some(told.flags.as_ref()?.iter().copied().collect()));
    Before {
        reports: Reports {
            work: told.is_none() || bytes.is_some() || known.work.is_some(),
            flags: has_control(relay) && LISTED.contains(&relay.role.as_str()),
        },
        work: known.work.or_else(|| UsualWork::since_start(bytes? as f64, age_seconds?)),
        flags: flags.or(known.flags),
        ..known
    }
}

/// What gates will not go by, for who starts a rollout; `None` where they go by all.
pub fn unjudged(plan: &RolloutPlan) -> Option<String> {
    if !plan.judges_work {
        return Some(
            "gates go by health, crashes and memory alone, and not by work and flags (--no-work)".to_owned(),
        );
    }
    let lacks =
        |wanted: fn(Reports) -> bool| plan.before.values().filter(|before| !wanted(before.reports)).count();
    let (work, flags) = (lacks(|reports| reports.work), lacks(|reports| reports.flags));
    let of = units::counted(plan.before.len(), "service");
    (work + flags > 0).then(|| {
        format!(
            "no relays, or relays that cannot be asked: gates do not go by the work of {work} and the flags of {flags} of {of}"
        )
    })
}

/// Refuses what is certain to be held up by a gate in the end: what services did before is known now or never.
pub fn refuse_unknown(plan: &RolloutPlan, restart_every: Option<HumanDuration>) -> Result<(), Failure> {
    let lacks = |before: &Before| {
        let work = before.reports.work && before.work.is_none();
        let flags = before.reports.flags && before.flags.is_none();
        match (work, flags) {
            (true, true) => Some("work and flags"),
            (true, false) => Some("work"),
            (false, true) => Some("flags"),
            (false, false) => None,
        }
    };
    let unknown: Vec<String> = plan
        .before
        .iter()
        .filter_map(|(service, before)| Some(format!("{service} ({})", lacks(before)?)))
        .collect();
    if unknown.is_empty() {
        return refuse_short(plan, restart_every);
    }
    let named = unknown.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    let more = if unknown.len() > NAMED { ", ..." } else { "" };
    Err(Failure::refused(format!(
        "of {} it is not known what they did before, so that no gate could tell whether they do less: {named}{more}. A relay tells its work ten minutes after its start, and its flags once the consensus lists it: start the rollout then, or say --no-work, by which gates go by health, crashes and memory alone",
        units::counted(unknown.len(), "relay")
    )))
}

/// Refuses waves that end before anything can be known of the services' work.
fn refuse_short(plan: &RolloutPlan, restart_every: Option<HumanDuration>) -> Result<(), Failure> {
    if plan.before.values().all(|before| !before.reports.work) {
        return Ok(());
    }
    if let Some(every) = restart_every.filter(|every| every.0.as_secs_f64() < 4.0 * LEAST_WORK_SECONDS) {
        return Err(Failure::refused(format!(
            "services are restarted every {every}, and readings of relays' work take longer than such a life: gates would miss data. Say --no-work, by which gates go by health, crashes and memory alone"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use heaptrial_host::Paths;
    use heaptrial_model::TorFlag;
    use serde_json::json;

    use super::*;
    use clap::Parser;

    use crate::commands::rollout::options::StartOptions;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: StartOptions,
    }

    fn relay(role: &str, more: &[(&str, &str)]) -> Relay {
        let mut facts = json!({
            "torrc": "/etc/tor/torrc", "program": "/usr/bin/tor", "role": role, "family": [], "options": {},
        });
        for (name, value) in more {
            facts[name] = json!(value);
        }
        serde_json::from_value(facts).unwrap()
    }

    const CONTROL: (&str, &str) = ("control_socket", "/run/tor/control");
    const METRICS: (&str, &str) = ("metrics_port", "127.0.0.1:9035");

    fn told(bytes: Option<u64>, flags: Option<&[TorFlag]>) -> RelayReadings {
        RelayReadings {
            read_bytes: bytes,
            written_bytes: bytes,
            flags: flags.map(|flags| flags.iter().copied().collect()),
            ..RelayReadings::default()
        }
    }

    #[test]
    fn what_no_trial_read_is_read_now_by_the_metric_that_gates_compare() {
        let text = include_str!("../../../../inspect/src/preflight/fixture_service.json");
        let mut service: Service = serde_json::from_str(text).unwrap();
        let process = service.process.as_mut().unwrap();
        let sample = &mut process.sample;
        (sample.rss_bytes, sample.anon_bytes, sample.swap_bytes) = (600, 350, 20);
        sample.cgroup_current_bytes = Some(900);
        process.life.pid = std::process::id() as i32;
        let options = Command::parse_from(["start", "jemalloc", "--services", "*"]).options;
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths { state: folder.path().to_owned(), ..Paths::default() };
        let mut target = Target::find(&options, &paths, &folder.path().join("db")).unwrap();
        let mut now = |service: &Service, metric| {
            target.verdict.metric = metric;
            before(&target, std::slice::from_ref(service), service.name(), true).bytes
        };
        assert_eq!(now(&service, Metric::Rss), Some(600.0));
        assert_eq!(now(&service, Metric::Anon), Some(370.0));
        assert_eq!(now(&service, Metric::Cgroup), Some(900.0));
        let proportional = now(&service, Metric::Pss).unwrap();
        assert!(proportional > 1000.0, "of this process, not of the fixture: {proportional}");
        // Nothing is compared with a reading of another kind.
        let process = service.process.as_mut().unwrap();
        process.sample.cgroup_current_bytes = None;
        process.life.pid = i32::MAX;
        assert_eq!((now(&service, Metric::Cgroup), now(&service, Metric::Pss)), (None, None));
    }

    #[test]
    fn a_relay_tells_now_what_no_trial_knows() {
        let told = told(Some(5_000_000), Some(&[TorFlag::Guard]));
        let now = with_told(Before::default(), &relay("relay", &[CONTROL]), Some(&told), Some(1000.0));
        assert_eq!(now.reports, Reports { work: true, flags: true });
        assert_eq!(now.work, UsualWork::since_start(1e7, 1000.0));
        assert_eq!(now.flags, Some(vec![TorFlag::Guard]));
    }

    #[test]
    fn one_that_does_not_answer_or_is_young_is_not_known_and_might_be() {
        let silent = with_told(Before::default(), &relay("exit", &[CONTROL]), None, Some(1e5));
        assert_eq!(
            (silent.reports, silent.work, silent.flags),
            (Reports { work: true, flags: true }, None, None)
        );
        let told = told(Some(10), None);
        let young = with_told(Before::default(), &relay("exit", &[CONTROL]), Some(&told), Some(60.0));
        assert_eq!((young.reports, young.work), (Reports { work: true, flags: true }, None));
    }

    #[test]
    fn what_cannot_be_told_is_not_asked_for() {
        let none = told(None, None);
        let metrics = with_told(Before::default(), &relay("relay", &[METRICS]), Some(&none), Some(1e5));
        assert_eq!(metrics.reports, Reports::default());
        let bytes = told(Some(1), None);
        for role in ["bridge", "client"] {
            let unlisted = with_told(Before::default(), &relay(role, &[CONTROL]), Some(&bytes), Some(1e5));
            assert_eq!(unlisted.reports, Reports { work: true, flags: false }, "{role}");
        }
        assert!(!has_a_way(&relay("relay", &[])));
    }
}
