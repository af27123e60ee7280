//! `heaptrial trial start` and `resume`: gives every service of a plan its treatment.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use heaptrial_allocator::{Catalog, Obtained};
use heaptrial_change::edges::ThisHost;
use heaptrial_change::journal::Action;
use heaptrial_change::{HostUnit, Ledger, Prepared, Trial, TrialStage, prepare, read_state};
use heaptrial_host::Paths;
use heaptrial_host::systemd::Systemd;
use heaptrial_host::{HostFacts, HostRoot, Instant, host_name};
use heaptrial_inspect::Service;
use heaptrial_inspect::preflight::Severity;
use heaptrial_model::{DrawnPlan, ErrorClass, KnownEvent, ServiceName, TrialKind, TrialName, units};
use heaptrial_store::{BY_HAND, NewService, NewTrial, Store};
use serde_json::{Value, json};

use super::findings::told;
use super::in_database;
use super::on_host::{self, AGENT, Teller};
use crate::commands::allocators::SourceOptions;
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;

/// Which plan, and how it is started.
#[derive(Debug, Args)]
pub struct StartOptions {
    /// A drawn plan: its file, or the trial's name, whose file is NAME.plan.toml
    #[arg(value_name = "PLAN")]
    plan: String,
    /// Start without asking
    #[arg(long)]
    yes: bool,
    /// Show what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not install and start the agent that samples the services
    #[arg(long)]
    no_agent: bool,
    #[command(flatten)]
    sources: SourceOptions,
}

/// Which trial.
#[derive(Debug, Args)]
pub struct ResumeOptions {
    /// The trial's name
    #[arg(value_name = "NAME")]
    trial: TrialName,
}

pub fn start(options: &StartOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let plan = read_plan(&options.plan)?;
    let paths = global.paths()?;
    tell_edits(&plan);
    if let Ok(state) = read_state(&paths, &plan.name) {
        return Err(Failure::refused(already(&plan.name, state.stage)));
    }
    if !options.dry_run {
        on_host::require_owner("trial start", &paths)?;
    }
    let systemd = global.systemd()?;
    let host = host_name(&HostRoot::default()).map_err(Failure::failed)?;
    let services = discover(&systemd, &plan, &host)?;
    // Another process may begin the very same just now: what it writes is nothing to put back.
    let meanwhile = |refused: Failure| match read_state(&paths, &plan.name) {
        Ok(state) => Failure::refused(already(&plan.name, state.stage)),
        Err(_) => refused,
    };
    on_host::refuse_claimed(&paths, &plan.name, &plan.name, services.iter().map(Service::name))
        .map_err(meanwhile)?;
    Ledger::of_this_host(&paths)?
        .refuse_strays(services.iter().map(Service::name))
        .map_err(|refused| meanwhile(refused.into()))?;
    let obtained = obtain(&plan, &options.sources)?;
    let agent = if options.no_agent { None } else { agent_unit(&systemd, &paths)? };
    let prepared = prepare(&plan, &host, &services, &obtained, &paths, agent).map_err(Failure::refused)?;
    preflight(&systemd, &paths, &prepared, &services, (&obtained, options.dry_run)).map_err(meanwhile)?;
    if options.dry_run {
        return dry_run(&prepared, global);
    }
    let count = prepared.services.len();
    on_host::confirm(
        &format!(
            "This restarts {} of this host and changes files of systemd and Tor for trial `{}`.",
            units::counted(count, "service"),
            plan.name
        ),
        options.yes,
    )?;
    let database = on_host::database(&paths, global);
    let this = ThisHost::new(systemd);
    let mut trial = Trial::create(this.host(), &paths, prepared)?;
    let command = format!("heaptrial trial start {}", trial.prepared().plan.name);
    let recorded = Recorded {
        prepared: trial.prepared(),
        services: &services,
        kind: TrialKind::Field,
        command: &command,
    };
    if let Err(failure) = begin(&database, recorded) {
        trial.discard()?;
        return Err(failure);
    }
    carry_out(&mut trial, "start", &database, global)
}

