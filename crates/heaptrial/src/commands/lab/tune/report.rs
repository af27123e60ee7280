//! The plan of a search, how far it is, and its report.

use std::process::ExitCode;

use heaptrial_report::{
    BlockOfTune, CandidateReport, EffectReport, TUNE_SCHEMA_VERSION, TuneReport, VerifiedArm, VerifiedReport,
    units,
};
use heaptrial_search::tune::{DropReason, Figure, LEAST_FREEDOM, Search, Standing, effects, verified};
use serde_json::json;

use super::Tune;
use super::options::TuneOptions;
use super::space::Found;
use super::steps::{Measured, Record, Step};
use crate::commands::lab::search::Facts;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::{print, print_json};

/// Confidence of the intervals of all winners together.
const LEVEL: f64 = 0.95;
/// Where the load is the same whatever the seed.
const NO_SEED: &str = "Nothing of the load has {seed}: it is the same in every block, and what is found holds for it alone. A program that takes a \
                       seed (`-- CMD --seed {seed}`) does something else in each block.";

/// The space and the blocks of a search; `seconds` is how long its services run, where that is known.
pub(super) fn plan_text(found: &Found, options: &TuneOptions, seconds: Option<f64>) -> String {
    let mut lines = Vec::new();
    for base in &found.space.bases {
        lines.push(base.name.clone());
        for setting in &base.settings {
            let values = setting.levels.iter().map(|level| level.value.as_deref().unwrap_or("default"));
            lines.push(format!("  {}: {}", setting.name, values.collect::<Vec<_>>().join(", ")));
        }
    }
    lines.extend(found.left_out.iter().map(|(name, why)| format!("{name} is excluded: {why}")));
    let counted = match found.size() {
        Some(size) => units::counted(size, "candidate"),
        None => format!("up to {:.0} candidates", found.space.size_at_most()),
    };
    let length = seconds.map_or(String::new(), |all| format!("; {} in all", units::duration(all)));
    lines.push(format!(
        "{counted}. {} of {} and up to {} candidates each, then {} of up to {} on fresh seeds{length}",
        units::counted(options.search_blocks(), "block"),
        options.control,
        found.rules.arms,
        units::counted(options.verify as usize, "block"),
        units::counted(found.rules.winners, "winner"),
    ));
    if options.load.as_ref().is_some_and(|load| !load.has_seed()) {
        lines.push(NO_SEED.to_owned());
    }
    lines.join("\n") + "\n"
}

pub(super) fn print_plan(
    found: &Found,
    options: &TuneOptions,
    seconds: Option<f64>,
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    if !global.json {
        return print(&plan_text(found, options, seconds));
    }
    print_json(json!({
        "space": found.space,
        "left_out": found.left_out,
        "candidates": found.size(),
        "control": options.control.to_string(),
        "blocks": options.search_blocks(),
        "runs_of_a_block": found.rules.arms + 1,
        "verification_blocks": options.verify,
        "seconds": seconds,
    }))
}

/// Lines after a block of the search.
pub(super) fn progress(search: &Search, block: &Measured) -> String {
    let mut text = format!("block {}:", block.number);
    for arm in &block.arms {
        let ratio = units::ratio((arm.figures.level - block.control.level).exp());
        text.push_str(&format!(" {} {ratio};", arm.spec));
    }
    let standings = search.standings();
    let out = standings.iter().filter(|standing| standing.dropped.is_some()).count();
    let best =
        search.better().into_iter().next().and_then(|best| {
            Some((search.space().name(&search.candidates()[best.candidate]), best.believed?))
        });
    match best {
        Some((name, (mean, sd))) => {
            // How sure a belief is rests on the noise.
            let known = search.noise().is_some_and(|(_, freedom)| freedom >= LEAST_FREEDOM);
            let sure = if known { format!(" (± {:.0}%)", 200.0 * sd) } else { String::new() };
            text.push_str(&format!("\n  best so far {name}, {} times{sure}", units::ratio(mean.exp())));
        }
        None => text.push_str("\n  nothing better than the control so far"),
    }
    let measured = standings.iter().filter(|standing| standing.blocks > 0).count();
    text.push_str(&format!("; {measured} measured, {out} out"));
    text
}

/// A line after a block of the verification.
pub(super) fn verified_line(block: &Measured) -> String {
    let arms = block.arms.iter().map(|arm| {
        format!(" {} {}", arm.spec, units::ratio((arm.figures.level - block.control.level).exp()))
    });
    format!("block {}, fresh seed:{}", block.number, arms.collect::<Vec<_>>().join(";"))
}

fn what(figure: Figure) -> &'static str {
    match figure {
        Figure::Cpu => "CPU time",
        Figure::Work => "less work",
        Figure::Level => "memory",
    }
}

