//! `heaptrial trial`: a randomised trial on the services of a fleet.

mod drop;
mod look;
mod new;
pub(super) mod plan;
mod power;
pub(super) mod start;
mod status;
mod stop;
mod survey;
pub(super) mod verdict;
mod worth;

use clap::Subcommand;

use crate::answer::Answer;
use crate::commands::host::{NameOptions, StatusOptions};
use crate::exit::Failure;
use crate::options::GlobalOptions;

#[derive(Debug, Subcommand)]
pub enum TrialCommand {
    /// Write a trial's description, to be edited and then planned
    New(new::NewOptions),
    Survey(survey::SurveyOptions),
    /// Draw who gets what and show it, its balance and its cost; nothing on the host is changed
    Plan(plan::PlanOptions),
    /// Give every service of a plan its treatment: files, restarts at the plan's pace, proof of what runs then
    Start(start::StartOptions),
    /// Go on with a start that was cut short
    Resume(NameOptions),
    /// Show how a trial goes: arms, memory, non-compliant services, next look
    Status(StatusOptions),
    /// End a trial; with --revert put every file back as it was
    Stop(stop::StopOptions),
    /// Take a service out of a running trial: put it back, and leave it out of the analysis from this moment on
    Drop(drop::DropOptions),
    /// What the recovery timer runs
    #[command(hide = true)]
    Recover(NameOptions),
    Look(look::LookOptions),
    /// Write what an ended trial found of an arm as a file, for rollouts on other hosts
    Verdict(verdict::VerdictOptions),
    /// How many services and days a trial needs, by simulation from past data of the same services
    Power(power::PowerOptions),
}

pub fn run(command: TrialCommand, global: &GlobalOptions) -> Result<Answer, Failure> {
    match command {
        TrialCommand::New(options) => new::run(&options, global),
        TrialCommand::Survey(options) => survey::run(&options, global),
        TrialCommand::Plan(options) => plan::run(&options, global),
        TrialCommand::Start(options) => start::start(&options, global),
        TrialCommand::Resume(options) => start::resume(&options, global),
        TrialCommand::Status(options) => status::run(&options, global),
        TrialCommand::Stop(options) => stop::stop(&options, global),
        TrialCommand::Drop(options) => drop::run(&options, global),
        TrialCommand::Recover(options) => stop::recover(&options, global),
        TrialCommand::Look(options) => look::run(&options, global),
        TrialCommand::Verdict(options) => verdict::run(&options, global),
        TrialCommand::Power(options) => power::run(&options, global),
    }
}
