//! The loop of a search.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use heaptrial_allocator::Obtained;
use heaptrial_evaluate::judgement::RunFigures;
use heaptrial_lab::PreparedArm;
use heaptrial_model::{AllocatorSpec, ErrorClass, TrialPlan};
use heaptrial_report::Document;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::bench::{Bench, Block};
use super::record::Record;
use super::{Kept, Load, print_report};
use crate::commands::lab::LabOptions;
use crate::exit::{Failure, code};
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
pub(in super::super) enum Next<S> {
    /// A block of the control and these arms.
    Measure(Ask),
    /// This is decided without one.
    Enter(S),
    Done,
}

pub(in super::super) struct Ask {
    pub(in super::super) arms: Vec<Wanted>,
    /// Whether on a seed that the search never sees.
    pub(in super::super) fresh: bool,
}

/// What a report has that the search does not know.
pub(in super::super) struct Facts {
    pub(in super::super) metric: String,
    pub(in super::super) command: String,
    pub(in super::super) seed: u64,
}

/// A search, as its loop sees it.
pub(in super::super) trait Search {
    type Step: Serialize + DeserializeOwned;
    type Report: Document + DeserializeOwned;

    /// The control, and further arms without which the search cannot go on.
    fn needed(&self) -> Vec<Wanted>;

    fn next(&mut self, record: &Record<Self::Step>) -> Result<Next<Self::Step>, Failure>;

    /// The inner error is why it cannot be measured.
    fn obtain(&self, wanted: &Wanted, lab: &LabOptions) -> Result<Result<Obtained, String>, Failure>;

    /// The step where an arm need not or cannot be measured.
    fn without_block(
        &self,
        wanted: &Wanted,
        obtained: &Result<Obtained, String>,
        record: &Record<Self::Step>,
    ) -> Option<Self::Step>;

    /// What came of a block whose control has figures.
    fn steps(&self, ask: &Ask, control: RunFigures, block: Block) -> Vec<Self::Step>;

    /// Informs the search of a step that is on disk.
    fn apply(&mut self, step: &Self::Step);

    /// What is printed after a step.
    fn line(&self, step: &Self::Step) -> Option<String>;

    fn report(
        &self,
        record: &Record<Self::Step>,
        facts: &Facts,
        stopped: Option<String>,
    ) -> Result<Self::Report, Failure>;

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
) -> Result<ExitCode, Failure> {
    let name = <S::Report as Document>::NAME;
    let record = Record::open(folder, &format!("{name}-steps.jsonl"))?;
    record.steps.iter().for_each(|step| search.apply(step));
    let (workload, duration) = load.workload(plan)?;
    let bench = Bench::new(load.options(), workload.as_ref(), duration, plan, &kept.command, folder)?;
    let facts = Facts {
        metric: bench.metric.describe().to_owned(),
        command: kept.command.to_string(),
        seed: kept.seed,
    };
    let builds = &kept.builds;
    let mut driver = Driver { search, record, bench, facts, builds, obtained: BTreeMap::new(), voids: 0 };
    let again = format!("heaptrial lab {name} --continue {}", shell_words::quote(&folder.to_string_lossy()));
    let ended = driver.run().map_err(|failure| {
        failure.hint(format!(
            "blocks that were measured are kept; `{again}` measures what has no results, and goes on"
        ))
    });
    let stopped = ended.as_ref().map_or_else(|failure| Some(failure.to_string()), Option::clone);
    let report = driver.search.report(&driver.record, &driver.facts, stopped)?;
    let printed = print_report(&report, folder, global);
    let stopped = ended?;
    printed?;
    match stopped {
        Some(why) => Err(Failure::failed(format!("{why}; `{again}` goes on"))),
        None if S::found(&report) => Ok(ExitCode::SUCCESS),
        None => Ok(code(ErrorClass::Inconclusive)),
    }
}

struct Driver<'a, S: Search> {
    search: S,
    record: Record<S::Step>,
    bench: Bench<'a>,
    facts: Facts,
    /// Digests of the builds that the search began with.
    builds: &'a BTreeMap<String, String>,
    obtained: BTreeMap<String, Obtained>,
    /// How often the control failed in a row.
    voids: usize,
}

impl<S: Search> Driver<'_, S> {
    /// Until it is done; why it stopped before, if it did.
    fn run(&mut self) -> Result<Option<String>, Failure> {
        for wanted in self.search.needed() {
            self.obtain(&wanted)?.map_err(|why| cannot_be_had(&wanted, &why))?;
        }
        loop {
            let so_far = self.search.report(&self.record, &self.facts, Some(UNDER_WAY.to_owned()))?;
            so_far.write(&self.record.folder).map_err(Failure::failed)?;
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
                // What is verified was obtained before.
                if let (Err(why), true) = (&obtained, ask.fresh) {
                    return Err(cannot_be_had(&wanted, why));
                }
                match self.search.without_block(&wanted, &obtained, &self.record) {
                    Some(step) => self.enter(step)?,
                    None => measured.push(wanted),
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

    fn measure(&mut self, ask: &Ask) -> Result<Option<String>, Failure> {
        let control = self.search.needed().swap_remove(0);
        let arms: Vec<PreparedArm> = std::iter::once(&control)
            .chain(&ask.arms)
            .enumerate()
            .map(|(at, wanted)| PreparedArm {
                arm: super::arm(&wanted.name, wanted.spec.clone(), at == 0),
                obtained: self.obtained[&wanted.name].clone(),
            })
            .collect();
        let first = self.facts.seed.wrapping_add(if ask.fresh { FRESH } else { 0 });
        let (number, folder) = self.record.next_block();
        match self.bench.run((number, &folder), first, &arms)? {
            None => Ok(Some(INTERRUPTED.to_owned())),
            Some((Ok(control), block)) => {
                self.voids = 0;
                for step in self.search.steps(ask, control, block) {
                    self.enter(step)?;
                }
                Ok(None)
            }
            Some((Err(why), _)) => {
                eprintln!("block {number}: {} failed: {why}", control.name);
                self.voids += 1;
                let gives_up = self.voids >= TRIES;
                Ok(gives_up.then(|| format!("{} failed {TRIES} times in a row: {why}", control.name)))
            }
        }
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

    fn enter(&mut self, step: S::Step) -> Result<(), Failure> {
        let step = self.record.enter(step)?;
        self.search.apply(step);
        if let Some(line) = self.search.line(step) {
            eprintln!("{line}");
        }
        Ok(())
    }
}

fn cannot_be_had(wanted: &Wanted, why: &str) -> Failure {
    Failure::refused(format!("{} ({}) cannot be measured: {why}", wanted.name, wanted.spec))
}
