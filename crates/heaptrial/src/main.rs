//! Heaptrial: controlled trials of memory allocators for long-running services.

mod commands;
mod exit;
mod options;
mod output;
mod progress;
mod run_folder;
mod target;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use crate::commands::Command;
use crate::exit::{Failure, GENERAL_FAILURE};
use crate::options::GlobalOptions;

/// Controlled trials of memory allocators for long-running services.
///
/// Runs the same workload under several allocators and reports who needs how much memory.
///
/// Exit codes: 0 done; 1 failed, also where a service failed or the run was interrupted; 2 usage;
/// 3 refused and nothing changed; 4 inconclusive (a look) or paused (a rollout); 5 alerts stand (a watch);
/// 130 ended by a second Ctrl-C.
#[derive(Debug, Parser)]
#[command(name = "heaptrial", version, max_term_width = 100)]
struct Cli {
    #[command(flatten)]
    global: GlobalOptions,
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    if let Some(code) = commands::run_internal() {
        return code;
    }
    // A reader that closes the pipe early (`heaptrial ... | head`) is no error.
    exit::end_quietly_on_closed_pipe();
    let cli = Cli::parse();
    cli.global.apply_color();
    match commands::run(cli.command, &cli.global) {
        Ok(code) => code,
        Err(Failure { code, report }) => {
            eprintln!("{report:?}");
            ExitCode::from(if code == 0 { GENERAL_FAILURE } else { code })
        }
    }
}

/// The definition of the whole command line, for completions and man pages.
fn command_line() -> clap::Command {
    Cli::command()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        command_line().debug_assert();
    }
}
