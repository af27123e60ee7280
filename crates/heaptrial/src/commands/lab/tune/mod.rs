//! `heaptrial lab tune`: which settings of which allocators need the least memory.

mod options;
mod report;
mod space;
mod steps;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use heaptrial_allocator::Obtained;
use heaptrial_evaluate::judgement::RunFigures;
use heaptrial_lab::Arrangement;
use heaptrial_model::{AllocatorSpec, Arm, TrialPlan};
use heaptrial_report::{Document as _, TuneReport};
use heaptrial_search::tune::{ArmFigures, Candidate, Next, Search};

pub use self::options::TuneOptions;
use self::space::Found;
use self::steps::{Measured, MeasuredArm, Record, Step, Winner};
use super::search::{self, Ask, Block, Earlier, Facts, Kept, Wanted, arm, plan_of};
use super::{LabCommand, LabOptions, userland};
use crate::commands::Command;
use crate::exit::Failure;
use crate::options::GlobalOptions;

const WHAT: &str = "the arms";

/// Searches, or goes on with it.
pub fn run(options: &TuneOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let Some(folder) = &options.goes_on else { return begin(options, global) };
    let earlier = Earlier::<Found>::open(TuneReport::NAME, folder, options.load.as_ref())?;
    let Command::Lab(LabCommand::Tune(asked)) = &earlier.command else {
        return Err(Failure::refused(format!("{} holds no search over settings", folder.display())));
    };
    earlier.enter(asked.load()?.lab(WHAT)?, global)?;
    let more = options.blocks.is_some();
    let blocks = if more { options } else { asked }.search_blocks();
    search(asked, &earlier.kept, &earlier.folder, blocks, more, global)
}

fn begin(options: &TuneOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let load = options.load()?;
    let lab = load.lab(WHAT)?;
    let here = std::env::current_dir().map_err(Failure::failed)?;
    userland::enter(lab, global, None, &here)?;
    let found = Found::of(options)?;
    let plan = every_base(options, &found);
    let (workload, duration) = search::workload_of(load, &plan, global)?;
    check_blocks(options, &found)?;
    let in_a_row = |arms: usize| if workload.arrangement() == Arrangement::OneByOne { arms + 1 } else { 1 };
    let runs = options.search_blocks() * in_a_row(found.rules.arms)
        + options.verify as usize * in_a_row(found.rules.winners + options.others().len());
    let seconds = duration.map(|duration| duration.0.as_secs_f64() * runs as f64);
    if lab.dry_run {
        return report::print_plan(&found, options, seconds, global);
    }
    lab.executor.cluster(PathBuf::new())?;
    eprint!("{}", report::plan_text(&found, options, seconds));
    // What cannot be had is reported before anything is written.
    let mut builds = BTreeMap::new();
    for arm in &plan.arms {
        match search::obtain(&arm.allocator(), lab)? {
            Ok(obtained) => builds.insert(obtained.spec.without_settings().to_string(), obtained.sha256),
            Err(why) => return Err(Failure::refused(format!("{} cannot be measured: {why}", arm.name))),
        };
    }
    let (kept, folder) = search::keep(TuneReport::NAME, lab, builds, found, global)?;
    search(options, &kept, &folder, options.search_blocks(), false, global)
}

/// Refuses a search that ends before every allocator was measured with its default settings.
fn check_blocks(options: &TuneOptions, found: &Found) -> Result<(), Failure> {
    let bases = found.space.bases.len();
    let bases = found.size().map_or(bases, |size| bases.min(size));
    let least = bases.div_ceil(found.rules.arms.saturating_sub(1).max(1)) + 1;
    match options.search_blocks() {
        blocks if blocks < least => Err(Failure::usage(format!(
            "--blocks {blocks} is too little: {bases} allocators with their default settings and one block more need --blocks {least}, \
             or more --candidates to a block"
        ))),
        _ => Ok(()),
    }
}

