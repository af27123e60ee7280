//! `heaptrial trial verdict`: what an ended trial found of an arm, as a file for rollouts on other hosts.

use std::path::PathBuf;

use clap::Args;
use heaptrial_evaluate::analysis::{Finding, FindingKind, Objection, Reason, objections};
use heaptrial_evaluate::judgement::{Judgement, Options};
use heaptrial_fleet::rollout::{MeasuredHost, Verdict};
use heaptrial_model::{TrialKind, units};
use heaptrial_report::objection_text;
use serde_json::json;

use super::worth::Worth;
use crate::answer::Answer;
use crate::exit::Failure;
use crate::options::{GlobalOptions, command};
use crate::output::{interval, some, write_whole};
use crate::target::{Target, plain};

#[derive(Debug, Args)]
pub struct VerdictOptions {
    /// The trial, which has ended: by name on this host, or a database with what was gathered of it
    #[arg(value_name = "TRIAL|FILE")]
    trial: String,
    /// The arm that the verdict is about
    #[arg(long, value_name = "ARM")]
    arm: String,
    /// The file [default: TRIAL-ARM.verdict.json in this folder]
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,
}

pub fn run(options: &VerdictOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
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
            "trial `{name}` has not ended; {} ends it and leaves services as they are",
            command(format_args!("trial stop {name}"))
        )));
    }
    let judgement = Judgement::of(&target.store, target.trial.id, &Options::default())?;
    require_whole(&judgement)?;
    let verdict = of(&judgement, &options.arm)?;
    if verdict.hosts.is_empty() {
        let arm = &options.arm;
        let text = format!("no process of arm `{arm}` of trial `{name}` was proved to run its treatment");
        return Err(Failure::refused(text));
    }
    let worth = Worth::of(&target.store, &judgement, &verdict)?;
    let (sealed, digest) = verdict.sealed().map_err(Failure::failed)?;
    let usual = || plain(&format!("{name}-{}.verdict.json", verdict.arm.name), '-').into();
    let file = options.output.clone().unwrap_or_else(usual);
    write_whole(&file, sealed.as_bytes())?;
    let document = json!({
        "file": file, "sha256": digest, "trial": name, "arm": verdict.arm.name,
        "ratio": verdict.ratio.map(|ratio| ratio.value), "verdict": verdict.verdict, "objections": verdict.objections,
        "caveats": verdict.caveats, "worth": worth.hosts, "cpu_ratio": worth.cpu.as_ref().map(|ratio| ratio.estimate),
    });
    let mut text = lines(&verdict);
    verdict.objections.iter().chain(&verdict.caveats).for_each(|line| text += &format!("warning: {line}\n"));
    text += &format!("{}\n\n{digest}  {}\n", worth.text(&verdict), file.display());
    let next = format!("`heaptrial rollout start {} --services PATTERN`", file.display());
    text += &match verdict.objections.is_empty() {
        true => format!("Next, on each host: {next}\n"),
        false => {
            format!("What was found speaks against a rollout: {next} refuses it without --force REASON\n")
        }
    };
    Ok(Answer::new(document, text))
}

/// Refuses what is no verdict for other hosts: a trial of which a part is missing, or that was not drawn at random.
fn require_whole(judgement: &Judgement) -> Result<(), Failure> {
    use FindingKind::{AssignedByHand, DataMissing};
    let is_no_verdict = |finding: &&Finding| matches!(finding.kind, DataMissing | AssignedByHand);
    match judgement.analysis.findings.iter().find(is_no_verdict) {
        Some(finding) => Err(Failure::refused(format!(
            "{}. A verdict is of a trial that was drawn at random, with the readings of all of its hosts and services",
            finding.evidence
        ))),
        None => Ok(()),
    }
}

/// What a trial found of an arm.
pub(crate) fn of(judgement: &Judgement, wanted: &str) -> Result<Verdict, Failure> {
    let rows = &judgement.rows;
    let name = &rows.trial.plan.name;
    // `mimalloc-2.0.9` is how one says `mimalloc@2.0.9`, which is what `trial new` names an arm.
    let named = |as_written: fn(&str) -> String| {
        rows.arms.iter().position(|record| as_written(&record.arm.name) == wanted)
    };
    let index = named(str::to_owned).or_else(|| named(|name| name.replace('@', "-")));
    let Some((index, record)) = index.map(|index| (index, &rows.arms[index])) else {
        let known = some(rows.arms.iter().map(|record| &record.arm.name));
        return Err(Failure::usage(format!("trial `{name}` has no arm `{wanted}`; it has {known}")));
    };
    let Some(allocator) = &record.arm.treatment.allocator else {
        return Err(Failure::refused(format!(
            "arm `{wanted}` of trial `{name}` names no allocator that other hosts could run"
        )));
    };
    let control = rows.arms.iter().position(|record| record.arm.control);
    let (objections, caveats) = objections_and_caveats(judgement, index, control.unwrap_or(index));
    Ok(Verdict { objections, caveats, ..Verdict::of_arm(judgement, index, allocator) })
}

/// What the analysis found that blocks a recommendation of an arm, and what is uncertain about it. Of a plan over several hosts of
/// which one alone is here, it has the arm's services there.
fn objections_and_caveats(judgement: &Judgement, arm: usize, control: usize) -> (Vec<String>, Vec<String>) {
    let name = &judgement.fleet.arms[arm].name;
    let is_of_hosts = |reason: &Reason| {
        matches!(reason, Reason::Finding { kind: FindingKind::DataMissing, .. })
            && judgement.rows.parts.is_empty()
    };
    let found = objections(&judgement.analysis, arm, control).into_iter();
    let found = found.filter(|objection| !is_of_hosts(&objection.reason));
    // How an arm grows is what gates look at, wave after wave.
    let is_of_growth =
        |reason: &Reason| matches!(reason, Reason::GrowthUnknown | Reason::ReachesControl { .. });
    let is_blocking = |objection: &Objection| objection.blocks && !is_of_growth(&objection.reason);
    let (blocking, uncertain): (Vec<Objection>, Vec<Objection>) = found.partition(is_blocking);
    let texts = |objections: Vec<Objection>| {
        let texts = objections.iter().map(|objection| format!("{name}: {}", objection_text(objection)));
        texts.collect::<Vec<_>>()
    };
    (texts(blocking), texts(uncertain))
}

/// What it says, for people.
pub fn lines(verdict: &Verdict) -> String {
    let ratio = verdict.ratio.map_or("no ratio to the control".to_owned(), |ratio| {
        let interval = interval(ratio.low.zip(ratio.high), |end| format!("{end:.2}"));
        format!(
            "{}{interval} of the memory of {} at an age of {}, {} compared",
            units::ratio(ratio.value),
            verdict.control,
            units::duration(ratio.age_seconds),
            units::counted(ratio.services as usize, "service")
        )
    });
    let host = |host: &MeasuredHost| {
        let processors = units::counted(host.processors as usize, "processor");
        format!("{} ({}, {processors}, {})", host.name, host.system, units::memory(host.memory_bytes as f64))
    };
    format!(
        "{} of trial {}: {ratio}; growth: {}\nmeasured on {}\n",
        verdict.arm.name,
        verdict.trial.as_deref().unwrap_or_default(),
        verdict.verdict.as_deref().unwrap_or("not judged"),
        some(verdict.hosts.iter().map(host))
    )
}
