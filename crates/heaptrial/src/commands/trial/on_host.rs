//! What commands that change this host's services have in common.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use heaptrial_agent::UNIT_NAME as AGENT;
use heaptrial_change::{
    Claim, Ledger, Lock, Notification, Outcome, Prepared, ServiceState, Stage, TrialStage, TrialState,
    Witness, free, read_state,
};
use heaptrial_fleet::rollout::is_rollout;
use heaptrial_host::Instant as Moment;
use heaptrial_host::systemd::{Manager as _, Systemd, SystemdError, UnitStatus};
use heaptrial_host::trusted::path_is_trustworthy;
use heaptrial_host::{HostRoot, Paths, Scope};
use heaptrial_model::{KnownEvent, ServiceName};
use heaptrial_store::{EventRecord, Store};
use serde_json::{Value, json};

use super::in_database;
use super::unfound::Unfound;
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Name of the host's database in the folder of what must last.
const DATABASE: &str = "heaptrial.db";
/// While nothing happens, progress is printed this often.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// The host's database, or the one named.
pub fn database(paths: &Paths, global: &GlobalOptions) -> PathBuf {
    global.db.clone().unwrap_or_else(|| paths.state.join(DATABASE))
}

/// What is for services of the system is for root.
pub fn require_root(doing: &str) -> Result<(), Failure> {
    require_owner(doing, &Paths::default())
}

/// Refuses whoever is not root, or with `--user` the user whose services they are, and folders of ours that others can
/// change: what lies there is written and run with their rights.
pub fn require_owner(doing: &str, paths: &Paths) -> Result<(), Failure> {
    if paths.scope.owner() != rustix::process::geteuid().as_raw() {
        return Err(Failure::refused(format!(
            "{doing} changes files of systemd and restarts services, which takes root; use sudo, or --user for services of \
             your own"
        )));
    }
    require_trusted(paths)
}

/// Refuses folders of ours that others than root, or with `--user` the user, can change.
pub fn require_trusted(paths: &Paths) -> Result<(), Failure> {
    let why_not = match paths.scope {
        Scope::System => {
            "what is there is written and run as root, so that root alone must be able to change it"
        }
        Scope::User => {
            "what is there is written and run as you, so that nobody but you and root may be able to change it (`chmod go-w`)"
        }
    };
    for folder in [&paths.state, &paths.libraries, &paths.units] {
        path_is_trustworthy(&HostRoot::default(), folder, paths.scope).map_err(|why| {
            Failure::refused(format!(
                "{} cannot be used: {why}; {why_not}. Nothing was changed",
                folder.display()
            ))
        })?;
    }
    Ok(())
}

/// Whether somebody is there who can be asked, and sees what happens.
pub fn is_attended() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

/// Asks whether to go on, unless that was answered by `--yes`. Without a terminal nobody can be asked.
pub fn confirm(question: &str, yes: bool) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    if !is_attended() {
        return Err(Failure::refused(format!(
            "{question} Nothing was changed: add --yes to go on, or --dry-run to see more"
        )));
    }
    eprint!("{question} [y/N] ");
    let _ = std::io::stderr().flush();
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Failure::failed)?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Failure::refused("nothing was changed"))
    }
}

/// Set by the first Ctrl-C; services that are being restarted are still brought to a known state. A second one ends
/// the program at once, which the recovery timer puts right.
pub fn interrupt() -> Result<Arc<AtomicBool>, Failure> {
    let flag = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, flag.clone())
            .map_err(Failure::failed)?;
        signal_hook::flag::register(signal, flag.clone()).map_err(Failure::failed)?;
    }
    Ok(flag)
}

/// Why nothing further is restarted, once a signal came.
pub fn interrupted(flag: &AtomicBool) -> Option<String> {
    flag.load(Ordering::Relaxed).then(|| "interrupted".to_owned())
}

/// Refuses to deal with a rollout as with a trial.
pub fn refuse_rollout(prepared: &Prepared, doing: &str) -> Result<(), Failure> {
    let name = &prepared.plan.name;
    if !is_rollout(prepared) {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "`{name}` is a rollout and no trial; use `heaptrial rollout {doing} {name}`"
    )))
}

