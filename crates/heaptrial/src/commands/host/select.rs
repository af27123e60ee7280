//! Which services of this host a command is about.

use heaptrial_host::systemd::Systemd;
use heaptrial_inspect::{Discovered, Service, discover};
use heaptrial_model::{ServiceName, ServicePattern};

use crate::exit::Failure;
use crate::output::some;

/// Services that take no part, and why.
pub type Excluded = Vec<(ServiceName, String)>;

/// The services that patterns name. Those that hold up the host take part only by their full name. A pattern without
/// wildcards must name a service, and there must be one at all.
pub fn select(systemd: &Systemd, patterns: &[ServicePattern]) -> Result<(Vec<Service>, Excluded), Failure> {
    let found = discover(systemd, patterns)?;
    if let Some(excluded) = found.exclusions() {
        eprintln!("{excluded}");
    }
    let Discovered { services, kept_out, of_pattern } = found;
    let unmatched = patterns.iter().zip(&of_pattern).filter(|(_, names)| names.is_empty());
    let unmatched: Vec<&ServicePattern> = unmatched.map(|(pattern, _)| pattern).collect();
    if services.is_empty() || unmatched.iter().any(|pattern| pattern.unit().is_some()) {
        let named = if unmatched.is_empty() { patterns.iter().collect() } else { unmatched };
        return Err(Failure::refused(format!(
            "no loaded service matches {}; `heaptrial services` lists what runs, and the instances of a template `x@` are `x@*`",
            some(named)
        )));
    }
    if !unmatched.is_empty() {
        eprintln!("warning: no loaded service matches {}", some(unmatched));
    }
    Ok((services, kept_out.into_iter().map(|(service, why)| (service, why.to_owned())).collect()))
}
