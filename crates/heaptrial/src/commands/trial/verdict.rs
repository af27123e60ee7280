//! `heaptrial trial verdict`: what an ended trial found of an arm, as a file for rollouts on other hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use heaptrial_allocator::Expected;
use heaptrial_analysis::{Analysis, Finding, FindingKind, Fleet, Severity};
use heaptrial_host::HostFacts;
use heaptrial_judgement::{Judgement, Options};
use heaptrial_model::{MappedLibrary, TrialKind, units};
use heaptrial_rollout::{MeasuredHost, MeasuredRatio, Verdict, Whole, kinds, settings_of};
use heaptrial_store::LifeRecord;
use serde_json::Value;

use super::capacity::Capacity;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::file_beside;
use crate::target::Target;

/// Services that are left of an arm whose figures bear that others ran something else: as many as an interval between order
/// statistics takes,
const FEWEST_LEFT: u32 = 6;
/// and the share of the arm that ran something else at most.
const MOST_LEFT_OUT: f64 = 0.25;

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
    let verdict = of(&judgement, &options.arm)?;
    let capacity = Capacity::of(&target.store, &judgement, &verdict)?;
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
        let mut told = serde_json::json!({
            "schema_version": 1, "file": file, "sha256": digest, "trial": name, "arm": verdict.arm.name, "ratio": ratio,
            "verdict": verdict.verdict, "findings": verdict.findings, "borne": verdict.borne,
        });
        if let (Some(told), Value::Object(further)) = (told.as_object_mut(), capacity.json()) {
            told.extend(further);
        }
        println!("{told:#}");
        return Ok(ExitCode::SUCCESS);
    }
    println!("{}", lines(&verdict).join("\n"));
    let against = verdict.against();
    against.iter().chain(&verdict.warnings()).for_each(|line| println!("warning: {line}"));
    let control = judgement.rows.arms.iter().find(|record| record.arm.control);
    let from = control.and_then(|record| record.arm.treatment.allocator.clone());
    println!("{}", capacity.text(&verdict, from.as_slice()));
    println!("\n{digest}  {}", file.display());
    let next = format!("heaptrial rollout start --verdict {} --services PATTERN", file.display());
    match against.is_empty() {
        true => println!("Next, on each host: {next}"),
        false => println!(
            "What was found speaks against a rollout: `{next}` refuses it without --despite-findings"
        ),
    }
    Ok(ExitCode::SUCCESS)
}

fn of(judgement: &Judgement, wanted: &str) -> Result<Verdict, Failure> {
    let (rows, analysis) = (&judgement.rows, &judgement.analysis);
    let name = &rows.trial.plan.name;
    let told_of = |kind| analysis.findings.iter().find(|finding| finding.kind == kind);
    if let Some(missing) = told_of(FindingKind::HostsMissing) {
        return Err(Failure::refused(format!(
            "Hosts are missing: {}. A verdict is of all hosts: gather the others first (`heaptrial import heaptrial`)",
            missing.evidence
        )));
    }
    if let Some(by_hand) = told_of(FindingKind::AssignedByHand) {
        return Err(Failure::refused(format!(
            "{}. A verdict is of a trial that was drawn at random: draw a new plan with `heaptrial trial plan`, and leave its arms and \
             blocks as they are",
            by_hand.evidence
        )));
    }
    if let Some(missing) = told_of(FindingKind::ReadingsMissing) {
        return Err(Failure::refused(format!(
            "Readings are missing: {}. A verdict is of all services: gather these hosts again",
            missing.evidence
        )));
    }
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
    if on.values().all(|own| own.wholes.is_empty()) {
        return Err(Failure::refused(format!(
            "no process of arm `{wanted}` of trial `{name}` was proved to run its treatment"
        )));
    }
    let relays: BTreeSet<&str> = rows
        .services
        .iter()
        .filter(|service| {
            service.attributes.as_ref().is_some_and(|attributes| attributes["role"].is_string())
        })
        .map(|service| service.name.as_str())
        .collect();
    let found = found(analysis, &judgement.fleet, index);
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
        trial: name.clone(),
        plan_id: rows.trial.drawn.as_ref().map(|plan| plan.id.to_string()).unwrap_or_default(),
        arm: record.arm.clone(),
        control: control.map(|control| rows.arms[control].arm.name.clone()).unwrap_or_default(),
        metric: rows.trial.plan.metric,
        kinds: kinds(&judgement.fleet, &record.arm.name, &|name| relays.contains(name)),
        hosts: hosts
            .into_iter()
            .map(|(name, facts)| {
                let own = on.remove(&name).unwrap_or_default();
                MeasuredHost {
                    name,
                    system: facts.os,
                    architecture: facts.architecture,
                    processors: facts.cpu_count,
                    memory_bytes: facts.ram_bytes,
                    proved: own.wholes,
                    libraries: own.libraries.into_iter().collect(),
                }
            })
            .collect(),
        ratio,
        verdict: result.verdict.as_ref().map(|verdict| verdict.as_str().to_owned()),
        findings: found.against,
        borne: found.borne,
    })
}