/// Continues a start that was cut short.
pub fn resume(options: &ResumeOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let paths = global.paths()?;
    on_host::require_owner("trial resume", &paths)?;
    let this = ThisHost::new(global.systemd()?);
    on_host::warn_of_agent(this.systemd());
    let mut trial = Trial::open(this.host(), &paths, options.trial.as_str(), Action::Resume)?;
    on_host::refuse_rollout(trial.prepared(), "resume")?;
    trial.check_start()?;
    let database = on_host::database(&paths, global);
    in_database::refuse_unrecorded(&database, trial.prepared(), trial.state())?;
    let command = format!("heaptrial trial resume {}", options.trial);
    let kind = TrialKind::Field;
    let recorded = Recorded { prepared: trial.prepared(), services: &[], kind, command: &command };
    begin(&database, recorded)?;
    carry_out(&mut trial, "resume", &database, global)
}

fn carry_out(
    trial: &mut Trial<'_>,
    action: &str,
    database: &Path,
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    let name = trial.prepared().plan.name.clone();
    let count = trial.prepared().services.len();
    let interrupt = on_host::interrupt()?;
    let mut teller = Teller::new(database, trial.prepared(), count);
    let outcome = trial.start(&mut teller, &|| on_host::interrupted(&interrupt))?;
    teller.tell_committed(trial.state());
    if global.json {
        println!("{:#}", on_host::outcome_json(&name, action, &outcome));
    } else if outcome.is_complete() {
        let text = format!(
            "trial {name}: {} run what their arms want; `heaptrial trial status {name}` tells how it goes",
            units::counted(outcome.done, "service"),
        );
        println!("{}", global.told(&text));
    } else {
        println!("trial {name}: {} of {count} services run what their arms want", outcome.done);
        if !outcome.drifted.is_empty() {
            println!("somebody changed files of {}", units::counted(outcome.drifted.len(), "service"));
        }
        if let Some(why) = &outcome.stopped {
            println!("stopped: {why}");
        }
        let text = format!(
            "`heaptrial trial resume {name}` goes on; `heaptrial trial stop {name} --revert` puts everything back"
        );
        println!("{}", global.told(&text));
    }
    Ok(if outcome.is_complete() { ExitCode::SUCCESS } else { code(ErrorClass::Failed) })
}

fn already(name: &str, stage: TrialStage) -> String {
    match stage {
        TrialStage::Planned | TrialStage::Starting => format!(
            "trial `{name}` was begun and not finished; `heaptrial trial resume {name}` goes on, `heaptrial trial stop {name} --revert` puts everything back"
        ),
        TrialStage::Reverting => format!(
            "trial `{name}` is being reverted; `heaptrial trial stop {name} --revert` goes on with that"
        ),
        TrialStage::Running => format!("trial `{name}` runs already; see `heaptrial trial status {name}`"),
        TrialStage::Stopped | TrialStage::Reverted => {
            format!("trial `{name}` has ended on this host; give the new one another name in its plan")
        }
    }
}

/// What of a plan is not as it was drawn.
fn tell_edits(plan: &DrawnPlan) {
    let by_hand = plan.by_hand();
    if let Some(first) = by_hand.first() {
        let more = if by_hand.len() > 1 { format!(" and {} more", by_hand.len() - 1) } else { String::new() };
        eprintln!(
            "warning: {} of {} ({}{more}) have another arm or block than was drawn: this is no randomised trial, its report says so, \
             and no verdict of it is written for other hosts; `heaptrial trial plan` draws again",
            by_hand.len(),
            units::counted(plan.services.len(), "service"),
            first.service
        );
    }
}