/// Refuses services that belong to a trial, a rollout or a watch of this host: not those of `own`, nor those of the watch
/// `watched`, which a rollout may mend.
pub fn refuse_claimed<'s>(
    paths: &Paths,
    own: &str,
    watched: &str,
    services: impl Iterator<Item = &'s ServiceName>,
) -> Result<(), Failure> {
    Ok(free(&all_claims(paths, own, watched)?, services)?)
}

/// The services that belong to a trial, a rollout or a watch of this host, but for those of `own` and of the watch `watched`.
pub fn all_claims(paths: &Paths, own: &str, watched: &str) -> Result<BTreeMap<ServiceName, Claim>, Failure> {
    let mut claims = Ledger::of_this_host(paths)?.without(own).claims();
    let now = Moment::now().wall_us as f64 / 1e6;
    for (service, name) in heaptrial_fleet::watch::claims(&paths.state, watched, now)? {
        claims.entry(service).or_insert(Claim { kind: "watch".to_owned(), name, unread: None });
    }
    Ok(claims)
}

/// Whether some process is changing services for this trial or rollout. One that does not say whose it is may be.
pub fn is_at_work(paths: &Paths, name: &str) -> bool {
    Lock::is_held(&paths.state) && Lock::holder(&paths.state).is_none_or(|holder| holder.name == name)
}

/// Services that a trial or rollout changed or put back and that do not run, and how they are, while it has not ended. None
/// where systemd cannot be asked.
pub fn not_running(state: &TrialState, scope: Scope) -> Vec<(ServiceName, String)> {
    if matches!(state.stage, TrialStage::Stopped | TrialStage::Reverted) {
        return Vec::new();
    }
    let is_told = |found: &ServiceState| matches!(found.stage, Stage::Committed | Stage::Reverted);
    let told = state.services.iter().filter(|(_, found)| is_told(found));
    let names: Vec<ServiceName> = told.map(|(name, _)| name.clone()).collect();
    let Ok(systemd) = Systemd::connect_with_limit(scope, Duration::from_secs(5)) else { return Vec::new() };
    let statuses = systemd.statuses(&names);
    let down = |(name, status): (ServiceName, Result<UnitStatus, SystemdError>)| {
        let status = status.ok().filter(|status| status.active_state != "active")?;
        let by_whom = match status.active_state.as_str() {
            "inactive" => ": somebody stopped it, or it was through with its work",
            _ => "",
        };
        Some((name, format!("{} ({}){by_whom}", status.active_state, status.sub_state)))
    };
    names.into_iter().zip(statuses).filter_map(down).collect()
}

/// In place of the failure that there is no such trial or rollout, that its folder is gone.
pub fn unless_unfound(failure: Failure, name: &str, paths: &Paths, global: &GlobalOptions) -> Failure {
    match Unfound::named(name, paths, global) {
        Ok(Some(found)) => Failure::failed(found.to_string()),
        _ => failure,
    }
}

/// Tells that nothing samples the services.
pub fn warn_of_agent(systemd: &Systemd) {
    if !agent_runs(systemd) {
        eprintln!(
            "warning: {AGENT} does not run; until something samples the services there is no data (docs/agent.md)"
        );
    }
}

fn agent_runs(systemd: &Systemd) -> bool {
    let status = AGENT.parse().ok().map(|name: ServiceName| systemd.status(&name));
    status.is_some_and(|status| status.is_ok_and(|status| status.is_running()))
}

/// Warns where a revert took the agent away that something else on the host is sampled by.
pub fn warn_of_unsampled(database: &Path, global: &GlobalOptions) {
    let Ok(systemd) = global.systemd() else { return };
    let Ok(running) = Store::open(database).and_then(|store| store.running_trials()) else { return };
    let names: Vec<String> = running
        .into_iter()
        .filter(|trial| trial.plan.kind.is_on_services())
        .map(|trial| format!("`{}`", trial.plan.name))
        .collect();
    if !names.is_empty() && !agent_runs(&systemd) {
        eprintln!(
            "warning: {AGENT} does not run any more, and {} {} on: until something samples the services there is no data (docs/agent.md)",
            names.join(", "),
            if names.len() == 1 { "goes" } else { "go" }
        );
    }
}

