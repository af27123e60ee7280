//! The loop of a search.

use std::collections::BTreeMap;
use std::path::Path;

use heaptrial_allocator::Obtained;
use heaptrial_evaluate::judgement::{Judgement, RunFigures};
use heaptrial_lab::PreparedArm;
use heaptrial_model::{AllocatorSpec, ErrorClass, TrialPlan};
use heaptrial_report::{Document, Options, SearchRun};
use heaptrial_search::tune::ArmFigures;
use heaptrial_search::{MeasuredArm, MeasuredBlock};
use heaptrial_store::Store;
use serde::de::DeserializeOwned;

use super::record::{Record, Step};
use super::{Kept, Load, arm, plan_of};
use crate::answer::Answer;
use crate::commands::lab::LabOptions;
use crate::commands::lab::bench::Bench;
use crate::commands::report::written;
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// What the report has until the search ends.
const UNDER_WAY: &str = "The search is under way, or was cut off";
const INTERRUPTED: &str = "It was interrupted";
/// Blocks in a row whose control may fail.
const TRIES: usize = 3;
/// Seeds of verification are so far from those of the search that they never meet.
const FRESH: u64 = 1 << 32;

/// An arm that a search asks for.
#[derive(Debug, Clone)]
pub(in super::super) struct Wanted {
    /// Its position in the search.
    pub(in super::super) at: usize,
    pub(in super::super) name: String,
    pub(in super::super) spec: AllocatorSpec,
    /// What it is called among the builds of the search.
    pub(in super::super) build: String,
}

/// What a search wants next.
pub(in super::super) enum Next {
    /// A block of the control and these arms.
    Measure(Ask),
    /// This is decided without one.
    Enter(Step),
    Done,
}

pub(in super::super) struct Ask {
    pub(in super::super) arms: Vec<Wanted>,
    /// Whether on a seed that the search never sees.
    pub(in super::super) fresh: bool,
}

/// A search, as its loop sees it.
pub(in super::super) trait Search {
    type Report: Document + DeserializeOwned;

    /// The control, and further arms without which the search cannot go on.
    fn needed(&self) -> Vec<Wanted>;

    fn next(&mut self, record: &Record) -> Result<Next, Failure>;

    /// The inner error is why it cannot be measured.
    fn obtain(&self, wanted: &Wanted, lab: &LabOptions) -> Result<Result<Obtained, String>, Failure>;

    /// Another position whose build is known to be this one, so that it need not be measured.
    fn known_as(&self, at: usize, sha256: &str, record: &Record) -> Option<usize> {
        let _ = (at, sha256, record);
        None
    }

    /// Informs the search of a step that is on disk.
    fn apply(&mut self, step: &Step);

    /// What is printed after a step.
    fn line(&self, step: &Step) -> Option<String>;

    fn report(&self, record: &Record, run: SearchRun) -> Result<Self::Report, Failure>;

    fn found(report: &Self::Report) -> bool;
}

/// Carries a search out in its folder, where some steps may be, and reports.
pub(in super::super) fn drive<S: Search, K>(
    mut search: S,
    kept: &Kept<K>,
    folder: &Path,
    load: &Load,
    plan: &TrialPlan,
    global: &GlobalOptions,
) -> Result<Answer, Failure> {
    let name = <S::Report as Document>::NAME;
    let record = Record::open(folder, &format!("{name}-steps.jsonl"))?;
    record.steps.iter().for_each(|step| search.apply(step));
    let timed = load.workload(plan)?;
    let bench = Bench::new(load.options(), &timed, plan, &kept.command, folder)?;
    let run = SearchRun {
        metric: bench.metric.describe().to_owned(),
        seed: kept.seed,
        command: kept.command.to_string(),
        ..SearchRun::default()
    };
    let builds = &kept.builds;
    let mut driver = Driver { search, record, bench, run, builds, obtained: BTreeMap::new(), voids: 0 };
    let again = format!("heaptrial lab {name} --continue {}", shell_words::quote(&folder.to_string_lossy()));
    let (stopped, failure) = match driver.run() {
        Ok(None) => (None, None),
        Ok(Some(why)) => {
            let failure = Failure::failed(format!("{why}; `{again}` goes on"));
            (Some(why), Some(failure))
        }
        Err(failure) => {
            let kept = format!(
                "blocks that were measured are kept; `{again}` measures what has no results, and goes on"
            );
            (Some(failure.to_string()), Some(failure.hint(kept)))
        }
    };
    let report = driver.report(stopped)?;
    let answer = written(&report, folder, global)?;
    Ok(match failure {
        Some(failure) => answer.but(failure),
        None if S::found(&report) => answer,
        None => answer.ending(ErrorClass::Inconclusive),
    })
}

struct Driver<'a, S: Search> {
    search: S,
    record: Record,
    bench: Bench<'a>,
    run: SearchRun,
    /// Digests of the builds that the search began with.
    builds: &'a BTreeMap<String, String>,
    obtained: BTreeMap<String, Obtained>,
    /// How often the control failed in a row.
    voids: usize,
}

