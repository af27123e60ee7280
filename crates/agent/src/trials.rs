//! Which trials run, and the seats of their services.

use std::collections::{BTreeSet, HashMap};

use heaptrial_allocator::Expected;
use heaptrial_host::Instant;
use heaptrial_model::{Ending, ServiceName, TrialKind};
use heaptrial_store::{LifeRecord, StoreError, TrialRecord};

use crate::agent::Agent;
use crate::clock::Moment;
use crate::ledger::Write;
use crate::watched::{Seat, Watched};

#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) id: i64,
    pub(crate) of_host: bool,
    pub(crate) next_sequence: i64,
    /// Its last tick, or its start where there is none.
    pub(crate) last: Moment,
    pub(crate) begun: bool,
    pub(crate) lost: Option<Lost>,
}

/// Ticks that could not be written.
#[derive(Debug)]
pub(crate) struct Lost {
    pub(crate) ticks: u64,
    pub(crate) why: String,
}

impl Agent {
    /// Takes up trials that began and drops those that ended. Whether that was done; if not, it may succeed later.
    pub(crate) fn refresh_trials(&mut self) -> bool {
        let running = match self.ledger.store.running_trials() {
            Ok(running) => running,
            Err(error) => {
                self.ledger.say_unwritable(&error);
                return false;
            }
        };
        let count = self.trials.len();
        self.trials.retain(|trial| running.iter().any(|record| record.id == trial.id));
        if self.trials.len() < count {
            // Services that are free again go back to the host's own trial.
            self.due.host_us = 0;
        }
        self.drop_services();
        let (mut taken_up, mut done) = (false, true);
        for record in running {
            let known = self.trials.iter().any(|trial| trial.id == record.id);
            // Services of the host are looked for only where that is asked for.
            let wanted = record.plan.kind != TrialKind::Host || !self.config.host_patterns.is_empty();
            if !known && wanted {
                match self.take_up(&record) {
                    Ok(()) => taken_up = true,
                    Err(error) => {
                        eprintln!("trial {} cannot be taken up: {error}", record.plan.name);
                        done &= !error.is_passing();
                    }
                }
            }
        }
        if taken_up {
            let now = self.clock.now();
            self.due.tick_us = self.due.tick_us.min(now.boottime_us + 1_000_000);
            self.due.relays_us = now.boottime_us;
        }
        done
    }

    /// Forgets services of trials that ended, and those that a person took out of their trial.
    fn drop_services(&mut self) {
        let mut dropped = BTreeSet::new();
        for trial in &self.trials {
            match self.ledger.store.dropped_services(trial.id) {
                Ok(ids) => dropped.extend(ids),
                Err(error) => return self.ledger.say_unwritable(&error),
            }
        }
        let runs = |seat: &Seat| self.trials.iter().any(|trial| trial.id == seat.trial_id);
        for watched in self.watched.values_mut() {
            watched.seats.retain(|seat| runs(seat) && !dropped.contains(&seat.service_id));
        }
        self.watched.retain(|_, watched| !watched.seats.is_empty());
    }

    fn take_up(&mut self, record: &TrialRecord) -> Result<(), StoreError> {
        let now = self.clock.now();
        let of_host = record.plan.kind == TrialKind::Host;
        // A watch begins with the lives that run under the treatment already.
        let treats = record.plan.kind.treats_services();
        let start = Moment::start_of(&record.plan);
        let last = self.ledger.store.last_tick(record.id)?;
        let boot_id = self.ledger.store.last_boot(record.id)?.unwrap_or_default();
        let arms: HashMap<i64, _> =
            self.ledger.store.arms(record.id)?.into_iter().map(|arm| (arm.id, arm)).collect();
        let dropped = self.ledger.store.dropped_services(record.id)?;
        let mut services = self.ledger.store.services(record.id)?;
        services.retain(|service| !dropped.contains(&service.id));
        let mut lives: HashMap<i64, Vec<LifeRecord>> = HashMap::new();
        for life in self.ledger.store.lives(record.id)? {
            lives.entry(life.service_id).or_default().push(life);
        }
        self.end_lives_of_other_boots(lives.values().flatten());
        for service in services {
            let Ok(name) = service.name.parse() else {
                eprintln!("trial {}: `{}` is no name of a unit", record.plan.name, service.name);
                continue;
            };
            let Some(arm) = arms.get(&service.arm_id) else { continue };
            let expected = arm.obtained.clone().and_then(|value| {
                serde_json::from_value::<Expected>(value)
                    .inspect_err(|error| eprintln!("arm {}: {error}", arm.arm.name))
                    .ok()
            });
            let lives = lives.remove(&service.id).unwrap_or_default();
            let own = |life: &LifeRecord| {
                let started =
                    Instant { wall_us: life.started_wall_us, boottime_us: life.started_boottime_us };
                life.key.as_ref().is_some_and(|key| !start.is_after(&key.boot_id, started))
            };
            let seat = Seat {
                of_host,
                expected,
                begins_after: (treats && !lives.iter().any(own)).then(|| start.clone()),
                earlier: lives.iter().rev().find_map(|life| life.identity.clone()),
                trial_id: record.id,
                service_id: service.id,
                arm: arm.arm.name.clone(),
                trial: record.plan.name.clone(),
                ..Seat::default()
            };
            self.seat(name, seat, now);
        }
        self.trials.push(Trial {
            id: record.id,
            of_host,
            next_sequence: last.map_or(0, |tick| tick.sequence + 1),
            last: last.map_or(start, |tick| Moment {
                boot_id,
                at: Instant { wall_us: tick.wall_us, boottime_us: tick.boottime_us },
            }),
            begun: false,
            lost: None,
        });
        Ok(())
    }

    /// Gives a service a place in a trial, in place of the host's own; there its life stays open, since it may come back.
    pub(crate) fn seat(&mut self, name: ServiceName, seat: Seat, now: Instant) {
        let watched = self.watched.entry(name.clone());
        let new = || Watched { missed_us: now.boottime_us, unexplained: true, ..Watched::default() };
        let watched = watched.or_insert_with(new);
        watched.seats.push(seat);
        let in_a_trial = watched.seats.iter().any(|seat| !seat.of_host);
        watched.seats.retain(|seat| !(seat.of_host && in_a_trial));
        self.enter_lives(&name);
    }

    /// A life cannot outlive a boot: what the ledger still holds as alive from an earlier one ended with it.
    fn end_lives_of_other_boots<'a>(&mut self, lives: impl Iterator<Item = &'a LifeRecord>) {
        let of_other_boot = |life: &&LifeRecord| {
            life.ending.is_none() && life.key.as_ref().is_some_and(|key| key.boot_id != self.boot_id)
        };
        let open: Vec<&LifeRecord> = lives.filter(of_other_boot).collect();
        for life in open {
            let at = self.last_seen(life);
            self.ledger.submit(Write::EndLife { life_id: life.id, at, ending: Ending::Interrupted });
        }
    }

    /// When a life was sampled last, on both clocks; its start if it never was.
    pub(crate) fn last_seen(&self, life: &LifeRecord) -> (i64, i64) {
        match self.ledger.store.last_tick_of_life(life.id) {
            Ok(Some(tick)) => (tick.wall_us, tick.boottime_us),
            _ => (life.started_wall_us, life.started_boottime_us),
        }
    }
}