fn read_plan(named: &str) -> Result<DrawnPlan, Failure> {
    let direct = PathBuf::from(named);
    let path = if direct.is_file() { direct } else { PathBuf::from(format!("{named}.plan.toml")) };
    let text = std::fs::read_to_string(&path).map_err(|error| {
        Failure::refused(format!(
            "cannot read the plan {}: {error}; `heaptrial trial plan FILE.toml` draws one",
            path.display()
        ))
    })?;
    DrawnPlan::from_toml(&text).map_err(|error| Failure::refused(format!("{}: {error}", path.display())))
}

/// The plan's services of this host, as they are now.
fn discover(systemd: &Systemd, plan: &DrawnPlan, host: &str) -> Result<Vec<Service>, Failure> {
    let own = plan.services.iter().filter(|assignment| assignment.host == host);
    let names: Vec<ServiceName> = own.map(|assignment| assignment.service.clone()).collect();
    heaptrial_inspect::named(systemd, &names).map_err(Failure::failed)
}

fn obtain(plan: &DrawnPlan, sources: &SourceOptions) -> Result<BTreeMap<String, Obtained>, Failure> {
    let mut obtained = BTreeMap::new();
    for arm in &plan.arms {
        let Some(spec) = &arm.treatment.allocator else { continue };
        let resolved = Catalog::builtin()
            .resolve(spec)
            .map_err(|error| Failure::refused(error).about(format!("arm `{}`", arm.name)))?;
        let found = sources
            .obtainer(None)?
            .obtain(&resolved)
            .map_err(|error| Failure::from(error).about(format!("arm `{}`", arm.name)))?;
        obtained.insert(arm.name.clone(), found);
    }
    Ok(obtained)
}

/// The agent's unit, if the host has none from a package.
pub fn agent_unit(systemd: &Systemd, paths: &Paths) -> Result<Option<HostUnit>, Failure> {
    let name = AGENT.parse().map_err(Failure::failed)?;
    let unit = systemd.service(&name).map_err(Failure::failed)?;
    let path = paths.unit(AGENT);
    let text = heaptrial_agent::unit_file(&paths.program(), paths, &heaptrial_agent::UnitOptions::default())
        .ok_or_else(|| {
            Failure::refused(format!("{} cannot stand in a unit file", paths.program().display()))
        })?;
    // One that an earlier trial brought stays until the last of them is reverted. Any other is the administrator's.
    let shared = Ledger::of_this_host(paths).is_ok_and(|ledger| ledger.brought(&path).is_some())
        && std::fs::read_to_string(&path).is_ok_and(|present| present == text);
    let installs = unit.load_state == "not-found" || shared;
    if !installs && !unit.status.is_running() {
        eprintln!(
            "warning: {AGENT} is installed and does not run, so nothing is sampled until `systemctl enable --now {AGENT}`"
        );
    }
    Ok(installs.then_some(HostUnit { name, text }))
}

/// Warns of what speaks against the treatments, and refuses what would not take hold. Only a dry run copies libraries to try
/// them: before a start has its journal it writes nothing.
pub fn preflight(
    systemd: &Systemd,
    paths: &Paths,
    prepared: &Prepared,
    services: &[Service],
    (obtained, dry_run): (&BTreeMap<String, Obtained>, bool),
) -> Result<(), Failure> {
    let findings = heaptrial_change::preflight(systemd, paths, prepared, services, obtained, dry_run);
    let told = |severity| told(&findings, severity);
    for warning in told(Severity::Warn) {
        eprintln!("warning: {warning}");
    }
    let refusals = told(Severity::Refuse);
    if refusals.is_empty() {
        return Ok(());
    }
    let reasons = refusals.join("\n");
    Err(Failure::refused(format!(
        "nothing was changed, since some treatments would not take hold:\n{reasons}"
    )))
}

