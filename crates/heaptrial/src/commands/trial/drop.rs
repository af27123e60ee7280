//! `heaptrial trial drop`: takes a service out of a running trial.

use clap::Args;
use heaptrial_change::edges::ThisHost;
use heaptrial_change::journal::Action;
use heaptrial_change::{Prepared, Trial};
use heaptrial_host::Instant;
use heaptrial_model::{KnownEvent, ServiceName, units};
use heaptrial_store::Store;

use crate::answer::Answer;
use crate::commands::host::carry_out::{SAME_COMMAND, done, would_put_back};
use crate::commands::host::events::EventLog;
use crate::commands::host::record::running;
use crate::commands::host::{Consent, Host, NameOptions, interrupt, interrupted};
use crate::exit::Failure;
use crate::options::GlobalOptions;

#[derive(Debug, Args)]
pub struct DropOptions {
    #[command(flatten)]
    trial: NameOptions,
    /// The service that is put back and excluded
    #[arg(value_name = "SERVICE", value_parser = ServiceName::of_unit)]
    service: ServiceName,
    /// Why it is excluded, for the report
    #[arg(long, value_name = "TEXT", default_value = "no reason given")]
    because: String,
    #[command(flatten)]
    consent: Consent,
}

/// Puts a service back and excludes it from this moment on. What was read before still counts.
pub fn run(options: &DropOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let host = Host::of(global)?;
    let (name, service) = (options.trial.name.as_str(), &options.service);
    host.trial(name)?;
    if !options.consent.dry_run {
        host.require_owner("trial drop")?;
    }
    host.require_latest(name)?;
    let this = ThisHost::new(host.systemd()?);
    let mut trial = Trial::open(this.host(), &host.paths, name, Action::Drop)?;
    trial.check_drop(service)?;
    let is_changed = trial.state().is_changed(service);
    if options.consent.dry_run {
        let services = if is_changed { vec![service] } else { Vec::new() };
        return Ok(would_put_back("trial", name, trial.state(), &services));
    }
    options.consent.ask(&format!("This puts {service} back and takes it out of trial `{name}`."))?;
    // Before the restart, so that what the service does from here on is none of the trial's data.
    record(&host, trial.prepared(), service, &options.because)?;
    trial.report_to(EventLog::new(&host.database, trial.prepared(), usize::from(is_changed)));
    let interrupt = interrupt()?;
    let outcome = trial.drop_service(service, &|| interrupted(&interrupt))?;
    let services = &trial.prepared().services;
    let arm = trial.prepared().treatment(service).map_or("", |own| own.arm.as_str());
    let left = services.iter().filter(|own| own.arm == arm && !trial.state().dropped.contains(&own.service));
    let left = units::counted(left.count(), "service");
    let complete = format!("{service} is as before and out of the trial; {left} of arm {arm} are left");
    Ok(done(("trial", name), "drop", &outcome, &complete, SAME_COMMAND))
}

/// A second attempt leaves the first one's moment as it is.
fn record(host: &Host<'_>, prepared: &Prepared, service: &ServiceName, because: &str) -> Result<(), Failure> {
    let mut store = Store::open_for_writing(&host.database)?;
    let unknown = || {
        Failure::refused(format!(
            "{} has no running trial `{}` with this service, so its report would not show the drop; nothing was changed",
            host.database.display(),
            prepared.plan.name
        ))
    };
    let trial_id = running(&store, prepared)?.ok_or_else(unknown)?.id;
    let services = store.services(trial_id)?;
    let id = services.iter().find(|found| found.name == service.as_str()).ok_or_else(unknown)?.id;
    let events = store.events(trial_id)?;
    if events.iter().any(|event| event.service_id == Some(id) && event.kind == KnownEvent::Dropped) {
        return Ok(());
    }
    Ok(store.add_event(trial_id, Some(id), Instant::now().wall_us, KnownEvent::Dropped, because)?)
}
