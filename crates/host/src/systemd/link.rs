//! One connection to systemd, and what is asked over it. Whoever loses it needs another one.

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use heaptrial_model::{ServiceName, ServicePattern};
use zbus::zvariant::{ObjectPath, Value};

use super::bus::{self, Bus};
use super::jobs::{JobWatch, NoResult};
use super::properties::Properties;
use super::{Activity, Job, JobResult, SystemdError, Unit, UnitEnvironment, UnitStatus, name};
use crate::Scope;

/// A connection, and what is heard over it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) bus: Bus,
    scope: Scope,
    /// Tells connections of one program apart.
    number: u64,
    jobs: OnceLock<JobWatch>,
    /// Held while the watch over jobs begins: systemd refuses a second Subscribe.
    beginning: Mutex<()>,
}

const UNIT: &str = "org.freedesktop.systemd1.Unit";
pub(super) const SERVICE: &str = "org.freedesktop.systemd1.Service";
const TIMER: &str = "org.freedesktop.systemd1.Timer";

/// What makes up a [`Unit`], beside the properties of its service. Not all that systemd tells of a unit: after each
/// reload it looks anew for the state and preset of its file when it is asked for everything, 3 ms for each unit.
const FACTS_OF_UNIT: [&str; 11] = [
    "Id",
    "Description",
    "LoadState",
    "FragmentPath",
    "DropInPaths",
    "NeedDaemonReload",
    "RefuseManualStart",
    "RefuseManualStop",
    "ActiveState",
    "SubState",
    "InvocationID",
];
/// What makes up a [`UnitStatus`].
const STATUS_OF_UNIT: [&str; 3] = ["ActiveState", "SubState", "InvocationID"];
const STATUS_OF_SERVICE: [&str; 6] =
    ["MainPID", "ControlGroup", "NRestarts", "Result", "ExecMainCode", "ExecMainStatus"];
const STATUS_OF_TIMER: [&str; 1] = ["Result"];

impl Link {
    /// Connects, with calls that wait for a reply no longer than `call_limit`.
    pub(super) fn new(scope: Scope, call_limit: Duration, number: u64) -> Result<Self, SystemdError> {
        let bus = Bus::connect(scope, call_limit)?;
        Ok(Self { bus, scope, number, jobs: OnceLock::new(), beginning: Mutex::new(()) })
    }

    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// Whether results of jobs can no longer be heard over it.
    pub(super) fn is_deaf(&self) -> bool {
        self.jobs.get().is_some_and(JobWatch::has_ended)
    }

    /// Services by their names, in the order of the names, loaded if need be; `None` for what is no service of this host.
    pub(super) fn named(&self, names: &[ServiceName]) -> Result<Vec<Option<Unit>>, SystemdError> {
        let found = names.iter().zip(self.units(names)).map(|(name, unit)| match unit {
            // One that only others refer to is no service of this host; and what is gone by now was unloaded.
            Ok(unit) if unit.load_state == "not-found" && unit.status.active_state == "inactive" => Ok(None),
            Ok(unit) => Ok(Some(unit)),
            Err(error) => match self.bus.told(&format!("reading the properties of {name}"), error) {
                // Gone by now, no service, or a name that no unit can have, such as a template's.
                SystemdError::Call { .. } => Ok(None),
                error => Err(error),
            },
        });
        found.collect()
    }

