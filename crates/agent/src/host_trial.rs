//! Services in no trial, sampled as a trial of kind `host` with one arm: a later trial is planned with what they took.

use std::collections::HashMap;

use heaptrial_host::Instant;
use heaptrial_model::{Arm, Metric, ServiceName, Treatment, TrialKind};
use heaptrial_store::{NewService, NewTrial, StoreError};

use crate::agent::Agent;
use crate::watched::Seat;

/// New services are looked for this often.
const EVERY_US: i64 = 600_000_000;
/// And where systemd could not be asked, again after this long.
const AGAIN_US: i64 = 10_000_000;
const NAME: &str = "host";
const ARM: &str = "as found";

impl Agent {
    /// Looks for services of the host that match the patterns and are not sampled yet.
    pub(crate) fn refresh_host(&mut self) {
        let now = self.clock.now();
        self.due.host_us = now.boottime_us + EVERY_US;
        if let Err(error) = self.begin_host_trial(now) {
            return self.ledger.say_unwritable(&error);
        }
        let patterns = self.config.host_patterns.clone();
        let Some(names) = self.manager.ask(|systemd| systemd.service_names(&patterns)) else {
            self.due.host_us = now.boottime_us + AGAIN_US;
            return;
        };
        self.drop_absent(&names);
        let new: Vec<ServiceName> =
            names.into_iter().filter(|name| !self.watched.contains_key(name)).collect();
        if new.is_empty() {
            return;
        }
        if let Err(error) = self.seat_host_services(new, now) {
            self.ledger.say_unwritable(&error);
        }
        self.due.tick_us = self.due.tick_us.min(now.boottime_us + 1_000_000);
    }

    /// Forgets services of the host alone that do not run and are not listed: units of one run would gather without end.
    fn drop_absent(&mut self, listed: &[ServiceName]) {
        self.watched.retain(|name, watched| {
            watched.main.is_some() || watched.seats.iter().any(|seat| !seat.of_host) || listed.contains(name)
        });
    }

    fn begin_host_trial(&mut self, now: Instant) -> Result<(), StoreError> {
        if self.trials.iter().any(|trial| trial.of_host) {
            return Ok(());
        }
        let trial = self.untreated_trial(NAME, TrialKind::Host, now);
        self.ledger.store.begin_field_trial(&trial, &[None], &[])?;
        self.refresh_trials();
        Ok(())
    }

    /// A trial with one arm, which has no treatment.
    pub(crate) fn untreated_trial(&self, name: &str, kind: TrialKind, start: Instant) -> NewTrial {
        NewTrial {
            name: name.into(),
            kind,
            boot_id: self.boot_id.clone(),
            host_facts: self.host_facts.clone(),
            metric: Metric::Rss,
            seed: 0,
            repeats: 1,
            planned_us: 0,
            arms: vec![Arm { name: ARM.into(), control: true, treatment: Treatment::default() }],
            parameters: serde_json::json!({ "started_boottime_us": start.boottime_us }),
            command: "heaptrial agent".into(),
            tool_version: env!("CARGO_PKG_VERSION").into(),
            started_wall_us: start.wall_us,
        }
    }

    fn seat_host_services(&mut self, names: Vec<ServiceName>, now: Instant) -> Result<(), StoreError> {
        let Some(trial_id) = self.trials.iter().find(|trial| trial.of_host).map(|trial| trial.id) else {
            return Ok(());
        };
        let Some(arm_id) = self.ledger.store.arms(trial_id)?.first().map(|arm| arm.id) else { return Ok(()) };
        let services = self.ledger.store.services(trial_id)?;
        let known: HashMap<&str, i64> =
            services.iter().map(|service| (service.name.as_str(), service.id)).collect();
        for (name, position) in names.into_iter().zip(services.len() as u32..) {
            let service_id = match known.get(name.as_str()) {
                Some(id) => *id,
                None => {
                    let (name, attributes) = (name.to_string(), serde_json::Value::Null);
                    let service = NewService { name, arm: 0, block: 0, position, attributes };
                    self.ledger.store.add_new_service(trial_id, arm_id, &service)?
                }
            };
            let (arm, trial) = (ARM.to_owned(), NAME.to_owned());
            let seat = Seat { of_host: true, trial_id, service_id, arm, trial, ..Seat::default() };
            self.seat(name, seat, now);
        }
        Ok(())
    }
}