/// Refuses to show what is on this host to who may not read it.
pub fn require_readable(paths: &Paths, global: &GlobalOptions) -> Result<(), Failure> {
    let database = database(paths, global);
    let folder = |path: &Path| std::fs::read_dir(path).map(drop);
    let places = [paths.state.clone(), paths.state.join("trials"), paths.state.join("watches")];
    let folders = places.iter().map(|path| (path, folder(path)));
    let file = std::iter::once((&database, std::fs::File::open(&database).map(drop)));
    for (path, read) in folders.chain(file) {
        if let Err(error) = read {
            if error.kind() == std::io::ErrorKind::PermissionDenied {
                return Err(Failure::refused(format!(
                    "cannot read {}: {error}; what is on this host is for root to read: use sudo",
                    path.display()
                )));
            }
        }
    }
    Ok(())
}

/// Refuses to put back, or to go on with, what a later rollout has replaced, and what would change and restart services of a trial or rollout
/// that goes on: one that has ended keeps nobody off services of which it left no drop-in.
pub fn refuse_taken_over(paths: &Paths, name: &str) -> Result<(), Failure> {
    let ledger = Ledger::of_this_host(paths)?;
    if let Some(rollout) = ledger.taken_over_by(name) {
        return Err(Failure::refused(format!(
            "rollout `{rollout}` has replaced what `{name}` left on services; `heaptrial rollout rollback {rollout}` first"
        )));
    }
    let state = read_state(paths, name)?;
    let changed = |found: &ServiceState| found.stage != Stage::Reverted && !found.changes.is_empty();
    let services = state.services.iter().filter(|(_, found)| changed(found)).map(|(service, _)| service);
    Ok(free(&ledger.without(name).claims(), services)?)
}

/// Prints on standard error what happens, and records in the database for the agent which restarts are meant.
pub struct Teller {
    events: Option<Events>,
    /// Services that have their treatment, and those that were put back.
    committed: BTreeSet<ServiceName>,
    reverted: BTreeSet<ServiceName>,
    of: usize,
    quiet_since: Instant,
}

/// Where events of a trial go.
struct Events {
    store: Store,
    trial_id: i64,
    service_ids: HashMap<String, i64>,
}

impl Events {
    fn of_trial(database: &Path, prepared: &Prepared) -> Option<Self> {
        let store = Store::open_for_writing(database).ok()?;
        let trial_id = in_database::running(&store, prepared).ok()??.id;
        let services = store.services(trial_id).ok()?;
        let service_ids = services.into_iter().map(|record| (record.name, record.id)).collect();
        Some(Self { store, trial_id, service_ids })
    }
}

impl Teller {
    /// Of a trial with so many services; without a database nothing is recorded for the agent.
    pub fn new(database: &Path, prepared: &Prepared, of: usize) -> Self {
        let events = Events::of_trial(database, prepared);
        Self {
            events,
            committed: BTreeSet::new(),
            reverted: BTreeSet::new(),
            of,
            quiet_since: Instant::now(),
        }
    }

    /// Tells the database of services that were committed and of which an event was lost.
    pub fn tell_committed(&mut self, state: &TrialState) {
        let Some(Events { store, trial_id, service_ids }) = &mut self.events else { return };
        let Ok(events) = store.events(*trial_id) else { return };
        for (service, found) in &state.services {
            let id = service_ids.get(service.as_str()).copied();
            let at = found.committed_wall_us.filter(|_| found.stage == Stage::Committed);
            let (Some(id), Some(at)) = (id, at) else { continue };
            // The record in the journal comes a moment before the event.
            let told = |event: &EventRecord| {
                event.service_id == Some(id)
                    && event.kind == KnownEvent::TreatmentCommitted
                    && event.wall_us >= at
            };
            if !events.iter().any(told) {
                let _ = store.add_event(
                    *trial_id,
                    Some(id),
                    at,
                    KnownEvent::TreatmentCommitted,
                    "told by the journal",
                );
            }
        }
    }

    fn event(&mut self, service: &ServiceName, kind: KnownEvent, text: &str) {
        let Some(Events { store, trial_id, service_ids }) = &mut self.events else { return };
        let service_id = service_ids.get(service.as_str()).copied();
        // What the agent misses here, it finds out by itself as an unplanned restart.
        let _ = store.add_event(*trial_id, service_id, Moment::now().wall_us, kind, text);
    }
}

