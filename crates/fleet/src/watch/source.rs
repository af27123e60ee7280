//! What is watched: services that keep an arm's treatment, or services as they are found.

use std::collections::{BTreeSet, HashMap};

use crate::rollout::{RolloutPlan, Stratum, kinds, read_plan, strata, usual_level};
use heaptrial_allocator::{Expected, Identifier, prove};
use heaptrial_change::read_prepared;
use heaptrial_evaluate::analysis::{DAY, Fleet, FleetArm, FleetService, UsualWork};
use heaptrial_evaluate::judgement::{Options, read_fleet};
use heaptrial_host::systemd::{Systemd, Unit};
use heaptrial_host::{HostRoot, Paths};
use heaptrial_inspect::Service;
use heaptrial_model::{Arm, Identity, KnownEvent, ServiceName, ServicePattern, Treatment, TrialKind};
use heaptrial_store::{ArmRecord, ServiceRecord, Store, TrialRecord};
use serde_json::Value;

use crate::watch::as_found::as_found;
use crate::watch::error::WatchError;
use crate::watch::observe::{c_library, identify, units};
use crate::watch::plan::{FailuresBefore, WatchPlan, WatchedService};

/// Characters of the name of an arm that was found.
const LONGEST: usize = 100;

/// What is watched.
#[derive(Debug, Default)]
pub struct Source {
    /// A plan without a name, an end and channels.
    pub plan: WatchPlan,
    is_of_trial: bool,
    pub(crate) arms: Vec<SourceArm>,
    /// What else is recorded of each service, and its arm by position.
    pub(crate) records: Vec<(usize, Value)>,
    pub left_out: Vec<(ServiceName, String)>,
}

/// What services of a watch run.
#[derive(Debug, Clone)]
pub(crate) struct SourceArm {
    pub(crate) arm: Arm,
    pub(crate) expected: Option<Expected>,
}

impl Source {
    /// Finds the last trial or rollout of a name, and in it the arm that is named or the one that most services run; `None`
    /// where the database has none of that name.
    pub fn of_trial(
        store: &Store,
        systemd: &Systemd,
        paths: &Paths,
        name: &str,
        arm: Option<&str>,
    ) -> Result<Option<Self>, WatchError> {
        let mut trials = store.trials()?;
        trials.retain(|trial| trial.plan.kind.treats_services());
        let Some(index) = trials.iter().rposition(|trial| trial.plan.name == name) else { return Ok(None) };
        let trial = trials.swap_remove(index);
        let records = store.services(trial.id)?;
        let names: Vec<ServiceName> = records.iter().filter_map(|record| record.name.parse().ok()).collect();
        let units = units(systemd, &names).map_err(|error| WatchError::Refused(error.to_string()))?;
        let all = store.arms(trial.id)?;
        let mut arms = all.clone();
        if let Some(wanted) = arm {
            arms.retain(|record| record.arm.name == wanted);
            if arms.is_empty() {
                let known: Vec<&str> = all.iter().map(|record| record.arm.name.as_str()).collect();
                let known = known.join(", ");
                return Err(WatchError::Refused(format!("`{name}` has no arm `{wanted}`; it has {known}")));
            }
        }
        let identifier = Identifier::default();
        let found = arms.into_iter().map(|arm| of_arm(&trial, arm, &records, &units, &identifier));
        let mut found: Vec<Self> = found.collect();
        found.sort_by_key(|source| std::cmp::Reverse(source.plan.services.len()));
        if let [first, second, ..] = &found[..] {
            if first.plan.services.len() == second.plan.services.len() {
                return Err(WatchError::Refused(format!(
                    "as many services run what arm `{}` of `{name}` wants as what arm `{}` does; name one with --arm",
                    first.arms[0].arm.name, second.arms[0].arm.name
                )));
            }
        }
        let source = found.into_iter().next().filter(|source| !source.plan.services.is_empty());
        let mut source = source.ok_or_else(|| {
            WatchError::Refused(format!(
                "no service of `{name}` runs what its arm wants, so there is nothing to watch"
            ))
        })?;
        let fleet = read_fleet(store, trial.id, &Options::default())?;
        let rollout = read_prepared(paths, name).ok().and_then(|prepared| read_plan(&prepared).ok());
        // By a verdict of elsewhere it was measured in no trial of this host.
        if let Some(rollout) = rollout.as_ref().filter(|rollout| rollout.verdict.is_none()) {
            source.plan.trial.clone_from(&rollout.trial);
        }
        source.hold_to(&fleet, rollout.as_ref());
        Ok(Some(source))
    }

