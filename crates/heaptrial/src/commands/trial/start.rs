//! `heaptrial trial start` and `resume`: gives every service of a plan its treatment.

use std::path::PathBuf;

use clap::Args;
use heaptrial_change::edges::ThisHost;
use heaptrial_change::journal::Action;
use heaptrial_change::{HostUnit, Ledger, Trial, prepare, read_state};
use heaptrial_host::systemd::Systemd;
use heaptrial_inspect::Service;
use heaptrial_model::{DrawnPlan, ServiceName, TrialKind, units};

use crate::answer::Answer;
use crate::commands::allocators::SourceOptions;
use crate::commands::host::carry_out::done;
use crate::commands::host::events::EventLog;
use crate::commands::host::obtain::obtain;
use crate::commands::host::{Consent, Host, NameOptions, interrupt, interrupted};
use crate::exit::Failure;
use crate::options::{GlobalOptions, command};
use crate::output::some;

#[derive(Debug, Args)]
pub struct StartOptions {
    /// A drawn plan: its file, or the trial's name, whose file is NAME.plan.toml
    #[arg(value_name = "PLAN")]
    plan: String,
    #[command(flatten)]
    consent: Consent,
    /// Do not install and start the agent that samples the services
    #[arg(long)]
    no_agent: bool,
    #[command(flatten)]
    sources: SourceOptions,
}

pub fn start(options: &StartOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let plan = read_plan(&options.plan)?;
    let name = plan.name.clone();
    let host = Host::of(global)?;
    warn_of_edits(&plan);
    require_new(&host, &name)?;
    if !options.consent.dry_run {
        host.require_owner("trial start")?;
    }
    let systemd = host.systemd()?;
    let host_name = host.name()?;
    let own = plan.services.iter().filter(|assignment| assignment.host == host_name);
    let own: Vec<ServiceName> = own.map(|assignment| assignment.service.clone()).collect();
    let services = heaptrial_inspect::named(&systemd, &own)?;
    // Another process may begin the very same just now: what it writes is nothing to put back.
    let meanwhile = |refused: Failure| require_new(&host, &name).err().unwrap_or(refused);
    host.require_free(&name, &name, services.iter().map(Service::name)).map_err(meanwhile)?;
    let allocators = obtain(&plan.arms, &options.sources, global)?;
    let agent = if options.no_agent { None } else { agent_unit(&host, &systemd)? };
    let prepared = prepare(&plan, &host_name, &services, &allocators, &host.paths, agent)?;
    host.admit(&systemd, &prepared, &services, &allocators, options.consent.dry_run).map_err(meanwhile)?;
    if options.consent.dry_run {
        return Ok(host.would_change("trial", &prepared));
    }
    let count = units::counted(prepared.services.len(), "service");
    let question = format!(
        "This restarts {count} of this host and changes files of systemd and Tor for trial `{name}`."
    );
    options.consent.ask(&question)?;
    let this = ThisHost::new(systemd);
    let mut trial = Trial::create(this.host(), &host.paths, prepared)?;
    let begun = format!("trial start {name}");
    if let Err(failure) = host.record(trial.prepared(), &services, TrialKind::Field, &begun) {
        trial.discard()?;
        return Err(failure);
    }
    carry_out(&host, &mut trial, "start")
}

/// Continues a start that was cut short.
pub fn resume(options: &NameOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let host = Host::of(global)?;
    host.require_owner("trial resume")?;
    let name = options.name.as_str();
    host.trial(name)?;
    let this = ThisHost::new(host.systemd()?);
    let mut trial = Trial::open(this.host(), &host.paths, name, Action::Resume)?;
    trial.check_start()?;
    host.require_recorded(trial.prepared(), trial.state())?;
    host.record(trial.prepared(), &[], TrialKind::Field, &format!("trial resume {name}"))?;
    carry_out(&host, &mut trial, "resume")
}

fn carry_out(host: &Host<'_>, trial: &mut Trial<'_>, action: &str) -> Result<Answer, Failure> {
    let name = trial.prepared().plan.name.clone();
    let interrupt = interrupt()?;
    let mut log = EventLog::new(&host.database, trial.prepared(), trial.prepared().services.len());
    log.record_committed(trial.state());
    trial.report_to(log);
    let outcome = trial.start(&|| interrupted(&interrupt))?;
    let count = units::counted(outcome.done, "service");
    let status = command(format_args!("trial status {name}"));
    let complete = format!("{count} run what their arms want; {status} shows how it goes");
    let [resume, stop] = [format!("trial resume {name}"), format!("trial stop {name} --revert")].map(command);
    let next = format!("{resume} continues; {stop} puts everything back");
    Ok(done(("trial", &name), action, &outcome, &complete, &next))
}

/// Refuses a name that a trial of this host has.
fn require_new(host: &Host<'_>, name: &str) -> Result<(), Failure> {
    if read_state(&host.paths, name).is_err() {
        return Ok(());
    }
    let status = command(format_args!("trial status {name}"));
    Err(Failure::refused(format!(
        "`{name}` is on this host already: {status} shows where it is and what continues it; another name in the plan begins another \
         trial"
    )))
}

/// Warns of what is not as it was drawn.
fn warn_of_edits(plan: &DrawnPlan) {
    let by_hand = plan.by_hand();
    if !by_hand.is_empty() {
        eprintln!(
            "warning: {} of {} ({}) have another arm or block than was drawn, so the trial is not randomised: its report says so, \
             and `trial verdict` refuses it; {} draws again",
            by_hand.len(),
            units::counted(plan.services.len(), "service"),
            some(by_hand.iter().map(|assigned| &assigned.service)),
            command("trial plan")
        );
    }
}

fn read_plan(named: &str) -> Result<DrawnPlan, Failure> {
    let direct = PathBuf::from(named);
    let path = if direct.is_file() { direct } else { PathBuf::from(format!("{named}.plan.toml")) };
    let text = std::fs::read_to_string(&path).map_err(|error| {
        let draws = command("trial plan FILE.toml");
        Failure::refused(format!("cannot read the plan {}: {error}; {draws} draws one", path.display()))
    })?;
    DrawnPlan::from_toml(&text).map_err(|error| Failure::refused(format!("{}: {error}", path.display())))
}

/// The agent's unit, if the host has none from a package.
pub fn agent_unit(host: &Host<'_>, systemd: &Systemd) -> Result<Option<HostUnit>, Failure> {
    let (agent, paths) = (heaptrial_agent::UNIT_NAME, &host.paths);
    let name: ServiceName = agent.parse().map_err(Failure::failed)?;
    let unit = systemd.service(&name)?;
    let path = paths.unit(agent);
    let options = heaptrial_agent::UnitOptions::default();
    let text = heaptrial_agent::unit_file(&paths.program(), paths, &options).ok_or_else(|| {
        Failure::refused(format!("{} cannot be written into a unit file", paths.program().display()))
    })?;
    // One that an earlier trial brought stays until the last of them is reverted. Any other is the administrator's.
    let shared = Ledger::of_this_host(paths).is_ok_and(|ledger| ledger.brought(&path).is_some())
        && std::fs::read_to_string(&path).is_ok_and(|present| present == text);
    let installs = unit.load_state == "not-found" || shared;
    if !installs && !unit.status.is_running() {
        eprintln!(
            "warning: {agent} is installed and does not run, so nothing is sampled until `systemctl enable --now {agent}`"
        );
    }
    Ok(installs.then_some(HostUnit { name, text }))
}
