//! A trial as exports see it: services with their arm and their lives in order of time.

use std::collections::HashMap;

use heaptrial_store::{LifeRecord, Store};
use serde_json::Value;

use crate::ExportError;

/// What does not change from sample to sample.
pub(super) struct Trial {
    pub id: i64,
    pub services: Vec<Service>,
}

pub(super) struct Service {
    pub arm: String,
    pub nickname: String,
    pub server: String,
    pub fingerprint: String,
    pub lives: Vec<LifeRecord>,
}

impl Trial {
    pub fn read(store: &Store, trial_id: i64) -> Result<Self, ExportError> {
        if store.trials()?.iter().all(|trial| trial.id != trial_id) {
            return Err(ExportError::NoTrial(trial_id));
        }
        let arms: HashMap<i64, String> =
            store.arms(trial_id)?.into_iter().map(|record| (record.id, record.arm.name)).collect();
        let mut lives: HashMap<i64, Vec<LifeRecord>> = HashMap::new();
        for life in store.lives(trial_id)? {
            lives.entry(life.service_id).or_default().push(life);
        }
        let services = store.services(trial_id)?.into_iter().map(|record| {
            let attribute = |name: &str| {
                let text = record.attributes.as_ref().and_then(|attributes| attributes.get(name));
                text.and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            let mut lives = lives.remove(&record.id).unwrap_or_default();
            lives.sort_by_key(|life| (life.started_boottime_us, life.id));
            let nickname = match attribute("nickname") {
                nickname if nickname.is_empty() => record.name,
                nickname => nickname,
            };
            Service {
                arm: arms.get(&record.arm_id).cloned().unwrap_or_default(),
                nickname,
                server: attribute("server"),
                fingerprint: attribute("fingerprint"),
                lives,
            }
        });
        Ok(Self { id: trial_id, services: services.collect() })
    }
}
