//! A verdict as a trial's rows and their analysis have it.

use heaptrial_allocator::Expected;
use heaptrial_change::expected_of;
use heaptrial_evaluate::judgement::Judgement;
use heaptrial_host::HostFacts;
use heaptrial_model::{AllocatorSpec, Pace};
use heaptrial_store::LifeRecord;
use serde_json::Value;

use super::{MeasuredHost, MeasuredRatio, MeasuredTreatment, Verdict, kinds, settings_of};

impl Verdict {
    /// Of an arm that names this allocator, without what speaks against it.
    pub fn of_arm(judgement: &Judgement, index: usize, allocator: &AllocatorSpec) -> Self {
        let (rows, analysis) = (&judgement.rows, &judgement.analysis);
        let control = rows.arms.iter().position(|record| record.arm.control);
        let is_relay = |name: &str| {
            let own = rows.services.iter().find(|service| service.name == name);
            own.and_then(|service| service.attributes.as_ref()).is_some_and(|found| found["role"].is_string())
        };
        let result = &analysis.arms[index];
        let figures = result.as_treated.as_ref().unwrap_or(&result.as_assigned);
        let ratio = figures.ratio.as_ref().zip(analysis.matched_age_seconds).map(|(ratio, age_seconds)| {
            let estimate = ratio.estimate;
            MeasuredRatio {
                value: estimate.value,
                low: estimate.low,
                high: estimate.high,
                age_seconds,
                services: figures.services_compared,
            }
        });
        Self {
            written_at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            trial: Some(rows.trial.plan.name.clone()),
            arm: rows.arms[index].arm.clone(),
            control: control.map(|control| rows.arms[control].arm.name.clone()).unwrap_or_default(),
            control_allocator: control.and_then(|control| {
                let ran = || Some(expected_of(judgement.arms[control].identity.as_ref()?).spec);
                rows.arms[control].arm.treatment.allocator.clone().or_else(ran)
            }),
            metric: rows.trial.plan.metric,
            pace: rows.trial.drawn.as_ref().map_or_else(Pace::default, |plan| plan.pace),
            kinds: kinds(&judgement.fleet, index, &is_relay),
            hosts: hosts(judgement, index),
            ratio,
            verdict: result.verdict.as_ref().map(|verdict| verdict.as_str().to_owned()),
            ..Self::of_spec(allocator)
        }
    }
}

/// The hosts of the trial on which processes of the arm were proved, with what they were proved to run, each treatment once.
fn hosts(judgement: &Judgement, arm: usize) -> Vec<MeasuredHost> {
    let rows = &judgement.rows;
    let parts = rows.parts.iter().map(|part| (part.host.clone(), part.facts.clone()));
    let own = || {
        let name = rows.trial.plan.parameters["host"].as_str().unwrap_or("this host");
        (name.to_owned(), rows.trial.plan.host_facts.clone())
    };
    let all: Vec<(String, Value)> = if rows.parts.is_empty() { vec![own()] } else { parts.collect() };
    let host = |(name, facts): (String, Value)| {
        let facts: HostFacts = serde_json::from_value(facts).ok()?;
        let proved = proved(judgement, arm, &name, &facts);
        let measured = MeasuredHost {
            name,
            system: facts.os,
            architecture: facts.architecture,
            processors: facts.cpu_count,
            memory_bytes: facts.ram_bytes,
            proved,
        };
        Some(measured).filter(|measured| !measured.proved.is_empty())
    };
    all.into_iter().filter_map(host).collect()
}

fn proved(judgement: &Judgement, arm: usize, host: &str, facts: &HostFacts) -> Vec<MeasuredTreatment> {
    let rows = &judgement.rows;
    let record = &rows.arms[arm];
    let expected: Option<Expected> =
        record.obtained.clone().and_then(|value| serde_json::from_value(value).ok());
    let preloads = expected.as_ref().is_some_and(|expected| expected.object.is_some());
    let settings = expected.map(|expected| settings_of(&expected.settings)).unwrap_or_default();
    let mut proved: Vec<MeasuredTreatment> = Vec::new();
    for (service, own) in judgement.fleet.services.iter().zip(&rows.services) {
        // A trial of one host names none at its services.
        if own.arm_id != record.id || service.host.as_deref().is_some_and(|named| named != host) {
            continue;
        }
        // What a torrc has and when restarts come is in no process: events show what of the treatment was applied.
        let is_treated = |life: &&LifeRecord| {
            let started_at = life.started_wall_us as f64 / 1e6;
            let mut lives = service.lives.iter();
            lives.any(|found| found.started_at == started_at && found.contamination.is_none())
        };
        let lives = rows.lives.iter().filter(|life| life.service_id == own.id).filter(is_treated);
        for identity in lives.filter_map(|life| life.identity.as_ref()) {
            let whole = MeasuredTreatment {
                library: identity.sha256.clone().filter(|_| preloads),
                c_library: identity.version.as_ref().filter(|_| !preloads).map(ToString::to_string),
                settings: settings.clone(),
                torrc: record.arm.treatment.torrc.clone(),
                restart_every: record.arm.treatment.restart_every,
                thp_mode: facts.thp_mode.clone(),
            };
            if whole.library.is_some() == preloads && !proved.contains(&whole) {
                proved.push(whole);
            }
        }
    }
    proved
}
