//! systemd over D-Bus (org.freedesktop.systemd1(5)): what its services are, and restarting them.

mod bus;
mod essential;
mod jobs;
mod name;
mod properties;
mod unit;

use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use heaptrial_model::{Classified, ErrorClass, ServiceName, ServicePattern};
use zbus::zvariant::{DynamicType, ObjectPath, Value};

use bus::{Bus, CALL_LIMIT};
use jobs::{JobWatch, NoResult};
use properties::Properties;

pub use essential::why_essential;
pub use name::{escape, template_and_instance, unescape};
pub use unit::{Activity, AppArmorProfile, Sandbox, Unit, UnitEnvironment, UnitStatus};

/// Why something could not be asked of systemd, or done by it.
#[derive(Debug, thiserror::Error)]
pub enum SystemdError {
    /// There is no system bus, or systemd is not on it.
    #[error(
        "cannot reach systemd over D-Bus: {0}; this needs a host that runs systemd, and permission to use its bus"
    )]
    Connect(String),
    /// systemd refused or failed.
    #[error("systemd: {doing}: {said}")]
    Call {
        /// What was asked for, on which unit.
        doing: String,
        /// What it said.
        said: String,
    },
    /// A job did not end in time.
    #[error("systemd: {doing} did not end within {}", heaptrial_model::HumanDuration(*.limit))]
    Timeout {
        /// What was asked for, on which unit.
        doing: String,
        /// How long it was waited for.
        limit: Duration,
    },
}

impl Classified for SystemdError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Connect(_) => ErrorClass::Refused,
            Self::Call { .. } | Self::Timeout { .. } => ErrorClass::Failed,
        }
    }
}

/// How a job of systemd ended: `done`, `failed`, `timeout`, `canceled`, `dependency`, `skipped`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobResult(pub String);

impl JobResult {
    /// Whether the job did what it was for.
    pub fn is_done(&self) -> bool {
        self.0 == "done"
    }
}

/// The services that some patterns name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Matched {
    /// All of them, each once, in order of names.
    pub units: Vec<Unit>,
    /// Which of them each pattern names, in the order of the patterns.
    pub of_pattern: Vec<Vec<ServiceName>>,
}

/// A job that was queued and may not have ended yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its object path.
    pub path: String,
    /// The unit.
    pub unit: ServiceName,
}

/// A connection to the system's service manager. Several threads may use it at once. After an error of the kind
/// [`SystemdError::Connect`] it is of no further use.
#[derive(Debug)]
pub struct Systemd {
    bus: Bus,
    jobs: OnceLock<JobWatch>,
    /// Held while the watch over jobs begins: systemd refuses a second Subscribe.
    beginning: Mutex<()>,
}

const UNIT: &str = "org.freedesktop.systemd1.Unit";
const SERVICE: &str = "org.freedesktop.systemd1.Service";
const TIMER: &str = "org.freedesktop.systemd1.Timer";

/// What makes up a [`Unit`], beside the properties of its service. Not all that systemd tells of a unit: after each
/// reload it looks anew for the state and preset of its file when it is asked for everything, 3 ms for each unit.
const FACTS_OF_UNIT: [&str; 9] = [
    "Id",
    "Description",
    "LoadState",
    "FragmentPath",
    "DropInPaths",
    "NeedDaemonReload",
    "ActiveState",
    "SubState",
    "InvocationID",
];
/// What makes up a [`UnitStatus`].
const STATUS_OF_UNIT: [&str; 3] = ["ActiveState", "SubState", "InvocationID"];
const STATUS_OF_SERVICE: [&str; 6] =
    ["MainPID", "ControlGroup", "NRestarts", "Result", "ExecMainCode", "ExecMainStatus"];
const STATUS_OF_TIMER: [&str; 1] = ["Result"];

impl Systemd {
    /// Connects over the system bus.
    pub fn connect() -> Result<Self, SystemdError> {
        Self::connect_with_limit(CALL_LIMIT)
    }

