//! Services and timers in memory, as systemd runs them. A process keeps the environment and the torrc that it began with.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heaptrial_allocator::{IdentifyError, PassedVariables};
use heaptrial_change::ServiceError;
use heaptrial_change::edges::Programs;
use heaptrial_host::systemd::{Job, JobResult, Manager, SystemdError, UnitEnvironment, UnitStatus};
use heaptrial_model::{Identity, LifeKey, Linkage, ServiceName};
use heaptrial_relay::Relay;

use crate::disk::{Files, digest};
use crate::fleet::{PROGRAM, UNITS, service, torrc_of};
use crate::world::{Loss, World};

/// Which service wants which: whoever is restarted first starts the other one.
const WANTS: [(usize, usize); 2] = [(0, 1), (2, 0)];
const START_TAKES: Duration = Duration::from_millis(4);
const LIVES_FOR: Duration = Duration::from_millis(6);
const RESTARTS_AFTER: Duration = Duration::from_millis(2);

/// How a service fails under its treatment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Its start fails.
    Start,
    /// Its start never ends.
    Hangs,
    /// It runs for a moment.
    Dies,
    /// It runs for a moment, and ends as if it were through with its work.
    Ends,
    /// It runs for a moment, is started again by systemd, and so on.
    CrashLoop,
}

/// What a process began with.
#[derive(Debug, Clone, PartialEq, Default)]
struct Process {
    environment: Vec<(String, String)>,
    /// SHA-256 of the library that it preloaded.
    preloaded: Option<String>,
    torrc: Option<Vec<u8>>,
}

impl Process {
    fn is_treated(&self) -> bool {
        let torrc =
            self.torrc.as_ref().map(|torrc| String::from_utf8_lossy(torrc).contains("heaptrial begin"));
        self.environment.iter().any(|(name, _)| name != "LANG") || torrc == Some(true)
    }
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Running {
        life: LifeKey,
        process: Process,
        until: Option<Duration>,
    },
    /// `until` never comes where the start hangs.
    Starting {
        until: Duration,
        process: Process,
    },
    WaitsForRestart {
        until: Duration,
    },
    Failed,
    /// It ended by itself, without an error.
    Ended,
    /// Somebody stopped it, or its unit was gone at boot.
    Stopped,
}

#[derive(Debug, Clone)]
struct Service {
    state: State,
    fault: Fault,
    /// As read at the last reload: drop-ins, and what they set and remove.
    drop_ins: Vec<PathBuf>,
    set: Vec<(String, String)>,
    unset: Vec<String>,
    restarts: u32,
    /// Whether a person, a timer or another service started it last.
    by_others: bool,
    /// Whether its unit was removed, renamed or masked: what runs goes on, and nothing starts it.
    gone: bool,
}

/// What systemd knows.
#[derive(Debug, Clone, Default)]
pub struct Services {
    services: BTreeMap<ServiceName, Service>,
    timers: BTreeSet<ServiceName>,
    next_pid: i32,
    boots: u32,
}

/// The services that one wants (systemd.unit(5)).
pub fn wanted_by(name: &ServiceName) -> Vec<ServiceName> {
    WANTS.iter().filter(|(one, _)| service(*one) == *name).map(|(_, other)| service(*other)).collect()
}

fn quoted_words(line: &str) -> Option<(String, String)> {
    let (name, value) = line.trim().trim_matches('"').split_once('=')?;
    Some((name.to_owned(), value.to_owned()))
}

impl Services {
    /// Services that run.
    pub fn with(faults: &[(ServiceName, Fault)], files: &Files) -> Self {
        let mut own = Self { next_pid: 100, ..Self::default() };
        for (name, fault) in faults {
            let service = Service {
                state: State::Failed,
                fault: *fault,
                drop_ins: Vec::new(),
                set: Vec::new(),
                unset: Vec::new(),
                restarts: 0,
                by_others: false,
                gone: false,
            };
            own.services.insert(name.clone(), service);
        }
        own.boot(files, Duration::ZERO);
        own.advance(START_TAKES, files);
        own
    }