    /// The names of all loaded services that match one of the patterns, in order.
    pub(super) fn service_names(
        &self,
        patterns: &[ServicePattern],
    ) -> Result<Vec<ServiceName>, SystemdError> {
        type Listed<'m> = (
            &'m str,
            &'m str,
            &'m str,
            &'m str,
            &'m str,
            &'m str,
            ObjectPath<'m>,
            u32,
            &'m str,
            ObjectPath<'m>,
        );
        if patterns.is_empty() {
            // To systemd no pattern means everything.
            return Ok(Vec::new());
        }
        // systemd matches them without escapes: a backslash is a part of the name.
        let patterns: Vec<String> = patterns.iter().map(ServicePattern::of_full_names).collect();
        let doing = format!("listing services that match {}", patterns.join(" "));
        let states: Vec<&str> = Vec::new();
        let reply = self.bus.manager(&doing, "ListUnitsByPatterns", &(states, patterns))?;
        let body = reply.body();
        let listed: Vec<Listed<'_>> = body.deserialize().map_err(|error| self.bus.told(&doing, error))?;
        let mut names: Vec<ServiceName> = listed
            .iter()
            .filter(|unit| unit.0.ends_with(".service"))
            .filter_map(|unit| unit.0.parse().ok())
            .collect();
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        Ok(names)
    }

    /// One service with all facts, loaded if need be; one that does not exist or is masked says so in its `load_state`.
    pub(super) fn service(&self, name: &ServiceName) -> Result<Unit, SystemdError> {
        let doing = format!("loading {name}");
        // Reading an object's properties would load it too, but not say why it cannot.
        self.bus.manager(&doing, "LoadUnit", &name.as_str())?;
        let unit = self.units(std::slice::from_ref(name)).pop();
        unit.unwrap_or(Err(zbus::Error::InvalidReply))
            .map_err(|error| self.bus.told(&format!("reading the properties of {name}"), error))
    }

    fn units(&self, names: &[ServiceName]) -> Vec<zbus::Result<Unit>> {
        let paths: Vec<String> = names.iter().map(|name| name::object_path(name.as_str())).collect();
        let of_unit: Vec<(&str, &str, &str)> =
            paths.iter().flat_map(|path| FACTS_OF_UNIT.map(|name| (path.as_str(), UNIT, name))).collect();
        let of_unit = self.bus.single_properties(&of_unit);
        let of_service = self.bus.all_properties(&paths, SERVICE);
        let mut of_unit = of_unit.into_iter();
        let unit = |(of_service, name): (zbus::Result<zbus::Message>, &ServiceName)| {
            let own: Vec<zbus::Result<zbus::Message>> = of_unit.by_ref().take(FACTS_OF_UNIT.len()).collect();
            let own: Vec<_> = own.into_iter().collect::<zbus::Result<_>>()?;
            let own: Vec<_> = own.iter().map(zbus::Message::body).collect();
            let body = of_service?.body();
            let mut properties = bus::properties(&body)?;
            for (name, body) in FACTS_OF_UNIT.iter().zip(&own) {
                properties.insert(name, body.deserialize()?);
            }
            Ok(Properties(properties).unit(name, self.scope))
        };
        of_service.into_iter().zip(names).map(unit).collect()
    }

    /// What changes about several units (services, timers), in their order; the calls are sent together.
    pub(super) fn statuses(&self, names: &[ServiceName]) -> Vec<Result<UnitStatus, SystemdError>> {
        let wanted = |name: &ServiceName| {
            let own: &[&str] = match name.as_str().rsplit('.').next() {
                Some("timer") => return [of(UNIT, &STATUS_OF_UNIT), of(TIMER, &STATUS_OF_TIMER)].concat(),
                Some("service") => &STATUS_OF_SERVICE,
                _ => &[],
            };
            [of(UNIT, &STATUS_OF_UNIT), of(SERVICE, own)].concat()
        };
        self.some_properties(names, wanted, |properties, _| properties.status())
    }

    /// Whether services run, in their order: the least that tells it.
    pub(super) fn activities(&self, names: &[ServiceName]) -> Vec<Result<Activity, SystemdError>> {
        let wanted = |_: &ServiceName| {
            [of(UNIT, &["ActiveState", "SubState", "Job"]), of(SERVICE, &["MainPID", "NRestarts"])].concat()
        };
        self.some_properties(names, wanted, |properties, _| properties.activity())
    }

    /// What several services' processes get from their units and drop-ins, in the order of the names.
    pub(super) fn environments(&self, names: &[ServiceName]) -> Result<Vec<UnitEnvironment>, SystemdError> {
        let wanted = |_: &ServiceName| {
            [of(UNIT, &["DropInPaths"]), of(SERVICE, &["Environment", "UnsetEnvironment"])].concat()
        };
        self.some_properties(names, wanted, |properties, name| properties.unit_environment(name))
            .into_iter()
            .collect()
    }

    /// Some properties of each unit, as (interface, name).
    fn some_properties<T>(
        &self,
        names: &[ServiceName],
        wanted: impl Fn(&ServiceName) -> Vec<(&'static str, &'static str)>,
        read: impl Fn(&Properties<'_>, &ServiceName) -> T,
    ) -> Vec<Result<T, SystemdError>> {
        let paths: Vec<String> = names.iter().map(|name| name::object_path(name.as_str())).collect();
        let wanted: Vec<Vec<(&str, &str, &str)>> = paths
            .iter()
            .zip(names)
            .map(|(path, name)| {
                wanted(name).into_iter().map(|(interface, name)| (path.as_str(), interface, name)).collect()
            })
            .collect();
        let mut replies = self.bus.single_properties(&wanted.concat()).into_iter();
        wanted
            .iter()
            .zip(names)
            .map(|(wanted, name)| {
                let bodies: zbus::Result<Vec<_>> =
                    replies.by_ref().take(wanted.len()).map(|reply| Ok(reply?.body())).collect();
                let read = bodies.and_then(|bodies| {
                    let values: zbus::Result<Vec<Value<'_>>> =
                        bodies.iter().map(|body| body.deserialize()).collect();
                    let named = wanted.iter().map(|(_, _, name)| *name).zip(values?);
                    Ok(read(&Properties(named.collect()), name))
                });
                read.map_err(|error| self.bus.told(&format!("reading the state of {name}"), error))
            })
            .collect()
    }

    /// Reads all unit files anew (`systemctl daemon-reload`).
    pub(super) fn reload(&self) -> Result<(), SystemdError> {
        self.bus.manager("reading all unit files anew", "Reload", &()).map(drop)
    }

    pub(super) fn queue(
        &self,
        method: &str,
        doing: &str,
        name: &ServiceName,
        mode: &str,
    ) -> Result<Job, SystemdError> {
        self.jobs()?;
        let doing = format!("{doing} {name}");
        let reply = self.bus.manager(&doing, method, &(name.as_str(), mode))?;
        let body = reply.body();
        let path: ObjectPath<'_> = body.deserialize().map_err(|error| self.bus.told(&doing, error))?;
        Ok(Job { path: path.as_str().to_owned(), unit: name.clone(), connection: self.number })
    }

    /// Listens for results of jobs, if it does not yet.
    pub(super) fn listen(&self) -> Result<(), SystemdError> {
        self.jobs().map(drop)
    }

    /// The watch over jobs, which begins with the first one.
    fn jobs(&self) -> Result<&JobWatch, SystemdError> {
        if let Some(jobs) = self.jobs.get() {
            return Ok(jobs);
        }
        let _beginning = self.beginning.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(jobs) = self.jobs.get() {
            return Ok(jobs);
        }
        let doing = "listening for results of jobs";
        let watch = JobWatch::begin(self.bus.connection()).map_err(|error| self.bus.told(doing, error))?;
        self.bus.manager(doing, "Subscribe", &())?;
        Ok(self.jobs.get_or_init(|| watch))
    }

    /// How a job that was queued over this connection ended; `None` while it is queued or runs.
    pub(super) fn job_result(&self, job: &Job) -> Result<Option<JobResult>, SystemdError> {
        match self.jobs()?.result(job, Duration::ZERO) {
            Ok(result) => Ok(Some(result)),
            Err(NoResult::Timeout) => Ok(None),
            Err(NoResult::Disconnected) => Err(disconnected(job)),
        }
    }

    /// Waits for a job, as long as `limit`.
    pub(super) fn wait(&self, job: &Job, limit: Duration) -> Result<JobResult, SystemdError> {
        self.jobs()?.result(job, limit).map_err(|why| match why {
            NoResult::Timeout => SystemdError::Timeout { doing: format!("the job of {}", job.unit), limit },
            NoResult::Disconnected => disconnected(job),
        })
    }

    /// Waits until one of some jobs has ended, as long as `limit`.
    pub(super) fn wait_for_any(&self, jobs: &[&Job], limit: Duration) -> Result<(), SystemdError> {
        self.jobs()?.wait_for_any(jobs, limit);
        Ok(())
    }

    /// Forgets a unit's failed state and its count of starts.
    pub(super) fn reset_failed(&self, name: &ServiceName) -> Result<(), SystemdError> {
        self.bus.manager(&format!("resetting {name}"), "ResetFailedUnit", &name.as_str()).map(drop)
    }
}

fn of(interface: &'static str, names: &[&'static str]) -> Vec<(&'static str, &'static str)> {
    names.iter().map(|name| (interface, *name)).collect()
}

/// Nothing is heard of a job any more.
pub(super) fn disconnected(job: &Job) -> SystemdError {
    SystemdError::Lost {
        doing: format!("waiting for the job of {}", job.unit),
        said: "the connection ended".to_owned(),
    }
}
