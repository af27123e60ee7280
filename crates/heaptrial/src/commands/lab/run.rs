//! `heaptrial lab run`: a program, by itself or as a service under load.

use clap::Args;
use heaptrial_lab::{CommandOptions, CommandWorkload, EndRequest, EndSignal, Ready, Work, WorkPreset};
use heaptrial_model::{HumanDuration, TrialPlan};

use super::search::Timed;
use super::{LabOptions, execute};
use crate::answer::Answer;
use crate::commands::value::{ValueError, number};
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// The arms where none are named.
pub const USUAL_ARMS: &str = include_str!("../../../../../docs/examples/usual-arms.toml");
/// A service without a --duration and a --load is observed for so long.
const DURATION: HumanDuration = HumanDuration::from_secs(60);

#[derive(Debug, Args)]
pub struct RunOptions {
    #[command(flatten)]
    pub(super) lab: LabOptions,
    /// How long each run of the program is observed, from when it is ready; it must not end before [default: the plan's; as
    /// long as its --load; 60s]
    #[arg(long, value_name = "DURATION")]
    duration: Option<HumanDuration>,
    #[command(flatten)]
    service: ServiceOptions,
    /// The program and its arguments, of arms that have none of their own
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

/// What makes a program a service under load. {port}, {dir}, {arm}, {repeat} and {seed} stand for a free port, a new folder,
/// the arm's name, the number of the repeat and a seed that all arms of a repeat share, in all of these, in the program's
/// arguments and in the arms' variables.
#[derive(Debug, Args)]
#[command(
    next_help_heading = "A service under load ({port}, {dir}, {arm}, {repeat} and {seed} are filled in)"
)]
struct ServiceOptions {
    /// Shell command before each start of the service
    #[arg(long, value_name = "CMD")]
    prepare: Option<String>,
    /// When the service can be used: tcp:PORT, http:URL, path:FILE, or log:REGEX of what it writes
    #[arg(long, value_name = "CHECK")]
    ready: Option<Ready>,
    /// How long that is waited for
    #[arg(long, value_name = "DURATION", default_value = "60s", requires = "ready", hide_short_help = true)]
    ready_timeout: HumanDuration,
    /// Shell command that puts load on the service; it is not measured, runs without the arm's allocator, and ends first
    #[arg(long, value_name = "CMD")]
    load: Option<String>,
    /// Shell command after the load, before the service ends
    #[arg(long, value_name = "CMD", hide_short_help = true)]
    conclude: Option<String>,
    /// What the service does for its users: NAME is a rate, less:NAME what is better less of, count:NAME a count since its
    /// start; SOURCE is a REGEX over the load's output with the number in a group, json:FIELD of its lines, table:ROW#COLUMN of its tables,
    /// http:URL#FIELD, prometheus:URL#METRIC{LABELS} or file:PATH#FIELD; repeat it
    #[arg(long, value_name = "NAME=SOURCE")]
    work: Vec<Work>,
    /// The same of a known load generator: pgbench, wrk, wrk2, ab, hey, oha, memtier or redis-benchmark (with -q or --csv)
    #[arg(long, value_name = "TOOL")]
    work_preset: Vec<WorkPreset>,
    /// An arm whose work costs more than this factor of the control's (a latency of 1.05 times, a rate of 1/1.05) has no
    /// rank, such as 1.05 [default: 1.11]
    #[arg(long, value_name = "FACTOR", value_parser = factor, hide_short_help = true)]
    work_margin: Option<f64>,
    /// Leave readings below this age out of figures [default: a third of the duration]
    #[arg(long, value_name = "DURATION", hide_short_help = true)]
    warm_up: Option<HumanDuration>,
    /// The signal that ends a service, to every process of it, such as TERM, INT or QUIT
    #[arg(long, value_name = "SIGNAL", default_value = "TERM", hide_short_help = true)]
    end_signal: EndSignal,
    /// How long a service gets to end before it is killed
    #[arg(long, value_name = "DURATION", default_value = "5s", hide_short_help = true)]
    grace: HumanDuration,
    /// Leave {dir} in its place after each service
    #[arg(long, hide_short_help = true)]
    keep_dirs: bool,
}

fn factor(text: &str) -> Result<f64, ValueError> {
    number(text, 1.0..=100.0, "a factor from 1 to 100, such as 1.05")
}

pub fn run(options: &RunOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let plan = options.lab.plan(&options.name(), USUAL_ARMS)?;
    execute("run", &options.lab, &plan, &options.workload(&plan)?, global)
}

impl RunOptions {
    /// The program as a workload, and how long it is observed at most.
    pub(super) fn workload(&self, plan: &TrialPlan) -> Result<Timed, Failure> {
        if self.command.is_empty() && plan.arms.iter().any(|arm| arm.treatment.command.is_empty()) {
            return Err(Failure::usage(
                "no CMD; name the program after `--`, or give every arm of --arms a `command` of its own",
            ));
        }
        let (duration, ends_with_load) = self.length(plan);
        if let (Some(warm_up), Some(duration)) = (self.service.warm_up, duration) {
            if warm_up.0 >= duration.0 {
                return Err(Failure::usage(format!(
                    "--warm-up {warm_up} leaves nothing of --duration {duration}"
                )));
            }
        }
        let service = &self.service;
        let of_presets = service.work_preset.iter().flat_map(|preset| preset.work());
        let works: Vec<Work> = of_presets.chain(service.work.iter().cloned()).collect();
        let without_load =
            works.iter().find(|work| work.source.is_of_load()).filter(|_| service.load.is_none());
        if let Some(work) = without_load {
            return Err(Failure::usage(format!(
                "--work {work} is read from what a --load writes, and there is none"
            )));
        }
        let workload = CommandWorkload::new(CommandOptions {
            command: self.command.clone(),
            prepare: service.prepare.clone(),
            ready: service.ready.clone(),
            ready_patience: service.ready_timeout.0,
            load: service.load.clone(),
            conclude: service.conclude.clone(),
            work: works,
            end: EndRequest { signal: service.end_signal, grace: service.grace.0 },
            keep_dirs: service.keep_dirs,
            tick: self.lab.tick.0,
            ends_with_load,
            warm_up: service.warm_up.map(|warm_up| warm_up.0),
            work_margin: service.work_margin,
        })?;
        Ok((Box::new(workload), duration))
    }

    /// Whether `--work` or `--work-preset` was given.
    pub(super) fn has_work(&self) -> bool {
        !self.service.work.is_empty() || !self.service.work_preset.is_empty()
    }

    /// Whether anything that is run takes a seed.
    pub(super) fn has_seed(&self) -> bool {
        let service = &self.service;
        let commands = [&service.prepare, &service.load, &service.conclude].into_iter().flatten().cloned();
        let program = self.command.iter().cloned();
        commands.chain(program).any(|word| word.contains("{seed}"))
    }

    pub(super) fn work_margin(&self) -> Option<f64> {
        self.service.work_margin
    }

    /// The name of a run that nobody named: that of its program.
    pub(super) fn name(&self) -> String {
        let program = self.command.first().map_or("lab", String::as_str);
        let name = program.rsplit('/').next().unwrap_or(program);
        let plain =
            name.chars().map(|c| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' });
        plain.take(60).collect::<String>().trim_start_matches(['-', '.']).to_owned()
    }

    /// How long services are observed at most, and whether they end with their load.
    fn length(&self, plan: &TrialPlan) -> (Option<HumanDuration>, bool) {
        match self.duration.or(plan.duration) {
            Some(duration) => (Some(duration), false),
            None if self.service.load.is_some() => (None, true),
            None => (Some(DURATION), false),
        }
    }
}
