//! `heaptrial watch`: whether services still run and use what they did, weeks later.

mod check;
mod start;
mod status;
mod stop;

use clap::Subcommand;

use crate::answer::Answer;
use crate::commands::host::StatusOptions;
use crate::exit::Failure;
use crate::options::GlobalOptions;

#[derive(Debug, Subcommand)]
pub enum WatchCommand {
    /// Watch services that keep a treatment, or as they are: timer, looks, alerts
    Start(Box<start::StartOptions>),
    /// Show how watches go: looks, alerts that stand and what to do
    Status(StatusOptions),
    Check(check::CheckOptions),
    /// End a watch and remove all that it brought to this host; its readings stay
    Stop(stop::StopOptions),
}

pub fn run(command: WatchCommand, global: &GlobalOptions) -> Result<Answer, Failure> {
    match command {
        WatchCommand::Start(options) => start::run(&options, global),
        WatchCommand::Status(options) => status::run(&options, global),
        WatchCommand::Check(options) => check::run(&options, global),
        WatchCommand::Stop(options) => stop::run(&options, global),
    }
}
