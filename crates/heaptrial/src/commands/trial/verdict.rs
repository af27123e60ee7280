//! `heaptrial trial verdict`: what an ended trial found of an arm, as a file for rollouts on other hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use heaptrial_allocator::Expected;
use heaptrial_evaluate::analysis::{FindingKind, Objection, Reason, objections};
use heaptrial_evaluate::judgement::{Judgement, Options};
use heaptrial_fleet::rollout::{MeasuredHost, MeasuredRatio, MeasuredTreatment, Verdict, kinds, settings_of};
use heaptrial_host::HostFacts;
use heaptrial_model::{Pace, TrialKind, units};
use heaptrial_report::objection_text;
use heaptrial_store::LifeRecord;
use serde_json::Value;

use super::worth::Worth;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::file_beside;
use crate::target::Target;

/// Of which trial and arm.
#[derive(Debug, Args)]
pub struct VerdictOptions {
    /// The trial, which has ended: by name on this host, or a database with what was gathered of it
    #[arg(value_name = "TRIAL|FILE")]
    trial: String,
    /// Which arm
    #[arg(long, value_name = "ARM")]
    arm: String,
    /// The file [default: TRIAL-ARM.verdict.json in this folder]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(options: &VerdictOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let target = Target::find(Some(&options.trial), global)?;
    let name = target.trial.plan.name.clone();
    if target.trial.plan.kind != TrialKind::Field {
        return Err(Failure::refused(format!(
            "`{name}` is a {}; a verdict is of a trial on services, which was drawn at random and whose treatments were proved",
            target.trial.plan.kind.describe()
        )));
    }
    if target.trial.ended_wall_us.is_none() {
        return Err(Failure::refused(format!(
            "trial `{name}` has not ended; `heaptrial trial stop {name}` ends it and leaves services as they are"
        )));
    }
    let judgement =
        Judgement::of(&target.store, target.trial.id, &Options::default()).map_err(Failure::failed)?;
    refuse_partial(&judgement)?;
    let verdict = of(&judgement, &options.arm)?;
    if verdict.hosts.iter().all(|host| host.proved.is_empty()) {
        return Err(Failure::refused(format!(
            "no process of arm `{}` of trial `{name}` was proved to run its treatment",
            options.arm
        )));
    }
    let worth = Worth::of(&target.store, &judgement, &verdict)?;
    let (text, digest) = verdict.sealed().map_err(Failure::failed)?;
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    let usual = || format!("{name}-{}.verdict.json", verdict.arm.name).chars().map(plain).collect::<String>();
    let file = options.output.clone().unwrap_or_else(|| usual().into());
    let failed = |error: std::io::Error| Failure::failed(format!("cannot write {}: {error}", file.display()));
    let mut beside = file_beside(&file).map_err(failed)?;
    beside.write_all(text.as_bytes()).map_err(failed)?;
    beside.persist(&file).map_err(|error| failed(error.error))?;
    if global.json {
        let ratio = verdict.ratio.map(|ratio| ratio.value);
        let document = serde_json::json!({
            "schema_version": 1, "file": file, "sha256": digest, "trial": name, "arm": verdict.arm.name, "ratio": ratio,
            "verdict": verdict.verdict, "objections": verdict.objections, "caveats": verdict.caveats, "worth": worth.hosts,
            "cpu_ratio": worth.cpu.as_ref().map(|ratio| ratio.estimate),
        });
        println!("{document:#}");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}", lines(&verdict).join("\n"));
    verdict.objections.iter().chain(&verdict.caveats).for_each(|line| println!("warning: {line}"));
    println!("{}", worth.text(&verdict));
    println!("\n{digest}  {}", file.display());
    let next = format!("heaptrial rollout start {} --services PATTERN", file.display());
    match verdict.objections.is_empty() {
        true => println!("Next, on each host: {next}"),
        false => {
            println!("What was found speaks against a rollout: `{next}` refuses it without --force REASON")
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Refuses what is no verdict for other hosts: a trial of which a part is missing, or that was not drawn at random.
fn refuse_partial(judgement: &Judgement) -> Result<(), Failure> {
    let analysis = &judgement.analysis;
    let found_of = |kind| analysis.findings.iter().find(|finding| finding.kind == kind);
    if let Some(missing) = found_of(FindingKind::HostsMissing) {
        return Err(Failure::refused(format!(
            "Hosts are missing: {}. A verdict is of all hosts: gather the others first (`heaptrial import heaptrial`)",
            missing.evidence
        )));
    }
    if let Some(by_hand) = found_of(FindingKind::AssignedByHand) {
        return Err(Failure::refused(format!(
            "{}. A verdict is of a trial that was drawn at random: draw a new plan with `heaptrial trial plan`, and leave its arms and \
             blocks as they are",
            by_hand.evidence
        )));
    }
    if let Some(missing) = found_of(FindingKind::ReadingsMissing) {
        return Err(Failure::refused(format!(
            "Readings are missing: {}. A verdict is of all services: gather these hosts again",
            missing.evidence
        )));
    }
    Ok(())
}

/// What a trial found of an arm.
pub(crate) fn of(judgement: &Judgement, wanted: &str) -> Result<Verdict, Failure> {
    let (rows, analysis) = (&judgement.rows, &judgement.analysis);
    let name = &rows.trial.plan.name;
    // `mimalloc-2.0.9` is how one says `mimalloc@2.0.9`, which is what `trial new` names an arm.
    let named = |as_written: fn(&str) -> String| {
        rows.arms.iter().position(|record| as_written(&record.arm.name) == wanted)
    };
    let index = named(str::to_owned).or_else(|| named(|name| name.replace('@', "-")));
    let Some((index, record)) = index.map(|index| (index, &rows.arms[index])) else {
        let known: Vec<&str> = rows.arms.iter().map(|record| record.arm.name.as_str()).collect();
        return Err(Failure::usage(format!(
            "trial `{name}` has no arm `{wanted}`; it has {}",
            known.join(", ")
        )));
    };
    if record.arm.treatment.allocator.is_none() {
        return Err(Failure::refused(format!(
            "arm `{wanted}` of trial `{name}` names no allocator: what other hosts shall run cannot be told"
        )));
    }
    let control = rows.arms.iter().position(|record| record.arm.control);
    let mut hosts = hosts(judgement);
    let mut on = proved(judgement, index, &hosts);
    hosts.retain(|(name, _)| on.contains_key(name));
    let relays: BTreeSet<&str> = rows
        .services
        .iter()
        .filter(|service| {
            service.attributes.as_ref().is_some_and(|attributes| attributes["role"].is_string())
        })
        .map(|service| service.name.as_str())
        .collect();
    let (objections, caveats) = objections_and_caveats(judgement, index, control.unwrap_or(index));
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
    Ok(Verdict {
        schema_version: Verdict::VERSION,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        written_at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        trial: Some(name.clone()),
        arm: record.arm.clone(),
        control: control.map(|control| rows.arms[control].arm.name.clone()).unwrap_or_default(),
        control_allocator: control.and_then(|control| rows.arms[control].arm.treatment.allocator.clone()),
        metric: rows.trial.plan.metric,
        pace: rows.trial.drawn.as_ref().map_or_else(Pace::default, |plan| plan.pace),
        kinds: kinds(&judgement.fleet, index, &|name| relays.contains(name)),
        hosts: hosts
            .into_iter()
            .map(|(name, facts)| MeasuredHost {
                proved: on.remove(&name).unwrap_or_default(),
                name,
                system: facts.os,
                architecture: facts.architecture,
                processors: facts.cpu_count,
                memory_bytes: facts.ram_bytes,
            })
            .collect(),
        ratio,
        verdict: result.verdict.as_ref().map(|verdict| verdict.as_str().to_owned()),
        objections,
        caveats,
    })
}

/// What the analysis found that blocks a recommendation of an arm, and what is uncertain about it. Of a plan over several hosts of
/// which one alone is here, it has the arm's services there.
fn objections_and_caveats(judgement: &Judgement, arm: usize, control: usize) -> (Vec<String>, Vec<String>) {
    let name = &judgement.fleet.arms[arm].name;
    let is_of_hosts =
        |reason: &Reason| matches!(reason, Reason::Finding { kind: FindingKind::HostsMissing, .. });
    let found = objections(&judgement.analysis, arm, control).into_iter();
    let found = found.filter(|objection| !is_of_hosts(&objection.reason));
    // How an arm grows is what gates look at, wave after wave.
    let is_of_growth =
        |reason: &Reason| matches!(reason, Reason::GrowthUnknown | Reason::ReachesControl { .. });
    let is_blocking = |objection: &Objection| objection.blocks && !is_of_growth(&objection.reason);
    let (blocking, uncertain): (Vec<Objection>, Vec<Objection>) = found.partition(is_blocking);
    let texts = |objections: Vec<Objection>| {
        let texts = objections.iter().map(|objection| format!("{name} {}", objection_text(objection)));
        texts.collect::<Vec<_>>()
    };
    (texts(blocking), texts(uncertain))
}

/// The hosts of the trial with their facts at its start.
pub(super) fn hosts(judgement: &Judgement) -> Vec<(String, HostFacts)> {
    let rows = &judgement.rows;
    let own = || {
        let name = rows.trial.plan.parameters["host"].as_str().unwrap_or("this host");
        vec![(name.to_owned(), rows.trial.plan.host_facts.clone())]
    };
    let told: Vec<(String, Value)> = if rows.parts.is_empty() {
        own()
    } else {
        rows.parts.iter().map(|part| (part.host.clone(), part.facts.clone())).collect()
    };
    told.into_iter().filter_map(|(name, facts)| Some((name, serde_json::from_value(facts).ok()?))).collect()
}

/// What the arm's processes were proved to run, each treatment once, by host.
fn proved(
    judgement: &Judgement,
    arm: usize,
    hosts: &[(String, HostFacts)],
) -> BTreeMap<String, Vec<MeasuredTreatment>> {
    let rows = &judgement.rows;
    let record = &rows.arms[arm];
    let expected: Option<Expected> =
        record.obtained.clone().and_then(|value| serde_json::from_value(value).ok());
    let preloads = expected.as_ref().is_some_and(|expected| expected.object.is_some());
    let settings = expected.map(|expected| settings_of(&expected.settings)).unwrap_or_default();
    // A trial of one host names none at its services.
    let host_of = |index: usize| {
        let named = judgement.fleet.services[index].host.as_deref();
        hosts.iter().find(|(name, _)| named.is_none_or(|named| named == name))
    };
    let services: BTreeMap<i64, (usize, &(String, HostFacts))> = rows
        .services
        .iter()
        .enumerate()
        .filter(|(_, service)| service.arm_id == record.id)
        .filter_map(|(index, service)| Some((service.id, (index, host_of(index)?))))
        .collect();
    // What a torrc has and when restarts come is in no process: what of the treatment was applied, events tell.
    let was_treated = |index: usize, life: &LifeRecord| {
        let started_at = life.started_wall_us as f64 / 1e6;
        let mut lives = judgement.fleet.services[index].lives.iter();
        lives.any(|own| own.started_at == started_at && own.contamination.is_none())
    };
    let mut on: BTreeMap<String, Vec<MeasuredTreatment>> = BTreeMap::new();
    for life in &rows.lives {
        let (Some(identity), Some((index, (host, facts)))) = (&life.identity, services.get(&life.service_id))
        else {
            continue;
        };
        if !was_treated(*index, life) {
            continue;
        }
        let whole = MeasuredTreatment {
            library: identity.sha256.clone().filter(|_| preloads),
            c_library: identity.version.as_ref().filter(|_| !preloads).map(ToString::to_string),
            settings: settings.clone(),
            torrc: record.arm.treatment.torrc.clone(),
            restart_every: record.arm.treatment.restart_every,
            thp_mode: facts.thp_mode.clone(),
        };
        if preloads && whole.library.is_none() {
            continue;
        }
        let own = on.entry(host.clone()).or_default();
        if !own.contains(&whole) {
            own.push(whole);
        }
    }
    on
}

/// What it says, for people.
pub fn lines(verdict: &Verdict) -> Vec<String> {
    let mut lines = Vec::new();
    let ratio = verdict.ratio.map(|ratio| {
        let interval = match (ratio.low, ratio.high) {
            (Some(low), Some(high)) => format!(" ({low:.2} to {high:.2})"),
            _ => String::new(),
        };
        format!(
            "{:.2}{interval} of the memory of {} at an age of {}, {} compared",
            ratio.value,
            verdict.control,
            units::duration(ratio.age_seconds),
            units::counted(ratio.services as usize, "service")
        )
    });
    lines.push(format!(
        "{} of trial {}: {}; growth: {}",
        verdict.arm.name,
        verdict.trial.as_deref().unwrap_or_default(),
        ratio.unwrap_or_else(|| "no ratio to the control".into()),
        verdict.verdict.as_deref().unwrap_or("not judged")
    ));
    let of = |host: &MeasuredHost| {
        format!(
            "{} ({}, {}, {})",
            host.name,
            host.system,
            units::counted(host.processors as usize, "processor"),
            units::memory(host.memory_bytes as f64)
        )
    };
    lines.push(format!("measured on {}", verdict.hosts.iter().map(of).collect::<Vec<_>>().join(", ")));
    lines
}

#[cfg(test)]
mod tests {
    use heaptrial_model::{LifeKey, Sample, TrialKind};
    use heaptrial_store::{NewService, Store, TickInput};
    use serde_json::json;

    use super::*;
    use crate::commands::trial::in_database::tests::{frozen, row};

    /// What a trial of three arms found of each, of which so many services are in `b`, and one of them ran another allocator.
    fn verdicts(services: usize) -> [(Vec<String>, Vec<String>); 3] {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("db");
        let mut store = Store::create(&database).unwrap();
        let prepared = frozen("five-way");
        let arm = |name: &str, control: bool| {
            serde_json::from_value(json!({ "name": name, "control": control, "allocator": "glibc" })).unwrap()
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
        let judgement = Judgement::of(&store, id, &Options::default()).unwrap();
        ["a", "b", "c"].map(|arm| {
            let verdict = of(&judgement, arm).unwrap();
            (verdict.objections, verdict.caveats)
        })
    }

    #[test]
    fn a_service_that_ran_another_allocator_is_a_caveat_of_its_arm_alone() {
        let is_named = |text: &String| text.contains("b has services that ran something else");
        let [_, (objections, caveats), (_, caveats_of_c)] = verdicts(7);
        assert!(!objections.iter().any(is_named), "{objections:?}");
        assert!(
            caveats.iter().any(is_named) && !caveats_of_c.iter().any(is_named),
            "{caveats:?} {caveats_of_c:?}"
        );
    }
}
