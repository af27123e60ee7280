//! Traffic on the relays of a round: its totals, and what relays did not get.

use heaptrial_network::{TrafficParameters, TrafficTotals};

use crate::LabError;

/// Open files of one relay's clients that come and go, in the lab.
const CLIENT_FILES: u64 = 1_000;

/// What went through a relay so far, as observations of it.
pub(crate) fn observed(totals: &TrafficTotals) -> [(&'static str, f64); 4] {
    [
        ("load_connections_held", totals.connections_now),
        ("load_circuits_made", totals.circuits_made),
        ("load_circuits_failed", totals.circuits_failed),
        ("load_circuits_now", totals.circuits_now),
    ]
    .map(|(name, count)| (name, count as f64))
}

/// What of the traffic that was asked for a relay did not get.
pub(crate) fn shortfall(parameters: &TrafficParameters, totals: &TrafficTotals) -> Option<String> {
    let asked = totals.circuits_asked + totals.circuits_without_key;
    let lost = totals.circuits_failed + totals.circuits_without_key;
    let mut said = Vec::new();
    if lost > asked / 20 {
        said.push(format!(
            "of {asked} circuits {} failed, and {} could not be asked for because the relay had not published its \
             onion key",
            totals.circuits_failed, totals.circuits_without_key
        ));
    }
    let held = u64::from(parameters.held());
    if totals.connections_now < held - held / 20 {
        said.push(format!(
            "{} of {held} connections were held at the end ({} times one could not be opened or was lost)",
            totals.connections_now, totals.connections_failed
        ));
    }
    (!said.is_empty()).then(|| said.join("; "))
}

/// Makes room for the connections of `relays` relays in the limit of open files, which the relays inherit.
pub(crate) fn make_room(relays: usize, parameters: &TrafficParameters) -> Result<(), LabError> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let needed = relays as u64 * (u64::from(parameters.held()) + CLIENT_FILES);
    // As far as it may go; beyond that only root can raise it.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    if limit.maximum.is_some_and(|maximum| maximum < needed) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(needed), maximum: Some(needed) });
    }
    match getrlimit(Resource::Nofile).current {
        Some(allowed) if parameters.held() > 0 && allowed < needed => Err(LabError::Refused(format!(
            "the load needs {needed} open files, and this process may have {allowed}; raise its limit (ulimit -n {needed}, \
                 or LimitNOFILE= of its unit; root can raise it up to fs.nr_open), or take fewer --connections"
        ))),
        // Where clients that come and go find no descriptor, they are counted as failed.
        _ => Ok(()),
    }
}
