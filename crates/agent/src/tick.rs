//! A tick: one sample of every service, written in one transaction of each trial.

use std::collections::HashMap;
use std::time::Duration;

use heaptrial_host::{Instant, SlowBudget, TickCost};
use heaptrial_model::{KnownEvent, Sample, ServiceName, SlowSample};
use heaptrial_store::TickInput;

use crate::agent::Agent;
use crate::clock::Moment;
use crate::trials::Lost;
use crate::unread;

#[derive(Debug)]
pub(crate) struct Ticking {
    slow_budget: SlowBudget,
    slow_turn: usize,
    interval_us: i64,
    /// Of writing the previous tick, which is entered with the next one.
    write_cost: TickCost,
    pub(crate) ticks: u64,
    pub(crate) lost: u64,
}

#[derive(Debug, Default)]
struct Readings {
    samples: HashMap<ServiceName, Sample>,
    slow: Option<(ServiceName, SlowSample)>,
    observations: Vec<(ServiceName, &'static str, f64)>,
}

impl Ticking {
    pub(crate) fn new(slow_budget: SlowBudget, interval_us: i64) -> Self {
        Self { slow_budget, slow_turn: 0, interval_us, write_cost: TickCost::default(), ticks: 0, lost: 0 }
    }
}

impl Agent {
    pub(crate) fn tick(&mut self) {
        let now = self.clock.now();
        self.due.tick_us = next_due(self.due.tick_us, now.boottime_us, self.ticking.interval_us);
        self.ledger.flush();
        let (readings, mut cost) = TickCost::measure(|| self.read());
        cost.wall_us += self.ticking.write_cost.wall_us;
        cost.cpu_us += self.ticking.write_cost.cpu_us;
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
        if let Some(metrics) = &self.metrics {
            metrics.show(self.metrics_text(cost, now));
        }
    }

    fn read(&mut self) -> Readings {
        let mut readings = Readings { observations: self.relay_observations(), ..Readings::default() };
        self.sample_services(&self.names(|_| true), &mut readings);
        let new = self.look_for_mains();
        self.sample_services(&new, &mut readings);
        readings.slow = self.read_slow();
        readings
    }

    /// Samples services that have a main process. One whose main process has ended has none from then on.
    fn sample_services(&mut self, names: &[ServiceName], readings: &mut Readings) {
        let now = self.clock.now();
        let root = self.root.clone();
        for name in names {
            let Some(watched) = self.watched.get_mut(name) else { continue };
            let Some(main) = &mut watched.main else { continue };
            main.last_sample = None;
            match main.sample(&root) {
                Ok(sample) => {
                    main.last_sample = Some(sample);
                    readings.samples.insert(name.clone(), sample);
                    watched.is_unread = false;
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
        let (name, watched) = self.watched.iter_mut().nth(turn)?;
        let slow = watched.main.as_mut()?.sampler.read_slow().ok()?;
        self.ticking.slow_budget.spent(elapsed, Duration::from_micros(slow.cost_us));
        Some((name.clone(), slow))
    }

    fn tick_of(&self, index: usize, readings: &Readings, now: Instant) -> TickInput {
        let trial = &self.trials[index];
        let life_of = |name: &ServiceName| {
            let watched = self.watched.get(name)?;
            watched.seats.iter().find(|seat| seat.trial_id == trial.id)?.life_id
        };
        let mut samples: Vec<(i64, Sample)> =
            readings.samples.iter().filter_map(|(name, sample)| Some((life_of(name)?, *sample))).collect();
        samples.sort_unstable_by_key(|(life_id, _)| *life_id);
        let slow = readings.slow.iter().filter_map(|(name, slow)| Some((life_of(name)?, *slow)));
        let observed = readings.observations.iter();
        let observed = observed.filter_map(|(name, what, value)| Some((life_of(name)?, *what, *value)));
        TickInput {
            sequence: trial.next_sequence,
            wall_us: now.wall_us,
            boottime_us: now.boottime_us,
            host_id: Some(self.host_id),
            events: unread::events(trial, &self.boot_id, now, self.ticking.interval_us),
            samples,
            slow_samples: slow.collect(),
            observations: observed.collect(),
            ..TickInput::default()
        }
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
        let at = Instant { wall_us: tick.wall_us, boottime_us: tick.boottime_us };
        trial.last = Moment { boot_id: self.boot_id.clone(), at };
        trial.begun = true;
        trial.lost = None;
        trial.next_sequence += 1;
    }
}

/// When the tick after one that was due at `due` is due: in the same rhythm, or if that was missed, from now on.
fn next_due(due: i64, now: i64, interval: i64) -> i64 {
    let next = due + interval;
    if next > now { next } else { now + interval }
}
