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
}

/// Runs a command that Heaptrial starts itself and nobody types: the keeper of a service, and the probe of
/// an allocator. They are no part of the command line's definition, its completions and man pages.
pub fn run_internal() -> Option<ExitCode> {
    let name = std::env::args_os().nth(1)?;
    if name == heaptrial_lab::KEEPER_COMMAND {
        Some(heaptrial_lab::run_keeper())
    } else if name == heaptrial_allocator::PROBE_COMMAND {
        heaptrial_allocator::run_probe()
    } else {
        None
    }
}

/// Does it.
pub fn run(command: Command, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    match command {
        Command::Lab(command) => lab::run(command, global),
        Command::Allocators(command) => Ok(allocators::run(command, global)?),
        Command::Report(options) => report::run(&options, global),
        Command::Completions { shell } => generate::completions(shell),
        Command::Man { folder } => generate::man_pages(&folder),
    }
}