    /// Takes services as they are: what they run and use now is what they are held to.
    pub fn as_found(
        store: Option<&Store>,
        services: &[Service],
        patterns: &[ServicePattern],
    ) -> Result<Self, WatchError> {
        let root = HostRoot::default();
        let mut source = Self::default();
        source.plan.patterns = patterns.to_vec();
        for service in services {
            let name = service.name().clone();
            let process = service.process.as_ref();
            let runs = process.and_then(|process| process.identity.clone());
            match as_found(&root, service) {
                Ok(expected) => {
                    let arm = source.arm_of(&expected);
                    let mut own = watched(name, Some(expected), runs);
                    own.bytes = process.map(|process| process.sample.rss_bytes as f64);
                    source.plan.services.push(own);
                    source.records.push((arm, service.attributes(None)));
                }
                Err(why) => {
                    source.plan.others.push(name.clone());
                    source.left_out.push((name, why));
                }
            }
        }
        if source.plan.services.is_empty() {
            return Err(WatchError::Refused("no service can be watched as it is".to_owned()));
        }
        source.hold_to(&source.sampled(store)?, None);
        Ok(source)
    }

    /// Whether a trial or rollout names the services; else they are watched as they were found.
    pub fn is_of_trial(&self) -> bool {
        self.is_of_trial
    }

    /// The arm of what a service runs, as it is or new.
    fn arm_of(&mut self, expected: &Expected) -> usize {
        if let Some(known) = self.arms.iter().position(|arm| arm.expected.as_ref() == Some(expected)) {
            return known;
        }
        let settings: Vec<String> =
            expected.settings.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let name = format!("{}{}", expected.spec, settings.concat());
        let name: String = name.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
        let is_taken = self.arms.iter().any(|arm| arm.arm.name == name);
        let name = if is_taken { format!("{name} #{}", self.arms.len() + 1) } else { name };
        let treatment = Treatment { allocator: Some(expected.spec.clone()), ..Treatment::default() };
        self.plan.arms.push(name.clone());
        let arm = Arm { name, control: self.arms.is_empty(), treatment };
        self.arms.push(SourceArm { arm, expected: Some(expected.clone()) });
        self.arms.len() - 1
    }

    /// What the agent has read of these services so far, each in its arm.
    fn sampled(&self, store: Option<&Store>) -> Result<Fleet, WatchError> {
        let arms = self.arms.iter().map(|arm| FleetArm {
            name: arm.arm.name.clone(),
            control: arm.arm.control,
            ..FleetArm::default()
        });
        let empty = Fleet { arms: arms.collect(), ..Fleet::default() };
        let Some(store) = store else { return Ok(empty) };
        let trials = store.trials()?;
        let Some(host) = trials.iter().rfind(|trial| trial.plan.kind == TrialKind::Host) else {
            return Ok(empty);
        };
        let fleet = read_fleet(store, host.id, &Options::default())?;
        let in_arm = |(own, (arm, _)): (&WatchedService, &(usize, Value))| -> Option<FleetService> {
            let found = fleet.services.iter().find(|service| service.name == own.service.as_str())?;
            let lives = found.lives.last().cloned().into_iter().collect();
            Some(FleetService { arms: vec![*arm], lives, ..found.clone() })
        };
        let services = self.plan.services.iter().zip(&self.records).filter_map(in_arm).collect();
        Ok(Fleet { services, ..empty })
    }

    /// Sets what services are held to: by what a rollout held them to, or else by what was read of them.
    fn hold_to(&mut self, fleet: &Fleet, rollout: Option<&RolloutPlan>) {
        let own = |name: &ServiceName| fleet.services.iter().find(|service| service.name == name.as_str());
        let relays = self.relays();
        let is_relay = |name: &str| relays.contains(name);
        let before = |name: &ServiceName| {
            let rollout = rollout.filter(|rollout| rollout.stratum(name).ratio.is_some())?;
            rollout.before.get(name)?.bytes
        };
        for service in &mut self.plan.services {
            let found = own(&service.service);
            let read = found.and_then(usual_level).or(service.bytes);
            service.bytes = before(&service.service).or(read);
            service.usual_work = found.and_then(FleetService::current).and_then(UsualWork::of_life);
        }
        let names: Vec<ServiceName> = self.plan.services.iter().map(|own| own.service.clone()).collect();
        let (of_rollout, others): (Vec<usize>, Vec<usize>) =
            (0..names.len()).partition(|index| before(&names[*index]).is_some());
        for stratum in rollout.iter().flat_map(|rollout| &rollout.strata) {
            let services = of_rollout.iter().map(|index| &names[*index]);
            let services: Vec<ServiceName> =
                services.filter(|name| stratum.services.contains(name)).cloned().collect();
            if !services.is_empty() {
                self.plan.strata.push(Stratum { services, ..stratum.clone() });
            }
        }
        for (position, arm) in self.arms.iter().enumerate() {
            let Some(index) = fleet.arms.iter().position(|own| own.name == arm.arm.name) else { continue };
            let of_arm = others.iter().filter(|index| self.records[**index].0 == position);
            let services: Vec<ServiceName> = of_arm.map(|index| names[*index].clone()).collect();
            // A service of another arm that runs the treatment since had its level under that one.
            let ran = |name: &ServiceName| {
                let arms = own(name).map_or(&[][..], |service| &service.arms[..]);
                Some(fleet.arms[*arms.first()?].name.clone())
            };
            self.plan.strata.extend(strata(&kinds(fleet, index, &is_relay), &services, &is_relay, &ran));
        }
        self.plan.failures_before = failures_before(fleet, &names);
    }

