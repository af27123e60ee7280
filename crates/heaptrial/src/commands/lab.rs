//! `heaptrial lab`: the same workload under several allocators, on this machine or on a cluster.

mod bisect;
mod factorial;
mod place;
mod run;
mod score;
mod search;
mod shell;
mod tune;
mod userland;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Subcommand};
use heaptrial_allocator::{Catalog, Resolved};
use heaptrial_host::{HostFacts, HostRoot};
use heaptrial_lab::{
    Accounting, Inside, Interrupt, LabPlan, Pace, PreparedArm, RunOutcome, Schedule, TorParameters,
    TorWorkload, Userland, Workload,
};
use heaptrial_model::{AllocatorSpec, Arm, HumanDuration, Metric, TrialName, TrialPlan};
use heaptrial_network::{LoadParameters, RelayParameters, TrafficParameters};
use heaptrial_report::Options;
use heaptrial_store::Store;

use self::bisect::BisectOptions;
pub use self::bisect::report_in;
use self::factorial::FactorialOptions;
pub use self::place::{AttachOptions, BLOCK_COMMAND, run_task};
use self::place::{On, PlaceOptions};
pub use self::run::RunOptions;
use self::score::ScoreOptions;
pub use self::search::document_in as document_of_search;
use self::shell::quoted;
use self::tune::TuneOptions;
pub use self::tune::report_in as report_of_tune;
use super::allocators::SourceOptions;
use super::report::write_and_print;
use super::value::{ValueError, number, size};
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::progress::LiveProgress;
use crate::run_folder;

/// The arms of `lab tor` where none are named.
const DEFAULT_TOR_ARMS: &str = include_str!("../../../../docs/examples/tor-six-arms.toml");

/// Consensuses of a round of `lab tor` where no length is asked for: a day and a quarter of a relay.
const CONSENSUSES: u32 = 30;
/// What the largest of the known allocators grows to in some days of a relay, at this many entries.
const LARGEST_RELAY_BYTES: f64 = 2.5e9;
const LARGEST_RELAY_ENTRIES: u32 = 9_500;
/// Relays rest longer than the slowest of their allocators takes to give memory back by this, and 12 s at least, so that
/// runs without such an allocator can be compared with others.
const REST_MARGIN: Duration = Duration::from_secs(2);
const LEAST_REST: Duration = Duration::from_secs(12);

/// What to run.
#[derive(Debug, Subcommand)]
pub enum LabCommand {
    /// Run a program once per allocator and repeat, in a drawn order, and compare its memory
    Run(Box<RunOptions>),
    /// Run real Tor relays on a private network on loopback, all arms at once, under the same load
    Tor(Box<TorOptions>),
    /// Search releases or upstream's commits for what changed the memory, by runs until it is sure
    Bisect(Box<BisectOptions>),
    /// Go on watching a run whose blocks a cluster carries out, and collect its results
    Attach(AttachOptions),
    /// Search settings of allocators for the least memory, and verify what was found on fresh seeds
    Tune(Box<TuneOptions>),
    /// Tell how well lab runs of relays told what an import or a field trial showed
    Score(ScoreOptions),
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
    /// The run's name [default: of the plan, or of the program]
    #[arg(long, value_name = "NAME")]
    name: Option<TrialName>,
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
    /// Run the arms' allocators as on a machine with N processors, by their own settings (glibc makes 8 arenas for each,
    /// jemalloc 4) [default: as on those of this machine]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    processors: Option<u32>,
    /// Memory and swap that each service may have at most, such as 512M: shows which arms live under it; needs control
    /// groups
    #[arg(long, value_name = "SIZE", value_parser = size)]
    memory_limit: Option<u64>,
    /// Take the allocator of arms with this SPEC from a library or source folder of yours; may be repeated
    #[arg(long, value_name = "SPEC=PATH", value_parser = spec_and_path)]
    from: Vec<(AllocatorSpec, PathBuf)>,
    /// Run everything in a root of this suite (bookworm, trixie, noble, ...), made once and cached, or in a root's folder
    #[arg(long, value_name = "SUITE|DIR")]
    userland: Option<Userland>,
    /// A package that the userland of a suite has besides; may be repeated
    #[arg(long, value_name = "PACKAGE", requires = "userland")]
    userland_package: Vec<String>,
    /// Run the services with the shared libraries of PACKAGE from another suite, everything else equal; may be repeated
    #[arg(long, value_name = "PACKAGE=SUITE", value_parser = package_and_suite)]
    exchange: Vec<(String, String)>,
    #[command(flatten)]
    place: PlaceOptions,
    /// Show what would be run, and run nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    sources: SourceOptions,
}