    /// The host comes up: all services are enabled, and timers that are linked.
    pub fn boot(&mut self, files: &Files, now: Duration) {
        self.boots += 1;
        self.next_pid = 100;
        self.reload(files);
        let names: Vec<ServiceName> = self.services.keys().cloned().collect();
        for name in names {
            if let Some(service) = self.services.get_mut(&name) {
                service.restarts = 0;
                if service.gone {
                    service.state = State::Stopped;
                    continue;
                }
            }
            self.begin(&name, now, files);
        }
        let wants = PathBuf::from(format!("{UNITS}/timers.target.wants"));
        let linked = files.in_folder(&wants).filter_map(|link| link.file_name()?.to_str()?.parse().ok());
        let there = |timer: &ServiceName| files.has(Path::new(&format!("{UNITS}/{timer}")));
        self.timers = linked.filter(there).collect();
        // Long enough for whatever comes up or fails.
        self.advance(now + Duration::from_secs(60), files);
    }

    pub fn reload(&mut self, files: &Files) {
        for (name, service) in &mut self.services {
            let folder = PathBuf::from(format!("{UNITS}/{name}.d"));
            service.drop_ins = files
                .in_folder(&folder)
                .filter(|path| path.extension().is_some_and(|extension| extension == "conf"))
                .map(Path::to_owned)
                .collect();
            service.set = vec![("LANG".to_owned(), "C".to_owned())];
            service.unset = Vec::new();
            for drop_in in &service.drop_ins {
                let text = String::from_utf8_lossy(files.bytes(drop_in).unwrap_or_default()).into_owned();
                for line in text.lines() {
                    if let Some(word) = line.strip_prefix("Environment=") {
                        service.set.extend(quoted_words(word));
                    }
                    if let Some(words) = line.strip_prefix("UnsetEnvironment=") {
                        service.unset.extend(words.split_whitespace().map(str::to_owned));
                    }
                }
            }
        }
    }

    fn begin(&mut self, name: &ServiceName, now: Duration, files: &Files) {
        let Some(service) = self.services.get_mut(name) else { return };
        let unset = |(name, _): &(String, String)| service.unset.contains(name);
        let environment: Vec<(String, String)> =
            service.set.iter().filter(|variable| !unset(variable)).cloned().collect();
        let preload = environment.iter().find(|(name, _)| name == "LD_PRELOAD");
        let process = Process {
            preloaded: preload.and_then(|(_, path)| Some(digest(files.bytes(Path::new(path))?))),
            environment,
            torrc: files.bytes(&torrc_of(name)).map(<[u8]>::to_vec),
        };
        let hangs = process.is_treated() && service.fault == Fault::Hangs;
        let until = if hangs { Duration::MAX } else { now + START_TAKES };
        service.state = State::Starting { until, process };
        service.by_others = false;
    }

    /// As a timer or a person does it.
    pub fn restart(&mut self, name: &ServiceName, now: Duration, files: &Files) {
        if let Some(service) = self.services.get_mut(name) {
            if service.gone {
                return;
            }
            service.restarts = 0;
        }
        self.begin_by_others(name, now, files);
        self.begin_wanted(name, now, files);
    }

    fn begin_by_others(&mut self, name: &ServiceName, now: Duration, files: &Files) {
        self.begin(name, now, files);
        if let Some(service) = self.services.get_mut(name) {
            service.by_others = true;
        }
    }

    /// What a service wants is started with it.
    fn begin_wanted(&mut self, name: &ServiceName, now: Duration, files: &Files) {
        for other in wanted_by(name) {
            let rests = |service: &Service| {
                !service.gone && matches!(service.state, State::Failed | State::Ended | State::Stopped)
            };
            if self.services.get(&other).is_some_and(rests) {
                self.begin_by_others(&other, now, files);
            }
        }
    }

