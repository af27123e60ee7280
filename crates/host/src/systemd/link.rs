//! One connection to systemd: replies, properties and results of jobs. Whoever loses it needs another one.

use std::time::Duration;

use heaptrial_model::ServiceName;
use zbus::Message;
use zbus::zvariant::{ObjectPath, Value};

use super::bus::{self, Bus};
use super::jobs::JobWatch;
use super::properties::Properties;
use super::{Job, SystemdError, Unit, name};
use crate::Scope;

/// A connection, and what is heard over it.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) bus: Bus,
    scope: Scope,
    number: u64,
    pub(super) jobs: JobWatch,
}

pub(super) const UNIT: &str = "org.freedesktop.systemd1.Unit";
pub(super) const SERVICE: &str = "org.freedesktop.systemd1.Service";
/// What a job does to those that are queued (systemctl(1), --job-mode).
const REPLACE: &str = "replace";
pub(super) type Property = (&'static str, &'static str);

/// What makes up a [`Unit`], beside the properties of its service. Not all that systemd has of a unit: after each
/// reload it looks again for the state and preset of its file when it is asked for everything, 3 ms for each unit.
const FACTS_OF_UNIT: [&str; 12] = [
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
    "Job",
];
impl Link {
    /// Connects, with calls that wait for a reply no longer than `call_limit`.
    pub(super) fn new(scope: Scope, call_limit: Duration, number: u64) -> Result<Self, SystemdError> {
        let bus = Bus::connect(scope, call_limit)?;
        let doing = "listening for results of jobs";
        let jobs = JobWatch::begin(bus.connection()).map_err(|error| bus.error(doing, error))?;
        bus.manager(doing, "Subscribe", &())?;
        Ok(Self { bus, scope, number, jobs })
    }

    pub(super) fn number(&self) -> u64 {
        self.number
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
        let of_unit: Vec<(&str, &str, &str)> =
            paths.iter().flat_map(|path| FACTS_OF_UNIT.map(|name| (path.as_str(), UNIT, name))).collect();
        let of_unit = self.bus.single_properties(&of_unit);
        let of_service = self.bus.all_properties(&paths, SERVICE);
        let mut of_unit = of_unit.into_iter();
        let unit = |(of_service, name): (zbus::Result<Message>, &ServiceName)| {
            let own: Vec<zbus::Result<Message>> = of_unit.by_ref().take(FACTS_OF_UNIT.len()).collect();
            let own: Vec<_> = own.into_iter().collect::<zbus::Result<_>>()?;
            let own: Vec<_> = own.iter().map(Message::body).collect();
            let body = of_service?.body();
            let mut properties = bus::properties(&body)?;
            for (name, body) in FACTS_OF_UNIT.iter().zip(&own) {
                properties.insert(name, body.deserialize()?);
            }
            Ok(Properties(properties).unit(name, self.scope))
        };
        let replies: Vec<_> = of_service.into_iter().zip(names).map(unit).collect();
        let doing = |name| format!("reading the properties of {name}");
        let units = replies.into_iter().zip(names);
        units.map(|(unit, name)| unit.map_err(|error| self.bus.error(&doing(name), error))).collect()
    }

    pub(super) fn some_properties<T>(
        &self,
        names: &[ServiceName],
        wanted: impl Fn(&ServiceName) -> Vec<Property>,
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
                read.map_err(|error| self.bus.error(&format!("reading the state of {name}"), error))
            })
            .collect()
    }

    pub(super) fn queue(&self, method: &str, doing: &str, name: &ServiceName) -> Result<Job, SystemdError> {
        let doing = format!("{doing} {name}");
        let reply = self.bus.manager(&doing, method, &(name.as_str(), REPLACE))?;
        let body = reply.body();
        let path: ObjectPath<'_> = body.deserialize().map_err(|error| self.bus.error(&doing, error))?;
        Ok(Job { path: path.as_str().to_owned(), unit: name.clone(), connection: self.number })
    }
}
