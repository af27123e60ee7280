//! Heaptrial: controlled trials of memory allocators for long-running services.

mod answer;
#[cfg(test)]
mod command_page;
mod commands;
mod exit;
mod hint;
mod options;
mod output;
mod progress;
mod run_folder;
mod target;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser};
use heaptrial_model::ErrorClass;

use crate::commands::Command;
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Controlled trials of memory allocators for long-running services.
///
/// Runs the same workload under several allocators and reports who needs how much memory.
///
/// Exit codes: 0 done; 1 failed, also where a service failed or the run was interrupted; 2 usage;
/// 3 refused and nothing changed; 4 inconclusive, where a verdict was asked for; 5 alerts stand (a watch);
/// 6 paused (a rollout); 130 ended by a second Ctrl-C.
///
/// With --json an error is the last line of standard error: an object with schema_version, class (failed, usage,
/// refused), message, causes and hint.
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
    let (global, command) = match parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(error) => return not_understood(&error),
    };
    options::name_commands_for(&global);
    commands::run(command, &global).unwrap_or_else(|failure| failure.print(&global))
}

/// The words of a command line, the program's name first.
fn parse<W: Into<OsString> + Clone>(
    words: impl IntoIterator<Item = W>,
) -> Result<(GlobalOptions, Command), clap::Error> {
    let cli = Cli::from_arg_matches(&Cli::command().try_get_matches_from(words)?)?;
    Ok((cli.global, cli.command))
}

/// Help and the version are no errors; the rest is usage.
fn not_understood(error: &clap::Error) -> ExitCode {
    let mut own = std::env::args_os().take_while(|word| word != "--");
    if error.use_stderr() && own.any(|word| word == "--json") {
        let text = error.render().to_string();
        let text = text.trim_end().trim_start_matches("error: ").to_owned();
        eprintln!("{}", Failure::usage(text).json());
        return exit::code(ErrorClass::Usage);
    }
    // A message that nobody can see is no failure of its own.
    let _ = error.print();
    if error.use_stderr() { exit::code(ErrorClass::Usage) } else { ExitCode::SUCCESS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    fn assert_fits(command: &mut clap::Command, name: &str) {
        let help = command.render_help().to_string();
        assert!(help.lines().count() <= 40, "{name} -h has {} lines:\n{help}", help.lines().count());
        for below in command.get_subcommands_mut() {
            let name = format!("{name} {}", below.get_name());
            assert_fits(below, &name);
        }
    }

    /// Options that a first run does without are in `--help` alone.
    #[test]
    fn short_help_fits_on_a_screen() {
        let mut whole = Cli::command().term_width(100);
        whole.build();
        assert_fits(&mut whole, "heaptrial");
    }
}
