//! The commands: each parses its options, calls a library crate and prints.

mod agent;
mod allocators;
mod explain;
mod export;
mod generate;
pub(crate) mod host;
mod import;
mod lab;
mod preflight;
mod report;
mod rollout;
mod serve;
mod services;
mod trial;
mod value;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::answer::Answer;
use crate::exit::Failure;
use crate::options::GlobalOptions;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a workload under several allocators on this machine
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// List, get, verify and identify allocators
    #[command(subcommand)]
    Allocators(allocators::AllocatorsCommand),
    Services(services::ServicesOptions),
    Explain(explain::ExplainOptions),
    Preflight(preflight::PreflightOptions),
    /// Take in measurements that were made with other tools
    #[command(subcommand)]
    Import(import::ImportCommand),
    /// Write a trial's samples as CSV
    Export(export::ExportOptions),
    /// Plan, start, look at and end a trial on a fleet
    #[command(subcommand)]
    Trial(trial::TrialCommand),
    /// Bring what a trial measured to all services: canary, waves, gates, rollback
    #[command(subcommand)]
    Rollout(rollout::RolloutCommand),
    /// Watch services after a migration, or as they are, and alert when that changes
    #[command(subcommand)]
    Watch(watch::WatchCommand),
    /// Sample the services of running trials, as a service of this host
    Agent(agent::AgentOptions),
    /// Print a trial's report and write it again, or compare several trials
    Report(Box<report::ReportOptions>),
    /// Show a database as pages in a browser, read-only, on this machine
    Serve(serve::ServeOptions),
    /// Print completions for a shell
    Completions {
        /// The shell that they are for
        shell: clap_complete::Shell,
    },
    /// Write man pages of all commands
    Man {
        /// The folder for the pages
        folder: PathBuf,
    },
}

/// Runs a command that Heaptrial starts itself and nobody types: the supervisor of a service, a block of a run on a node of a
/// cluster, and the probe of an allocator. They are no part of the command line's definition, its completions and man pages.
pub fn run_internal() -> Option<ExitCode> {
    let name = std::env::args_os().nth(1)?;
    if name == heaptrial_lab::SUPERVISOR_COMMAND {
        Some(heaptrial_lab::run_supervisor())
    } else if name == lab::BLOCK_COMMAND {
        Some(lab::run_task(std::env::args_os().skip(2)))
    } else if name == heaptrial_allocator::PROBE_COMMAND {
        heaptrial_allocator::run_probe()
    } else {
        None
    }
}

/// Refuses `--user` where it cannot be heeded. What root writes into a user's folders would not be the user's, and root's
/// own service manager is hardly ever meant.
fn check_user(command: &Command, global: &GlobalOptions) -> Result<(), Failure> {
    let refused = |why: &str| Err(Failure::refused(format!("{why}. Nothing was changed")));
    match command {
        _ if !global.user => Ok(()),
        Command::Rollout(_) => refused("a rollout is for services of the system; leave --user out"),
        Command::Watch(_) => refused("a watch is for services of the system; leave --user out"),
        _ if rustix::process::geteuid().is_root() => refused(
            "--user is for a user's own services and this is root; run it as that user, such as \
             `sudo -u USER XDG_RUNTIME_DIR=/run/user/UID heaptrial --user ...`, or leave --user out",
        ),
        _ => Ok(()),
    }
}

/// Runs a command and prints its answer.
pub fn run(command: Command, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    check_user(&command, global)?;
    answer(command, global)?.print(global)
}

fn answer(command: Command, global: &GlobalOptions) -> Result<Answer, Failure> {
    match command {
        Command::Lab(command) => lab::run(command, global),
        Command::Allocators(command) => allocators::run(command, global),
        Command::Services(options) => services::run(&options, global),
        Command::Explain(options) => explain::run(&options, global),
        Command::Preflight(options) => preflight::run(&options, global),
        Command::Import(command) => import::run(command, global),
        Command::Export(options) => export::run(&options, global),
        Command::Trial(command) => trial::run(command, global),
        Command::Rollout(command) => rollout::run(command, global),
        Command::Watch(command) => watch::run(command, global),
        Command::Agent(options) => agent::run(&options, global),
        Command::Report(options) => report::run(&options, global),
        Command::Serve(options) => serve::run(options, global),
        Command::Completions { shell } => Ok(generate::completions(shell)),
        Command::Man { folder } => generate::man_pages(&folder),
    }
}