impl Witness for Teller {
    fn told(&mut self, prepared: &Prepared, notification: &Notification) {
        let found =
            |service: &ServiceName| prepared.services.iter().find(|treatment| treatment.service == *service);
        let arm =
            |service: &ServiceName| found(service).map(|treatment| treatment.arm.clone()).unwrap_or_default();
        if !matches!(notification, Notification::Waiting(..)) {
            self.quiet_since = Instant::now();
        }
        match notification {
            Notification::Restarting(service) => {
                self.event(service, KnownEvent::RestartPlanned, &format!("for arm {}", arm(service)));
            }
            Notification::Committed(service, life) => {
                let arm = arm(service);
                self.reverted.remove(service);
                self.committed.insert(service.clone());
                self.event(service, KnownEvent::TreatmentCommitted, &format!("runs what arm {arm} wants"));
                let runs = found(service).map(|treatment| treatment.expected.spec.to_string());
                let runs = runs.unwrap_or_default();
                let told = self.committed.len();
                eprintln!("{told}/{} {service}: {arm}, process {} runs {runs}", self.of, life.pid);
            }
            Notification::Failed(service, why) => {
                eprintln!("{service}: FAILED for arm {}: {why}", arm(service));
                eprintln!("{service}: putting it back");
                self.event(service, KnownEvent::TreatmentFailed, why);
            }
            Notification::Reverted(service) => {
                self.committed.remove(service);
                self.reverted.insert(service.clone());
                eprintln!("{}/{} {service}: as before", self.reverted.len(), self.of);
                self.event(service, KnownEvent::TreatmentReverted, "as before the trial");
            }
            Notification::RevertFailed(service, why) => {
                eprintln!("{service}: COULD NOT BE PUT BACK: {why}");
                self.event(service, KnownEvent::RevertFailed, why);
            }
            Notification::Waiting(done, of) => {
                if self.quiet_since.elapsed() >= PROGRESS_EVERY {
                    self.quiet_since = Instant::now();
                    eprintln!("{done} of {of}: waiting for the next restart");
                }
            }
        }
    }

    fn warning(&mut self, text: &str) {
        eprintln!("warning: {text}");
    }
}

/// Refuses to give up what is no service of it.
pub fn check_without(prepared: &Prepared, without: &[ServiceName]) -> Result<(), Failure> {
    let unknown = |service: &&ServiceName| prepared.services.iter().all(|found| found.service != **service);
    match without.iter().find(unknown) {
        None => Ok(()),
        Some(service) => Err(Failure::refused(format!(
            "--without {service}: `{}` has no such service; nothing was changed",
            prepared.plan.name
        ))),
    }
}

/// Tells which services were given up, and how those are that could not be put back.
pub fn tell_stuck(command: &str, outcome: &Outcome, global: &GlobalOptions) {
    for (service, why) in &outcome.given_up {
        println!(
            "{service} was given up ({why}); what runs of it may still have the treatment, and a library that its files name is left"
        );
    }
    if let [(service, _), ..] = outcome.stuck.as_slice() {
        let text = format!(
            "once what is told above is put right the same command goes on; `{command} --without {service}` gives a service up \
             and leaves it as it is"
        );
        println!("{}", global.told(&text));
    }
}

/// What putting these services back would change; `of` is what is put back, a trial or a rollout.
pub fn tell_would_put_back(
    (of, name): (&str, &str),
    state: &TrialState,
    services: &[&ServiceName],
    global: &GlobalOptions,
) {
    let files =
        |service: &ServiceName| state.services[service].changes.iter().map(|change| change.path.as_path());
    if global.json {
        let put_back: BTreeMap<&ServiceName, Vec<&Path>> =
            services.iter().map(|service| (*service, files(service).collect())).collect();
        println!(
            "{:#}",
            json!({ "schema_version": 1, of: name, "dry_run": true, "would_put_back": put_back })
        );
        return;
    }
    for service in services {
        println!("would put back {service}");
        files(service).for_each(|file| println!("  {}", file.display()));
    }
    println!("nothing was changed");
}

pub fn outcome_json(trial: &str, action: &str, outcome: &Outcome) -> Value {
    let pairs = |list: &[(ServiceName, String)]| -> Vec<Value> {
        list.iter().map(|(service, why)| json!({ "service": service, "why": why })).collect()
    };
    json!({
        "schema_version": 1,
        "trial": trial,
        "action": action,
        "done": outcome.done,
        "changed_by_others": pairs(&outcome.drifted),
        "failed": pairs(&outcome.failed),
        "given_up": pairs(&outcome.given_up),
        "not_put_back": pairs(&outcome.stuck),
        "remaining": outcome.remaining,
        "stopped": outcome.stopped,
    })
}
