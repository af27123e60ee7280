//! When the next consensus is published: decided by what was seen of the relays, without any I/O.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Relays accept no shorter interval.
pub(crate) const SHORTEST: Duration = Duration::from_secs(10);
/// A relay with less than this share of one processor rests.
const IDLE_SHARE: f64 = 0.1;
/// CPU time is told in hundredths of a second: shares of shorter times mean nothing.
const WINDOW: Duration = Duration::from_secs(1);
/// Nobody waits any longer for a relay to take a consensus.
const TAKING_PATIENCE: Duration = Duration::from_secs(180);
/// Nobody waits any longer for a relay to work a consensus off.
const WORKING_PATIENCE: Duration = Duration::from_secs(1200);

/// What decides when the next consensus comes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Pace {
    /// It comes when every relay has taken the last one and worked it off, and all have rested since.
    Waits {
        /// How long they rest, in seconds.
        rest_seconds: f64,
    },
    /// It comes at fixed times, whether or not relays are done with the last one.
    Fixed {
        /// The seconds between two.
        interval_seconds: u32,
    },
}

/// A relay as seen at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) alive: bool,
    /// The number of the last consensus that it took; 0 for none.
    pub(crate) taken: u64,
    /// CPU time since its start, where it is known.
    pub(crate) cpu: Option<Duration>,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// Somebody still has to take the last consensus, to work, or to be served.
    Work,
    /// All is quiet, and for this much longer it has to be.
    Rest(Duration),
    /// Time for the next one.
    Publish,
}

/// Why a relay is not waited for any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GivenUp {
    /// It did not take the consensus.
    NotTaken,
    /// It did not get idle.
    NeverIdle,
}

/// The clock of one round. Times are since the start of the relays.
#[derive(Debug)]
pub(crate) struct Clock {
    pace: Pace,
    published: u64,
    published_at: Duration,
    quiet_since: Option<Duration>,
    relays: Vec<Relay>,
}

#[derive(Debug, Clone, Default)]
struct Relay {
    given_up: bool,
    idle: bool,
    worked_off: u64,
    mark: Option<(Duration, Duration)>,
}

impl Clock {
    /// For so many relays, when the first consensus is there at their start.
    pub(crate) fn new(pace: Pace, relays: usize) -> Self {
        Self {
            pace,
            published: 1,
            published_at: Duration::ZERO,
            quiet_since: None,
            relays: vec![Relay::default(); relays],
        }
    }

    /// The number of the last consensus that was published.
    pub(crate) fn consensus(&self) -> u64 {
        self.published
    }

    /// How many consensuses a relay has taken and worked off.
    pub(crate) fn worked_off(&self, relay: usize) -> u64 {
        self.relays[relay].worked_off
    }

    /// The next consensus was published.
    pub(crate) fn published(&mut self, at: Duration) {
        self.published += 1;
        self.published_at = match self.pace {
            // From when it was due, so that being late once does not delay all later ones.
            Pace::Fixed { interval_seconds } => {
                let due = self.published_at + Duration::from_secs(interval_seconds.into());
                due.max(at.saturating_sub(Duration::from_secs(interval_seconds.into())))
            }
            Pace::Waits { .. } => at,
        };
        self.quiet_since = None;
    }

    /// Decides by what is seen at this moment; names those relays that are given up now.
    pub(crate) fn look(
        &mut self,
        at: Duration,
        seen: &[Seen],
        load_done: bool,
    ) -> (Step, Vec<(usize, GivenUp)>) {
        for (relay, seen) in self.relays.iter_mut().zip(seen) {
            relay.follow(at, seen);
        }
        let since = at.saturating_sub(self.published_at);
        match self.pace {
            Pace::Fixed { interval_seconds } => {
                let due = since >= Duration::from_secs(interval_seconds.into());
                (if due { Step::Publish } else { Step::Work }, Vec::new())
            }
            Pace::Waits { rest_seconds } => {
                let given_up = self.give_up(since, seen);
                (self.wait(at, seen, load_done, Duration::from_secs_f64(rest_seconds)), given_up)
            }
        }
    }

    fn give_up(&mut self, since: Duration, seen: &[Seen]) -> Vec<(usize, GivenUp)> {
        let mut given_up = Vec::new();
        for (index, (relay, seen)) in self.relays.iter_mut().zip(seen).enumerate() {
            let why = match seen.taken < self.published {
                true if since >= TAKING_PATIENCE => GivenUp::NotTaken,
                false if since >= WORKING_PATIENCE && !relay.idle => GivenUp::NeverIdle,
                _ => continue,
            };
            if seen.alive && !relay.given_up {
                relay.given_up = true;
                given_up.push((index, why));
            }
        }
        given_up
    }

    fn wait(&mut self, at: Duration, seen: &[Seen], load_done: bool, rest: Duration) -> Step {
        let mut waited_for =
            self.relays.iter().zip(seen).filter(|(relay, seen)| seen.alive && !relay.given_up);
        let quiet = load_done && waited_for.all(|(relay, seen)| seen.taken >= self.published && relay.idle);
        if !quiet {
            self.quiet_since = None;
            return Step::Work;
        }
        let since = *self.quiet_since.get_or_insert(at);
        let rested = rest.saturating_sub(at - since).max((self.published_at + SHORTEST).saturating_sub(at));
        if rested.is_zero() { Step::Publish } else { Step::Rest(rested) }
    }
}

impl Relay {
    fn follow(&mut self, at: Duration, seen: &Seen) {
        let Some(cpu) = seen.cpu else { return };
        match self.mark {
            Some((before, _)) if at - before < WINDOW => {}
            Some((before, spent)) => {
                let share = cpu.saturating_sub(spent).as_secs_f64() / (at - before).as_secs_f64();
                self.idle = share < IDLE_SHARE;
                self.mark = Some((at, cpu));
            }
            None => self.mark = Some((at, cpu)),
        }
        // While it is busy, it is busy with the last one.
        let done = if self.idle { seen.taken } else { seen.taken.saturating_sub(1) };
        self.worked_off = self.worked_off.max(done);
    }
}
