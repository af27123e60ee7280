//! The commands: each parses its options, calls a library crate and prints.

mod allocators;
mod generate;
mod lab;
mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::exit::Failure;
use crate::options::GlobalOptions;

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a workload under several allocators on this machine
    #[command(subcommand)]
    Lab(lab::LabCommand),
    /// List, get, verify and identify allocators
    #[command(subcommand)]
    Allocators(allocators::AllocatorsCommand),
    /// Print a run's report and write it anew
    Report(report::ReportOptions),
    /// Print completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write man pages of all commands
    Man {
        /// Into which folder
        folder: PathBuf,
    },
    /// Keep a service of a lab run (internal)
    #[command(name = heaptrial_lab::KEEPER_COMMAND, hide = true)]
    LabKeeper,
    /// Tell which allocator this very process uses (internal)
    #[command(name = heaptrial_allocator::PROBE_COMMAND, hide = true)]
    AllocatorProbe,
}

/// Does it.
pub fn run(command: Command, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    match command {
        Command::Lab(command) => lab::run(command, global),
        Command::Allocators(command) => Ok(allocators::run(command, global)?),
        Command::Report(options) => report::run(&options, global),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { folder } => generate::man_pages(&folder),
        Command::LabKeeper => Ok(heaptrial_lab::run_keeper()),
        Command::AllocatorProbe => heaptrial_allocator::run_probe(),
    }
}
