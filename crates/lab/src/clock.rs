//! When the next consensus is published: decided by what was seen of the relays, without any I/O.

use std::collections::VecDeque;
use std::time::Duration;

/// Relays accept no shorter interval.
pub(crate) const SHORTEST: Duration = Duration::from_secs(10);
/// A relay rests that wants less than this share of one processor above what its traffic takes: some hundred connections take
/// 0.01, and now and then 0.1.
const IDLE_SHARE: f64 = 0.15;
/// What traffic takes is the least that the relay wanted in so many windows: it goes on all the time, and a consensus is worked
/// off in shorter ones, or at more than the share of a processor that any traffic may take.
const TRAFFIC_WINDOWS: usize = 10;
const MOST_OF_TRAFFIC: f64 = 0.5;
/// CPU time is counted in hundredths of a second: shares of shorter times mean nothing.
const WINDOW: Duration = Duration::from_secs(1);
/// Nobody waits any longer for a relay to take a consensus that another one has taken at once.
const TAKING_PATIENCE: Duration = Duration::from_secs(180);
/// Where the first relay took long itself, others may take so many times as long: the machine has other things to do.
const SLOWER: u32 = 3;
/// Nobody waits any longer for a relay to work a consensus off, or for all of them to take it.
const WORKING_PATIENCE: Duration = Duration::from_secs(1200);

/// A relay as seen at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) alive: bool,
    /// The number of the last consensus that it took; 0 for none.
    pub(crate) taken: u64,
    /// CPU time since its start, where it is known, and the time for which its threads had no processor though they were
    /// ready to run: one that works on a crowded machine gets little of a processor and wants more.
    pub(crate) wanted: Option<Duration>,
}

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
    /// How long all relays rest before the next consensus.
    rest: Duration,
    published: u64,
    published_at: Duration,
    /// How long after that the first relay was seen to have taken it.
    first_taken: Option<Duration>,
    quiet_since: Option<Duration>,
    relays: Vec<Relay>,
}

#[derive(Debug, Clone, Default)]
struct Relay {
    given_up: bool,
    idle: bool,
    worked_off: u64,
    mark: Option<(Duration, Duration)>,
    /// What it wanted in the last windows, as shares of one processor.
    shares: VecDeque<f64>,
}

