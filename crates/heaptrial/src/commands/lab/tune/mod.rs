//! `heaptrial lab tune`: which settings of which allocators need the least memory.

mod cost;
mod options;
mod report;
mod space;
mod steps;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use heaptrial_allocator::Obtained;
use heaptrial_evaluate::judgement::RunFigures;
use heaptrial_model::{AllocatorSpec, Arm, TrialPlan};
use heaptrial_report::{Document as _, TuneReport};
use heaptrial_search::tune::{ArmFigures, Candidate, Next, Search};

use self::cost::Cost;
pub use self::options::TuneOptions;
use self::space::Found;
use self::steps::{Measured, MeasuredArm, Record, Step, Winner};
use super::search::{self, Ask, Beginning, Block, Earlier, Facts, Kept, Wanted, arm, plan_of};
use super::{LabCommand, LabOptions};
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
    let beginning = Beginning::new(options.load()?, WHAT, None, global)?;
    let lab = beginning.lab;
    let found = Found::of(options)?;
    let plan = every_base(options, &found);
    let (workload, duration) = beginning.workload(&plan, global)?;
    let cost = Cost::of(options, &found.rules, workload.arrangement(), duration);
    let size = found.space.all(report::COUNTED).map(|all| all.len() - usize::from(found.control.is_some()));
    cost.check(found.space.bases.len(), size)?;
    if lab.dry_run {
        return report::print_plan(&found, options, size, &cost, global);
    }
    lab.executor.executor(PathBuf::new())?;
    eprint!("{}", report::plan_text(&found, options, size, &cost));
    // What cannot be had is reported before anything is written.
    let mut builds = BTreeMap::new();
    for arm in &plan.arms {
        match search::obtain(&arm.allocator(), lab)? {
            Ok(obtained) => builds.insert(obtained.spec.without_settings().to_string(), obtained.sha256),
            Err(why) => return Err(Failure::refused(format!("{} cannot be measured: {why}", arm.name))),
        };
    }
    let (kept, folder) = beginning.keep(TuneReport::NAME, builds, found, global)?;
    search(options, &kept, &folder, options.search_blocks(), false, global)
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
        builds: &kept.builds,
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
    builds: &'a BTreeMap<String, String>,
    search: Search,
    /// Of the search, without those of the verification.
    blocks: usize,
    /// Whether an earlier search was given more of them.
    more: bool,
}

impl Tune<'_> {
    fn wanted(&self, at: usize, spec: &str) -> Result<Wanted, Failure> {
        let spec = spec.parse().map_err(|error| Failure::failed(format!("{spec}: {error}")))?;
        Ok(Wanted::of_spec(at, spec))
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

    fn control(&self) -> Wanted {
        Wanted { at: 0, name: "control".to_owned(), spec: self.options.control.clone() }
    }

    fn needed(&self) -> Vec<Wanted> {
        self.options.others().into_iter().map(|spec| Wanted::of_spec(0, spec.clone())).collect()
    }

    fn check(&self, record: &Record) -> Result<(), Failure> {
        match record.verification() {
            Some(_) if self.more => Err(Failure::refused(
                "the winners of this search were chosen and are verified, which ends it: without --blocks the \
                 verification goes on; begin a longer search in another folder",
            )),
            _ => Ok(()),
        }
    }

    fn next(&mut self, record: &Record) -> Result<search::Next<Step>, Failure> {
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

    fn known_build(&self, wanted: &Wanted, _: &Record) -> Option<String> {
        self.builds.get(&wanted.spec.without_settings().to_string()).cloned()
    }

    fn without(&self, wanted: &Wanted, why: &str) -> Step {
        let candidate = self.search.candidates()[wanted.at].clone();
        Step::Failed { candidate, spec: wanted.name.clone(), why: why.to_owned() }
    }

    fn steps(&self, ask: &Ask, block: Block) -> Vec<Step> {
        let Block { number, seconds, control, arms, .. } = block;
        let (mut measured, mut failed) = (Vec::new(), Vec::new());
        for (wanted, figures) in ask.arms.iter().zip(arms) {
            match figures {
                Ok(of_arm) => measured.push(MeasuredArm {
                    at: wanted.at,
                    candidate: (!ask.fresh).then(|| self.search.candidates()[wanted.at].clone()),
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
        let failed = failed.into_iter().map(|(wanted, why)| self.without(wanted, &why));
        failed.chain([Step::Searched { block }]).collect()
    }

    fn apply(&mut self, step: &Step) -> Result<(), Failure> {
        step.apply(&mut self.search)
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
            Step::Chosen { .. } | Step::Void { .. } => None,
        }
    }

    fn report(&self, record: &Record, facts: &Facts, stopped: Option<String>) -> Result<TuneReport, Failure> {
        Ok(self.report_of(record, facts, stopped))
    }

    fn found(report: &TuneReport) -> bool {
        report.found()
    }
}

fn figures_of(run: RunFigures) -> ArmFigures {
    ArmFigures { level: run.level, cpu: run.cpu, work: run.work }
}
