//! The plan of a search, how far it is, and its report.

use heaptrial_report::{SearchRun, TUNE_SCHEMA_VERSION, TuneReport, VerifiedArm, VerifiedReport, units};
use heaptrial_search::MeasuredBlock;
use heaptrial_search::tune::{Block, Figure, LEAST_FREEDOM, Search, verified};
use serde_json::json;

use super::Tune;
use super::options::TuneOptions;
use super::space::Found;
use crate::answer::Answer;
use crate::commands::lab::search::{Load, Record};

/// Confidence of the intervals of all winners together.
const LEVEL: f64 = 0.95;
/// Where the load is the same whatever the seed.
const NO_SEED: &str = "Nothing of the load has {seed}: it is the same in every block, and what is found holds for it alone. A program that takes a \
                       seed (`-- CMD --seed {seed}`) does something else in each block.";

/// The space and the blocks of a search; `seconds` is how long its services run, where that is known.
pub(super) fn plan(found: &Found, options: &TuneOptions, seconds: Option<f64>) -> Answer {
    let mut lines = Vec::new();
    for base in &found.space.bases {
        lines.push(base.name.clone());
        for setting in &base.settings {
            let values = setting.levels.iter().map(|level| level.value.as_deref().unwrap_or("default"));
            lines.push(format!("  {}: {}", setting.name, values.collect::<Vec<_>>().join(", ")));
        }
    }
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
    if options.load.as_ref().and_then(Load::program).is_some_and(|program| !program.has_seed()) {
        lines.push(NO_SEED.to_owned());
    }
    let document = json!({
        "space": found.space,
        "candidates": found.size(),
        "control": options.control.to_string(),
        "blocks": options.search_blocks(),
        "runs_of_a_block": found.rules.arms + 1,
        "verification_blocks": options.verify,
        "seconds": seconds,
    });
    Answer::new(document, lines.join("\n") + "\n")
}

pub(super) fn out(name: &str, why: &str) -> String {
    format!("{name} is out: {}", why.lines().next().unwrap_or(""))
}

/// What is printed after a block of either kind.
pub(super) fn progress(search: &Search, block: &MeasuredBlock) -> String {
    let seed = if block.fresh { ", fresh seed" } else { "" };
    let arms = block.arms.iter().map(|arm| match arm.log_ratio(&block.control) {
        Some(log_ratio) => format!(" {} {}", arm.name, units::ratio(log_ratio.exp())),
        None => format!(" {} failed", arm.name),
    });
    let text = format!("block {}{seed}:{}", block.number, arms.collect::<Vec<_>>().join(";"));
    if block.fresh {
        return text;
    }
    let failed = block.arms.iter().filter_map(|arm| Some(out(&arm.name, arm.figures.as_ref().err()?) + "\n"));
    let standings = search.standings();
    let dropped = standings.iter().filter(|standing| standing.dropped.is_some()).count();
    let best = search.better().into_iter().next().and_then(|best| Some((best.spec, best.believed?)));
    let best = match best {
        Some((name, (mean, sd))) => {
            // How sure a belief is rests on the noise.
            let known = search.noise().is_some_and(|(_, freedom)| freedom >= LEAST_FREEDOM);
            let sure = if known { format!(" (± {:.0}%)", 200.0 * sd) } else { String::new() };
            format!("best so far {name}, {} times{sure}", units::ratio(mean.exp()))
        }
        None => "nothing better than the control so far".to_owned(),
    };
    let measured = standings.iter().filter(|standing| standing.blocks > 0).count();
    format!("{}{text}\n  {best}; {measured} measured, {dropped} out", failed.collect::<String>())
}

impl Tune<'_> {
    /// The report of what there is.
    pub(super) fn report_of(&self, record: &Record, run: SearchRun) -> TuneReport {
        let (search, rules) = (&self.search, &self.found.rules);
        TuneReport {
            schema_version: TUNE_SCHEMA_VERSION,
            control: self.options.control.to_string(),
            over: search.space().bases.iter().map(|base| base.name.clone()).collect(),
            limits: rules.limits,
            margin: rules.margin,
            error: rules.error,
            possible: self.found.size(),
            noise: search.noise(),
            candidates: search.standings(),
            effects: search.effects(),
            verified: self.verification(record),
            run,
        }
    }

    fn verification(&self, record: &Record) -> Option<VerifiedReport> {
        let (winners, beside) = super::verified(record)?;
        // CPU time is reported whether it is limited or not.
        let mut figures = vec![Figure::Level, Figure::Cpu];
        figures.extend(self.found.rules.limits.given().map(|(figure, _)| figure));
        figures.sort();
        figures.dedup();
        let fresh: Vec<&MeasuredBlock> = record.blocks().filter(|block| block.fresh).collect();
        let block = |block: &&MeasuredBlock| {
            let arms = block.arms.iter().filter_map(|arm| Some((arm.at, *arm.figures.as_ref().ok()?)));
            Block { control: block.control, arms: arms.collect() }
        };
        let blocks: Vec<Block> = fresh.iter().map(block).collect();
        let compared = verified(&blocks, winners.len(), beside, &figures, LEVEL);
        let failures = |at: usize| {
            let own = fresh.iter().flat_map(|block| &block.arms).filter(move |arm| arm.at == at);
            own.filter_map(|arm| arm.figures.as_ref().err())
        };
        let arms = winners.iter().zip(compared).enumerate().map(|(at, (winner, against))| VerifiedArm {
            spec: winner.spec.clone(),
            believed: winner.believed,
            failed: failures(at).next().cloned(),
            against,
        });
        let failed_beside = beside.iter().enumerate().filter_map(|(at, spec)| {
            let at = winners.len() + at;
            Some((spec.clone(), failures(at).count(), failures(at).next()?.clone()))
        });
        Some(VerifiedReport {
            blocks: blocks.len(),
            asked: self.options.verify as usize,
            level: LEVEL,
            beside: beside.to_vec(),
            arms: arms.collect(),
            failed: failed_beside.collect(),
        })
    }
}