fn reason(search: &Search, standing: &Standing) -> Option<String> {
    let name = |at: usize| search.space().name(&search.candidates()[at]);
    let times = |log_ratio: f64| format!("{} times", units::ratio(log_ratio.exp()));
    Some(match standing.dropped.as_ref()? {
        DropReason::Worse { than: Some(than), log_ratio } => {
            format!("no better than {} ({})", name(*than), times(*log_ratio))
        }
        DropReason::Worse { than: None, log_ratio } => {
            format!("worse than the control ({})", times(*log_ratio))
        }
        DropReason::Limit { figure, log_ratio } => {
            format!("{}: {} the control's", what(*figure), times(*log_ratio))
        }
        DropReason::Missing { figure: Figure::Work } => "it did no work, and the control did".to_owned(),
        DropReason::Missing { figure } => {
            format!("{}: there is no figure of it, and one of the control", what(*figure))
        }
        DropReason::Failed { message } => format!("failed: {message}"),
    })
}

impl Tune<'_> {
    /// The report of what there is.
    pub(super) fn report_of(&self, record: &Record, facts: &Facts, stopped: Option<String>) -> TuneReport {
        let (search, rules) = (&self.search, &self.found.rules);
        let standings = search.standings();
        let name = |at: usize| search.space().name(&search.candidates()[at]);
        let cpu = search.ratios(Figure::Cpu);
        let cpu = |at: usize| cpu.iter().find(|(candidate, _)| *candidate == at).map(|(_, ratio)| *ratio);
        let candidates = standings.iter().map(|standing| CandidateReport {
            spec: name(standing.candidate),
            blocks: standing.blocks,
            believed: standing.believed,
            cpu: cpu(standing.candidate),
            within: standing.within,
            out: reason(search, standing),
        });
        let found =
            search.model().map_or_else(Vec::new, |model| effects(search.space(), &model, &search.measured()));
        let effects = found.into_iter().map(|effect| EffectReport {
            base: search.space().bases[effect.base].name.clone(),
            setting: effect.setting,
            value: effect.value,
            candidates: effect.candidates,
            log_ratio: effect.log_ratio,
            sd: effect.sd,
        });
        let of_block = |block: &Measured, fresh: bool| BlockOfTune {
            number: block.number,
            fresh,
            control_bytes: block.control_bytes,
            arms: block.arms.iter().map(|arm| (arm.spec.clone(), arm.level_bytes)).collect(),
        };
        let blocks = record.steps.iter().filter_map(|step| match step {
            Step::Searched { block } => Some(of_block(block, false)),
            Step::Verified { block, .. } => Some(of_block(block, true)),
            _ => None,
        });
        TuneReport {
            schema_version: TUNE_SCHEMA_VERSION,
            control: self.options.control.to_string(),
            over: search.space().bases.iter().map(|base| base.name.clone()).collect(),
            left_out: self.found.left_out.clone(),
            limits: rules.limits,
            metric: facts.metric.clone(),
            margin: rules.margin,
            error: rules.error,
            seed: facts.seed,
            command: facts.command.clone(),
            possible: self.found.size(),
            noise: search.noise(),
            candidates: candidates.collect(),
            effects: effects.collect(),
            verified: self.verification(record),
            stopped,
            blocks: blocks.collect(),
        }
    }

    fn verification(&self, record: &Record) -> Option<VerifiedReport> {
        let verification = record.verification()?;
        let winners = verification.winners.len();
        let names: Vec<&String> =
            verification.winners.iter().map(|winner| &winner.spec).chain(verification.beside).collect();
        let rules = &self.found.rules;
        // CPU time is reported whether it is limited or not.
        let mut figures = vec![Figure::Level, Figure::Cpu];
        figures.extend(rules.limits.given().map(|(figure, _)| figure));
        figures.sort();
        figures.dedup();
        let blocks: Vec<_> = verification.blocks.iter().map(|block| block.block()).collect();
        let compared = verified(&blocks, winners, names.len(), &figures, LEVEL);
        let arms = verification.winners.iter().zip(compared).enumerate().map(|(at, (winner, verified))| {
            let failed = verification.failed.iter().find(|(arm, _)| *arm == at);
            VerifiedArm {
                spec: winner.spec.clone(),
                believed: winner.believed,
                failed: failed.map(|(_, why)| why.clone()),
                against: verified
                    .against
                    .into_iter()
                    .map(|against| (against.other.map(|other| names[other].clone()), against))
                    .collect(),
            }
        });
        let failed_beside = verification.beside.iter().enumerate().filter_map(|(at, spec)| {
            let own = verification.failed.iter().filter(|(arm, _)| *arm == winners + at);
            Some((spec.clone(), own.clone().count(), own.clone().next()?.1.clone()))
        });
        Some(VerifiedReport {
            blocks: verification.blocks.len(),
            asked: self.options.verify as usize,
            level: LEVEL,
            beside: verification.beside.to_vec(),
            arms: arms.collect(),
            failed: failed_beside.collect(),
        })
    }
}
