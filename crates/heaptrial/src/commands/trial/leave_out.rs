//! `heaptrial trial drop`: takes a service out of a running trial.

use std::process::ExitCode;

use clap::Args;
use heaptrial_change::edges::ThisHost;
use heaptrial_change::journal::Action;
use heaptrial_change::{Prepared, Stage, Trial, read_prepared};
use heaptrial_model::{ErrorClass, KnownEvent, ServiceName, TrialName, units};
use heaptrial_store::Store;

use super::in_database;
use super::on_host::{self, Teller};
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;

/// Which service of which trial.
#[derive(Debug, Args)]
pub struct DropOptions {
    /// The trial's name
    #[arg(value_name = "NAME")]
    trial: TrialName,
    /// The service
    #[arg(value_name = "SERVICE", value_parser = ServiceName::of_unit)]
    service: ServiceName,
    /// Why, for the report
    #[arg(long, value_name = "TEXT", default_value = "no reason given")]
    because: String,
    /// Take it out without asking
    #[arg(long)]
    yes: bool,
    /// Show what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
}

/// Puts a service back and leaves it out of the trial from this moment on. What was read before still counts.
pub fn run(options: &DropOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let paths = global.paths()?;
    let (name, service) = (options.trial.as_str(), &options.service);
    on_host::refuse_rollout(&read_prepared(&paths, name)?, "rollback")?;
    if !options.dry_run {
        on_host::require_owner("trial drop", &paths)?;
    }
    on_host::refuse_taken_over(&paths, name)?;
    let this = ThisHost::new(global.systemd()?);
    let mut trial = Trial::open(this.host(), &paths, name, Action::Drop)?;
    trial.check_drop(service)?;
    let is_changed = trial.state().services.get(service).is_some_and(|found| found.stage != Stage::Reverted);
    let what = match is_changed {
        true => {
            format!("This puts the files of {service} back, restarts it and leaves it out of trial `{name}`.")
        }
        false => format!("This leaves {service} out of trial `{name}`; nothing of it was changed."),
    };
    if options.dry_run && global.json {
        let document = serde_json::json!({ "schema_version": 1, "trial": name, "service": service, "dry_run": true, "would_restart": is_changed });
        println!("{document:#}");
        return Ok(ExitCode::SUCCESS);
    }
    if options.dry_run {
        println!("{what}\nnothing was changed");
        return Ok(ExitCode::SUCCESS);
    }
    on_host::confirm(&what, options.yes)?;
    let database = on_host::database(&paths, global);
    // Before the restart, so that what the service does from here on is none of the trial's data.
    record(&database, trial.prepared(), service, &options.because)?;
    let mut teller = Teller::new(&database, trial.prepared(), usize::from(is_changed));
    let interrupt = on_host::interrupt()?;
    let pace = trial.prepared().plan.pace;
    let outcome = trial.drop_service(service, pace, &mut teller, &|| on_host::interrupted(&interrupt))?;
    if global.json {
        println!("{:#}", on_host::outcome_json(name, "drop", &outcome));
    } else if outcome.is_complete() {
        let arm = trial.prepared().services.iter().find(|found| found.service == *service);
        let arm = arm.map(|found| found.arm.clone()).unwrap_or_default();
        let dropped = &trial.state().dropped;
        let left = trial.prepared().services.iter();
        let left = left.filter(|found| found.arm == arm && !dropped.contains(&found.service)).count();
        println!(
            "trial {name}: {service} is as before and out of the trial; {} of arm {arm} are left",
            units::counted(left, "service")
        );
    } else {
        println!("trial {name}: {service} could not be put back; the same command goes on");
    }
    Ok(if outcome.is_complete() { ExitCode::SUCCESS } else { code(ErrorClass::Failed) })
}

/// Tells the database; a second attempt leaves the first one's moment as it is.
fn record(
    database: &std::path::Path,
    prepared: &Prepared,
    service: &ServiceName,
    because: &str,
) -> Result<(), Failure> {
    let mut store = Store::create(database).map_err(Failure::failed)?;
    let name = &prepared.plan.name;
    let unknown = || {
        Failure::refused(format!(
            "{}: there is no running trial `{name}` in it, so that the report would not know; nothing was changed",
            database.display()
        ))
    };
    let trial_id = in_database::running(&store, prepared).map_err(Failure::failed)?.ok_or_else(unknown)?.id;
    let services = store.services(trial_id).map_err(Failure::failed)?;
    let id = services.iter().find(|found| found.name == service.as_str()).ok_or_else(unknown)?.id;
    let events = store.events(trial_id).map_err(Failure::failed)?;
    if events.iter().any(|event| event.service_id == Some(id) && event.kind == KnownEvent::Dropped) {
        return Ok(());
    }
    let now = heaptrial_host::Instant::now().wall_us;
    store.add_event(trial_id, Some(id), now, KnownEvent::Dropped, because).map_err(Failure::failed)
}