/// Options of `lab tor`.
#[derive(Debug, Args)]
pub struct TorOptions {
    #[command(flatten)]
    lab: LabOptions,
    /// After how many consensuses a round ends; a relay in life gets one an hour [default: 30, without --duration]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=3000))]
    consensuses: Option<u32>,
    /// How long the relays live at most [default: the plan's]
    #[arg(long, value_name = "DURATION")]
    duration: Option<HumanDuration>,
    /// Entries of the synthetic directory
    #[arg(long, default_value_t = 4000, value_name = "N", value_parser = clap::value_parser!(u32).range(20..=12_000))]
    entries: u32,
    /// Older consensuses that relays retain and make diffs from; Tor retains 72
    #[arg(long, default_value_t = 12, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=999))]
    retain: u32,
    /// Relays that live at the same time; more arms run in groups, each with the control [default: as many as this
    /// machine's memory holds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    together: Option<u32>,
    /// How long relays rest when all have worked a consensus off, before the next [default: 2s more than the slowest
    /// allocator takes to give memory back, 12s at least]
    #[arg(long, value_name = "DURATION", conflicts_with = "interval")]
    rest: Option<HumanDuration>,
    /// Publish a consensus at fixed times, 10s apart or more, without waiting for relays
    #[arg(long, value_name = "DURATION")]
    interval: Option<HumanDuration>,
    /// Clients that come to each relay for each consensus
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20_000))]
    clients: u32,
    /// Time after the publication of a consensus within which its clients come
    #[arg(long, default_value = "10s", value_name = "DURATION")]
    arrivals: HumanDuration,
    /// For how many consensuses more clients stay connected, in the mean
    #[arg(long, default_value_t = 2.0, value_name = "N", value_parser = stay)]
    stay: f64,
    /// Connections of clients that each relay holds all the time, beside directory clients; production relays have
    /// thousands
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20_000))]
    connections: u32,
    /// Circuits that clients make with each relay per second by CREATE2 (ntor), which its worker threads answer
    #[arg(long, default_value_t = 0.0, value_name = "RATE", value_parser = rate)]
    ntor_rate: f64,
    /// Mean number of cells that a client sends over each of these circuits; each passes through the relay to a second
    /// one and comes back
    #[arg(long, default_value_t = 0.0, value_name = "N", value_parser = rate, requires = "ntor_rate")]
    cells: f64,
    /// Mean life of these circuits
    #[arg(long, default_value = "60s", value_name = "DURATION")]
    circuit_life: HumanDuration,
    /// torrc NumCPUs of the relays; many-core servers have 16 and more worker threads
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=128))]
    num_cpus: u32,
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

fn package_and_suite(text: &str) -> Result<(String, String), ValueError> {
    let is_name = |name: &str| {
        name.starts_with(|letter: char| letter.is_ascii_alphanumeric())
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "+-.".contains(letter))
    };
    match text.split_once('=') {
        Some((package, suite)) if is_name(package) && is_name(suite) => {
            Ok((package.to_owned(), suite.to_owned()))
        }
        _ => Err(ValueError::Expected("PACKAGE=SUITE, such as libzstd1=bookworm")),
    }
}

fn stay(text: &str) -> Result<f64, ValueError> {
    number(text, 0.0..=1000.0, "a number from 0 to 1000")
}

fn rate(text: &str) -> Result<f64, ValueError> {
    number(text, 0.0..=10_000.0, "a number from 0 to 10000")
}

