//! A tick: one sample of every service, written in one transaction of each trial.

use std::collections::HashMap;
use std::time::Duration;

use heaptrial_host::{Instant, SlowBudget, TickCost};
use heaptrial_model::{KnownEvent, Sample, ServiceName, SlowSample};
use heaptrial_store::TickInput;

use crate::agent::Agent;
use crate::metrics::{ServiceLine, Snapshot};
use crate::own::OwnCost;
use crate::trials::Lost;
use crate::unread;
use crate::watched::Tree;

#[derive(Debug)]
pub(crate) struct Ticking {
    own: OwnCost,
    slow_budget: SlowBudget,
    slow_turn: usize,
    interval_us: i64,
    /// Of writing the previous tick, which is entered with the next one.
    write_cost: TickCost,
    ticks: u64,
    lost: u64,
}

#[derive(Debug, Default)]
struct Readings {
    samples: HashMap<ServiceName, Sample>,
    slow: Option<(ServiceName, SlowSample)>,
    observations: Vec<(ServiceName, &'static str, f64)>,
}

impl Ticking {
    pub(crate) fn new(own: OwnCost, slow_budget: SlowBudget, interval_us: i64) -> Self {
        Self {
            own,
            slow_budget,
            slow_turn: 0,
            interval_us,
            write_cost: TickCost::default(),
            ticks: 0,
            lost: 0,
        }
    }
}

impl Agent {
    /// Takes and writes one tick.
    pub(crate) fn tick(&mut self) {
        let now = self.clock.now();
        self.due.tick_us = next_due(self.due.tick_us, now.boottime_us, self.ticking.interval_us);
        self.ledger.flush();
        let (readings, mut cost) = TickCost::measure(|| self.read());
        cost.wall_us += self.ticking.write_cost.wall_us;
        cost.cpu_us += self.ticking.write_cost.cpu_us;
        let rss_bytes = self.ticking.own.rss_bytes();
        let ((), write_cost) = TickCost::measure(|| {
            for index in 0..self.trials.len() {
                let mut tick = self.tick_of(index, &readings, now);
                tick.cost_wall_us = cost.wall_us;
                tick.cost_cpu_us = cost.cpu_us;
                self.write(index, &tick);
            }
        });
        self.ticking.write_cost = write_cost;
        self.ticking.ticks += 1;
        let snapshot = self.metrics.is_some().then(|| self.snapshot(rss_bytes, cost, now));
        if let (Some(metrics), Some(snapshot)) = (&self.metrics, snapshot) {
            metrics.show(snapshot);
        }
    }

    fn read(&mut self) -> Readings {
        let mut readings = Readings { observations: self.relay_observations(), ..Readings::default() };
        let names: Vec<ServiceName> = self.watched.keys().cloned().collect();
        self.sample_services(&names, &mut readings);
        let new = self.look_for_mains();
        self.sample_services(&new, &mut readings);
        readings.slow = self.read_slow();
        readings
    }

    /// Samples services that have a main process. One whose main process has ended has none from then on.
    fn sample_services(&mut self, names: &[ServiceName], readings: &mut Readings) {
        let now = self.clock.now();
        let root = self.root.clone();
        let tree = Tree::of(&root);
        for name in names {
            let Some(watched) = self.watched.get_mut(name) else { continue };
            let Some(main) = &mut watched.main else { continue };
            main.last_sample = None;
            match main.sample(&tree) {
                Ok(sample) => {
                    main.last_sample = Some(sample);
                    readings.samples.insert(name.clone(), sample);
                    if std::mem::take(&mut watched.is_unread) {
                        eprintln!("{name} is sampled again");
                    }
                    if main.survived_oom_kills() {
                        let text = "the kernel OOM-killed a process of it; its main process lives on";
                        self.record(name, now.wall_us, KnownEvent::OomKill, text);
                    }
                }
                Err(error) if error.is_gone() => watched.main_ended(now.boottime_us),
                Err(error) => self.note_unread(name, &error),
            }
        }
    }

    /// The expensive reading of one service, in turn, where the budget allows it.
    fn read_slow(&mut self) -> Option<(ServiceName, SlowSample)> {
        let elapsed = Duration::from_micros(self.clock.now().boottime_us.max(0) as u64);
        if !self.ticking.slow_budget.allows(elapsed) {
            return None;
        }
        self.ticking.slow_turn += 1;
        let turn = self.ticking.slow_turn % self.watched.len().max(1);
        let watched = self.watched.values_mut().nth(turn)?;
        let slow = watched.main.as_mut()?.sampler.read_slow().ok()?;
        self.ticking.slow_budget.spent(elapsed, Duration::from_micros(slow.cost_us));
        Some((watched.name.clone(), slow))
    }

