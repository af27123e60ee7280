//! `heaptrial lab tune`: which settings of which allocators need the least memory.

mod options;
mod report;
mod space;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use heaptrial_allocator::Obtained;
use heaptrial_lab::Arrangement;
use heaptrial_model::{AllocatorSpec, Arm, TrialPlan};
use heaptrial_report::{Document as _, SearchRun, TuneReport};
use heaptrial_search::MeasuredBlock;
use heaptrial_search::tune::{Block, Search, Standing};

pub use self::options::TuneOptions;
use self::space::Found;
use super::search::{self, Ask, Earlier, Kept, Record, Step, Wanted, Winner, arm, plan_of};
use super::{LabCommand, LabOptions, userland};
use crate::answer::Answer;
use crate::commands::Command;
use crate::exit::Failure;
use crate::options::GlobalOptions;

const WHAT: &str = "the arms";

/// Searches, or goes on with it.
pub fn run(options: &TuneOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
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

fn begin(options: &TuneOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let load = options.load()?;
    let lab = load.lab(WHAT)?;
    userland::enter(lab, global, &[])?;
    let found = Found::of(options)?;
    let plan = every_base(options, &found);
    let (workload, duration) = search::workload_of(load, &plan, global)?;
    check_blocks(options, &found)?;
    let in_a_row = |arms: usize| if workload.arrangement() == Arrangement::OneByOne { arms + 1 } else { 1 };
    let runs = options.search_blocks() * in_a_row(found.rules.arms)
        + options.verify as usize * in_a_row(found.rules.winners + options.others().len());
    let seconds = duration.map(|duration| duration.0.as_secs_f64() * runs as f64);
    let announced = report::plan(&found, options, seconds);
    if lab.dry_run {
        return Ok(announced);
    }
    lab.cluster(PathBuf::new())?;
    eprint!("{}", announced.text());
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

/// The control, all allocators with default settings and those that winners are compared with, for what a workload wants
/// to know of its arms.
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
) -> Result<Answer, Failure> {
    let found = &kept.subject;
    let plan = every_base(options, found);
    let search = Search::new(found.space.clone(), found.rules.clone(), found.control.clone(), kept.seed);
    let tune = Tune { options, found, search, blocks, more };
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
    fn ask(names: impl Iterator<Item = String>, fresh: bool) -> Result<search::Next, Failure> {
        let arm = |(at, name): (usize, String)| {
            let spec: AllocatorSpec =
                name.parse().map_err(|error| Failure::failed(format!("{name}: {error}")))?;
            Ok::<_, Failure>(wanted(at, &name, &spec))
        };
        let arms = names.enumerate().map(arm).collect::<Result<_, _>>()?;
        Ok(search::Next::Measure(Ask { arms, fresh }))
    }

    fn winners(&self) -> Option<Step> {
        let winner = |one: Standing| Winner { spec: one.spec, believed: one.believed };
        let winners: Vec<Winner> =
            self.search.better().into_iter().take(self.found.rules.winners).map(winner).collect();
        let is_winner = |other: &AllocatorSpec| {
            let specs = winners.iter().filter_map(|winner| winner.spec.parse().ok());
            specs.into_iter().any(|spec: AllocatorSpec| spec.is_same(other))
        };
        let others = self.options.others().into_iter().filter(|other| !is_winner(other));
        let beside = others.map(ToString::to_string).collect();
        (!winners.is_empty()).then_some(Step::Winners { winners, beside })
    }

    /// The position of a candidate by its spec.
    fn position(&mut self, spec: &str) -> Option<usize> {
        let candidate = self.found.space.find(spec)?;
        Some(self.search.position(&candidate))
    }

    fn take(&mut self, block: &MeasuredBlock) {
        let mut arms = Vec::new();
        for arm in &block.arms {
            let Some(at) = self.position(&arm.name) else { continue };
            match &arm.figures {
                Ok(figures) => arms.push((at, *figures)),
                Err(why) => self.search.fail(at, why),
            }
        }
        self.search.take(Block { control: block.control, arms });
    }
}

/// What is verified, if that has begun: winners, and what they are compared with.
fn verified(record: &Record) -> Option<(&[Winner], &[String])> {
    record.steps.iter().find_map(|step| match step {
        Step::Winners { winners, beside } => Some((winners.as_slice(), beside.as_slice())),
        _ => None,
    })
}

impl search::Search for Tune<'_> {
    type Report = TuneReport;

    fn needed(&self) -> Vec<Wanted> {
        let others = self.options.others().into_iter().map(|spec| wanted(0, &spec.to_string(), spec));
        std::iter::once(wanted(0, "control", &self.options.control)).chain(others).collect()
    }

    fn next(&mut self, record: &Record) -> Result<search::Next, Failure> {
        let Some((winners, beside)) = verified(record) else {
            if record.blocks().count() < self.blocks {
                if let Some(chosen) = self.search.next_step() {
                    return Self::ask(chosen.into_iter().map(|at| self.search.name(at)), false);
                }
            }
            return Ok(self.winners().map_or(search::Next::Done, search::Next::Enter));
        };
        if self.more {
            return Err(Failure::refused(
                "the winners of this search were chosen and are verified, which ends it: without --blocks the \
                 verification goes on; begin a longer search in another folder",
            ));
        }
        if record.blocks().filter(|block| block.fresh).count() >= self.options.verify as usize {
            return Ok(search::Next::Done);
        }
        Self::ask(winners.iter().map(|winner| &winner.spec).chain(beside).cloned(), true)
    }

    fn obtain(&self, wanted: &Wanted, lab: &LabOptions) -> Result<Result<Obtained, String>, Failure> {
        search::obtain(&wanted.spec, lab)
    }

    /// What is verified is nothing that the search may know.
    fn apply(&mut self, step: &Step) {
        match step {
            Step::Measured(block) if !block.fresh => self.take(block),
            Step::Excluded { name, why, .. } => {
                if let Some(at) = self.position(name) {
                    self.search.fail(at, why);
                }
            }
            _ => {}
        }
    }

    fn line(&self, step: &Step) -> Option<String> {
        match step {
            Step::Excluded { name, why, .. } => Some(report::out(name, why)),
            Step::Measured(block) => Some(report::progress(&self.search, block)),
            Step::Winners { winners, .. } => {
                let names: Vec<&str> = winners.iter().map(|winner| winner.spec.as_str()).collect();
                Some(format!("verified on fresh seeds: {}", names.join(", ")))
            }
            Step::Same { .. } => None,
        }
    }

    fn report(&self, record: &Record, run: SearchRun) -> Result<TuneReport, Failure> {
        Ok(self.report_of(record, run))
    }

    fn found(report: &TuneReport) -> bool {
        report.found()
    }
}

fn wanted(at: usize, name: &str, spec: &AllocatorSpec) -> Wanted {
    let build = spec.without_settings().to_string();
    Wanted { at, name: name.to_owned(), spec: spec.clone(), build }
}