/// Grave findings that bear on an arm, in words.
pub(crate) struct Found {
    /// Those that speak against a rollout of it.
    pub(crate) against: Vec<String>,
    /// Those that its figures bear.
    pub(crate) borne: Vec<String>,
}

/// The findings. That of a plan over several hosts one alone is here is none: it has the arm's services there.
pub(crate) fn found(analysis: &Analysis, fleet: &Fleet, arm: usize) -> Found {
    let control = fleet.arms.iter().position(|arm| arm.control);
    let grave = analysis.findings.iter().filter(|finding| finding.severity == Severity::Grave);
    let grave = grave.filter(|finding| finding.kind != FindingKind::HostsMissing);
    let (borne, against): (Vec<&Finding>, Vec<&Finding>) = grave
        .filter(|finding| finding.bears_on(arm, control))
        .partition(|finding| is_borne(analysis, finding));
    let told = |findings: Vec<&Finding>| findings.iter().map(|finding| finding.evidence.clone()).collect();
    Found { against: told(against), borne: told(borne) }
}

/// Whether figures of the arm stand without the services that were proved to run something else: those that are left are enough for an
/// interval that assumes nothing, and most of the arm by far. Of more it is asked why treatments do not hold before they are
/// brought to further services.
fn is_borne(analysis: &Analysis, finding: &Finding) -> bool {
    let left = |arm: &usize| {
        let result = &analysis.arms[*arm];
        let treated = result.as_treated.as_ref().map_or(0, |treated| treated.services_compared);
        let few = MOST_LEFT_OUT * f64::from(result.as_assigned.services);
        treated >= FEWEST_LEFT && finding.services.len() as f64 <= few
    };
    finding.kind == FindingKind::Contaminated && finding.arms.iter().all(left)
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

/// What was proved on a host.
#[derive(Default)]
struct Proved {
    /// The treatment as a whole, each once.
    wholes: Vec<Whole>,
    libraries: BTreeSet<MappedLibrary>,
}

/// What the arm's processes were proved to run and map, by host.
fn proved(judgement: &Judgement, arm: usize, hosts: &[(String, HostFacts)]) -> BTreeMap<String, Proved> {
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
    let mut on: BTreeMap<String, Proved> = BTreeMap::new();
    for life in &rows.lives {
        let (Some(identity), Some((index, (host, facts)))) = (&life.identity, services.get(&life.service_id))
        else {
            continue;
        };
        if !was_treated(*index, life) {
            continue;
        }
        let whole = Whole {
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
        own.libraries.extend(identity.libraries.iter().cloned());
        if !own.wholes.contains(&whole) {
            own.wholes.push(whole);
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
        verdict.trial,
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
