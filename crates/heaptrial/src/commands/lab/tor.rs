//! `heaptrial lab tor`: relays on a private network.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use heaptrial_allocator::Catalog;
use heaptrial_host::{HostFacts, HostRoot};
use heaptrial_lab::{TorParameters, TorWorkload};
use heaptrial_model::{HumanDuration, TrialPlan};
use heaptrial_network::{LoadParameters, RelayParameters, TrafficParameters};

use super::{LabOptions, execute};
use crate::commands::value::{ValueError, number};
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// The arms of `lab tor` where none are named.
const DEFAULT_TOR_ARMS: &str = include_str!("../../../../../docs/examples/tor-six-arms.toml");

/// Consensuses of a round of `lab tor` where no length is asked for: a day and a quarter of a relay.
const CONSENSUSES: u32 = 30;
/// What the largest of the known allocators grows to in some days of a relay, at this many entries.
const LARGEST_RELAY_BYTES: f64 = 2.5e9;
const LARGEST_RELAY_ENTRIES: u32 = 9_500;
/// Relays rest longer than the slowest of their allocators takes to give memory back by this, and 12 s at least, so that
/// runs without such an allocator can be compared with others.
const REST_MARGIN: Duration = Duration::from_secs(2);
const LEAST_REST: Duration = Duration::from_secs(12);

/// Options of `lab tor`.
#[derive(Debug, Args)]
pub struct TorOptions {
    #[command(flatten)]
    pub(super) lab: LabOptions,
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
    #[arg(long, value_name = "DURATION")]
    rest: Option<HumanDuration>,
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

fn stay(text: &str) -> Result<f64, ValueError> {
    number(text, 0.0..=1000.0, "a number from 0 to 1000")
}

fn rate(text: &str) -> Result<f64, ValueError> {
    number(text, 0.0..=10_000.0, "a number from 0 to 10000")
}

pub fn run(options: &TorOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let plan = options.lab.plan("tor", Some(DEFAULT_TOR_ARMS))?;
    let (workload, duration, words) = options.workload(&plan)?;
    execute("tor", &options.lab, &plan, &workload, duration, &words, global)
}

impl TorOptions {
    /// The relays as a workload, how long they live at most, and both as words of a command line.
    pub(super) fn workload(
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
        let rest = self.rest.map_or_else(|| long_enough(plan), |rest| Ok(rest.0))?;
        Ok(TorParameters {
            entries: self.entries as usize,
            rest_seconds: rest.as_secs_f64(),
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
            format!("--rest {}", HumanDuration(Duration::from_secs_f64(parameters.rest_seconds))),
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
