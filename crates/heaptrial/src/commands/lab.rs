//! `heaptrial lab`: the same workload under several allocators, on this machine or on a cluster.

mod bisect;
mod executor;
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
use std::process::ExitCode;
use std::time::Duration;

use clap::Subcommand;
use heaptrial_allocator::{Catalog, Resolved};
use heaptrial_lab::{Accounting, Interrupt, LabPlan, PreparedArm, RunOutcome, Schedule, Workload};
use heaptrial_model::{AllocatorSpec, Arm, HumanDuration, Metric, TrialPlan};
use heaptrial_report::{BisectReport, Options, TuneReport};
use heaptrial_store::Store;

use self::bisect::BisectOptions;
use self::executor::On;
use self::like::Runs;
use self::options::LabOptions;
use self::repeat_command::RepeatCommand;
pub use self::run::RunOptions;
use self::score::ScoreOptions;
pub use self::search::read_report as report_in;
use self::slurm::Slurm;
pub use self::slurm::{BLOCK_COMMAND, run_task};
pub use self::tor::TorOptions;
use self::tune::TuneOptions;
use super::report::write_and_print;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::progress::LiveProgress;
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

pub fn run(command: LabCommand, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let like = match &command {
        LabCommand::Run(options) => options.lab.like.as_deref().zip(Some(Runs::Program)),
        LabCommand::Tor(options) => options.lab.like.as_deref().zip(Some(Runs::Relays)),
        _ => None,
    };
    if let Some((like, runs)) = like {
        return like::start_as(like, runs, global);
    }
    let here = std::env::current_dir().map_err(Failure::failed)?;
    match &command {
        LabCommand::Run(options) => userland::enter(&options.lab, global, None, &here)?,
        LabCommand::Tor(options) => userland::enter(&options.lab, global, None, &here)?,
        LabCommand::Bisect(_) | LabCommand::Tune(_) | LabCommand::Score(_) => {}
    }
    match command {
        LabCommand::Run(options) => run::run(&options, global),
        LabCommand::Bisect(options) => bisect::run(&options, global),
        LabCommand::Tune(options) => tune::run(&options, global),
        LabCommand::Score(options) => score::run(&options, global),
        LabCommand::Tor(options) => tor::run(&options, global),
    }
}

/// Prints the report of a search whose folder this is, and writes it again; `None` where it is none.
pub fn report_of_search(folder: &Path, global: &GlobalOptions) -> Result<Option<ExitCode>, Failure> {
    match search::report_of::<BisectReport>(folder, global)? {
        Some(code) => Ok(Some(code)),
        None => search::report_of::<TuneReport>(folder, global),
    }
}

fn execute(
    kind: &str,
    options: &LabOptions,
    plan: &TrialPlan,
    workload: &dyn Workload,
    duration: Option<HumanDuration>,
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    let metric = check(options, plan, workload, duration)?;
    let allocators = resolve(plan, options)?;
    let home = run_folder::named(global.out.as_deref(), kind)?;
    let earlier = if options.executor.on == On::Slurm { slurm::seed_in(&home) } else { None };
    if earlier.is_none() {
        run_folder::check(global.out.as_deref())?;
    }
    let seed = options.seed.or(earlier).unwrap_or_else(rand::random);
    let command = RepeatCommand::own()?.of_run(kind, seed);
    if options.dry_run {
        let control = plan.arms.iter().position(|arm| arm.control).unwrap_or(0);
        let arms = plan.arms.len();
        let schedule = Schedule::draw(arms, control, options.repeat, workload.arrangement(), seed);
        print_schedule(plan, &schedule, duration, &command.to_string(), global.json);
        return Ok(ExitCode::SUCCESS);
    }
    let accounting = accounting(options, metric, options.executor.on)?;
    let cluster = options.executor.cluster(home.clone())?;
    let arms = prepare(allocators, options, global)?;
    let folder = match earlier {
        Some(_) => home,
        None => run_folder::create(Some(&home), kind)?,
    };
    eprintln!("seed {seed}; the run's folder is {}", folder.display());
    let mut lab = options.plan_in(&folder, &command, duration, metric, accounting);
    lab = LabPlan { name: plan.name.clone(), arms, repeats: options.repeat, seed, ..lab };
    if let Some(database) = &global.db {
        lab.database = database.clone();
    }
    describe(&lab, plan)?;
    let interrupt = heeding_signals(options.executor.on)?;
    let outcome = carry_out(cluster.as_ref(), &lab, plan, &command, workload, &interrupt);
    conclude(&lab.database, &folder, seed, outcome, global)
}

