//! The services of this host that somebody names, and those that a pattern may not name.

use heaptrial_host::HostRoot;
use heaptrial_host::systemd::{Systemd, SystemdError, why_essential};
use heaptrial_model::{ServiceName, ServicePattern};

use crate::{Service, examine};

/// What some patterns name on this host, to be changed.
#[derive(Debug)]
pub struct Discovered {
    pub services: Vec<Service>,
    /// Running services that match only patterns with wildcards and that hold up the host, and what they are.
    pub kept_out: Vec<(ServiceName, &'static str)>,
    pub of_pattern: Vec<Vec<ServiceName>>,
}

/// Finds them. What holds up the host takes part only where it is named by its name.
pub fn discover(systemd: &Systemd, patterns: &[ServicePattern]) -> Result<Discovered, SystemdError> {
    let found = systemd.services(patterns)?;
    let is_named = |name: &ServiceName| {
        let of_pattern = patterns.iter().zip(&found.of_pattern);
        of_pattern.into_iter().any(|(pattern, names)| pattern.unit().is_some() && names.contains(name))
    };
    let (mut units, mut kept_out) = (Vec::new(), Vec::new());
    for unit in found.units {
        match why_essential(&unit.name).filter(|_| !is_named(&unit.name)) {
            None => units.push(unit),
            Some(why) if unit.status.main_pid.is_some() => kept_out.push((unit.name, why)),
            Some(_) => {}
        }
    }
    Ok(Discovered { services: examine(&HostRoot::default(), units), kept_out, of_pattern: found.of_pattern })
}

impl Discovered {
    /// What is excluded, why, and how to include it; `None` where nothing is.
    pub fn exclusions(&self) -> Option<String> {
        let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
        for (service, why) in &self.kept_out {
            match reasons.iter_mut().find(|(known, _)| known == why) {
                Some((_, services)) => services.push(service.as_str()),
                None => reasons.push((why, vec![service.as_str()])),
            }
        }
        let reasons: Vec<String> =
            reasons.iter().map(|(why, services)| format!("{} ({why})", services.join(", "))).collect();
        let all = reasons.join("; ");
        (!all.is_empty())
            .then(|| format!("excluded unless named without wildcards, since the host depends on it: {all}"))
    }
}
