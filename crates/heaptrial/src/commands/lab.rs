//! `heaptrial lab`: the same workload under several allocators, on this machine or on a cluster.

mod bench;
mod bisect;
mod like;
mod options;
mod relay_memory;
mod repeat_command;
mod run;
mod score;
mod search;
mod slurm;
mod tor;
mod tune;
mod userland;

use std::path::Path;
use std::time::Duration;

use clap::Subcommand;
use heaptrial_allocator::{Catalog, Resolved};
use heaptrial_lab::{Accounting, Interrupt, LabPlan, PreparedArm, RunOutcome, Schedule};
use heaptrial_model::{AllocatorSpec, Arm, HumanDuration, Metric, TrialPlan, units};
use heaptrial_report::{BisectReport, Options, Report, TuneReport};
use heaptrial_store::Store;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use self::bench::Bench;
use self::bisect::BisectOptions;
use self::like::Runs;
use self::options::{LabOptions, On};
use self::repeat_command::RepeatCommand;
pub use self::run::{RunOptions, USUAL_ARMS};
use self::score::ScoreOptions;
use self::search::Timed;
pub use self::search::read_report as report_in;
pub use self::slurm::{BLOCK_COMMAND, run_task};
pub use self::tor::TorOptions;
use self::tune::TuneOptions;
use super::host::set_by;
use super::report::written;
use crate::answer::Answer;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::run_folder;

#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run a program once per allocator and repeat, in a drawn order, and compare its memory
    Run(Box<RunOptions>),
    /// Run real Tor relays on a private network on loopback, all arms at once, under the same load
    Tor(Box<TorOptions>),
    /// Search releases or upstream's commits for what changed the memory, by runs until it is sure
    Bisect(Box<BisectOptions>),
    /// Search settings of allocators for the least memory, and verify what was found on fresh seeds
    Tune(Box<TuneOptions>),
    /// Score how well lab runs of relays predicted an import or a field trial
    Score(ScoreOptions),
}

pub fn run(command: LabCommand, global: &GlobalOptions) -> Result<Answer, Failure> {
    let of_run = match &command {
        LabCommand::Run(options) => Some((&options.lab, Runs::Program)),
        LabCommand::Tor(options) => Some((&options.lab, Runs::Relays)),
        LabCommand::Bisect(_) | LabCommand::Tune(_) | LabCommand::Score(_) => None,
    };
    if let Some((lab, runs)) = of_run {
        if let Some(like) = &lab.like {
            return like::start_as(like, runs, global);
        }
        userland::enter(lab, global, &[])?;
    }
    match command {
        LabCommand::Run(options) => run::run(&options, global),
        LabCommand::Bisect(options) => bisect::run(&options, global),
        LabCommand::Tune(options) => tune::run(&options, global),
        LabCommand::Score(options) => score::run(&options, global),
        LabCommand::Tor(options) => tor::run(&options, global),
    }
}

/// Writes the report of a search whose folder this is again; `None` where it is none.
pub fn report_of_search(folder: &Path, global: &GlobalOptions) -> Result<Option<Answer>, Failure> {
    match search::report_of::<BisectReport>(folder, global)? {
        Some(answer) => Ok(Some(answer)),
        None => search::report_of::<TuneReport>(folder, global),
    }
}

fn execute(
    kind: &str,
    options: &LabOptions,
    plan: &TrialPlan,
    timed: &Timed,
    global: &GlobalOptions,
) -> Result<Answer, Failure> {
    check(options, plan, timed)?;
    let allocators = resolve(plan, options)?;
    let home = run_folder::named(global.out.as_deref(), kind)?;
    let earlier = if options.on == On::Slurm { slurm::seed_in(&home) } else { None };
    if earlier.is_none() {
        run_folder::check(global.out.as_deref())?;
    }
    let seed = options.seed.or(earlier).unwrap_or_else(rand::random);
    let command = RepeatCommand::own()?.of_run(kind, seed);
    if options.dry_run {
        let control = plan.arms.iter().position(|arm| arm.control).unwrap_or(0);
        let arms = plan.arms.len();
        let schedule = Schedule::draw(arms, control, options.repeat, timed.0.arrangement(), seed);
        return Ok(planned(plan, &schedule, timed.1, &command.to_string()));
    }
    let bench = Bench::new(options, timed, plan, &command, &home)?;
    let arms = prepare(plan, &allocators, options, global)?;
    let folder = match earlier {
        Some(_) => home,
        None => run_folder::create(Some(&home), kind)?,
    };
    eprintln!("seed {seed}; the run's folder is {}", folder.display());
    let mut run = bench.run_in(&folder, &plan.name, arms, options.repeat, seed);
    if let Some(database) = &global.db {
        run.database = database.clone();
    }
    let outcome = bench.carry_out(&run, plan);
    conclude(&run, outcome, global)
}