    fn tick_of(&self, index: usize, readings: &Readings, now: Instant) -> TickInput {
        let trial = &self.trials[index];
        let mut tick = TickInput {
            sequence: trial.next_sequence,
            wall_us: now.wall_us,
            boottime_us: now.boottime_us,
            host_id: Some(self.host_id),
            events: unread::events(trial, &self.boot_id, now, self.ticking.interval_us),
            ..TickInput::default()
        };
        let life_of = |name: &ServiceName| {
            let watched = self.watched.get(name)?;
            watched.seats.iter().find(|seat| seat.trial_id == trial.id)?.life_id
        };
        let mut samples: Vec<(i64, Sample)> =
            readings.samples.iter().filter_map(|(name, sample)| Some((life_of(name)?, *sample))).collect();
        samples.sort_unstable_by_key(|(life_id, _)| *life_id);
        tick.samples = samples;
        tick.slow_samples =
            readings.slow.iter().filter_map(|(name, slow)| Some((life_of(name)?, *slow))).collect();
        tick.observations = readings
            .observations
            .iter()
            .filter_map(|(name, what, value)| Some((life_of(name)?, *what, *value)))
            .collect();
        tick
    }

    fn write(&mut self, index: usize, tick: &TickInput) {
        let trial = &mut self.trials[index];
        if let Err(error) = self.ledger.store.write_tick(trial.id, tick) {
            self.ticking.lost += 1;
            let lost = trial.lost.get_or_insert_with(|| Lost { ticks: 0, why: error.to_string() });
            lost.ticks += 1;
            return self.ledger.say_unwritable(&error);
        }
        self.ledger.written();
        trial.last = Some(Instant { wall_us: tick.wall_us, boottime_us: tick.boottime_us });
        trial.earlier_boot = None;
        trial.begun = true;
        trial.lost = None;
        trial.next_sequence += 1;
    }

    fn snapshot(&self, rss_bytes: u64, cost: TickCost, now: Instant) -> Snapshot {
        let mut services = Vec::new();
        for watched in self.watched.values() {
            for seat in &watched.seats {
                if !self.trials.iter().any(|trial| trial.id == seat.trial_id) {
                    continue;
                }
                let main = watched.main.as_ref();
                services.push(ServiceLine {
                    service: watched.name.to_string(),
                    arm: seat.arm.clone(),
                    trial: seat.trial.clone(),
                    contaminated: main.map(|_| seat.contamination.is_some()),
                    started_wall_us: main.map(|main| main.started.wall_us),
                    sample: main.and_then(|main| main.last_sample),
                    known: watched.known,
                });
            }
        }
        Snapshot {
            services,
            trials: self.trials.len(),
            cpu_us: crate::own::cpu_us(),
            rss_bytes,
            tick_seconds: cost.wall_us as f64 / 1e6,
            ticks: self.ticking.ticks,
            lost_ticks: self.ticking.lost,
            taken_wall_us: now.wall_us,
        }
    }
}

/// When the tick after one that was due at `due` is due: in the same rhythm, or if that was missed, from now on.
fn next_due(due: i64, now: i64, interval: i64) -> i64 {
    let next = due + interval;
    if next > now { next } else { now + interval }
}

#[cfg(test)]
mod tests {
    use heaptrial_host::HostRoot;
    use heaptrial_model::{Metric, TrialKind};

    use super::*;
    use crate::testing::{Fixture, UNIT, hours_ago};

    #[test]
    fn a_service_that_cannot_be_read_whole_has_no_sample_and_that_is_recorded_once() {
        let mut fixture = Fixture::new();
        let (trial, _) = fixture.begin(TrialKind::Field, hours_ago(3));
        fixture.agent.refresh_trials();
        fixture.find_main(hours_ago(2));
        let name: ServiceName = UNIT.parse().unwrap();
        let gaps = |fixture: &Fixture| {
            let events = fixture.events(trial).into_iter().filter(|event| event.kind == KnownEvent::Gap);
            events.filter(|event| event.service_id.is_some()).map(|event| event.text).collect::<Vec<_>>()
        };
        let tick = |fixture: &mut Fixture| {
            fixture.agent.tick();
            fixture.agent.watched[&name].main.as_ref().unwrap().last_sample.is_some()
        };
        assert!(tick(&mut fixture));
        // Without the list of processes nobody knows what the service has.
        let root = std::mem::replace(&mut fixture.agent.root, HostRoot::at("/nowhere"));
        assert_eq!([tick(&mut fixture), tick(&mut fixture)], [false, false]);
        assert_eq!(gaps(&fixture).len(), 1, "{:?}", gaps(&fixture));
        assert!(gaps(&fixture)[0].contains("though it runs"), "{:?}", gaps(&fixture));
        fixture.agent.root = root;
        assert!(tick(&mut fixture));
        assert_eq!(gaps(&fixture).len(), 1);
        let life = &fixture.lives(trial)[0];
        let store = &fixture.agent.ledger.store;
        assert_eq!(store.tick_summary(trial).unwrap().ticks, 4);
        assert_eq!(store.series(life, Metric::Rss).unwrap().len(), 2);
    }

    #[test]
    fn the_rhythm_is_kept_and_missed_ticks_are_not_made_up_for() {
        assert_eq!(next_due(1_000, 1_020, 60_000), 61_000);
        assert_eq!(next_due(1_000, 200_000, 60_000), 260_000);
    }
}
