//! What is rolled out: an arm of an ended trial, or an allocator by its spec.

use std::collections::BTreeSet;
use std::path::Path;

use heaptrial_adoption::Adopted;
use heaptrial_analysis::{Fleet, Forecast, ForecastError, Settings, Verdict as GrowthVerdict};
use heaptrial_change::{Prepared, TrialStage, read_prepared, read_state};
use heaptrial_host::{HostRoot, Paths, host_name};
use heaptrial_inspect::Service;
use heaptrial_judgement::{Judgement, Options, read_fleet};
use heaptrial_model::{AllocatorSpec, Arm, Build, Metric, ServiceName, ServicePattern, Treatment};
use heaptrial_rollout::{Stratum, Verdict, against, is_rollout, warnings};
use heaptrial_store::Store;

use crate::commands::trial::verdict;
use crate::exit::Failure;

/// What is rolled out, and what is known of it.
pub struct Target {
    /// The trial that measured it.
    pub trial: Option<Prepared>,
    pub arm: Arm,
    /// The very build that was measured.
    pub build: Option<Build>,
    pub patterns: Vec<ServicePattern>,
    pub metric: Metric,
    /// The trial's readings, where the database has them.
    pub fleet: Option<Fleet>,
    /// What a trial elsewhere found of it, with the digest of its file.
    pub verdict: Option<(Verdict, String)>,
    /// What its trial found that speaks against it.
    pub against: Vec<String>,
    /// What it found that is warned of.
    pub warnings: Vec<String>,
    /// The adoption whose services run it already.
    pub adopted: Option<Adopted>,
}

impl Target {
    /// The trial that measured it, here or elsewhere.
    pub fn trial_name(&self) -> Option<&str> {
        let here = self.trial.as_ref().map(|trial| trial.plan.name.as_str());
        let elsewhere = || self.verdict.as_ref().map(|(verdict, _)| verdict.trial.as_str());
        here.or_else(elsewhere).or_else(|| Some(self.adopted.as_ref()?.trial.plan.name.as_str()))
    }
}

/// An arm of a trial that was elsewhere, by the file that it wrote.
pub fn of_verdict(file: &Path, digest: Option<&str>, patterns: &[ServicePattern]) -> Result<Target, Failure> {
    if patterns.is_empty() {
        return Err(Failure::usage("--verdict needs --services, such as --services 'tor@*'"));
    }
    let (verdict, digest) = Verdict::read(file, digest)?;
    Ok(Target {
        trial: None,
        arm: Arm { control: true, ..verdict.arm.clone() },
        build: None,
        patterns: patterns.to_vec(),
        metric: verdict.metric,
        fleet: None,
        against: verdict.against(),
        warnings: verdict.warnings(),
        verdict: Some((verdict, digest)),
        adopted: None,
    })
}

/// What services of an adoption run; `None` where the database has none of that name.
pub fn of_adoption(
    database: &Path,
    name: &str,
    arm: Option<&str>,
    patterns: &[ServicePattern],
) -> Result<Option<Target>, Failure> {
    let Ok(store) = Store::open(database) else { return Ok(None) };
    let Some(arm) = arm else {
        return match Adopted::names(&store, name)? {
            Some(known) => Err(Failure::usage(format!(
                "which arm of adoption `{name}`? --arm takes one of: {}",
                known.join(", ")
            ))),
            None => Ok(None),
        };
    };
    let Some(adopted) = Adopted::find(&store, name, arm)? else { return Ok(None) };
    let own = adopted.services.iter().map(ServicePattern::of);
    let version = adopted.expected.version.as_ref().map(ToString::to_string);
    let file = adopted.expected.object.as_ref().and_then(|path| path.file_name());
    Ok(Some(Target {
        trial: None,
        arm: Arm { control: true, ..adopted.arm.clone() },
        build: file.map(|file| Build {
            sha256: adopted.expected.sha256.clone(),
            version,
            file: file.to_string_lossy().into_owned(),
        }),
        patterns: if patterns.is_empty() { own.collect() } else { patterns.to_vec() },
        metric: adopted.trial.plan.metric,
        fleet: read_fleet(&store, adopted.trial.id, &Options::default()).ok(),
        verdict: None,
        against: Vec::new(),
        warnings: Vec::new(),
        adopted: Some(adopted),
    }))
}