/// Shows what would be changed.
pub fn dry_run(prepared: &Prepared, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    if global.json {
        let value = json!({ "schema_version": 1, "dry_run": true, "services": prepared.services, "libraries": prepared.libraries });
        println!("{value:#}");
        return Ok(ExitCode::SUCCESS);
    }
    let paths = global.paths()?;
    for library in &prepared.libraries {
        println!("installs {}", library.installed.display());
    }
    let (name, id) = (&prepared.plan.name, prepared.plan.id.as_str());
    for treatment in &prepared.services {
        println!("{}: {}", treatment.service, treatment.arm);
        for (path, text) in treatment.preview(&paths, name, id) {
            println!("  {}", path.display());
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                println!("    {line}");
            }
        }
    }
    println!("nothing was changed");
    Ok(ExitCode::SUCCESS)
}

/// What is recorded in the host's database of a trial or a rollout.
#[derive(Debug, Clone, Copy)]
pub struct Recorded<'a> {
    /// What was frozen.
    pub prepared: &'a Prepared,
    /// The services as they are.
    pub services: &'a [Service],
    /// A trial or a rollout.
    pub kind: TrialKind,
    /// The command that began it.
    pub command: &'a str,
}

/// Records it before anything is changed; one that is recorded already is left alone.
pub fn begin(database: &Path, recorded: Recorded<'_>) -> Result<i64, Failure> {
    let Recorded { prepared, services, kind, command } = recorded;
    let plan = &prepared.plan;
    let mut store = Store::create(database).map_err(Failure::failed)?;
    if let Some(record) = in_database::recorded(&store, prepared).map_err(Failure::failed)? {
        // A stop that was cut short had ended it.
        if record.ended_wall_us.is_some() {
            store.reopen_trial(record.id).map_err(Failure::failed)?;
        }
        return Ok(record.id);
    }
    let host = prepared.host.clone();
    let facts = HostFacts::read(&HostRoot::default()).map_err(Failure::failed)?;
    let now = Instant::now();
    let trial = NewTrial {
        name: plan.name.clone(),
        kind,
        boot_id: facts.boot_id.clone(),
        host_facts: serde_json::to_value(&facts).map_err(Failure::failed)?,
        metric: plan.metric,
        seed: plan.seed,
        repeats: 1,
        planned_us: plan.duration.0.as_micros() as i64,
        arms: plan.arms.clone(),
        parameters: json!({ "plan": plan, "started_boottime_us": now.boottime_us, "host": host }),
        command: command.to_owned(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_wall_us: now.wall_us,
    };
    let expected: Vec<Option<Value>> = plan
        .arms
        .iter()
        .map(|arm| {
            heaptrial_change::expected_of_arm(prepared, &arm.name).and_then(|e| serde_json::to_value(e).ok())
        })
        .collect();
    let by_hand = plan.by_hand();
    let rows: Vec<NewService> = prepared
        .services
        .iter()
        .enumerate()
        .map(|(position, treatment)| {
            // Another host of the plan may have a service of that name.
            let assignment =
                plan.services.iter().find(|found| found.service == treatment.service && found.host == host);
            let service = services.iter().find(|service| *service.name() == treatment.service);
            let stratum = assignment.map(|found| found.stratum.as_str());
            let mut attributes = match service {
                Some(service) => service.attributes(stratum),
                None => json!({ "stratum": stratum }),
            };
            if assignment.is_some_and(|own| by_hand.contains(&own)) {
                attributes[BY_HAND] = json!(true);
            }
            NewService {
                name: treatment.service.to_string(),
                arm: plan.arms.iter().position(|arm| arm.name == treatment.arm).unwrap_or(0),
                block: assignment.map_or(0, |assignment| assignment.block),
                position: position as u32,
                attributes,
            }
        })
        .collect();
    let id = store.begin_field_trial(&trial, &expected, &rows).map_err(Failure::refused)?;
    let text = "from here on events tell which services have their arm's treatment";
    store.add_event(id, None, now.wall_us, KnownEvent::TreatmentsRecorded, text).map_err(Failure::failed)?;
    Ok(id)
}
