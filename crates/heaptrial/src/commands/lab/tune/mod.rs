//! `heaptrial lab tune`: which settings of which allocators need the least memory.

mod block;
mod cost;
mod options;
mod record;
mod space;
mod told;
mod tuning;

use std::collections::BTreeMap;
use std::process::ExitCode;

use heaptrial_model::{Arm, ErrorClass, TrialPlan};
use heaptrial_report::{Document as _, TuneReport};
use heaptrial_tune::Search;

use self::block::{Measure, obtain};
use self::cost::Cost;
pub use self::options::TuneOptions;
use self::record::{Kept, Record};
use self::space::Found;
use self::tuning::Tuning;
use super::search::{Bench, Started, arm, asked_again, command_of, ended_by, plan_of, tell, write_plan};
use super::{LabCommand, accounting, check, heeding_signals, userland};
use crate::commands::Command;
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;
use crate::run_folder;

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
    let here = std::env::current_dir().map_err(Failure::failed)?;
    let (command, folder) = asked_again(folder, &kept.started)?;
    let Command::Lab(LabCommand::Tune(asked)) = command else {
        return Err(Failure::refused(format!("{} holds no search over settings", folder.display())));
    };
    kept.started.enter(asked.load()?.lab(WHAT)?, global, &folder, &here)?;
    let record = Record::open(&folder, record::STEPS)?;
    let more = options.blocks.is_some() || options.time.is_some();
    if more && record.verification().is_some() {
        return Err(Failure::refused(format!(
            "the winners of the search in {} were chosen and are verified, which ends it: without --blocks and --time the \
             verification goes on; begin a longer search in another folder",
            folder.display()
        )));
    }
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
    let load = options.load()?;
    let lab = load.lab(WHAT)?;
    userland::enter(lab, global, None)?;
    if global.db.is_some() {
        return Err(Failure::usage("a search has a database for each block, in its folder; leave --db out"));
    }
    let started = Started::here()?;
    let found = Found::of(options)?;
    let control = found.candidate(&options.control);
    let plan = every_base(options, &found);
    let (workload, duration) = load.workload(&plan)?;
    check(lab, &plan, workload.as_ref(), duration)?;
    run_folder::check(global.out.as_deref())?;
    let rules = options.rules()?;
    let cost = Cost::of(options, &rules, budget(options), workload.arrangement(), duration);
    let size = found.space.all(told::COUNTED).map(|all| all.len() - usize::from(control.is_some()));
    cost.check(found.space.bases.len(), size)?;
    if lab.dry_run {
        return told::plan(&found, options, size, &cost, global);
    }
    let seed = lab.seed.unwrap_or_else(rand::random);
    lab.place.reach()?;
    eprint!("{}", told::plan_text(&found, options, size, &cost));
    // What cannot be had is told before anything is written.
    let mut builds = BTreeMap::new();
    for arm in &plan.arms {
        match obtain(&arm.allocator(), lab)? {
            Ok(obtained) => builds.insert(obtained.spec.without_settings().to_string(), obtained.sha256),
            Err(why) => return Err(Failure::refused(format!("{} cannot be measured: {why}", arm.name))),
        };
    }
    let kept = Kept {
        schema_version: record::SCHEMA_VERSION,
        started,
        seed,
        space: found.space.clone(),
        left_out: found.left_out.clone(),
        rules,
        control,
        builds,
    };
    let folder = run_folder::create(global.out.as_deref(), "tune")?;
    write_plan(&folder, TuneReport::NAME, &kept)?;
    let record = Record::open(&folder, record::STEPS)?;
    eprintln!("seed {seed}; the search's folder is {}", folder.display());
    search(options, &kept, record, budget(options), global)
}

/// The control, all allocators as they come and what is beside, for what a workload wants to know of its arms.
fn every_base(options: &TuneOptions, found: &Found) -> TrialPlan {
    let mut arms: Vec<Arm> = vec![arm("control", options.control.clone(), true)];
    let bases = found.space.defaults().map(|candidate| found.space.name(&candidate));
    let beside = options.others().into_iter().map(ToString::to_string);
    for name in bases.chain(beside) {
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
    kept: &Kept,
    record: Record,
    budget: Budget,
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    let load = options.load()?;
    let lab = load.lab(WHAT)?;
    let found = Found { space: kept.space.clone(), left_out: kept.left_out.clone() };
    let plan = every_base(options, &found);
    let (workload, duration) = load.workload(&plan)?;
    let metric = check(lab, &plan, workload.as_ref(), duration)?;
    let mut search = Search::new(kept.space.clone(), kept.rules.clone(), kept.control.clone(), kept.seed);
    record.steps.iter().try_for_each(|step| step.apply(&mut search))?;
    let bench = Bench {
        options: lab,
        workload: workload.as_ref(),
        duration: duration.map(|duration| duration.0),
        metric,
        accounting: accounting(lab, metric)?,
        place: lab.place.place(record.folder.clone())?,
        interrupt: heeding_signals(lab.place.on)?,
        command: command_of(&kept.started.arguments),
    };
    let measure = Measure {
        bench,
        seed: kept.seed,
        control: options.control.clone(),
        builds: &kept.builds,
        cache: BTreeMap::new(),
    };
    let mut tuning = Tuning { options, kept, search, record, measure, budget };
    tuning.have(&options.control.clone())?;
    for spec in options.others() {
        tuning.have(spec)?;
    }
    tuning.tell_so_far()?;
    let ended = tuning.race().and_then(|stopped| match stopped {
        Some(why) => Ok(Some(why)),
        None => tuning.verify(),
    });
    let ended = ended.map_err(|failure| ended_by(failure, "tune", &tuning.record.folder));
    let stopped = ended.as_ref().map_or_else(|failure| Some(failure.to_string()), Option::clone);
    let report = tuning.report(stopped);
    let told = tell(&report, &tuning.record.folder, global);
    let stopped = ended?;
    told?;
    match stopped {
        Some(why) => Err(Failure::failed(format!(
            "{why}; `heaptrial lab tune --continue {}` goes on",
            tuning.record.folder.display()
        ))),
        None if report.found() => Ok(ExitCode::SUCCESS),
        None => Ok(code(ErrorClass::Inconclusive)),
    }
}
