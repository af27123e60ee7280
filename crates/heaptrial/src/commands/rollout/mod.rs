//! `heaptrial rollout`: a measured treatment for all services, in waves with gates.

mod act;
mod before;
mod draw;
mod judge;
pub(super) mod mitigations;
mod observe;
mod options;
mod run;
mod start;
mod status;
mod target;

use clap::Subcommand;

use crate::answer::Answer;
use crate::commands::host::{NameOptions, StatusOptions};
use crate::exit::Failure;
use crate::options::GlobalOptions;

#[derive(Debug, Subcommand)]
pub enum RolloutCommand {
    /// Give services what a trial measured: a canary first, then waves, each behind a gate
    Start(Box<options::StartOptions>),
    /// Show where a rollout is
    Status(StatusOptions),
    /// Show what a gate would say now of this host, or of several hosts together
    Judge(judge::JudgeOptions),
    /// Stop before the next restart; what was changed stays
    Pause(NameOptions),
    /// Continue at the wave at which a rollout was paused, stopped or cut short
    Resume(act::ResumeOptions),
    /// Put services back as they were before the rollout, all or those of one wave
    Rollback(act::RollbackOptions),
}

pub fn run(command: RolloutCommand, global: &GlobalOptions) -> Result<Answer, Failure> {
    match command {
        RolloutCommand::Start(options) => start::start(&options, global),
        RolloutCommand::Status(options) => status::run(&options, global),
        RolloutCommand::Judge(options) => judge::run(&options, global),
        RolloutCommand::Pause(options) => act::pause(&options, global),
        RolloutCommand::Resume(options) => act::resume(&options, global),
        RolloutCommand::Rollback(options) => act::rollback(&options, global),
    }
}
