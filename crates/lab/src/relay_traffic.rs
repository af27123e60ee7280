//! Traffic on the relays of a round: its start, its totals so far, and what relays did not get.

use std::net::SocketAddr;

use heaptrial_model::KnownEvent;
use heaptrial_network::{Authority, Traffic, TrafficParameters, TrafficTotals};

use crate::LabError;
use crate::workload::Event;

/// Open files of one relay's clients that come and go, in the lab.
const CLIENT_FILES: u64 = 1_000;

/// Running traffic on the relays of some slots.
#[derive(Debug)]
pub(crate) struct RelayTraffic {
    parameters: TrafficParameters,
    traffic: Traffic,
    /// In the order of the traffic's totals.
    slots: Vec<usize>,
}

impl RelayTraffic {
    /// Starts it on relays by slot and address; `None` where there is to be none.
    pub(crate) fn start(
        parameters: &TrafficParameters,
        seed: u64,
        slots: &[usize],
        addresses: &[SocketAddr],
        authority: &Authority,
    ) -> Result<Option<Self>, LabError> {
        if parameters.held() == 0 {
            return Ok(None);
        }
        let traffic = Traffic::start(parameters, seed, addresses, authority)?;
        Ok(Some(Self { parameters: parameters.clone(), traffic, slots: slots.to_vec() }))
    }

    /// What went through a slot's relay so far.
    pub(crate) fn observe(&self, slot: usize) -> Vec<(&'static str, f64)> {
        let Some(position) = self.slots.iter().position(|loaded| *loaded == slot) else { return Vec::new() };
        let totals = self.traffic.totals()[position];
        vec![
            ("load_connections_held", totals.connections_now as f64),
            ("load_circuits_made", totals.circuits_made as f64),
            ("load_circuits_failed", totals.circuits_failed as f64),
            ("load_circuits_now", totals.circuits_now as f64),
            ("load_cells_sent", totals.cells_sent as f64),
            ("load_cells_returned", totals.cells_received as f64),
        ]
    }

    /// Ends it; returns which relays did not get what was asked for.
    pub(crate) fn finish(self) -> Vec<Event> {
        let event = |(slot, totals): (&usize, &TrafficTotals)| {
            let text = shortfall(&self.parameters, totals)?;
            Some(Event { slot: Some(*slot), kind: KnownEvent::Warning, text })
        };
        self.slots.iter().zip(&self.traffic.totals()).filter_map(event).collect()
    }
}

/// What of the traffic that was asked for a relay did not get.
fn shortfall(parameters: &TrafficParameters, totals: &TrafficTotals) -> Option<String> {
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
