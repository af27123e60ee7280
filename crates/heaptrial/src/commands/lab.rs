//! `heaptrial lab`: the same workload under several allocators on this machine.

mod factorial;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use heaptrial_allocator::{Catalog, Resolved};
use heaptrial_lab::{
    Accounting, CommandWorkload, Interrupt, LabPlan, PreparedArm, Schedule, TorParameters, TorWorkload,
    Workload,
};
use heaptrial_model::{AllocatorSpec, Arm, ErrorClass, HumanDuration, Metric, TrialPlan};
use heaptrial_network::{DirectoryParameters, LoadParameters, RelayParameters};
use heaptrial_report::Options;
use heaptrial_store::Store;

use self::factorial::FactorialOptions;
use super::allocators::SourceOptions;
use super::report::write_and_print;
use super::value::{ValueError, number, size};
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;
use crate::progress::LiveProgress;
use crate::run_folder;

/// The arms of `lab tor` where none are named.
const DEFAULT_TOR_ARMS: &str = include_str!("../../../../docs/examples/tor-six-arms.toml");

/// What to run.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run a program once per allocator and repeat, in a drawn order, and compare its memory
    Run(RunOptions),
    /// Run real Tor relays on a private network on loopback, all arms at once, under the same load
    Tor(TorOptions),
}

/// Options of every lab run.
#[derive(Debug, Args)]
struct LabOptions {
    /// An arm: an allocator such as glibc, jemalloc@5.3.0 or mimalloc@3.0.1?purge_delay=0; repeat it,
    /// the first is the control
    #[arg(short, long = "allocator", value_name = "SPEC", conflicts_with = "arms")]
    allocators: Vec<AllocatorSpec>,
    /// Arms from a trial plan in TOML
    #[arg(long, value_name = "FILE")]
    arms: Option<PathBuf>,
    #[command(flatten)]
    factorial: FactorialOptions,
    /// Repeats of each arm
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Seed of order, directory and load [default: drawn, and printed]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Time between samples
    #[arg(long, default_value = "1s", value_name = "DURATION")]
    tick: HumanDuration,
    /// Which reading is compared: anon (anonymous memory and swap of all processes, each page once), rss (sum over the
    /// processes), or cgroup (with page cache) [default: the plan's, or anon]
    #[arg(long, value_name = "METRIC", value_parser = lab_metric)]
    metric: Option<Metric>,
    /// Memory and swap that each service may have at most, such as 512M: shows which arms live under it; needs control
    /// groups
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory_limit: Option<u64>,
    /// Take the allocator of arms with this SPEC from a library or source folder of yours; may be repeated
    #[arg(long, value_name = "SPEC=PATH", value_parser = spec_and_path)]
    from: Vec<(AllocatorSpec, PathBuf)>,
    /// Show what would be run, and run nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    sources: SourceOptions,
}