    /// The same, with calls that wait for a reply no longer than `call_limit`: for who has other work to do. Connecting
    /// takes some seconds more at most.
    pub fn connect_with_limit(call_limit: Duration) -> Result<Self, SystemdError> {
        let bus = Bus::connect(call_limit)?;
        Ok(Self { bus, jobs: OnceLock::new(), beginning: Mutex::new(()) })
    }

    /// All services that the patterns name, with all facts. Those that match one with wildcards are those that are
    /// loaded; one that is named is loaded if need be, under whichever of its names.
    pub fn services(&self, patterns: &[ServicePattern]) -> Result<Matched, SystemdError> {
        let mut asked: Vec<Vec<ServiceName>> = Vec::with_capacity(patterns.len());
        for pattern in patterns {
            asked.push(match pattern.unit() {
                Some(name) => vec![name],
                None => self.service_names(std::slice::from_ref(pattern))?,
            });
        }
        let mut names = asked.concat();
        names.sort();
        names.dedup();
        let found = self.named(&names)?;
        // A unit may have several names, of which its Id is one.
        let id = |name: &ServiceName| {
            let at = names.binary_search(name).ok()?;
            Some(found[at].as_ref()?.name.clone())
        };
        let of_pattern = asked.iter().map(|names| names.iter().filter_map(id).collect()).collect();
        let mut units: Vec<Unit> = found.into_iter().flatten().collect();
        units.sort_by(|a, b| a.name.cmp(&b.name));
        units.dedup_by(|a, b| a.name == b.name);
        Ok(Matched { units, of_pattern })
    }

    /// Services by their names, in the order of the names, loaded if need be; `None` for what is no service of this host.
    pub fn named(&self, names: &[ServiceName]) -> Result<Vec<Option<Unit>>, SystemdError> {
        let found = names.iter().zip(self.units(names)).map(|(name, unit)| match unit {
            // One that only others refer to is no service of this host; and what is gone by now was unloaded.
            Ok(unit) if unit.load_state == "not-found" && unit.status.active_state == "inactive" => Ok(None),
            Ok(unit) => Ok(Some(unit)),
            // Gone by now, no service, or a name that no unit can have, such as a template's.
            Err(zbus::Error::MethodError(..)) => Ok(None),
            Err(error) => Err(self.bus.told(&format!("reading the properties of {name}"), error)),
        });
        found.collect()
    }

    /// The names of all loaded services that match one of the patterns, in order.
    pub fn service_names(&self, patterns: &[ServicePattern]) -> Result<Vec<ServiceName>, SystemdError> {
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
    pub fn service(&self, name: &ServiceName) -> Result<Unit, SystemdError> {
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
            Ok(Properties(properties).unit(name))
        };
        of_service.into_iter().zip(names).map(unit).collect()
    }

    /// What changes about a unit (service, timer), cheaply.
    pub fn status(&self, name: &ServiceName) -> Result<UnitStatus, SystemdError> {
        self.statuses(std::slice::from_ref(name)).pop().unwrap_or_else(|| Err(no_answer(name)))
    }