    /// As a person does it.
    pub fn stop(&mut self, name: &ServiceName) {
        let Some(service) = self.services.get_mut(name) else { return };
        service.state = State::Stopped;
    }

    /// Somebody removes, renames or masks its unit, or brings it back.
    pub fn set_gone(&mut self, name: &ServiceName, gone: bool) {
        if let Some(service) = self.services.get_mut(name) {
            service.gone = gone;
        }
    }

    /// Services whose unit is gone.
    pub fn gone(&self) -> Vec<ServiceName> {
        self.services.iter().filter(|(_, service)| service.gone).map(|(name, _)| name.clone()).collect()
    }

    /// Whether a service stands still because somebody stopped it, or because its unit was gone at boot.
    pub fn is_stopped(&self, name: &ServiceName) -> bool {
        self.services.get(name).is_some_and(|service| service.state == State::Stopped)
    }

    /// What happens by itself up to a moment.
    pub fn advance(&mut self, now: Duration, files: &Files) {
        let due = |service: &Service| match &service.state {
            State::Running { until, .. } => until.is_some_and(|until| until <= now),
            State::Starting { until, .. } | State::WaitsForRestart { until } => *until <= now,
            State::Failed | State::Ended | State::Stopped => false,
        };
        if !self.services.values().any(due) {
            return;
        }
        let names: Vec<ServiceName> = self.services.keys().cloned().collect();
        for name in names {
            // A crash loop goes round a few times at most before somebody looks.
            for _ in 0..4 {
                if !self.advance_one(&name, now, files) {
                    break;
                }
            }
        }
    }

    fn advance_one(&mut self, name: &ServiceName, now: Duration, files: &Files) -> bool {
        let Some(service) = self.services.get_mut(name) else { return false };
        match &service.state {
            State::Starting { until, process } if *until <= now => {
                let fault = if process.is_treated() { service.fault } else { Fault::None };
                if fault == Fault::Start {
                    service.state = State::Failed;
                    return true;
                }
                let life = LifeKey {
                    boot_id: format!("boot-{}", self.boots),
                    pid: self.next_pid,
                    start_ticks: until.as_micros() as u64,
                };
                self.next_pid += 1;
                let dies = matches!(fault, Fault::Dies | Fault::Ends | Fault::CrashLoop);
                let until = dies.then_some(*until + LIVES_FOR);
                service.state = State::Running { life, process: process.clone(), until };
                true
            }
            State::Running { until: Some(until), .. } if *until <= now => {
                service.state = match service.fault {
                    Fault::CrashLoop => State::WaitsForRestart { until: *until + RESTARTS_AFTER },
                    Fault::Ends => State::Ended,
                    _ => State::Failed,
                };
                true
            }
            State::WaitsForRestart { .. } if service.gone => {
                service.state = State::Failed;
                true
            }
            State::WaitsForRestart { until } if *until <= now => {
                let at = (*until).max(now.saturating_sub(START_TAKES));
                service.restarts += 1;
                self.begin(name, at, files);
                true
            }
            _ => false,
        }
    }

    /// Services that do not run, and that nobody stopped, or started before they were through with their work.
    pub fn down(&self) -> Vec<ServiceName> {
        let runs = |service: &Service| match service.state {
            State::Running { until: None, .. } | State::Stopped => true,
            State::Ended => service.by_others,
            _ => false,
        };
        self.services.iter().filter(|(_, service)| !runs(service)).map(|(name, _)| name.clone()).collect()
    }

    /// Services whose process began with a treatment.
    pub fn treated(&self) -> BTreeSet<ServiceName> {
        let treated = |service: &Service| match &service.state {
            State::Running { process, .. } | State::Starting { process, .. } => process.is_treated(),
            State::WaitsForRestart { .. } => true,
            State::Failed | State::Ended | State::Stopped => false,
        };
        self.services.iter().filter(|(_, service)| treated(service)).map(|(name, _)| name.clone()).collect()
    }