/// Reports on a run that has ended, whatever ended it.
fn conclude(
    run: &LabPlan,
    outcome: Result<RunOutcome, Failure>,
    global: &GlobalOptions,
) -> Result<Answer, Failure> {
    let report = || {
        let store = Store::open(&run.database)?;
        let trials = store.trials()?;
        // Others may write to the database too; a run that failed is known by its seed.
        let of_seed = || Some(trials.iter().rfind(|trial| trial.plan.seed == run.seed)?.id);
        let trial = outcome.as_ref().map_or_else(|_| of_seed(), |outcome| Some(outcome.trial_id));
        let trial = trial.ok_or_else(|| Failure::failed("the run ended before anything was written"))?;
        written(&Report::with_charts(&store, trial, &Options::default())?, &run.folder, global)
    };
    let reported = report();
    match (reported, outcome.map_or_else(Some, |outcome| missing(&outcome))) {
        (Ok(answer), Some(failure)) => Ok(answer.but(failure)),
        (Err(_), Some(failure)) => Err(failure),
        (reported, None) => reported,
    }
}

/// What a run that was carried out lacks.
fn missing(outcome: &RunOutcome) -> Option<Failure> {
    let unread = outcome.unread_work();
    Some(Failure::failed(match outcome.failed_services {
        _ if outcome.interrupted => {
            "the run was interrupted; the report is of what there was until then".to_owned()
        }
        0 if unread.is_empty() => return None,
        0 => format!(
            "no service gave a figure of the work {}; the report has what there was instead",
            unread.join(", ")
        ),
        1 => "a service failed, and is in no figure; the report has the reason".to_owned(),
        failed => format!("{failed} services failed, and are in no figure; the report has the reasons"),
    }))
}

/// Refuses what no run could do; gives what is compared.
fn check(options: &LabOptions, plan: &TrialPlan, timed: &Timed) -> Result<Metric, Failure> {
    let ((workload, duration), tick) = (timed, options.tick);
    if tick.0 < Duration::from_millis(10) {
        return Err(Failure::usage(format!("--tick {tick} is too short: it must be at least 10ms")));
    }
    if let Some(duration) = duration.filter(|duration| duration.0 < tick.0 * 2) {
        return Err(Failure::usage(format!(
            "a duration of {duration} is too short: it must hold two ticks, which are {tick} apart (--tick)"
        )));
    }
    workload.check(&plan.arms).map_err(Failure::refused)?;
    let metric = options.metric.or(plan.metric).unwrap_or(Metric::Anon);
    if metric == Metric::Pss {
        return Err(Failure::usage(
            "a lab run cannot compare pss: PSS is read too rarely (reading it stalls the service); use --metric anon, \
             which has each page once, PSS of each service is in the report",
        ));
    }
    Ok(metric)
}

/// Where figures come from, if that is all that is asked for. Each node of a cluster finds its own, and this machine's are of no block.
fn accounting(options: &LabOptions, metric: Metric, on: On) -> Result<Accounting, Failure> {
    let accounting = Accounting::find();
    let needs_cgroup = match (metric, options.memory_limit) {
        (_, Some(_)) => Some("--memory-limit"),
        (Metric::Cgroup, None) => Some("--metric cgroup"),
        _ => None,
    };
    if let (Some(option), Some(why), On::Here) = (needs_cgroup, accounting.why_none(), on) {
        return Err(Failure::refused(format!(
            "{option} needs control groups, and none can be made here: {why}; run it as root, or in a session of a \
             user's systemd under cgroup version 2"
        )));
    }
    Ok(accounting)
}

