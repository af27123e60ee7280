//! `heaptrial lab tune`: which settings of which allocators need the least memory.

mod block;
mod options;
mod record;
mod space;
mod told;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use heaptrial_lab::{Arrangement, Workload};
use heaptrial_model::{AllocatorSpec, Arm, ErrorClass, TrialPlan};
use heaptrial_report::TuneReport;
use heaptrial_tune::{Candidate, Next, Search};

use self::block::{Measure, Outcome, obtain};
pub use self::options::TuneOptions;
use self::record::{Kept, Record, Step, Winner};
use self::space::Found;
use super::search::{
    Bench, Load, TRIES, arm, asked_again, command_of, own_arguments, plan_of, write_plan,
};
use super::{LabCommand, accounting, check, heeding_signals, userland};
use crate::commands::Command;
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;
use crate::{output, run_folder};

/// What the search chooses.
const WHAT: &str = "the arms";
/// Blocks of a search that nobody gave a budget.
const BLOCKS: usize = 12;

/// How long a search may go on.
#[derive(Debug, Clone, Copy)]
enum Budget {
    /// So many blocks, and those of the verification.
    Blocks(usize),
    /// So many seconds of blocks, those of the verification among them.
    Seconds(f64),
}

/// Searches, or goes on with it.
pub fn run(options: &TuneOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let Some(folder) = &options.goes_on else { return start(options, global) };
    if options.load.is_some() {
        return Err(Failure::usage(
            "--continue takes everything as it was asked for; leave run or tor and its options out",
        ));
    }
    let kept = Kept::read(folder)?;
    let (command, folder) = asked_again(folder, &kept.arguments, &kept.directory)?;
    let Command::Lab(LabCommand::Tune(asked)) = command else {
        return Err(Failure::refused(format!("{} holds no search over settings", folder.display())));
    };
    let record = Record::open(&folder, record::STEPS)?;
    let more = options.blocks.is_some() || options.time.is_some();
    let budget = budget(if more { options } else { &asked });
    search(&asked, &kept, record, budget, global)
}

fn budget(options: &TuneOptions) -> Budget {
    match (options.blocks, options.time) {
        (_, Some(time)) => Budget::Seconds(time.0.as_secs_f64()),
        (Some(blocks), None) => Budget::Blocks(blocks as usize),
        (None, None) => Budget::Blocks(BLOCKS),
    }
}

fn start(options: &TuneOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let load = Load::asked(options.load.as_ref())?;
    let lab = load.lab(WHAT)?;
    userland::enter(lab, global, options.space.as_deref())?;
    if global.db.is_some() {
        return Err(Failure::usage("a search has a database for each block, in its folder; leave --db out"));
    }
    let arguments = own_arguments()?;
    let found = Found::of(options)?;
    let control = found.candidate(&options.control);
    let plan = every_base(options, &found);
    let (workload, duration) = load.workload(&plan)?;
    check(lab, &plan, workload.as_ref(), duration)?;
    run_folder::check(global.out.as_deref())?;
    let rules = options.rules(load.work_margin());
    let cost = told::Cost::of(options, &rules, budget(options), workload.arrangement(), duration);
    let size = found.space.all(told::COUNTED).map(|all| all.len() - usize::from(control.is_some()));
    cost.check(found.space.bases.len(), size)?;
    if lab.dry_run {
        return told::plan(&found, options, size, &cost, global);
    }
    let seed = lab.seed.unwrap_or_else(rand::random);
    let kept = Kept {
        schema_version: record::SCHEMA_VERSION,
        arguments,
        directory: std::env::current_dir().map_err(Failure::failed)?,
        seed,
        space: found.space.clone(),
        left_out: found.left_out.clone(),
        rules,
        control,
    };
    eprint!("{}", told::plan_text(&found, options, size, &cost));
    // What cannot be had is told before anything is written.
    for arm in &plan.arms {
        if let Err(why) = obtain(&arm.allocator(), lab)? {
            return Err(Failure::refused(format!("{} cannot be measured: {why}", arm.name)));
        }
    }
    let folder = run_folder::create(global.out.as_deref(), "tune")?;
    write_plan(&folder, record::PLAN, &kept)?;
    let record = Record::open(&folder, record::STEPS)?;
    eprintln!("seed {seed}; the search's folder is {}", folder.display());
    search(options, &kept, record, budget(options), global)
}

/// The control, all allocators as they come and what is beside, for what a workload wants to know of its arms.
fn every_base(options: &TuneOptions, found: &Found) -> TrialPlan {
    let mut arms: Vec<Arm> = vec![arm("control", options.control.clone(), true)];
    let bases = found.space.defaults().map(|candidate| found.space.name(&candidate));
    let beside = options.beside.iter().map(ToString::to_string);
    for name in bases.chain(beside) {
        if arms.iter().any(|arm| arm.name == name) {
            continue;
        }
        arms.extend(name.parse().ok().map(|spec| arm(&name, spec, false)));
    }
    plan_of("tune", arms)
}

