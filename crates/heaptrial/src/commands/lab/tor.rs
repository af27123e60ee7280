//! `heaptrial lab tor`: relays on a private network.

use std::time::Duration;

use clap::{Arg, Args};
use heaptrial_allocator::Catalog;
use heaptrial_lab::{TorParameters, TorWorkload};
use heaptrial_model::{HumanDuration, TrialPlan};
use heaptrial_network::{LoadParameters, RETAINED_AT_MOST, RelayParameters, TrafficParameters};

use super::relay_memory::RelayMemory;
use super::search::Timed;
use super::{LabOptions, execute};
use crate::answer::Answer;
use crate::commands::value::{ValueError, number};
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// The arms of `lab tor` where none are named.
const DEFAULT_TOR_ARMS: &str = include_str!("../../../../../docs/examples/tor-six-arms.toml");

/// Consensuses of a round of `lab tor` where no length is asked for: a day of a relay.
const CONSENSUSES: u32 = 24;
/// Production's relays of January 2026 had as many worker threads (docs/lab-score.md), and a directory of this size.
const PROCESSORS: &str = "128";
const ENTRIES: u32 = 9500;
/// Relays rest longer than the slowest of their allocators takes to give memory back by this, and 12 s at least, so that
/// runs without such an allocator can be compared with others.
const REST_MARGIN: Duration = Duration::from_secs(2);
const LEAST_REST: Duration = Duration::from_secs(12);

#[derive(Debug, Args)]
#[command(mut_arg("processors", as_in_production))]
pub struct TorOptions {
    #[command(flatten)]
    pub(super) lab: LabOptions,
    /// After how many consensuses a round ends; a relay in life gets one an hour [default: 24, without --duration]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=3000))]
    consensuses: Option<u32>,
    /// How long the relays live at most [default: the plan's]
    #[arg(long, value_name = "DURATION")]
    duration: Option<HumanDuration>,
    /// Entries of the synthetic directory
    #[arg(long, default_value_t = ENTRIES, value_name = "N", value_parser = clap::value_parser!(u32).range(20..=12_000), hide_short_help = true)]
    entries: u32,
    /// Older consensuses that relays retain and make diffs from, from their start on; Tor's cache holds 25
    #[arg(long, default_value_t = RETAINED_AT_MOST, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(RETAINED_AT_MOST)), hide_short_help = true)]
    retain: u32,
    /// Relays that live at the same time; more arms run in groups, each with the control [default: as many
    /// as this machine's memory holds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=1000))]
    #[arg(hide_short_help = true)]
    together: Option<u32>,
    /// How long relays rest when all have worked a consensus off, before the next [default: 2s more than the slowest
    /// allocator takes to give memory back, 12s at least]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    rest: Option<HumanDuration>,
    /// Clients that come to each relay for each consensus
    #[arg(long, default_value_t = 100, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20_000))]
    clients: u32,
    /// Time within which the clients of a consensus come, once the relays have worked it off
    #[arg(long, default_value = "10s", value_name = "DURATION", hide_short_help = true)]
    arrivals: HumanDuration,
    /// An option of the torrc of relays whose arms do not set it themselves, such as MaxMemInQueues=2 GB; may be repeated
    #[arg(long, value_name = "OPTION=VALUE", value_parser = torrc_option)]
    torrc: Vec<(String, String)>,
    /// For how many consensuses more clients stay connected, in the mean
    #[arg(long, default_value_t = 2.0, value_name = "N", value_parser = stay, hide_short_help = true)]
    stay: f64,
    /// Connections of clients that each relay holds all the time, in addition to directory
    /// clients; production relays have thousands
    #[arg(long, default_value_t = 0, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20_000), hide_short_help = true)]
    connections: u32,
    /// Circuits that clients make with each relay per second by CREATE2 (ntor), which its worker threads answer
    #[arg(long, default_value_t = 0.0, value_name = "RATE", value_parser = rate, hide_short_help = true)]
    ntor_rate: f64,
    /// Mean life of these circuits
    #[arg(long, default_value = "60s", value_name = "DURATION", hide_short_help = true)]
    circuit_life: HumanDuration,
}

fn as_in_production(processors: Arg) -> Arg {
    processors.default_value(PROCESSORS).help(
        "Run relays as on a machine with N processors: a worker thread for each (128 at most, unless an arm sets NumCPUs), \
         and allocators by their own settings (glibc makes 8 arenas for each, jemalloc 4)",
    )
}

fn torrc_option(text: &str) -> Result<(String, String), ValueError> {
    let (option, value) = text.split_once('=').ok_or(ValueError::Expected("OPTION=VALUE"))?;
    Ok((option.trim().to_owned(), value.trim().to_owned()))
}

fn stay(text: &str) -> Result<f64, ValueError> {
    number(text, 0.0..=1000.0, "a number from 0 to 1000")
}

fn rate(text: &str) -> Result<f64, ValueError> {
    number(text, 0.0..=10_000.0, "a number from 0 to 10000")
}

pub fn run(options: &TorOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let plan = options.lab.plan("tor", DEFAULT_TOR_ARMS)?;
    let timed = options.workload(&plan)?;
    eprintln!("{}", options.memory(&plan));
    execute("tor", &options.lab, &plan, &timed, global)
}

impl TorOptions {
    /// The relays as a workload, and how long they live at most.
    pub(super) fn workload(&self, plan: &TrialPlan) -> Result<Timed, Failure> {
        if let Some((arm, key)) =
            plan.arms.iter().find_map(|arm| Some((&arm.name, arm.treatment.of_lab_run_only()?)))
        {
            return Err(Failure::usage(format!("arm `{arm}` has `{key}`, which is for lab run alone")));
        }
        let duration = self.duration.or(plan.duration);
        let parameters = self.parameters(plan, duration)?;
        let workload = TorWorkload::new(parameters).map_err(Failure::refused)?;
        Ok((Box::new(workload), duration))
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
            together: self
                .together
                .map_or_else(|| self.memory(plan).together(), |together| Ok(together as usize))?,
            relays: self.relays(),
            load: LoadParameters {
                clients: self.clients,
                arrival_seconds: self.arrivals.0.as_secs_f64(),
                stay_consensuses: self.stay,
            },
            traffic: TrafficParameters {
                connections: self.connections,
                ntor_per_second: self.ntor_rate,
                circuit_seconds: self.circuit_life.0.as_secs_f64(),
            },
        })
    }

    fn relays(&self) -> RelayParameters {
        let torrc = self.torrc.iter().cloned().collect();
        RelayParameters {
            torrc,
            ..RelayParameters::on(self.lab.processors.unwrap_or(RelayParameters::WORKERS_AT_MOST))
        }
    }

    fn memory(&self, plan: &TrialPlan) -> RelayMemory {
        RelayMemory::of(plan, self.entries, &self.relays())
    }
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