/// Carries out all blocks of a run, whose folder exists.
fn carry_out(
    cluster: Option<&Slurm>,
    lab: &LabPlan,
    plan: &TrialPlan,
    command: &RepeatCommand,
    workload: &dyn Workload,
    interrupt: &Interrupt,
) -> Result<RunOutcome, Failure> {
    let mut progress = LiveProgress::new();
    match cluster {
        Some(slurm) => slurm.run(lab, plan, command, workload, interrupt, &mut progress),
        None => Ok(heaptrial_lab::run(lab, workload, None, interrupt, &mut progress)?),
    }
}

/// Reports on a run that has ended, whatever ended it.
fn conclude(
    database: &Path,
    folder: &Path,
    seed: u64,
    outcome: Result<RunOutcome, Failure>,
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    let reported = Store::open(database).map_err(Failure::failed).and_then(|store| {
        let trials = store.trials().map_err(Failure::failed)?;
        // Others may write to the database too; a run that failed is known by its seed.
        let of_seed = || Some(trials.iter().rfind(|trial| trial.plan.seed == seed)?.id);
        let trial = outcome.as_ref().map_or_else(|_| of_seed(), |outcome| Some(outcome.trial_id));
        let trial = trial.ok_or_else(|| Failure::failed("the run ended before anything was written"))?;
        write_and_print(&store, trial, folder, &Options::default(), global)
    });
    let outcome = outcome?;
    reported?;
    if outcome.interrupted {
        return Err(Failure::failed("the run was interrupted; the report is of what there was until then"));
    }
    match outcome.failed_services {
        0 if outcome.unread_work().is_empty() => Ok(ExitCode::SUCCESS),
        0 => Err(Failure::failed(format!(
            "no service gave a figure of the work {}; the report has what there was instead",
            outcome.unread_work().join(", ")
        ))),
        1 => Err(Failure::failed("a service failed, and is in no figure; the report has the reason")),
        failed => Err(Failure::failed(format!(
            "{failed} services failed, and are in no figure; the report has the reasons"
        ))),
    }
}

/// Refuses what no run could do; gives what is compared.
fn check(
    options: &LabOptions,
    plan: &TrialPlan,
    workload: &dyn Workload,
    duration: Option<HumanDuration>,
) -> Result<Metric, Failure> {
    let tick = options.tick;
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

/// An interrupt that Ctrl-C and its like request. Tasks of a cluster do not end with the terminal that submitted them: there it is
/// Ctrl-C alone.
fn heeding_signals(on: On) -> Result<Interrupt, Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let interrupt = Interrupt::default();
    let signals = match on {
        On::Here => &[SIGINT, SIGTERM, SIGHUP][..],
        On::Slurm => &[SIGINT],
    };
    for signal in signals.iter().copied() {
        // A second Ctrl-C ends the program at once; supervisors then end the services.
        signal_hook::flag::register_conditional_shutdown(signal, 130, interrupt.flag())
            .map_err(Failure::failed)?;
        signal_hook::flag::register(signal, interrupt.flag()).map_err(Failure::failed)?;
    }
    Ok(interrupt)
}

/// An arm with what the catalog knows of its allocator, and where the user wants it from.
type ResolvedArm<'a> = (&'a Arm, Option<&'a Path>, Resolved);