/// Options of `lab run`.
#[derive(Debug, Args)]
pub struct RunOptions {
    #[command(flatten)]
    lab: LabOptions,
    /// How long each run of the program is observed; it must not end before [default: the plan's, or 60s]
    #[arg(long, value_name = "DURATION")]
    duration: Option<HumanDuration>,
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Options of `lab tor`.
#[derive(Debug, Args)]
pub struct TorOptions {
    #[command(flatten)]
    lab: LabOptions,
    /// How long the relays live [default: the plan's, or 5m]
    #[arg(long, value_name = "DURATION")]
    duration: Option<HumanDuration>,
    /// Entries of the synthetic directory
    #[arg(long, default_value_t = 4000, value_name = "N", value_parser = clap::value_parser!(u32).range(20..=12_000))]
    entries: u32,
    /// Time between consensuses; relays accept no less than 10s
    #[arg(long, default_value = "10s", value_name = "DURATION")]
    interval: HumanDuration,
    /// New clients per second and relay in a steady phase
    #[arg(long, default_value_t = 5.0, value_name = "RATE", value_parser = positive)]
    rate: f64,
    /// By how much a burst exceeds the steady rate; each minute has 36 s steady, 12 s burst, 12 s idle
    #[arg(long, default_value_t = 3.0, value_name = "FACTOR", value_parser = positive)]
    burst: f64,
    /// Mean time that clients stay connected
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    hold: HumanDuration,
    /// torrc NumCPUs of the relays; many-core servers have 16 and more worker threads
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    num_cpus: u32,
    /// torrc MaxConsensusAgeForDiffs of the relays
    #[arg(long, default_value = "50s", value_name = "DURATION")]
    diff_age: HumanDuration,
}

/// Those that a lab run can compare, and those that it explains why not.
fn lab_metric(text: &str) -> Result<Metric, ValueError> {
    text.parse().map_err(|_| ValueError::Expected("a metric of a lab run: anon, rss or cgroup"))
}

/// Splits at the last `=`, since settings hold some as well.
fn spec_and_path(text: &str) -> Result<(AllocatorSpec, PathBuf), ValueError> {
    let (spec, path) = text.rsplit_once('=').ok_or(ValueError::Expected("SPEC=PATH"))?;
    Ok((spec.parse()?, PathBuf::from(path)))
}

fn positive(text: &str) -> Result<f64, ValueError> {
    number(text, f64::MIN_POSITIVE..=1000.0, "a number above 0 and up to 1000")
}

/// Runs a lab command.
pub fn run(command: LabCommand, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    match command {
        LabCommand::Run(options) => {
            let plan = options.lab.plan(None)?;
            let workload = CommandWorkload::new(&options.command).map_err(Failure::refused)?;
            let duration = duration(options.duration, &plan, HumanDuration::from_secs(60));
            let mut words = vec![format!("--duration {duration}")];
            let program: Vec<_> = options.command.iter().map(|word| word.to_string_lossy()).collect();
            words.push(format!("-- {}", shell_words::join(program)));
            execute("run", &options.lab, &plan, &workload, duration, &words, global)
        }
        LabCommand::Tor(options) => {
            let plan = options.lab.plan(Some(DEFAULT_TOR_ARMS))?;
            let workload = TorWorkload::new(options.parameters()?).map_err(Failure::refused)?;
            let duration = duration(options.duration, &plan, HumanDuration::from_secs(300));
            execute("tor", &options.lab, &plan, &workload, duration, &options.words(duration), global)
        }
    }
}

fn duration(asked: Option<HumanDuration>, plan: &TrialPlan, usual: HumanDuration) -> HumanDuration {
    asked.or(plan.duration).unwrap_or(usual)
}

impl LabOptions {
    /// The arms: those of a factorial, those named, those of a file, or `usual`.
    fn plan(&self, usual: Option<&str>) -> Result<TrialPlan, Failure> {
        if let Some(design) = self.factorial.design()? {
            factorial::describe(&design);
            return TrialPlan::from_specs("factorial", &design.specs()).map_err(Failure::usage);
        }
        if !self.allocators.is_empty() {
            return TrialPlan::from_specs("lab", &self.allocators).map_err(Failure::usage);
        }
        if let Some(path) = &self.arms {
            let text = std::fs::read_to_string(path).map_err(|error| {
                Failure::usage(format!("cannot read the arms from {}: {error}", path.display()))
            })?;
            return TrialPlan::from_toml(&text)
                .map_err(|error| Failure::usage(format!("{}: {error}", path.display())));
        }
        let usual = usual.ok_or_else(|| {
            Failure::usage("no arms; name allocators with -a SPEC, a plan with --arms FILE, or two versions with --factorial GOOD,BAD")
        })?;
        TrialPlan::from_toml(usual).map_err(Failure::failed)
    }

    /// The options as words of a command line that repeats the run.
    fn words(&self, seed: u64, metric: Metric) -> Vec<String> {
        let mut words = Vec::new();
        for spec in &self.allocators {
            words.push(format!("-a {}", shell_words::quote(&spec.to_string())));
        }
        if let Some(path) = &self.arms {
            words.push(format!("--arms {}", shell_words::quote(&absolute(path).to_string_lossy())));
        }
        words.extend(self.factorial.words());
        for (spec, path) in &self.from {
            words.push(format!(
                "--from {}",
                shell_words::quote(&format!("{spec}={}", absolute(path).display()))
            ));
        }
        words.extend(self.sources.words());
        words.extend(self.memory_limit.map(|bytes| format!("--memory-limit {bytes}")));
        words.extend([
            format!("--repeat {}", self.repeat),
            format!("--seed {seed}"),
            format!("--tick {}", self.tick),
            format!("--metric {metric}"),
        ]);
        words
    }
}

impl TorOptions {
    fn parameters(&self) -> Result<TorParameters, Failure> {
        let interval_seconds = self.interval.0.as_secs() as u32;
        if self.rate * self.burst > 1000.0 {
            return Err(Failure::usage(
                "--rate times --burst must be at most 1000 clients per second and relay",
            ));
        }
        if !(10..=3600).contains(&interval_seconds) {
            return Err(Failure::usage(
                "--interval must be from 10s to 1h: Tor relays accept no shorter one",
            ));
        }
        Ok(TorParameters {
            directory: DirectoryParameters { entries: self.entries as usize, interval_seconds, seed: 0 },
            relays: RelayParameters {
                num_cpus: self.num_cpus,
                max_consensus_age_for_diffs_seconds: self.diff_age.0.as_secs() as u32,
            },
            load: LoadParameters {
                connections_per_second: self.rate,
                hold_seconds: self.hold.0.as_secs_f64(),
                phases: LoadParameters::cycle(self.burst),
            },
        })
    }