/// The control, all allocators with default settings and those that winners are compared with, for what a workload wants to
/// know of its arms.
fn every_base(options: &TuneOptions, found: &Found) -> TrialPlan {
    let mut arms: Vec<Arm> = vec![arm("control", options.control.clone(), true)];
    let bases = found.space.defaults().map(|candidate| found.space.name(&candidate));
    let others = options.others().into_iter().map(ToString::to_string);
    for name in bases.chain(others) {
        if arms.iter().any(|arm| arm.name == name) {
            continue;
        }
        arms.extend(name.parse().ok().map(|spec| arm(&name, spec, false)));
    }
    plan_of("tune", arms)
}

/// Measures as long as the budget lasts, verifies the winners, and reports what there is.
fn search(
    options: &TuneOptions,
    kept: &Kept<Found>,
    folder: &Path,
    blocks: usize,
    more: bool,
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    let found = &kept.subject;
    let plan = every_base(options, found);
    let tune = Tune {
        options,
        found,
        search: Search::new(found.space.clone(), found.rules.clone(), found.control.clone(), kept.seed),
        blocks,
        more,
    };
    search::drive(tune, kept, folder, options.load()?, &plan, global)
}

/// A search over settings: blocks of candidates, then blocks of the winners on fresh seeds.
struct Tune<'a> {
    options: &'a TuneOptions,
    found: &'a Found,
    search: Search,
    /// Of the search, without those of the verification.
    blocks: usize,
    /// Whether an earlier search was given more of them.
    more: bool,
}

impl Tune<'_> {
    fn wanted(&self, at: usize, spec: &str) -> Result<Wanted, Failure> {
        let parsed: AllocatorSpec =
            spec.parse().map_err(|error| Failure::failed(format!("{spec}: {error}")))?;
        Ok(wanted(at, spec, &parsed))
    }

    /// A block of the search; `None` where it is over.
    fn race(&mut self, record: &Record) -> Result<Option<search::Next<Step>>, Failure> {
        if record.verification().is_some() || record.searched() >= self.blocks {
            return Ok(None);
        }
        let Some(candidates) = record.chosen() else {
            let Next::Measure(chosen) = self.search.next_step() else { return Ok(None) };
            let candidates = chosen.iter().map(|at| self.search.candidates()[*at].clone()).collect();
            return Ok(Some(search::Next::Enter(Step::Chosen { candidates })));
        };
        let arm = |candidate: &Candidate| {
            let at = self.search.candidates().iter().position(|known| known == candidate);
            self.wanted(at.unwrap_or_default(), &self.found.space.name(candidate))
        };
        let arms = candidates.iter().map(arm).collect::<Result<_, _>>()?;
        Ok(Some(search::Next::Measure(Ask { arms, fresh: false })))
    }

    fn failed(&self, wanted: &Wanted, why: &str) -> Step {
        let candidate = self.search.candidates()[wanted.at].clone();
        Step::Failed { candidate, spec: wanted.name.clone(), why: why.to_owned() }
    }

    fn winners(&self) -> Option<Step> {
        let standings = self.search.standings();
        let winners = self.search.winners().into_iter().map(|at| {
            let candidate = self.search.candidates()[at].clone();
            let standing = standings.iter().find(|standing| standing.candidate == at);
            Winner {
                spec: self.found.space.name(&candidate),
                candidate,
                believed: standing.and_then(|standing| standing.believed),
            }
        });
        let winners: Vec<Winner> = winners.collect();
        let is_winner = |other: &AllocatorSpec| {
            winners
                .iter()
                .filter_map(|winner| winner.spec.parse().ok())
                .any(|spec: AllocatorSpec| spec.is_same(other))
        };
        let others = self.options.others().into_iter().filter(|other| !is_winner(other));
        let beside = others.map(ToString::to_string).collect();
        (!winners.is_empty()).then_some(Step::Winners { winners, beside })
    }
}