/// Runs a lab command.
pub fn run(command: LabCommand, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    match &command {
        LabCommand::Run(options) => userland::enter(&options.lab, global, None)?,
        LabCommand::Tor(options) => userland::enter(&options.lab, global, None)?,
        LabCommand::Bisect(_) | LabCommand::Tune(_) | LabCommand::Attach(_) | LabCommand::Score(_) => {}
    }
    match command {
        LabCommand::Run(options) => run::run(&options, global),
        LabCommand::Bisect(options) => bisect::run(&options, global),
        LabCommand::Attach(options) => place::attach(&options, global),
        LabCommand::Tune(options) => tune::run(&options, global),
        LabCommand::Score(options) => score::run(&options, global),
        LabCommand::Tor(options) => {
            let plan = options.lab.plan("tor", Some(DEFAULT_TOR_ARMS))?;
            let (workload, duration, words) = options.workload(&plan)?;
            execute("tor", &options.lab, &plan, &workload, duration, &words, global)
        }
    }
}

/// Prints the report of a search whose folder this is, and writes it anew; `None` where it is none.
pub fn report_of_search(folder: &Path, global: &GlobalOptions) -> Result<Option<ExitCode>, Failure> {
    match bisect::report_of(folder, global)? {
        Some(code) => Ok(Some(code)),
        None => tune::report_of(folder, global),
    }
}

impl LabOptions {
    /// The arms: those of a factorial, those named, those of a file, or `usual`. The run is called as asked for, as its file
    /// says, or by `name`.
    fn plan(&self, name: &str, usual: Option<&str>) -> Result<TrialPlan, Failure> {
        let mut plan = self.arms_of(name, usual)?;
        if let Some(name) = &self.name {
            plan.name = name.to_string();
        }
        Ok(plan)
    }