/// Looks every arm's spec up before anything is fetched.
fn resolve<'a>(plan: &'a TrialPlan, options: &'a LabOptions) -> Result<Vec<ResolvedArm<'a>>, Failure> {
    let bare = |spec: &AllocatorSpec| spec.without_settings();
    let stray = options
        .from
        .iter()
        .find(|(from, _)| plan.arms.iter().all(|arm| bare(&arm.allocator()) != bare(from)));
    if let Some((spec, _)) = stray {
        return Err(Failure::usage(format!("--from {spec}=...: no arm has this allocator")));
    }
    let mut resolved = Vec::new();
    for arm in &plan.arms {
        let spec = arm.allocator();
        let given = options.from.iter().find(|(from, _)| bare(from) == bare(&spec));
        let catalog = Catalog::builtin();
        let ran = options.as_run(&spec);
        let found = match given {
            Some(_) => catalog.resolve_local(&ran),
            None => catalog.resolve(&ran),
        };
        resolved.push((arm, given.map(|(_, path)| path.as_path()), found?));
    }
    Ok(resolved)
}

/// Obtains and verifies the allocator of every arm before anything is started.
fn prepare(
    arms: Vec<ResolvedArm<'_>>,
    options: &LabOptions,
    global: &GlobalOptions,
) -> Result<Vec<PreparedArm>, Failure> {
    arms.into_iter()
        .map(|(arm, from, resolved)| {
            let obtained = options.sources.obtainer(from)?.obtain(&resolved)?;
            if global.verbose > 0 {
                eprintln!("{}: {}; {}", arm.name, obtained.provenance, obtained.verification);
            }
            Ok(PreparedArm { arm: arm.clone(), obtained })
        })
        .collect()
}

/// This very program, which is also the supervisor of services, even when its file is replaced during a run.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// Writes the plan and the command into the run's folder, so that it explains itself.
fn describe(lab: &LabPlan, plan: &TrialPlan) -> Result<(), Failure> {
    let write = |name: &str, text: String| {
        let path = lab.folder.join(name);
        std::fs::write(&path, text).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
    };
    let plan = serde_json::to_string_pretty(plan).map_err(Failure::failed)?;
    write("plan.json", format!("{plan}\n"))?;
    let folder = std::env::current_dir().unwrap_or_default();
    write("command.txt", format!("cd {}\n{}\n", shell_words::quote(&folder.to_string_lossy()), lab.command))?;
    let builds: Vec<_> = lab.arms.iter().map(|arm| &arm.obtained).collect();
    let builds = serde_json::to_string_pretty(&builds).map_err(Failure::failed)?;
    write("allocators.json", format!("{builds}\n"))
}

fn print_schedule(
    plan: &TrialPlan,
    schedule: &Schedule,
    duration: Option<HumanDuration>,
    command: &str,
    json: bool,
) {
    let names =
        |arms: &[usize]| -> Vec<&str> { arms.iter().map(|arm| plan.arms[*arm].name.as_str()).collect() };
    if json {
        let rounds: Vec<_> = schedule
            .rounds
            .iter()
            .map(|round| serde_json::json!({ "repeat": round.repeat + 1, "arms": names(&round.arms) }))
            .collect();
        let document = serde_json::json!({
            "schema_version": 1,
            "command": command,
            "control": plan.control().name,
            "round_seconds": duration.map(|duration| duration.0.as_secs_f64()),
            "rounds": rounds,
        });
        println!("{document:#}");
        return;
    }
    println!("{command}");
    let length = match duration {
        Some(duration) => {
            format!(" of {duration}, {} in all", HumanDuration(duration.0 * schedule.rounds.len() as u32))
        }
        None => ", each as long as its work".to_owned(),
    };
    println!(
        "{}{length}; the control is {}",
        heaptrial_model::units::counted(schedule.rounds.len(), "round"),
        plan.control().name
    );
    for (number, round) in schedule.rounds.iter().enumerate() {
        println!("round {}, repeat {}:", number + 1, round.repeat + 1);
        names(&round.arms).iter().for_each(|name| println!("  {name}"));
    }
}