    pub fn timers(&self) -> &BTreeSet<ServiceName> {
        &self.timers
    }

    fn running(&self, pid: i32) -> Option<(&ServiceName, &LifeKey, &Process)> {
        self.services.iter().find_map(|(name, service)| match &service.state {
            State::Running { life, process, .. } if life.pid == pid => Some((name, life, process)),
            _ => None,
        })
    }
}

impl Service {
    fn status(&self) -> UnitStatus {
        let (active, sub, main_pid) = match &self.state {
            State::Running { life, .. } => ("active", "running", Some(life.pid)),
            State::Starting { .. } => ("activating", "start", None),
            State::WaitsForRestart { .. } => ("activating", "auto-restart", None),
            State::Failed => ("failed", "failed", None),
            State::Ended | State::Stopped => ("inactive", "dead", None),
        };
        UnitStatus {
            active_state: active.to_owned(),
            sub_state: sub.to_owned(),
            main_pid,
            control_group: String::new(),
            restarts: self.restarts,
            result: "exit-code".to_owned(),
            exec_main_code: 1,
            exec_main_status: 3,
            invocation_id: String::new(),
            job: None,
        }
    }
}

impl World {
    fn ask<T>(&self, names: &[ServiceName], answer: impl Fn(&Service) -> T) -> Vec<Result<T, SystemdError>> {
        self.operate();
        self.pass(Duration::ZERO);
        let refused = self.refuses();
        let services = self.services.borrow();
        let one = |name: &ServiceName| match services.services.get(name) {
            Some(service) if !refused => Ok(answer(service)),
            _ => Err(self.said(&format!("reading the state of {name}"))),
        };
        names.iter().map(one).collect()
    }

    fn said(&self, doing: &str) -> SystemdError {
        SystemdError::Call { doing: doing.to_owned(), said: "no".to_owned() }
    }

    fn lost(&self, doing: &str) -> SystemdError {
        SystemdError::Lost { doing: doing.to_owned(), said: "it left the bus".to_owned() }
    }

    /// Every call that changes something: counted, and refused where the history says so.
    fn call(&self, doing: &str) -> Result<(), SystemdError> {
        self.operate();
        self.pass(Duration::ZERO);
        if self.refuses() { Err(self.said(doing)) } else { Ok(()) }
    }

    fn queued(&self, unit: &ServiceName) -> Job {
        Job { id: 0, unit: unit.clone(), connection: self.connection.get() }
    }
}

impl Manager for World {
    fn statuses(&self, names: &[ServiceName]) -> Vec<Result<UnitStatus, SystemdError>> {
        self.ask(names, Service::status)
    }

    fn environments(&self, names: &[ServiceName]) -> Result<Vec<UnitEnvironment>, SystemdError> {
        self.call("reading environments")?;
        let services = self.services.borrow();
        let environment = |name: &ServiceName| {
            let service = &services.services[name];
            UnitEnvironment {
                drop_ins: service.drop_ins.clone(),
                set: service.set.clone(),
                unset: service.unset.clone(),
            }
        };
        Ok(names.iter().map(environment).collect())
    }

    fn reload(&self) -> Result<(), SystemdError> {
        self.call("reading all unit files anew")?;
        self.services.borrow_mut().reload(&self.files.borrow());
        Ok(())
    }

    fn restart(&self, name: &ServiceName) -> Result<Job, SystemdError> {
        let doing = format!("restarting {name}");
        self.call(&doing)?;
        let lost = self.loses();
        if lost == Some(Loss::Unheard) {
            return Err(self.lost(&doing));
        }
        if self.services.borrow().services[name].gone {
            return Err(self.said(&doing));
        }
        let mut services = self.services.borrow_mut();
        services.services.get_mut(name).unwrap().restarts = 0;
        services.begin(name, self.time(), &self.files.borrow());
        services.begin_wanted(name, self.time(), &self.files.borrow());
        drop(services);
        if lost.is_some() { Err(self.lost(&doing)) } else { Ok(self.queued(name)) }
    }

