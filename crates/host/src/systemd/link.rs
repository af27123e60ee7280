//! One connection to systemd: replies, properties and results of jobs. Whoever loses it needs another one.

use std::collections::HashMap;
use std::time::Duration;

use heaptrial_model::ServiceName;
use zbus::Message;
use zbus::zvariant::{ObjectPath, Value};

use super::bus::Bus;
use super::jobs::JobWatch;
use super::properties::Properties;
use super::{Job, SystemdError, Unit, name};
use crate::Scope;

/// A connection, and what is heard over it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) bus: Bus,
    scope: Scope,
    pub(super) number: u64,
    pub(super) jobs: JobWatch,
}

pub(super) const UNIT: &str = "org.freedesktop.systemd1.Unit";
pub(super) const SERVICE: &str = "org.freedesktop.systemd1.Service";
pub(super) type Property = (&'static str, &'static str);

/// What makes up a [`Unit`], beside the properties of its service. Not all that systemd has of a unit: after each
/// reload it looks again for the state and preset of its file when it is asked for everything, 3 ms for each unit.
const FACTS_OF_UNIT: &str = "Id Description LoadState FragmentPath DropInPaths NeedDaemonReload RefuseManualStart \
    RefuseManualStop ActiveState SubState InvocationID Job";

impl Link {
    /// Connects, with calls that wait for a reply no longer than `call_limit`.
    pub(super) fn new(scope: Scope, call_limit: Duration, number: u64) -> Result<Self, SystemdError> {
        let bus = Bus::connect(scope, call_limit)?;
        let doing = "listening for results of jobs";
        let jobs = JobWatch::begin(&bus.connection).map_err(|error| bus.error(doing, error))?;
        bus.manager(doing, "Subscribe", &())?;
        Ok(Self { bus, scope, number, jobs })
    }

    /// An error where results of jobs can no longer be heard over it.
    pub(super) fn check_hears(&self) -> Result<(), SystemdError> {
        if !self.jobs.has_ended() {
            return Ok(());
        }
        let (doing, said) = ("listening for results of jobs".to_owned(), "the connection ended".to_owned());
        Err(SystemdError::Lost { doing, said })
    }

    /// Units with all facts, in the order of their names.
    pub(super) fn units(&self, names: &[ServiceName]) -> Vec<Result<Unit, SystemdError>> {
        let paths: Vec<String> = names.iter().map(|name| name::object_path(name.as_str())).collect();
        let of_service = self.bus.all_properties(&paths, SERVICE);
        let of_service: HashMap<_, _> = names.iter().zip(of_service).collect();
        let of_unit = |_: &ServiceName| FACTS_OF_UNIT.split(' ').map(|name| (UNIT, name)).collect();
        self.some_properties(names, of_unit, |Properties(of_unit), name| {
            let body = of_service[name].clone()?.body();
            let mut properties: HashMap<&str, Value<'_>> = body.deserialize()?;
            properties.extend(of_unit);
            Ok(Properties(properties).unit(name, self.scope))
        })
    }

    /// What is read from some properties of units, in the order of their names.
    pub(super) fn some_properties<T>(
        &self,
        names: &[ServiceName],
        wanted: impl Fn(&ServiceName) -> Vec<Property>,
        mut read: impl FnMut(Properties<'_>, &ServiceName) -> zbus::Result<T>,
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
        let mut one = |wanted: &[(&str, &str, &str)], name: &ServiceName| {
            // All of them are taken, also where one is an error.
            let replies: Vec<zbus::Result<Message>> = replies.by_ref().take(wanted.len()).collect();
            let bodies: Vec<_> =
                replies.into_iter().map(|reply| Ok(reply?.body())).collect::<zbus::Result<_>>()?;
            let values = bodies.iter().map(|body| body.deserialize());
            let values: Vec<Value<'_>> = values.collect::<zbus::Result<_>>()?;
            read(Properties(wanted.iter().map(|(_, _, name)| *name).zip(values).collect()), name)
        };
        let doing = |name: &ServiceName| format!("reading the state of {name}");
        let all = wanted.iter().zip(names);
        all.map(|(wanted, name)| one(wanted, name).map_err(|error| self.bus.error(&doing(name), error)))
            .collect()
    }

    /// The job that the manager queued, by its reply.
    pub(super) fn job(&self, doing: &str, reply: &Message, unit: &ServiceName) -> Result<Job, SystemdError> {
        let body = reply.body();
        let path: ObjectPath<'_> = body.deserialize().map_err(|error| self.bus.error(doing, error))?;
        // What is not the path of a job never gets a result.
        let id = path.rsplit('/').next().and_then(|id| id.parse().ok()).unwrap_or_default();
        Ok(Job { id, unit: unit.clone(), connection: self.number })
    }
}