/// An arm of a trial that has ended on this host.
pub fn of_trial(
    paths: &Paths,
    database: &Path,
    name: &str,
    arm: Option<&str>,
    patterns: &[ServicePattern],
) -> Result<Target, Failure> {
    let prepared = read_prepared(paths, name)?;
    let state = read_state(paths, name)?;
    if is_rollout(&prepared) {
        return Err(Failure::refused(format!(
            "`{name}` is a rollout; `heaptrial rollout resume {name}` goes on with it"
        )));
    }
    if state.stage != TrialStage::Stopped && state.stage != TrialStage::Reverted {
        return Err(Failure::refused(format!(
            "trial `{name}` has not ended, and a rollout would change what its arms run; `heaptrial trial stop {name}` ends it and leaves services as they are"
        )));
    }
    let arms = &prepared.plan.arms;
    let known = arms.iter().map(|arm| arm.name.as_str()).collect::<Vec<_>>().join(", ");
    let Some(wanted) = arm else {
        return Err(Failure::usage(format!("which arm of trial `{name}`? --arm takes one of: {known}")));
    };
    let arm = arms
        .iter()
        .find(|arm| arm.name == wanted)
        // `mimalloc-2.0.9` is how one says `mimalloc@2.0.9`, which is what `trial new` names an arm.
        .or_else(|| arms.iter().find(|arm| arm.name.replace('@', "-") == wanted))
        .ok_or_else(|| Failure::usage(format!("trial `{name}` has no arm `{wanted}`; it has {known}")))?;
    let wanted = arm.name.as_str();
    if arm.treatment.allocator.is_none() {
        return Err(Failure::refused(format!(
            "arm `{wanted}` of trial `{name}` names no allocator, and services of other arms run another one: what all of them shall run cannot be told. Measure an arm that names it, such as allocator = \"glibc\""
        )));
    }
    let host = host_name(&HostRoot::default()).map_err(Failure::failed)?;
    let own = prepared.services.iter().map(|treatment| ServicePattern::of(&treatment.service));
    let patterns = if patterns.is_empty() { own.collect() } else { patterns.to_vec() };
    let judgement = judgement_of(database, &prepared);
    let (against, warnings) =
        judgement.as_ref().map(|judgement| found_in(judgement, name, wanted)).unwrap_or_default();
    Ok(Target {
        build: prepared.plan.build(wanted, &host).cloned(),
        metric: prepared.plan.metric,
        against,
        warnings,
        fleet: judgement.map(|judgement| judgement.fleet),
        arm: Arm { control: true, ..arm.clone() },
        patterns,
        trial: Some(prepared),
        verdict: None,
        adopted: None,
    })
}

/// An allocator, without a trial of this host that is named.
pub fn of_spec(spec: &AllocatorSpec, patterns: &[ServicePattern]) -> Result<Target, Failure> {
    if patterns.is_empty() {
        return Err(Failure::usage("--allocator needs --services, such as --services 'tor@*'"));
    }
    let treatment = Treatment { allocator: Some(spec.clone()), ..Treatment::default() };
    Ok(Target {
        trial: None,
        arm: Arm { name: spec.to_string(), control: true, treatment },
        build: None,
        patterns: patterns.to_vec(),
        metric: Metric::Rss,
        fleet: None,
        verdict: None,
        against: Vec::new(),
        warnings: Vec::new(),
        adopted: None,
    })
}

/// Why there is no forecast of an arm.
#[derive(Debug, thiserror::Error)]
pub enum NoForecast {
    /// Nothing was read of it.
    #[error("the database has no readings of a trial with it")]
    NoReadings,
    /// What was read does not do.
    #[error(transparent)]
    Forecast(#[from] ForecastError),
    /// What was read is of services that are not like those of the rollout.
    #[error("arm `{arm}` had too few services that are like those of the rollout ({kinds})")]
    OtherKinds { arm: String, kinds: String },
}

/// What each kind of these services is expected to use under the arm, or why nothing is known of any of them.
pub fn strata(
    target: &Target,
    services: &[Service],
    names: &[ServiceName],
    host: &str,
) -> Result<Vec<Stratum>, NoForecast> {
    let arm = &target.arm.name;
    let loaded = services.iter().filter(|service| service.relay.is_some()).map(Service::name);
    let prepared = target.trial.iter().flat_map(|trial| &trial.services);
    let prepared = prepared.filter(|treatment| treatment.relay.is_some()).map(|treatment| &treatment.service);
    let adopted = target.adopted.iter().flat_map(|adopted| &adopted.relays);
    let relays: BTreeSet<&str> = loaded.chain(prepared).chain(adopted).map(ServiceName::as_str).collect();
    let is_relay = |name: &str| relays.contains(name);
    let strata = match (&target.verdict, &target.fleet) {
        (Some((verdict, _)), _) => verdict.strata(host, names, &is_relay),
        (None, Some(fleet)) => heaptrial_rollout::strata(fleet, arm, names, &is_relay),
        (None, None) => return Err(NoForecast::NoReadings),
    };
    if strata.iter().all(|stratum| stratum.forecast.is_none()) {
        // Where the arm as a whole has one, its services are of other kinds.
        if let Some(fleet) = &target.fleet {
            Forecast::of_arm(fleet, &Settings::default(), arm)?;
        }
        let kinds: Vec<String> = strata.into_iter().map(|stratum| stratum.name).collect();
        return Err(NoForecast::OtherKinds { arm: arm.clone(), kinds: kinds.join(", ") });
    }
    Ok(strata)
}

/// What a trial of this host found that speaks against an arm, and what is warned of.
fn found_in(judgement: &Judgement, trial: &str, arm: &str) -> (Vec<String>, Vec<String>) {
    let analysis = &judgement.analysis;
    let Some(index) = judgement.fleet.arms.iter().position(|own| own.name == arm) else {
        return Default::default();
    };
    let verdict = analysis.arms[index].verdict.as_ref().map(GrowthVerdict::as_str);
    let found = verdict::found(analysis, &judgement.fleet, index);
    (against((trial, arm), verdict, &found.against), warnings(trial, &found.borne))
}

/// What a trial found that speaks against one of its arms.
pub fn found_against(database: &Path, prepared: &Prepared, arm: &str) -> Vec<String> {
    let judgement = judgement_of(database, prepared);
    judgement.map(|judgement| found_in(&judgement, &prepared.plan.name, arm).0).unwrap_or_default()
}

fn judgement_of(database: &Path, prepared: &Prepared) -> Option<Judgement> {
    let store = Store::open(database).ok()?;
    let row = store.trials().ok()?.into_iter().rfind(|row| row.is_of(&prepared.plan.id))?;
    Judgement::of(&store, row.id, &Options::default()).ok()
}

#[cfg(test)]
mod tests {
    use heaptrial_model::{LifeKey, Sample, TrialKind};
    use heaptrial_store::{NewService, TickInput};
    use serde_json::json;