/// Everything that the loop needs.
struct Tuning<'a> {
    options: &'a TuneOptions,
    kept: &'a Kept,
    search: Search,
    record: Record,
    measure: Measure<'a>,
    budget: Budget,
}

/// Measures as long as the budget lasts, verifies the winners, and reports what there is.
fn search(
    options: &TuneOptions,
    kept: &Kept,
    record: Record,
    budget: Budget,
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    let load = Load::asked(options.load.as_ref())?;
    let lab = load.lab(WHAT)?;
    let found = Found { space: kept.space.clone(), left_out: kept.left_out.clone() };
    let plan = every_base(options, &found);
    let (workload, duration) = load.workload(&plan)?;
    let metric = check(lab, &plan, workload.as_ref(), duration)?;
    let mut search =
        Search::new(kept.space.clone(), kept.rules.clone(), kept.control.clone(), kept.seed);
    record.steps.iter().for_each(|step| step.apply(&mut search));
    let workload: &dyn Workload = workload.as_ref();
    let bench = Bench {
        options: lab,
        workload,
        duration: duration.map(|duration| duration.0),
        metric,
        accounting: accounting(lab, metric)?,
        interrupt: heeding_signals()?,
        command: command_of(&kept.arguments),
    };
    let measure =
        Measure { bench, seed: kept.seed, control: options.control.clone(), cache: BTreeMap::new() };
    let mut tuning = Tuning { options, kept, search, record, measure, budget };
    tuning.have(&options.control.clone())?;
    for spec in &options.beside {
        tuning.have(spec)?;
    }
    let stopped = tuning.race()?;
    let stopped = match stopped {
        Some(why) => Some(why),
        None => tuning.verify()?,
    };
    let report = tuning.report(stopped.clone());
    tell(&report, &tuning.record.folder, global)?;
    match stopped {
        Some(why) => Err(Failure::failed(format!(
            "{why}; `heaptrial lab tune --continue {}` goes on",
            tuning.record.folder.display()
        ))),
        None if report.found() => Ok(ExitCode::SUCCESS),
        None => Ok(code(ErrorClass::Inconclusive)),
    }
}