    fn start(&self, name: &ServiceName) -> Result<Job, SystemdError> {
        self.call(&format!("starting {name}"))?;
        if !self.files.borrow().has(Path::new(&format!("{UNITS}/{name}"))) {
            return Err(self.said(&format!("starting {name}")));
        }
        self.services.borrow_mut().timers.insert(name.clone());
        Ok(self.queued(name))
    }

    fn stop(&self, name: &ServiceName) -> Result<Job, SystemdError> {
        self.call(&format!("stopping {name}"))?;
        self.services.borrow_mut().timers.remove(name);
        Ok(self.queued(name))
    }

    fn wait(&self, job: &Job, _limit: Duration) -> Result<JobResult, SystemdError> {
        self.operate();
        // Not over a connection that systemd has left since.
        if job.connection != self.connection.get() {
            return Err(self.lost("waiting"));
        }
        Ok(JobResult("done".to_owned()))
    }

    fn reset_failed(&self, name: &ServiceName) -> Result<(), SystemdError> {
        self.call(&format!("resetting {name}"))
    }
}

impl Programs for World {
    fn life(&self, pid: i32) -> Option<LifeKey> {
        self.operate();
        self.pass(Duration::ZERO);
        self.services.borrow().running(pid).map(|(_, life, _)| life.clone())
    }

    fn identify(&self, pid: i32, _: PassedVariables<'_>) -> Result<Identity, IdentifyError> {
        self.operate();
        let services = self.services.borrow();
        let (_, _, process) = services.running(pid).ok_or(IdentifyError::NoProgram { pid })?;
        let preload = process.environment.iter().find(|(name, _)| name == "LD_PRELOAD");
        let loaded = preload.filter(|_| process.preloaded.is_some());
        let settings = process.environment.iter().filter(|(name, _)| name.starts_with("MALLOC_"));
        Ok(Identity {
            family: if loaded.is_some() { "jemalloc" } else { "glibc" }.to_owned(),
            version: None,
            version_range: None,
            path: loaded.map(|(_, path)| path.into()),
            build_id: None,
            sha256: process.preloaded.clone(),
            linkage: if loaded.is_some() { Linkage::Preloaded } else { Linkage::Libc },
            settings: settings.cloned().collect(),
            evidence: Vec::new(),
            ..Identity::default()
        })
    }

    fn is_begun(&self, _pid: i32) -> bool {
        true
    }

    fn bootstrap_percent(&self, _relay: &Relay) -> Option<u8> {
        Some(100)
    }

    fn verify_torrc(&self, _relay: &Relay, _torrc: &[u8]) -> Result<(), ServiceError> {
        self.operate();
        Ok(())
    }

    fn options_in_force(
        &self,
        relay: &Relay,
        options: &BTreeMap<String, String>,
    ) -> Result<(), ServiceError> {
        self.operate();
        let services = self.services.borrow();
        let own = services.services.iter().find(|(name, _)| torrc_of(name) == relay.torrc);
        let torrc = match own.map(|(_, service)| &service.state) {
            Some(State::Running { process, .. }) => process.torrc.clone().unwrap_or_default(),
            _ => Vec::new(),
        };
        let text = String::from_utf8_lossy(&torrc).into_owned();
        match options.iter().find(|(name, value)| !text.contains(&format!("{name} {value}"))) {
            None => Ok(()),
            Some((option, wanted)) => Err(ServiceError(format!("{option} is not {wanted}"))),
        }
    }

    fn own_program(&self) -> io::Result<PathBuf> {
        Ok(PROGRAM.into())
    }

    fn is_packaged(&self, _path: &Path) -> bool {
        false
    }
}