    use super::*;
    use crate::commands::trial::in_database::tests::{frozen, row};

    /// What a trial of three arms tells of each, of which so many services are in `b`, and one of them ran another allocator.
    fn found(services: usize) -> [(Vec<String>, Vec<String>); 3] {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("db");
        let mut store = Store::create(&database).unwrap();
        let prepared = frozen("five-way");
        let arm = |name: &str, control: bool| {
            serde_json::from_value(json!({ "name": name, "control": control })).unwrap()
        };
        let mut trial = row("five-way", TrialKind::Field, json!({ "plan": prepared.plan }));
        trial.arms = vec![arm("a", true), arm("b", false), arm("c", false)];
        let (id, arms) = store.begin_trial(&trial).unwrap();
        let mut lives = Vec::new();
        let of_arms = [0, 2].into_iter().chain(vec![1; services]);
        for (number, position) in of_arms.enumerate() {
            let (name, attributes) = (format!("{number}.service"), json!(null));
            let service = NewService { name, arm: position, block: 0, position: number as u32, attributes };
            let service = store.add_new_service(id, arms[position], &service).unwrap();
            let key = LifeKey { boot_id: "boot".into(), pid: number as i32 + 1, start_ticks: 1 };
            let ran_another = (number == 2).then_some("it runs glibc 2.36");
            lives.push(store.add_life(service, &key, (0, 0), None, ran_another).unwrap());
        }
        let sample = Sample { rss_bytes: 1 << 20, ..Sample::default() };
        for sequence in 0..10 {
            let at = (sequence + 1) * 60_000_000;
            let samples = lives.iter().map(|life| (*life, sample)).collect();
            let tick = TickInput { sequence, wall_us: at, boottime_us: at, samples, ..TickInput::default() };
            store.write_tick(id, &tick).unwrap();
        }
        drop(store);
        let judgement = judgement_of(&database, &prepared).unwrap();
        ["a", "b", "c"].map(|arm| found_in(&judgement, "five-way", arm))
    }

    #[test]
    fn what_a_trial_of_this_host_found_of_an_arm_speaks_against_that_arm() {
        let is_told = |told: &String| told.contains("did not run the treatment of b");
        let [_, (against, _), (against_c, warnings_c)] = found(1);
        assert!(against.iter().any(is_told), "{against:?}");
        assert!(!against_c.iter().chain(&warnings_c).any(is_told), "{against_c:?} {warnings_c:?}");
        // Too few are left.
        let [_, (against, warnings), _] = found(6);
        assert!(against.iter().any(is_told) && warnings.is_empty(), "{against:?} {warnings:?}");
    }

    #[test]
    fn figures_of_enough_services_bear_that_one_ran_something_else() {
        let is_told = |told: &String| told.contains("1 of its 7 services did not run the treatment of b");
        let [_, (against, warnings), (_, warnings_c)] = found(7);
        assert!(!against.iter().any(is_told), "{against:?}");
        assert!(warnings.iter().any(is_told) && warnings_c.is_empty(), "{warnings:?} {warnings_c:?}");
    }
}