impl Tuning<'_> {
    fn have(&mut self, spec: &AllocatorSpec) -> Result<(), Failure> {
        let told = self.measure.obtain(spec)?;
        told.map_err(|why| Failure::refused(format!("{spec} cannot be had: {why}")))
    }

    fn spec(&self, candidate: &Candidate) -> Result<AllocatorSpec, Failure> {
        let name = self.kept.space.name(candidate);
        name.parse().map_err(|error| Failure::failed(format!("{name}: {error}")))
    }

    /// Whether another block of the search leaves enough for the verification.
    fn affords(&self) -> bool {
        let blocks: Vec<f64> = self.record.searched().map(|block| block.seconds).collect();
        match self.budget {
            Budget::Blocks(most) => blocks.len() < most,
            Budget::Seconds(most) => {
                let mean = blocks.iter().sum::<f64>() / blocks.len().max(1) as f64;
                let runs = (self.kept.rules.winners + self.options.beside.len() + 1) as f64;
                let each = match self.measure.bench.workload.arrangement() {
                    Arrangement::OneByOne => mean * runs / (self.kept.rules.arms + 1) as f64,
                    _ => mean,
                };
                self.record.seconds() + mean + each * f64::from(self.options.verify) <= most
            }
        }
    }

    /// Blocks of the search; why it stopped before its end, if it did.
    fn race(&mut self) -> Result<Option<String>, Failure> {
        while self.affords() {
            let Next::Measure(chosen) = self.search.next() else { break };
            let candidates: Vec<Candidate> =
                chosen.iter().map(|at| self.search.candidates()[*at].clone()).collect();
            self.enter(Step::Chosen { candidates: candidates.clone() })?;
            let mut specs = Vec::new();
            for (at, candidate) in chosen.into_iter().zip(candidates) {
                let spec = self.spec(&candidate)?;
                match self.measure.obtain(&spec)? {
                    Ok(()) => specs.push((at, spec)),
                    Err(why) => self.failed(candidate, &spec.to_string(), why)?,
                }
            }
            if specs.is_empty() {
                continue;
            }
            match self.measure.measure(&self.record, &specs, false)? {
                Outcome::Measured(block, failed) => {
                    for (at, why) in failed {
                        let candidate = self.search.candidates()[at].clone();
                        self.failed(candidate.clone(), &self.kept.space.name(&candidate), why)?;
                    }
                    self.enter(Step::Searched { block: block.clone() })?;
                    eprint!("{}", told::progress(&self.search, &block));
                }
                Outcome::Void(number, why) => {
                    eprintln!("block {number}: the control failed: {why}");
                    self.enter(Step::Void { number, why: why.clone() })?;
                    if self.record.voids_in_a_row() >= TRIES {
                        return Ok(Some(format!("The control failed {TRIES} times in a row: {why}")));
                    }
                }
                Outcome::Interrupted => return Ok(Some("It was interrupted".to_owned())),
            }
        }
        Ok(None)
    }

    fn failed(&mut self, candidate: Candidate, spec: &str, why: String) -> Result<(), Failure> {
        eprintln!("{spec} is out: {}", why.lines().next().unwrap_or(""));
        self.enter(Step::Failed { candidate, spec: spec.to_owned(), why })
    }

    fn enter(&mut self, step: Step) -> Result<(), Failure> {
        self.record.enter(step)?.apply(&mut self.search);
        Ok(())
    }

    /// Blocks of the winners on fresh seeds.
    fn verify(&mut self) -> Result<Option<String>, Failure> {
        if self.record.verification().is_none() {
            let standings = self.search.standings();
            let winners = self.search.winners().into_iter().map(|at| {
                let candidate = self.search.candidates()[at].clone();
                let standing = standings.iter().find(|standing| standing.candidate == at);
                Winner {
                    spec: self.kept.space.name(&candidate),
                    candidate,
                    believed: standing.map_or_else(Vec::new, |standing| standing.believed.clone()),
                }
            });
            let winners: Vec<Winner> = winners.collect();
            let beside = self.options.beside.iter().map(ToString::to_string);
            let beside: Vec<String> =
                beside.filter(|spec| winners.iter().all(|winner| winner.spec != *spec)).collect();
            if winners.is_empty() {
                return Ok(None);
            }
            let names: Vec<&str> = winners.iter().map(|winner| winner.spec.as_str()).collect();
            eprintln!("verified on fresh seeds: {}", names.join(", "));
            let round = self.record.rounds() + 1;
            self.enter(Step::Winners { round, winners, beside })?;
        }
        let Some(verification) = self.record.verification() else { return Ok(None) };
        let (round, done) = (verification.round, verification.blocks.len());
        let names = verification.winners.iter().map(|winner| &winner.spec).chain(verification.beside);
        let specs: Vec<(usize, String)> = names.cloned().enumerate().collect();
        let mut arms: Vec<(usize, AllocatorSpec)> = Vec::new();
        for (at, name) in specs {
            let spec = name.parse().map_err(|error| Failure::failed(format!("{name}: {error}")))?;
            self.have(&spec)?;
            arms.push((at, spec));
        }
        for _ in done..self.options.verify as usize {
            match self.measure.measure(&self.record, &arms, true)? {
                Outcome::Measured(block, failed) => {
                    eprint!("{}", told::verified_line(&block));
                    self.enter(Step::Verified { round, block, failed })?;
                }
                Outcome::Void(number, why) => {
                    eprintln!("block {number}: the control failed: {why}");
                    self.enter(Step::Void { number, why: why.clone() })?;
                    return Ok(Some(format!("The control failed while winners were verified: {why}")));
                }
                Outcome::Interrupted => return Ok(Some("It was interrupted".to_owned())),
            }
        }
        Ok(None)
    }
}

/// Prints the report of a search whose folder this is, and writes it anew; `None` where it is none.
pub fn report_of(folder: &Path, global: &GlobalOptions) -> Result<Option<ExitCode>, Failure> {
    if !folder.join(record::PLAN).is_file() {
        return Ok(None);
    }
    let report = report_in(folder)?;
    tell(&report, global.out.as_deref().unwrap_or(folder), global)?;
    Ok(Some(ExitCode::SUCCESS))
}

/// The report that a search left in its folder.
pub fn report_in(folder: &Path) -> Result<TuneReport, Failure> {
    let path = folder.join("tune.json");
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let again = format!("`heaptrial lab tune --continue {}` goes on with it", folder.display());
        Failure::refused(format!("the search in {} has no report yet ({error}); {again}", folder.display()))
    })?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::refused(format!("{} is no report of a search: {error}", path.display())))
}

/// Writes all forms of a report into `folder` and prints the one for the terminal, or JSON.
fn tell(report: &TuneReport, folder: &Path, global: &GlobalOptions) -> Result<(), Failure> {
    let written = report.write(folder).map_err(Failure::failed)?;
    if global.json {
        return output::print(&report.json().map_err(Failure::failed)?).map(|_| ());
    }
    output::print(&report.terminal(global.colored_stdout()).map_err(Failure::failed)?)?;
    let paths: String = written.iter().map(|path| format!("\n{}", path.display())).collect();
    output::print(&format!("{paths}\n")).map(|_| ())
}
