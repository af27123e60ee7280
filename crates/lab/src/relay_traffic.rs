//! Traffic on the relays of a round: its totals, and what relays did not get.

use heaptrial_network::{TrafficParameters, TrafficTotals};

use crate::LabError;

/// Open files of one relay's clients that come and go, in the lab.
const CLIENT_FILES: u64 = 1_000;

/// What went through a relay so far, as observations of it.
pub(crate) fn observed(totals: &TrafficTotals) -> [(&'static str, f64); 6] {
    [
        ("load_connections_held", totals.connections_now),
        ("load_circuits_made", totals.circuits_made),
        ("load_circuits_failed", totals.circuits_failed),
        ("load_circuits_now", totals.circuits_now),
        ("load_cells_sent", totals.cells_sent),
        ("load_cells_returned", totals.cells_received),
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
    let (sent, came) = (totals.cells_sent, totals.cells_received);
    if came < sent - sent / 10 {
        said.push(format!("of {sent} cells {came} came back"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traffic_that_a_relay_did_not_get_is_reported() {
        let parameters =
            TrafficParameters { connections: 100, ntor_per_second: 5.0, ..TrafficParameters::default() };
        let whole = TrafficTotals { connections_now: 100, circuits_asked: 100, ..TrafficTotals::default() };
        assert_eq!(shortfall(&parameters, &whole), None);
        let few = TrafficTotals { connections_now: 94, connections_failed: 7, ..whole };
        let text = shortfall(&parameters, &few).unwrap();
        assert!(text.contains("94 of 100 connections") && text.contains("7 times"), "{text}");
        let keyless = TrafficTotals { circuits_asked: 0, circuits_without_key: 9, ..whole };
        let text = shortfall(&parameters, &keyless).unwrap();
        assert!(text.contains("of 9 circuits 0 failed, and 9 could not be asked for"), "{text}");
    }

    #[test]
    fn more_connections_than_any_process_may_have_are_refused() {
        let parameters = TrafficParameters { connections: u32::MAX, ..TrafficParameters::default() };
        let error = make_room(3, &parameters).unwrap_err().to_string();
        assert!(error.contains("open files") && error.contains("ulimit -n"), "{error}");
    }
}