    /// What changes about several units, in their order; the calls are sent together.
    pub fn statuses(&self, names: &[ServiceName]) -> Vec<Result<UnitStatus, SystemdError>> {
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

    /// Whether a service runs: the least that tells it.
    pub fn activity(&self, name: &ServiceName) -> Result<Activity, SystemdError> {
        self.activities(std::slice::from_ref(name)).pop().unwrap_or_else(|| Err(no_answer(name)))
    }

    /// The same of several services, in their order.
    pub fn activities(&self, names: &[ServiceName]) -> Vec<Result<Activity, SystemdError>> {
        let wanted =
            |_: &ServiceName| [of(UNIT, &["ActiveState", "SubState"]), of(SERVICE, &["MainPID"])].concat();
        self.some_properties(names, wanted, |properties, _| properties.activity())
    }

    /// What several services' processes get from their units and drop-ins, in the order of the names.
    pub fn environments(&self, names: &[ServiceName]) -> Result<Vec<UnitEnvironment>, SystemdError> {
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
    pub fn reload(&self) -> Result<(), SystemdError> {
        self.bus.manager("reading all unit files anew", "Reload", &()).map(drop)
    }

    /// Queues a restart (job mode `replace`).
    pub fn queue_restart(&self, name: &ServiceName) -> Result<Job, SystemdError> {
        self.queue("RestartUnit", "restarting", name)
    }

    /// Queues a start.
    pub fn queue_start(&self, name: &ServiceName) -> Result<Job, SystemdError> {
        self.queue("StartUnit", "starting", name)
    }

    /// Queues a stop.
    pub fn queue_stop(&self, name: &ServiceName) -> Result<Job, SystemdError> {
        self.queue("StopUnit", "stopping", name)
    }

    fn queue(&self, method: &str, doing: &str, name: &ServiceName) -> Result<Job, SystemdError> {
        self.jobs()?;
        let doing = format!("{doing} {name}");
        let reply = self.bus.manager(&doing, method, &(name.as_str(), "replace"))?;
        let body = reply.body();
        let path: ObjectPath<'_> = body.deserialize().map_err(|error| self.bus.told(&doing, error))?;
        Ok(Job { path: path.as_str().to_owned(), unit: name.clone() })
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

    /// How a job ended; `None` while it is queued or runs. Sees results of jobs queued over this connection.
    pub fn job_result(&self, job: &Job) -> Result<Option<JobResult>, SystemdError> {
        match self.jobs()?.result(job, Duration::ZERO) {
            Ok(result) => Ok(Some(result)),
            Err(NoResult::Timeout) => Ok(None),
            Err(NoResult::Disconnected) => Err(disconnected(job)),
        }
    }

    /// Waits for a job, as long as `limit`.
    pub fn wait(&self, job: &Job, limit: Duration) -> Result<JobResult, SystemdError> {
        self.jobs()?.result(job, limit).map_err(|why| match why {
            NoResult::Timeout => SystemdError::Timeout { doing: format!("the job of {}", job.unit), limit },
            NoResult::Disconnected => disconnected(job),
        })
    }

    /// Waits until one of some jobs has ended, as long as `limit`.
    pub fn wait_for_any(&self, jobs: &[&Job], limit: Duration) -> Result<(), SystemdError> {
        self.jobs()?.wait_for_any(jobs, limit);
        Ok(())
    }

    /// Forgets a unit's failed state and its count of starts.
    pub fn reset_failed(&self, name: &ServiceName) -> Result<(), SystemdError> {
        self.bus.manager(&format!("resetting {name}"), "ResetFailedUnit", &name.as_str()).map(drop)
    }

    /// Enables a unit file for the next boots (no start). systemd takes note with the next [`Systemd::reload`].
    pub fn enable(&self, name: &ServiceName) -> Result<(), SystemdError> {
        let (runtime, force) = (false, false);
        self.unit_files(
            &format!("enabling {name}"),
            "EnableUnitFiles",
            &([name.as_str()].as_slice(), runtime, force),
        )
    }

    /// Disables a unit file.
    pub fn disable(&self, name: &ServiceName) -> Result<(), SystemdError> {
        let runtime = false;
        self.unit_files(
            &format!("disabling {name}"),
            "DisableUnitFiles",
            &([name.as_str()].as_slice(), runtime),
        )
    }

    fn unit_files<B>(&self, doing: &str, method: &str, body: &B) -> Result<(), SystemdError>
    where
        B: serde::Serialize + DynamicType,
    {
        self.bus.manager(doing, method, body).map(drop)
    }
}

/// Properties of an interface.
fn of(interface: &'static str, names: &[&'static str]) -> Vec<(&'static str, &'static str)> {
    names.iter().map(|name| (interface, *name)).collect()
}

fn no_answer(name: &ServiceName) -> SystemdError {
    SystemdError::Call { doing: format!("reading the state of {name}"), said: "nothing".to_owned() }
}

fn disconnected(job: &Job) -> SystemdError {
    SystemdError::Connect(format!("the connection ended while a job of {} ran", job.unit))
}
