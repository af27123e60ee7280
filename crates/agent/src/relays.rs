//! The work of Tor relays, asked by a thread of its own with short patience.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use heaptrial_host::{HostRoot, Instant, Process};
use heaptrial_model::{KnownEvent, LifeKey, ServiceName, TorFlag};
use heaptrial_relay::{Relay, RelayReadings, TorError};

use crate::AgentError;
use crate::agent::Agent;
use crate::worker::Worker;

/// Relays are asked this often.
const EVERY_US: i64 = 600_000_000;
/// After a round that asked nobody, or in which one did not answer: it may just have been started.
const AGAIN_US: i64 = 20_000_000;
/// No connection and no answer may take longer.
const PATIENCE: Duration = Duration::from_secs(5);

type Answer = Result<RelayReadings, TorError>;

#[derive(Debug)]
pub(crate) struct Relays {
    worker: Worker<(ServiceName, LifeKey), (ServiceName, LifeKey, Option<Answer>)>,
    /// Services that did not answer, with the number of times in a row.
    silent: HashMap<ServiceName, u32>,
}

impl Relays {
    pub(crate) fn start(root: HostRoot) -> Result<Self, AgentError> {
        let answer = move |(name, key): (ServiceName, LifeKey)| {
            let answer = ask(&root, &key);
            (name, key, answer)
        };
        Ok(Self { worker: Worker::start("relays", answer)?, silent: HashMap::new() })
    }
}

/// The answer of a process; `None` where it is no relay, or not this life any more.
fn ask(root: &HostRoot, key: &LifeKey) -> Option<Answer> {
    let process = Process::new(root, key.pid);
    let words: Vec<String> =
        process.cmdline().ok()?.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    if process.life_key().ok()? != *key {
        return None;
    }
    let relay = Relay::of_command(root, &words, None)?;
    Some(relay.and_then(|relay| relay.readings(PATIENCE)))
}

impl Agent {
    /// Begins a round, unless the last one is still under way.
    pub(crate) fn ask_relays(&mut self) {
        let now = Instant::now().boottime_us;
        self.due.relays_us = now + AGAIN_US;
        let round: Vec<(ServiceName, LifeKey)> = self
            .watched
            .iter()
            .filter_map(|(name, watched)| Some((name.clone(), watched.main.as_ref()?.key.clone())))
            .collect();
        if round.is_empty() || !self.relays.worker.is_idle() {
            return;
        }
        round.into_iter().for_each(|service| self.relays.worker.ask(service));
        self.due.relays_us = now + EVERY_US;
    }

    /// What relays answered since the last tick.
    pub(crate) fn relay_observations(&mut self) -> Vec<(ServiceName, &'static str, f64)> {
        let mut observations = Vec::new();
        let mut named = HashSet::new();
        for (name, key, answer) in self.relays.worker.answers() {
            let main = self.watched.get(&name).and_then(|watched| watched.main.as_ref());
            let (Some(answer), true) = (answer, main.is_some_and(|main| main.key == key)) else { continue };
            match answer {
                // A tick holds one value of each name.
                Ok(readings) if named.insert(name.clone()) => {
                    self.relays.silent.remove(&name);
                    let lost = readings.without_flags && self.had_a_flag(&name);
                    let values = values(&readings, lost);
                    observations.extend(values.into_iter().map(|(what, value)| (name.clone(), what, value)));
                }
                Ok(_) => {}
                Err(why) => {
                    let failures = self.relays.silent.entry(name.clone()).or_insert(0);
                    *failures += 1;
                    if *failures == 1 {
                        // One that was just started has no control socket yet.
                        let again_us = Instant::now().boottime_us + AGAIN_US;
                        self.due.relays_us = self.due.relays_us.min(again_us);
                    } else if *failures == 2 {
                        let text = format!("the relay does not answer: {why}");
                        self.record(&name, self.clock.now().wall_us, KnownEvent::RelaySilent, &text);
                    }
                }
            }
        }
        observations
    }

    /// Whether the present life of a service ever had a flag.
    fn had_a_flag(&self, name: &ServiceName) -> bool {
        let lives = self.watched.get(name).into_iter().flat_map(|watched| &watched.seats);
        let mut lives = lives.filter_map(|seat| seat.life_id);
        lives.any(|life| {
            let had = |flag: &TorFlag| self.ledger.store.was_observed(life, flag.observation());
            TorFlag::ALL.iter().any(|flag| had(flag).unwrap_or(false))
        })
    }
}

/// Observations from an answer of a relay; what it does not have is left out. One that had flags and has none has `lost` them.
fn values(readings: &RelayReadings, lost: bool) -> Vec<(&'static str, f64)> {
    let counts = [
        ("tor_read_bytes", readings.read_bytes),
        ("tor_written_bytes", readings.written_bytes),
        ("tor_connections", readings.connections),
        ("tor_handshakes_answered", readings.handshakes_answered),
        ("tor_handshakes_dropped", readings.handshakes_dropped),
        ("tor_oom_bytes", readings.oom_bytes),
    ];
    let counts = counts.into_iter().filter_map(|(name, value)| Some((name, value? as f64)));
    let none = lost.then(BTreeSet::new);
    let flags = readings.flags.iter().chain(&none).flat_map(|flags| {
        let has = |flag: &TorFlag| if flags.contains(flag) { 1.0 } else { 0.0 };
        TorFlag::ALL.iter().map(move |flag| (flag.observation(), has(flag)))
    });
    counts.chain(flags).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_no_zero() {
        let readings = RelayReadings {
            read_bytes: Some(7),
            flags: Some([TorFlag::Fast, TorFlag::Guard].into()),
            ..RelayReadings::default()
        };
        let found: HashMap<_, _> = values(&readings, false).into_iter().collect();
        assert_eq!(found.len(), 7);
        assert_eq!(
            (found["tor_read_bytes"], found["tor_flag_guard"], found["tor_flag_exit"]),
            (7.0, 1.0, 0.0)
        );
        assert!(values(&RelayReadings::default(), false).is_empty());
        let lost = values(&RelayReadings::default(), true);
        assert_eq!(lost, TorFlag::ALL.iter().map(|flag| (flag.observation(), 0.0)).collect::<Vec<_>>());
    }
}