impl Clock {
    /// For so many relays, when the first consensus is there at their start.
    pub(crate) fn new(rest: Duration, relays: usize) -> Self {
        Self {
            rest,
            published: 1,
            published_at: Duration::ZERO,
            first_taken: None,
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

    /// Whether a relay has taken the last consensus, worked it off, and rests.
    pub(crate) fn is_at_rest(&self, relay: usize) -> bool {
        let relay = &self.relays[relay];
        relay.idle && relay.worked_off >= self.published
    }

    /// The next consensus was published.
    pub(crate) fn published(&mut self, at: Duration) {
        self.published += 1;
        self.published_at = at;
        self.first_taken = None;
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
        let given_up = self.give_up(at.saturating_sub(self.published_at), seen);
        (self.wait(at, seen, load_done), given_up)
    }

    fn give_up(&mut self, since: Duration, seen: &[Seen]) -> Vec<(usize, GivenUp)> {
        let mut given_up = Vec::new();
        if self.first_taken.is_none() && seen.iter().any(|seen| seen.alive && seen.taken >= self.published) {
            self.first_taken = Some(since);
        }
        let taking = self
            .first_taken
            .map_or(WORKING_PATIENCE, |first| TAKING_PATIENCE.max(SLOWER * first).min(WORKING_PATIENCE));
        for (index, (relay, seen)) in self.relays.iter_mut().zip(seen).enumerate() {
            // One that is done with the last one is waited for again.
            relay.given_up &= !(relay.idle && seen.taken >= self.published);
            let why = match seen.taken < self.published {
                true if since >= taking => GivenUp::NotTaken,
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

    /// Whether all that are waited for have taken the last consensus and do nothing, as of the last look.
    pub(crate) fn all_idle(&self, seen: &[Seen]) -> bool {
        let mut waited_for =
            self.relays.iter().zip(seen).filter(|(relay, seen)| seen.alive && !relay.given_up);
        waited_for.all(|(relay, seen)| seen.taken >= self.published && relay.idle)
    }

    fn wait(&mut self, at: Duration, seen: &[Seen], load_done: bool) -> Step {
        if !load_done || !self.all_idle(seen) {
            self.quiet_since = None;
            return Step::Work;
        }
        let since = *self.quiet_since.get_or_insert(at);
        let rested =
            self.rest.saturating_sub(at - since).max((self.published_at + SHORTEST).saturating_sub(at));
        if rested.is_zero() { Step::Publish } else { Step::Rest(rested) }
    }
}

impl Relay {
    fn follow(&mut self, at: Duration, seen: &Seen) {
        let Some(wanted) = seen.wanted else { return };
        match self.mark {
            Some((before, _)) if at - before < WINDOW => {}
            Some((before, so_far)) => {
                let share = wanted.saturating_sub(so_far).as_secs_f64() / (at - before).as_secs_f64();
                self.shares.truncate(TRAFFIC_WINDOWS - 1);
                self.shares.push_front(share);
                self.idle = share < IDLE_SHARE + self.traffic();
                self.mark = Some((at, wanted));
            }
            None => self.mark = Some((at, wanted)),
        }
        // While it is busy, it is busy with the last one.
        let done = if self.idle { seen.taken } else { seen.taken.saturating_sub(1) };
        self.worked_off = self.worked_off.max(done);
    }

    /// The share of one processor that its traffic takes.
    fn traffic(&self) -> f64 {
        let least = self.shares.iter().copied().fold(f64::INFINITY, f64::min);
        if least <= MOST_OF_TRAFFIC { least } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: Duration = Duration::from_secs(12);
    const SECOND: Duration = Duration::from_secs(1);

    /// Looks once a second at relays.
    struct Simulation {
        clock: Clock,
        at: Duration,
        wanted: Vec<Duration>,
    }

    /// Alive, the consensus that it has, and its share of a processor.
    type Now = (bool, u64, f64);

    const IDLE: f64 = 0.01;

    impl Simulation {
        fn new(rest: Duration, relays: usize) -> Self {
            Self { clock: Clock::new(rest, relays), at: Duration::ZERO, wanted: vec![Duration::ZERO; relays] }
        }

        fn second(&mut self, relays: &[Now], load_done: bool) -> (Step, Vec<(usize, GivenUp)>) {
            self.at += SECOND;
            let seen = |(wanted, (alive, taken, share)): (&mut Duration, &Now)| {
                *wanted += SECOND.mul_f64(*share);
                Seen { alive: *alive, taken: *taken, wanted: Some(*wanted) }
            };
            let seen: Vec<Seen> = self.wanted.iter_mut().zip(relays).map(seen).collect();
            self.clock.look(self.at, &seen, load_done)
        }

        /// Seconds until the next one is due; and who was given up meanwhile.
        fn until_due(&mut self, relays: &[Now], load_done: bool) -> (u64, Vec<(usize, GivenUp)>) {
            let mut given_up = Vec::new();
            for seconds in 1..5_000 {
                let (step, now) = self.second(relays, load_done);
                given_up.extend(now);
                if step == Step::Publish {
                    return (seconds, given_up);
                }
            }
            panic!("never due; given up: {given_up:?}");
        }

        fn works(&mut self, seconds: u64, relays: &[Now], load_done: bool) {
            for _ in 0..seconds {
                assert_eq!(self.second(relays, load_done), (Step::Work, Vec::new()));
            }
        }
    }

    #[test]
    fn the_next_one_comes_when_all_have_taken_worked_and_rested() {
        let mut run = Simulation::new(REST, 2);
        run.works(3, &[(true, 0, 0.9), (true, 1, IDLE)], false);
        run.works(5, &[(true, 1, 0.9), (true, 1, IDLE)], true);
        run.works(4, &[(true, 1, IDLE), (true, 1, IDLE)], false);
        let seen = |taken| Seen { alive: true, taken, wanted: None };
        assert!(run.clock.all_idle(&[seen(1), seen(1)]) && !run.clock.all_idle(&[seen(1), seen(0)]));
        let both = [(true, 1, IDLE), (true, 1, IDLE)];
        assert_eq!(run.second(&both, true).0, Step::Rest(Duration::from_secs(12)));
        assert_eq!(run.until_due(&both, true), (12, Vec::new()));
        assert_eq!([run.clock.worked_off(0), run.clock.worked_off(1)], [1, 1]);
        run.clock.published(run.at);
        assert_eq!(run.clock.consensus(), 2);
        // Nobody has it yet, however idle they are.
        run.works(20, &both, true);
        run.works(2, &[(true, 2, 0.5), (true, 2, IDLE)], true);
        assert_eq!([run.clock.worked_off(0), run.clock.worked_off(1)], [1, 2]);
    }

    #[test]
    fn a_dead_relay_is_not_waited_for() {
        let mut run = Simulation::new(REST, 2);
        run.works(5, &[(true, 1, IDLE), (true, 0, 0.9)], true);
        assert_eq!(run.until_due(&[(true, 1, IDLE), (false, 0, 0.0)], true), (13, Vec::new()));
    }

    #[test]
    fn a_relay_that_never_takes_one_is_given_up_once() {
        let mut run = Simulation::new(REST, 2);
        let (seconds, given_up) = run.until_due(&[(true, 1, IDLE), (true, 0, IDLE)], true);
        assert_eq!(given_up, [(1, GivenUp::NotTaken)]);
        assert_eq!(seconds, TAKING_PATIENCE.as_secs() + 12);
        assert!(run.clock.is_at_rest(0) && !run.clock.is_at_rest(1));
        run.clock.published(run.at);
        assert_eq!(run.until_due(&[(true, 2, IDLE), (true, 0, IDLE)], true), (13, Vec::new()));
        // When it has come to the last one, it is one of them again.
        run.clock.published(run.at);
        assert!(run.until_due(&[(true, 3, IDLE), (true, 3, IDLE)], true).1.is_empty());
        assert!(run.clock.is_at_rest(1));
        run.clock.published(run.at);
        run.works(100, &[(true, 4, IDLE), (true, 3, IDLE)], true);
    }

    /// While compilers run beside, all relays are late: that is the machine, and the clock goes on waiting.
    #[test]
    fn relays_that_are_late_together_are_waited_for() {
        let mut run = Simulation::new(REST, 2);
        run.works(400, &[(true, 0, 0.9), (true, 0, 0.9)], true);
        run.works(500, &[(true, 1, 0.9), (true, 0, 0.9)], true);
        assert!(run.until_due(&[(true, 1, IDLE), (true, 1, IDLE)], true).1.is_empty());
        run.clock.published(run.at);
        // Nor is a relay waited for without an end where none takes it.
        let (seconds, given_up) = run.until_due(&[(true, 1, IDLE), (true, 1, IDLE)], true);
        assert_eq!((given_up.len(), seconds), (2, WORKING_PATIENCE.as_secs() + 12));
    }

    #[test]
    fn traffic_that_goes_on_is_no_work_and_work_beside_it_is() {
        let mut run = Simulation::new(REST, 2);
        let resting = [(true, 1, 0.35), (true, 1, 0.45)];
        let (seconds, given_up) = run.until_due(&resting, true);
        assert_eq!((seconds, given_up.len()), (14, 0), "the first look has nothing to compare with");
        run.clock.published(run.at);
        run.works(15, &[(true, 2, 1.35), (true, 2, 0.45)], true);
        let resting = [(true, 2, 0.3), (true, 2, 0.48)];
        assert_eq!(run.until_due(&resting, true), (13, Vec::new()));
    }

    #[test]
    fn a_relay_that_never_gets_idle_is_given_up_once() {
        let mut run = Simulation::new(REST, 2);
        let (seconds, given_up) = run.until_due(&[(true, 1, 0.9), (true, 1, IDLE)], true);
        assert_eq!(given_up, [(0, GivenUp::NeverIdle)]);
        assert_eq!(seconds, WORKING_PATIENCE.as_secs() + 12);
        run.clock.published(run.at);
        assert_eq!(run.until_due(&[(true, 2, 0.9), (true, 2, IDLE)], true), (13, Vec::new()));
        // It counts those that it must be done with, because it took a later one.
        assert_eq!(run.clock.worked_off(0), 1);
    }
}