    fn relays(&self) -> BTreeSet<String> {
        let is_relay = |attributes: &Value| attributes["role"].is_string();
        let names = self.plan.services.iter().map(|own| own.service.to_string());
        let relays = names.zip(&self.records).filter(|(_, (_, attributes))| is_relay(attributes));
        relays.map(|(name, _)| name).collect()
    }
}

fn of_arm(
    trial: &TrialRecord,
    arm: ArmRecord,
    records: &[ServiceRecord],
    units: &HashMap<ServiceName, Unit>,
    identifier: &Identifier,
) -> Source {
    let expected: Option<Expected> =
        arm.obtained.clone().and_then(|obtained| serde_json::from_value(obtained).ok());
    let plan = WatchPlan {
        trial: (trial.plan.kind == TrialKind::Field).then(|| trial.plan.name.clone()),
        arms: vec![arm.arm.name.clone()],
        metric: trial.plan.metric,
        patterns: patterns(records),
        ..WatchPlan::default()
    };
    let arms = vec![SourceArm { arm: Arm { control: true, ..arm.arm }, expected: expected.clone() }];
    let mut source = Source { plan, is_of_trial: true, arms, ..Source::default() };
    for record in records {
        let Ok(name) = record.name.parse::<ServiceName>() else { continue };
        let own = record.arm_id == arm.id;
        // After a rollout services of other arms run it too; the host's own C library with default settings says nothing.
        let shows = |expected: &Expected| expected.object.is_some() || !expected.settings.is_empty();
        let may = own || expected.as_ref().is_some_and(shows);
        if !may {
            source.plan.others.push(name);
            continue;
        }
        match proved(units.get(&name), expected.as_ref(), identifier) {
            Ok(runs) => {
                source.plan.services.push(watched(name, expected.clone(), Some(runs)));
                source.records.push((0, record.attributes.clone().unwrap_or_default()));
            }
            Err(why) => {
                source.plan.others.push(name.clone());
                if own {
                    source.left_out.push((name, why));
                }
            }
        }
    }
    source
}

/// Patterns of units of which services are instances.
fn patterns(records: &[ServiceRecord]) -> Vec<ServicePattern> {
    let template =
        |record: &ServiceRecord| format!("{}@*.service", record.name.split_once('@')?.0).parse().ok();
    let patterns: BTreeSet<ServicePattern> = records.iter().filter_map(template).collect();
    patterns.into_iter().collect()
}

/// A service as it is now.
fn watched(service: ServiceName, expected: Option<Expected>, runs: Option<Identity>) -> WatchedService {
    // As far as it is compared.
    let runs = runs.map(|runs| {
        let libraries = c_library(&runs).cloned().into_iter().collect();
        Identity { evidence: Vec::new(), libraries, ..runs }
    });
    WatchedService { service, expected, runs, usual_work: None, bytes: None }
}

/// What a service runs, if that is what its arm wants; else why not.
fn proved(
    unit: Option<&Unit>,
    expected: Option<&Expected>,
    identifier: &Identifier,
) -> Result<Identity, String> {
    let unit = unit.ok_or("systemd does not know it")?;
    let pid = unit.status.main_pid.ok_or_else(|| format!("it is {}", unit.status.active_state))?;
    let identity = identify(identifier, unit, pid).map_err(|error| error.to_string())?;
    if let Some(expected) = expected {
        prove(expected, &identity).map_err(|mismatch| mismatch.to_string())?;
    }
    Ok(identity)
}

/// Failures of services in what was read of them.
fn failures_before(fleet: &Fleet, services: &[ServiceName]) -> FailuresBefore {
    let is_own = |index: usize| services.iter().any(|name| name.as_str() == fleet.services[index].name);
    let failed = fleet.events.iter().filter(|event| event.kind.known().is_some_and(KnownEvent::is_failure));
    let lives = (0..fleet.services.len()).filter(|index| is_own(*index));
    let lives = lives.flat_map(|index| &fleet.services[index].lives);
    let seconds: f64 =
        lives.filter_map(|life| Some(life.last_age()? - f64::from(life.readings.first()?.age_seconds))).sum();
    FailuresBefore::of(failed.filter(|event| event.service.is_some_and(is_own)).count() as u32, seconds / DAY)
}