    fn words(&self, duration: HumanDuration) -> Vec<String> {
        vec![
            format!("--duration {duration}"),
            format!("--entries {}", self.entries),
            format!("--interval {}", self.interval),
            format!("--rate {}", self.rate),
            format!("--burst {}", self.burst),
            format!("--hold {}", self.hold),
            format!("--num-cpus {}", self.num_cpus),
            format!("--diff-age {}", self.diff_age),
        ]
    }
}

fn execute(
    kind: &str,
    options: &LabOptions,
    plan: &TrialPlan,
    workload: &dyn Workload,
    duration: HumanDuration,
    words: &[String],
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    if options.tick.0 < Duration::from_millis(10) || duration.0 < options.tick.0 * 2 {
        return Err(Failure::usage("--tick must be at least 10ms and fit twice into the duration"));
    }
    workload.check(&plan.arms).map_err(Failure::refused)?;
    let seed = options.seed.unwrap_or_else(rand::random);
    let metric = options.metric.or(plan.metric).unwrap_or(Metric::Anon);
    if metric == Metric::Pss {
        return Err(Failure::usage(
            "a lab run cannot compare pss: PSS is read too rarely (reading it stalls the service); use --metric anon, \
             which has each page once, PSS of each service is in the report",
        ));
    }
    let allocators = resolve(plan, options)?;
    run_folder::check(global.out.as_deref())?;
    let command = repeat_command(kind, &options.words(seed, metric), words);
    if options.dry_run {
        let schedule = Schedule::draw(plan.arms.len(), options.repeat, workload.arrangement(), seed);
        print_schedule(plan, &schedule, duration, &command, global.json);
        return Ok(ExitCode::SUCCESS);
    }
    let accounting = Accounting::find();
    let needs_cgroup = match (metric, options.memory_limit) {
        (_, Some(_)) => Some("--memory-limit"),
        (Metric::Cgroup, None) => Some("--metric cgroup"),
        _ => None,
    };
    if let (Some(option), Some(why)) = (needs_cgroup, accounting.why_none()) {
        return Err(Failure::refused(format!(
            "{option} needs control groups, and none can be made here: {why}; run it as root, or in a session of a \
             user's systemd under cgroup version 2"
        )));
    }
    let arms = prepare(allocators, options, global)?;
    let folder = run_folder::create(global.out.as_deref(), kind)?;
    eprintln!("seed {seed}; the run's folder is {}", folder.display());
    let lab = LabPlan {
        name: plan.name.clone(),
        arms,
        repeats: options.repeat,
        duration: duration.0,
        tick: options.tick.0,
        metric,
        accounting,
        memory_limit_bytes: options.memory_limit,
        seed,
        command,
        folder: folder.clone(),
        supervisor: PathBuf::from(OWN_PROGRAM),
    };
    describe(&lab, plan)?;
    let interrupt = Interrupt::default();
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        // A second Ctrl-C ends the program at once; supervisors then end the services.
        signal_hook::flag::register_conditional_shutdown(signal, 130, interrupt.flag())
            .map_err(Failure::failed)?;
        signal_hook::flag::register(signal, interrupt.flag()).map_err(Failure::failed)?;
    }
    let outcome = heaptrial_lab::run(&lab, workload, &interrupt, &mut LiveProgress::new());
    // Whatever ended the run, what there is gets reported.
    let reported = Store::open(&lab.database()).map_err(Failure::failed).and_then(|store| {
        let trials = store.trials().map_err(Failure::failed)?;
        let trial =
            trials.last().ok_or_else(|| Failure::failed("the run ended before anything was written"))?;
        write_and_print(&store, trial.id, &folder, &Options::default(), global)
    });
    let outcome = outcome?;
    reported?;
    let good = !outcome.interrupted && outcome.failed_services == 0;
    Ok(if good { ExitCode::SUCCESS } else { code(ErrorClass::Failed) })
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
        let found = match given {
            Some(_) => Catalog::builtin().resolve_local(&spec),
            None => Catalog::builtin().resolve(&spec),
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

/// A path that means the same from any folder.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// This very program, which is also the supervisor of services, even when its file is replaced during a run.
const OWN_PROGRAM: &str = "/proc/self/exe";

fn repeat_command(kind: &str, lab: &[String], own: &[String]) -> String {
    let words: Vec<&str> = lab.iter().chain(own).map(String::as_str).collect();
    format!("heaptrial lab {kind} {}", words.join(" "))
}

/// Writes the plan and the command into the run's folder, so that it tells what it is by itself.
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

fn print_schedule(plan: &TrialPlan, schedule: &Schedule, duration: HumanDuration, command: &str, json: bool) {
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
            "round_seconds": duration.0.as_secs_f64(),
            "rounds": rounds,
        });
        println!("{document:#}");
        return;
    }
    println!("{command}");
    let total = HumanDuration(duration.0 * schedule.rounds.len() as u32);
    println!(
        "{} rounds of {duration}, {total} in all; the control is {}",
        schedule.rounds.len(),
        plan.control().name
    );
    for (number, round) in schedule.rounds.iter().enumerate() {
        println!("round {}, repeat {}:", number + 1, round.repeat + 1);
        names(&round.arms).iter().for_each(|name| println!("  {name}"));
    }
}