    fn arms_of(&self, name: &str, usual: Option<&str>) -> Result<TrialPlan, Failure> {
        if let Some(design) = self.factorial.design()? {
            factorial::describe(&design);
            return TrialPlan::from_specs(name, &design.specs()).map_err(Failure::usage);
        }
        if !self.allocators.is_empty() {
            return TrialPlan::from_specs(name, &self.allocators).map_err(Failure::usage);
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
            words.push(format!("--arms {}", quoted(absolute(path).as_os_str())));
        }
        words.extend(self.factorial.words());
        for (spec, path) in &self.from {
            let mut word = OsString::from(format!("{spec}="));
            word.push(absolute(path));
            words.push(format!("--from {}", quoted(&word)));
        }
        words.extend(self.sources.words());
        words.extend(
            self.userland
                .iter()
                .map(|userland| format!("--userland {}", shell_words::quote(&userland.to_string()))),
        );
        words.extend(
            self.userland_package
                .iter()
                .map(|package| format!("--userland-package {}", shell_words::quote(package))),
        );
        words.extend(self.exchange.iter().map(|(package, suite)| format!("--exchange {package}={suite}")));
        words.extend(self.place.words());
        words.extend(self.name.as_ref().map(|name| format!("--name {}", quoted(name.as_str().as_ref()))));
        words.extend(self.processors.map(|number| format!("--processors {number}")));
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
    /// The relays as a workload, how long they live at most, and both as words of a command line.
    fn workload(
        &self,
        plan: &TrialPlan,
    ) -> Result<(TorWorkload, Option<HumanDuration>, Vec<String>), Failure> {
        if let Some((arm, key)) =
            plan.arms.iter().find_map(|arm| Some((&arm.name, arm.treatment.of_lab_run_only()?)))
        {
            return Err(Failure::usage(format!("arm `{arm}` has `{key}`, which is for lab run alone")));
        }
        let duration = self.duration.or(plan.duration);
        let parameters = self.parameters(plan, duration)?;
        let words = self.words(duration, &parameters);
        let workload = TorWorkload::new(parameters).map_err(Failure::refused)?;
        Ok((workload, duration, words))
    }

    fn parameters(
        &self,
        plan: &TrialPlan,
        duration: Option<HumanDuration>,
    ) -> Result<TorParameters, Failure> {
        let clock = match self.interval {
            Some(interval) => {
                let interval_seconds = interval.0.as_secs() as u32;
                if !(10..=3600).contains(&interval_seconds) {
                    return Err(Failure::usage(
                        "--interval must be from 10s to 1h: Tor relays accept no shorter one",
                    ));
                }
                Pace::Fixed { interval_seconds }
            }
            None => {
                let rest = self.rest.map_or_else(|| long_enough(plan), |rest| Ok(rest.0))?;
                Pace::Waits { rest_seconds: rest.as_secs_f64() }
            }
        };
        Ok(TorParameters {
            entries: self.entries as usize,
            clock,
            consensuses: self.consensuses.or(duration.is_none().then_some(CONSENSUSES)),
            retained: self.retain,
            together: self.together.map_or_else(|| fitting(self.entries), |together| together as usize),
            relays: RelayParameters { num_cpus: self.num_cpus },
            load: LoadParameters {
                clients: self.clients,
                arrival_seconds: self.arrivals.0.as_secs_f64(),
                stay_consensuses: self.stay,
            },
            traffic: TrafficParameters {
                connections: self.connections,
                ntor_per_second: self.ntor_rate,
                cells_per_circuit: self.cells,
                circuit_seconds: self.circuit_life.0.as_secs_f64(),
            },
        })
    }

    fn words(&self, duration: Option<HumanDuration>, parameters: &TorParameters) -> Vec<String> {
        let mut words = vec![
            format!("--entries {}", self.entries),
            format!("--retain {}", self.retain),
            match parameters.clock {
                Pace::Waits { rest_seconds } => {
                    format!("--rest {}", HumanDuration(Duration::from_secs_f64(rest_seconds)))
                }
                Pace::Fixed { interval_seconds } => format!("--interval {interval_seconds}s"),
            },
            format!("--together {}", parameters.together),
            format!("--clients {}", self.clients),
            format!("--arrivals {}", self.arrivals),
            format!("--stay {}", self.stay),
            format!("--connections {}", self.connections),
            format!("--ntor-rate {}", self.ntor_rate),
            format!("--cells {}", self.cells),
            format!("--circuit-life {}", self.circuit_life),
            format!("--num-cpus {}", self.num_cpus),
        ];
        words.extend(parameters.consensuses.map(|consensuses| format!("--consensuses {consensuses}")));
        words.extend(duration.map(|duration| format!("--duration {duration}")));
        words
    }
}

/// How many relays with a directory of so many entries fit into this machine's memory.
fn fitting(entries: u32) -> usize {
    let memory = HostFacts::read(&HostRoot::default()).map_or(0, |facts| facts.ram_bytes);
    let each = LARGEST_RELAY_BYTES * f64::from(entries.max(1000)) / f64::from(LARGEST_RELAY_ENTRIES);
    ((memory as f64 / each) as usize).max(2)
}

/// The rest that shows what the arms' allocators keep.
fn long_enough(plan: &TrialPlan) -> Result<Duration, Failure> {
    let mut rest = LEAST_REST;
    for arm in &plan.arms {
        let release = Catalog::builtin().resolve_local(&arm.allocator())?.slowest_release();
        rest = rest.max(release + REST_MARGIN);
    }
    Ok(rest)
}

fn execute(
    kind: &str,
    options: &LabOptions,
    plan: &TrialPlan,
    workload: &dyn Workload,
    duration: Option<HumanDuration>,
    words: &[String],
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    let metric = check(options, plan, workload, duration)?;
    let seed = options.seed.unwrap_or_else(rand::random);
    let allocators = resolve(plan, options)?;
    run_folder::check(global.out.as_deref())?;
    let command = repeat_command(kind, &options.words(seed, metric), words);
    if options.dry_run {
        let control = plan.arms.iter().position(|arm| arm.control).unwrap_or(0);
        let arms = plan.arms.len();
        let schedule = Schedule::draw(arms, control, options.repeat, workload.arrangement(), seed);
        print_schedule(plan, &schedule, duration, &command, global.json);
        return Ok(ExitCode::SUCCESS);
    }
    let accounting = accounting(options, metric)?;
    let home = run_folder::named(global.out.as_deref(), kind)?;
    let place = options.place.place(home.clone())?;
    let arms = prepare(allocators, options, global)?;
    let exchanged = userland::exchanged(options, &arms)?;
    let folder = run_folder::create(Some(&home), kind)?;
    eprintln!("seed {seed}; the run's folder is {}", folder.display());
    let lab = LabPlan {
        name: plan.name.clone(),
        arms,
        repeats: options.repeat,
        duration: duration.map(|duration| duration.0),
        tick: options.tick.0,
        metric,
        accounting,
        memory_limit_bytes: options.memory_limit,
        seed,
        processors: options.processors,
        command,
        database: global.db.clone().unwrap_or_else(|| folder.join("heaptrial.db")),
        folder: folder.clone(),
        supervisor: PathBuf::from(OWN_PROGRAM),
        userland: Inside::current(),
        exchanged,
    };
    describe(&lab, plan)?;
    let interrupt = heeding_signals(options.place.on)?;
    let outcome = place.run(&lab, plan, workload, &interrupt, &mut LiveProgress::new());
    conclude(&lab.database, &folder, outcome, global)
}

/// Reports on a run that has ended, whatever ended it, and tells how it did.
fn conclude(
    database: &Path,
    folder: &Path,
    outcome: Result<RunOutcome, Failure>,
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    let reported = Store::open(database).map_err(Failure::failed).and_then(|store| {
        let trials = store.trials().map_err(Failure::failed)?;
        let trial =
            trials.last().ok_or_else(|| Failure::failed("the run ended before anything was written"))?;
        write_and_print(&store, trial.id, folder, &Options::default(), global)
    });
    let outcome = outcome?;
    reported?;
    if outcome.interrupted {
        return Err(Failure::failed("the run was interrupted; the report is of what there was until then"));
    }
    match outcome.failed_services {
        0 => Ok(ExitCode::SUCCESS),
        1 => Err(Failure::failed("a service failed, and is in no figure; the report tells why")),
        failed => Err(Failure::failed(format!(
            "{failed} services failed, and are in no figure; the report tells why"
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
    let short = duration.is_some_and(|duration| duration.0 < options.tick.0 * 2);
    if options.tick.0 < Duration::from_millis(10) || short {
        return Err(Failure::usage("--tick must be at least 10ms and fit twice into the duration"));
    }
    workload.check(&plan.arms).map_err(Failure::refused)?;
    let metric = options.metric.or(plan.metric).unwrap_or(Metric::Anon);
    if metric == Metric::Pss {
        return Err(Failure::usage(
            "a lab run cannot compare pss: PSS is read too rarely (reading it stalls the service); use --metric anon, \
             which has each page once, PSS of each service is in the report",
        ));
    }
    if metric == Metric::Cgroup && workload.parameters().get("count").is_some() {
        return Err(Failure::usage(
            "--metric cgroup is of all processes in a service's control group, and --count of some; use --metric anon",
        ));
    }
    Ok(metric)
}

/// Where figures come from. Of a cluster each node tells by itself, and this machine's are of no block.
fn accounting(options: &LabOptions, metric: Metric) -> Result<Accounting, Failure> {
    match options.place.on {
        On::Here => accounting_here(options, metric),
        On::Slurm => Ok(Accounting::find()),
    }
}

/// Where figures come from on this machine, if that is all that is asked for.
fn accounting_here(options: &LabOptions, metric: Metric) -> Result<Accounting, Failure> {
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
        let ran = match options.processors {
            Some(processors) => catalog.as_on(&spec, processors).apply(&spec),
            None => spec,
        };
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
    write("command.txt", format!("cd {}\n{}\n", quoted(folder.as_os_str()), lab.command))?;
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
    println!("{} rounds{length}; the control is {}", schedule.rounds.len(), plan.control().name);
    for (number, round) in schedule.rounds.iter().enumerate() {
        println!("round {}, repeat {}:", number + 1, round.repeat + 1);
        names(&round.arms).iter().for_each(|name| println!("  {name}"));
    }
}