impl search::Search for Tune<'_> {
    type Step = Step;
    type Report = TuneReport;

    fn needed(&self) -> Vec<Wanted> {
        let others = self.options.others().into_iter().map(|spec| wanted(0, &spec.to_string(), spec));
        std::iter::once(wanted(0, "control", &self.options.control)).chain(others).collect()
    }

    fn next(&mut self, record: &Record) -> Result<search::Next<Step>, Failure> {
        if self.more && record.verification().is_some() {
            return Err(Failure::refused(
                "the winners of this search were chosen and are verified, which ends it: without --blocks the \
                 verification goes on; begin a longer search in another folder",
            ));
        }
        if let Some(next) = self.race(record)? {
            return Ok(next);
        }
        let Some(verification) = record.verification() else {
            return Ok(self.winners().map_or(search::Next::Done, search::Next::Enter));
        };
        if verification.blocks.len() >= self.options.verify as usize {
            return Ok(search::Next::Done);
        }
        let names = verification.winners.iter().map(|winner| &winner.spec).chain(verification.beside);
        let arms = names.enumerate().map(|(at, name)| self.wanted(at, name)).collect::<Result<_, _>>()?;
        Ok(search::Next::Measure(Ask { arms, fresh: true }))
    }

    fn obtain(&self, wanted: &Wanted, lab: &LabOptions) -> Result<Result<Obtained, String>, Failure> {
        search::obtain(&wanted.spec, lab)
    }

    fn without_block(
        &self,
        wanted: &Wanted,
        obtained: &Result<Obtained, String>,
        _: &Record,
    ) -> Option<Step> {
        obtained.as_ref().err().map(|why| self.failed(wanted, why))
    }

    fn steps(&self, ask: &Ask, control: RunFigures, block: Block) -> Vec<Step> {
        let Block { number, seconds, arms, .. } = block;
        let (mut measured, mut failed) = (Vec::new(), Vec::new());
        for (wanted, figures) in ask.arms.iter().zip(arms) {
            match figures {
                Ok(of_arm) => measured.push(MeasuredArm {
                    at: wanted.at,
                    spec: wanted.name.clone(),
                    level_bytes: of_arm.level_bytes,
                    figures: figures_of(of_arm),
                }),
                Err(why) => failed.push((wanted, why)),
            }
        }
        let block = Measured {
            number,
            seconds,
            control_bytes: control.level_bytes,
            control: figures_of(control),
            arms: measured,
        };
        if ask.fresh {
            let failed = failed.into_iter().map(|(wanted, why)| (wanted.at, why)).collect();
            return vec![Step::Verified { block, failed }];
        }
        let failed = failed.into_iter().map(|(wanted, why)| self.failed(wanted, &why));
        failed.chain([Step::Searched { block }]).collect()
    }

    fn apply(&mut self, step: &Step) {
        step.apply(&mut self.search);
    }

    fn line(&self, step: &Step) -> Option<String> {
        match step {
            Step::Failed { spec, why, .. } => {
                Some(format!("{spec} is out: {}", why.lines().next().unwrap_or("")))
            }
            Step::Searched { block } => Some(report::progress(&self.search, block)),
            Step::Winners { winners, .. } => {
                let names: Vec<&str> = winners.iter().map(|winner| winner.spec.as_str()).collect();
                Some(format!("verified on fresh seeds: {}", names.join(", ")))
            }
            Step::Verified { block, .. } => Some(report::verified_line(block)),
            Step::Chosen { .. } => None,
        }
    }

    fn report(&self, record: &Record, facts: &Facts, stopped: Option<String>) -> Result<TuneReport, Failure> {
        Ok(self.report_of(record, facts, stopped))
    }

    fn found(report: &TuneReport) -> bool {
        report.found()
    }
}

fn wanted(at: usize, name: &str, spec: &AllocatorSpec) -> Wanted {
    let build = spec.without_settings().to_string();
    Wanted { at, name: name.to_owned(), spec: spec.clone(), build }
}

fn figures_of(run: RunFigures) -> ArmFigures {
    ArmFigures { level: run.level, cpu: run.cpu, work: run.work }
}