impl<S: Search> Driver<'_, S> {
    fn report(&self, stopped: Option<String>) -> Result<S::Report, Failure> {
        let blocks = self.record.blocks().cloned().collect();
        self.search.report(&self.record, SearchRun { stopped, blocks, ..self.run.clone() })
    }

    /// Until it is done; why it stopped before, if it did.
    fn run(&mut self) -> Result<Option<String>, Failure> {
        for wanted in self.search.needed() {
            self.obtain(&wanted)?.map_err(|why| cannot_be_had(&wanted, &why))?;
        }
        loop {
            self.report(Some(UNDER_WAY.to_owned()))?.write(&self.record.folder)?;
            let mut ask = match self.search.next(&self.record)? {
                Next::Done => return Ok(None),
                Next::Enter(step) => {
                    self.enter(step)?;
                    continue;
                }
                Next::Measure(ask) => ask,
            };
            let mut measured = Vec::new();
            for wanted in ask.arms {
                let obtained = self.obtain(&wanted)?;
                // Ctrl-C ends a compiler too: that says nothing about what it built.
                if self.bench.interrupt.requested() {
                    return Ok(Some(INTERRUPTED.to_owned()));
                }
                let at = wanted.at;
                match obtained {
                    // What is verified was obtained before.
                    Err(why) if ask.fresh => return Err(cannot_be_had(&wanted, &why)),
                    Err(why) => self.enter(Step::Excluded { at, name: wanted.name, why })?,
                    Ok(obtained) => match self.search.known_as(at, &obtained.sha256, &self.record) {
                        Some(with) => self.enter(Step::Same { at, with })?,
                        None => measured.push(wanted),
                    },
                }
            }
            ask.arms = measured;
            if ask.arms.is_empty() {
                continue;
            }
            if let Some(why) = self.measure(&ask)? {
                return Ok(Some(why));
            }
        }
    }

    /// Carries out a block, whose seed is its number after the first; why the search has to stop, if it has to.
    fn measure(&mut self, ask: &Ask) -> Result<Option<String>, Failure> {
        let control = self.search.needed().swap_remove(0);
        let wanted: Vec<&Wanted> = std::iter::once(&control).chain(&ask.arms).collect();
        let arms: Vec<PreparedArm> = wanted
            .iter()
            .enumerate()
            .map(|(at, wanted)| PreparedArm {
                arm: arm(&wanted.name, wanted.spec.clone(), at == 0),
                obtained: self.obtained[&wanted.name].clone(),
            })
            .collect();
        let (number, folder) = self.record.next_block();
        let first = self.run.seed.wrapping_add(if ask.fresh { FRESH } else { 0 });
        let plan = plan_of(&format!("block-{number}"), arms.iter().map(|arm| arm.arm.clone()).collect());
        let run = self.bench.run_in(&folder, &plan.name, arms, 1, first.wrapping_add(number as u64));
        std::fs::create_dir_all(&folder).map_err(Failure::file(&folder))?;
        let started = std::time::Instant::now();
        let outcome = self.bench.carry_out(&run, &plan).map_err(|failure| {
            let names: Vec<&str> = wanted.iter().map(|wanted| wanted.name.as_str()).collect();
            failure.about(format!("block-{number} of {}", names.join(", ")))
        })?;
        if outcome.interrupted {
            return Ok(Some(INTERRUPTED.to_owned()));
        }
        let seconds = started.elapsed().as_secs_f64();
        let store = Store::open(&run.database)?;
        let judgement = Judgement::of(&store, outcome.trial_id, &Options::default())?;
        let figures = |arm: usize| judgement.run_figures(arm, 0).map(figures_of);
        let of_control = match figures(0) {
            Ok(figures) => figures,
            Err(why) => {
                eprintln!("block {number}: {} failed: {why}", control.name);
                self.voids += 1;
                let gives_up = self.voids >= TRIES;
                return Ok(gives_up.then(|| format!("{} failed {TRIES} times in a row: {why}", control.name)));
            }
        };
        self.voids = 0;
        let arms =
            run.arms.iter().zip(&wanted).enumerate().skip(1).map(|(position, (arm, wanted))| MeasuredArm {
                at: wanted.at,
                name: wanted.name.clone(),
                sha256: arm.obtained.sha256.clone(),
                figures: figures(position),
            });
        let block =
            MeasuredBlock { number, seconds, fresh: ask.fresh, control: of_control, arms: arms.collect() };
        self.enter(Step::Measured(block))?;
        Ok(None)
    }

    /// Once for each arm. Refuses another build than the one that was measured.
    fn obtain(&mut self, wanted: &Wanted) -> Result<Result<Obtained, String>, Failure> {
        if let Some(known) = self.obtained.get(&wanted.name) {
            return Ok(Ok(known.clone()));
        }
        let obtained = match self.search.obtain(wanted, self.bench.options)? {
            Ok(obtained) => obtained,
            Err(why) => return Ok(Err(why)),
        };
        if self.builds.get(&wanted.build).is_some_and(|known| *known != obtained.sha256) {
            return Err(Failure::refused(format!(
                "{} is another library now than the one that the search measured, as after an upgrade of it or of the compiler, \
                 or in another userland, and figures of both cannot be put together: go on where it is the earlier one, or begin again",
                wanted.name
            )));
        }
        self.obtained.insert(wanted.name.clone(), obtained.clone());
        Ok(Ok(obtained))
    }

    fn enter(&mut self, step: Step) -> Result<(), Failure> {
        let step = self.record.enter(step)?;
        self.search.apply(step);
        if let Some(line) = self.search.line(step) {
            eprintln!("{line}");
        }
        Ok(())
    }
}

fn figures_of(run: RunFigures) -> ArmFigures {
    ArmFigures { level: run.level, cpu: run.cpu, work: run.work }
}

fn cannot_be_had(wanted: &Wanted, why: &str) -> Failure {
    Failure::refused(format!("{} ({}) cannot be measured: {why}", wanted.name, wanted.spec))
}