/// An interrupt that Ctrl-C and its like request. Tasks of a cluster do not end with the terminal that submitted them:
/// there it is Ctrl-C alone.
fn heeding_signals(on: On) -> Result<Interrupt, Failure> {
    let interrupt = Interrupt::default();
    let signals = match on {
        On::Here => &[SIGINT, SIGTERM, SIGHUP][..],
        On::Slurm => &[SIGINT],
    };
    // Where a second Ctrl-C ends the program, supervisors end the services.
    set_by(signals, &interrupt.flag())?;
    Ok(interrupt)
}

/// What the catalog knows of an arm's allocator, and where the user wants it from.
type ResolvedArm<'a> = (Resolved, Option<&'a Path>);

/// Looks every arm's spec up before anything is fetched.
fn resolve<'a>(plan: &TrialPlan, options: &'a LabOptions) -> Result<Vec<ResolvedArm<'a>>, Failure> {
    let bare = |spec: &AllocatorSpec| spec.without_settings();
    let stray = options
        .from
        .iter()
        .find(|(from, _)| plan.arms.iter().all(|arm| bare(&arm.allocator()) != bare(from)));
    if let Some((spec, _)) = stray {
        return Err(Failure::usage(format!("--from {spec}=...: no arm has this allocator")));
    }
    let resolve = |arm: &Arm| {
        let (catalog, spec) = (Catalog::builtin(), arm.allocator());
        let from = options.from.iter().find(|(from, _)| bare(from) == bare(&spec));
        let ran = options.as_run(&spec);
        let found = if from.is_some() { catalog.resolve_local(&ran) } else { catalog.resolve(&ran) };
        Ok((found?, from.map(|(_, path)| path.as_path())))
    };
    plan.arms.iter().map(resolve).collect()
}

/// Obtains and verifies the allocator of every arm before anything is started.
fn prepare(
    plan: &TrialPlan,
    resolved: &[ResolvedArm<'_>],
    options: &LabOptions,
    global: &GlobalOptions,
) -> Result<Vec<PreparedArm>, Failure> {
    let prepare = |(arm, (resolved, from)): (&Arm, &ResolvedArm<'_>)| {
        let obtained = options.sources.obtainer(*from)?.obtain(resolved)?;
        if global.verbose > 0 {
            eprintln!("{}: {}; {}", arm.name, obtained.provenance, obtained.verification);
        }
        Ok(PreparedArm { arm: arm.clone(), obtained })
    };
    plan.arms.iter().zip(resolved).map(prepare).collect()
}

/// This very program, which is also the supervisor of services, even when its file is replaced during a run.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// What would be run, and in which order.
fn planned(plan: &TrialPlan, schedule: &Schedule, duration: Option<HumanDuration>, command: &str) -> Answer {
    let control = &plan.control().name;
    let names =
        |arms: &[usize]| -> Vec<&str> { arms.iter().map(|arm| plan.arms[*arm].name.as_str()).collect() };
    let length = match duration {
        Some(duration) => {
            format!(" of {duration}, {} in all", HumanDuration(duration.0 * schedule.rounds.len() as u32))
        }
        None => ", each as long as its work".to_owned(),
    };
    let count = units::counted(schedule.rounds.len(), "round");
    let mut text = format!("{command}\n{count}{length}; the control is {control}\n");
    let mut rounds = Vec::new();
    for (number, round) in schedule.rounds.iter().enumerate() {
        text += &format!("round {}, repeat {}:\n", number + 1, round.repeat + 1);
        names(&round.arms).iter().for_each(|name| text += &format!("  {name}\n"));
        rounds.push(serde_json::json!({ "repeat": round.repeat + 1, "arms": names(&round.arms) }));
    }
    let document = serde_json::json!({
        "command": command,
        "control": control,
        "round_seconds": duration.map(|duration| duration.0.as_secs_f64()),
        "rounds": rounds,
    });
    Answer::new(document, text)
}
