//! What is asked of systemd, and asked again where it was not heard.

use std::time::Duration;

use heaptrial_model::{ServiceName, ServicePattern};
use zbus::zvariant::ObjectPath;

use super::link::{Property, SERVICE, UNIT};
use super::{Job, JobResult, Manager, Matched, Systemd, SystemdError, Unit, UnitEnvironment, UnitStatus};

const TIMER: &str = "org.freedesktop.systemd1.Timer";
/// What makes up a [`UnitStatus`].
const STATUS_OF_UNIT: [&str; 4] = ["ActiveState", "SubState", "InvocationID", "Job"];
const STATUS_OF_SERVICE: [&str; 6] =
    ["MainPID", "ControlGroup", "NRestarts", "Result", "ExecMainCode", "ExecMainStatus"];
const STATUS_OF_TIMER: [&str; 1] = ["Result"];

/// A unit in the reply of `ListUnitsByPatterns`: its name first.
type Listed<'m> =
    (&'m str, &'m str, &'m str, &'m str, &'m str, &'m str, ObjectPath<'m>, u32, &'m str, ObjectPath<'m>);

impl Systemd {
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
        let units = self.ask_each(|link| link.units(names));
        let found = units.into_iter().map(|unit| match unit {
            // One that only others refer to is no service of this host; and what is gone by now was unloaded.
            Ok(unit) if unit.load_state == "not-found" && unit.status.active_state == "inactive" => Ok(None),
            Ok(unit) => Ok(Some(unit)),
            // Gone by now, no service, or a name that no unit can have, such as a template's.
            Err(SystemdError::Call { .. }) => Ok(None),
            Err(error) => Err(error),
        });
        found.collect()
    }

    /// The names of all loaded services that match one of the patterns, in order.
    pub fn service_names(&self, patterns: &[ServicePattern]) -> Result<Vec<ServiceName>, SystemdError> {
        if patterns.is_empty() {
            // To systemd no pattern means everything.
            return Ok(Vec::new());
        }
        // systemd matches them without escapes: a backslash is a part of the name.
        let patterns: Vec<String> = patterns.iter().map(ServicePattern::of_full_names).collect();
        let doing = format!("listing services that match {}", patterns.join(" "));
        let states: Vec<&str> = Vec::new();
        let mut names = self.ask(|link| {
            let reply = link.bus.manager(&doing, "ListUnitsByPatterns", &(&states, &patterns))?;
            let body = reply.body();
            let listed: Vec<Listed<'_>> =
                body.deserialize().map_err(|error| link.bus.error(&doing, error))?;
            let services = listed.iter().filter(|unit| unit.0.ends_with(".service"));
            Ok(services.filter_map(|unit| unit.0.parse().ok()).collect::<Vec<ServiceName>>())
        })?;
        names.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        names.dedup();
        Ok(names)
    }

    /// One service with all facts, loaded if need be; one that does not exist or is masked says so in its `load_state`.
    pub fn service(&self, name: &ServiceName) -> Result<Unit, SystemdError> {
        self.ask(|link| {
            // Reading an object's properties would load it too, but not say why it cannot.
            link.bus.manager(&format!("loading {name}"), "LoadUnit", &name.as_str())?;
            link.units(std::slice::from_ref(name)).pop().unwrap_or_else(|| Err(no_answer(name)))
        })
    }
}

impl Manager for Systemd {
    fn statuses(&self, names: &[ServiceName]) -> Vec<Result<UnitStatus, SystemdError>> {
        let wanted = |name: &ServiceName| {
            let own: &[&str] = match name.as_str().rsplit('.').next() {
                Some("timer") => return [of(UNIT, &STATUS_OF_UNIT), of(TIMER, &STATUS_OF_TIMER)].concat(),
                Some("service") => &STATUS_OF_SERVICE,
                _ => &[],
            };
            [of(UNIT, &STATUS_OF_UNIT), of(SERVICE, own)].concat()
        };
        self.ask_each(|link| link.some_properties(names, wanted, |properties, _| Ok(properties.status())))
    }

    fn environments(&self, names: &[ServiceName]) -> Result<Vec<UnitEnvironment>, SystemdError> {
        let wanted = |_: &ServiceName| {
            [of(UNIT, &["DropInPaths"]), of(SERVICE, &["Environment", "UnsetEnvironment"])].concat()
        };
        let environments = self.ask_each(|link| {
            link.some_properties(names, wanted, |properties, _| Ok(properties.unit_environment()))
        });
        environments.into_iter().collect()
    }

    fn reload(&self) -> Result<(), SystemdError> {
        self.ask(|link| link.bus.manager("reading all unit files again", "Reload", &()).map(drop))
    }

    fn restart(&self, name: &ServiceName) -> Result<Job, SystemdError> {
        self.queue("RestartUnit", "restarting", name)
    }

    fn start(&self, name: &ServiceName) -> Result<Job, SystemdError> {
        self.queue("StartUnit", "starting", name)
    }

    fn stop(&self, name: &ServiceName) -> Result<Job, SystemdError> {
        self.queue("StopUnit", "stopping", name)
    }

    fn wait(&self, job: &Job, limit: Duration) -> Result<JobResult, SystemdError> {
        let late = || SystemdError::Timeout { doing: format!("the job of {}", job.unit), limit };
        self.of_job(job)?.jobs.result(job, limit)?.ok_or_else(late)
    }

    fn reset_failed(&self, name: &ServiceName) -> Result<(), SystemdError> {
        let doing = format!("resetting {name}");
        self.ask(|link| link.bus.manager(&doing, "ResetFailedUnit", &name.as_str()).map(drop))
    }
}

fn of(interface: &'static str, names: &[&'static str]) -> Vec<Property> {
    names.iter().map(|name| (interface, *name)).collect()
}

pub(super) fn no_answer(name: &ServiceName) -> SystemdError {
    SystemdError::Call { doing: format!("reading the state of {name}"), said: "nothing".to_owned() }
}
