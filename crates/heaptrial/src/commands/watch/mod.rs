//! `heaptrial watch`: is what a trial showed still so, weeks after a migration?

mod check;
mod fix;
mod start;
mod status;
mod stop;

use std::process::ExitCode;

use clap::Subcommand;

use crate::exit::Failure;
use crate::options::GlobalOptions;

/// What to do with watches.
#[derive(Debug, Subcommand)]
pub enum WatchCommand {
    /// Watch the services that keep an arm's treatment: forecast, timer, alerts
    Start(Box<start::StartOptions>),
    /// Tell how watches go: looks, alerts that stand
    Status(status::StatusOptions),
    /// Look once, and tell what is new; the timer runs this
    Check(check::CheckOptions),
    /// Print what mends each alert; nothing is changed
    Fix(fix::FixOptions),
    /// End a watch and remove all that it brought to this host; its readings stay
    Stop(stop::StopOptions),
}

/// Runs one of the commands.
pub fn run(command: WatchCommand, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    match command {
        WatchCommand::Start(options) => start::run(&options, global),
        WatchCommand::Status(options) => status::run(&options, global),
        WatchCommand::Check(options) => check::run(&options, global),
        WatchCommand::Fix(options) => fix::run(&options, global),
        WatchCommand::Stop(options) => stop::run(&options, global),
    }
}
