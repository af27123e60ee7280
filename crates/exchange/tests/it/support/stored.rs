//! A trial as it is stored, read row by row.

use std::collections::HashMap;

use heaptrial_store::{
    ImportedEvent, ImportedLife, ImportedSample, ImportedService, ImportedTrial, NewService, Store,
    StoreError,
};

pub fn read(store: &Store, name: &str) -> ImportedTrial {
    let trials = store.trials().unwrap();
    let trial = trials.into_iter().find(|trial| trial.plan.name == name).unwrap();
    let (arms, rows) = (store.arms(trial.id).unwrap(), store.services(trial.id).unwrap());
    let arm = |id: i64| arms.iter().position(|arm| arm.id == id).unwrap();
    let mut samples = samples(store, trial.id);
    let lives = store.lives(trial.id).unwrap();
    let mut of_service = |id: i64| -> Vec<ImportedLife> {
        let own = lives.iter().filter(|life| life.service_id == id);
        own.map(|life| ImportedLife {
            started_wall_us: life.started_wall_us,
            start: life.start,
            contamination: life.contamination.clone(),
            samples: samples.remove(&life.id).unwrap_or_default(),
        })
        .collect()
    };
    let services = rows.iter().map(|row| ImportedService {
        service: NewService {
            name: row.name.clone(),
            arm: arm(row.arm_id),
            block: row.block,
            position: row.position,
            attributes: row.attributes.clone().unwrap_or_default(),
        },
        also_in: row.also_in.iter().map(|id| arm(*id)).collect(),
        lives: of_service(row.id),
    });
    let events = store.events(trial.id).unwrap().into_iter().map(|event| ImportedEvent {
        wall_us: event.wall_us,
        service: event.service_id.map(|id| rows.iter().position(|row| row.id == id).unwrap()),
        arm: event.arm_id.map(arm),
        kind: event.kind,
        text: event.text,
    });
    ImportedTrial {
        plan: trial.plan,
        lists: arms.iter().map(|record| record.source.clone().unwrap_or_default()).collect(),
        services: services.collect(),
        events: events.collect(),
        sources: store.import_sources(trial.id).unwrap(),
    }
}

/// The samples of a trial by life.
fn samples(store: &Store, trial_id: i64) -> HashMap<i64, Vec<ImportedSample>> {
    let mut samples: HashMap<i64, Vec<ImportedSample>> = HashMap::new();
    let lives = store.lives(trial_id).unwrap();
    let started: HashMap<i64, i64> = lives.iter().map(|life| (life.id, life.started_wall_us)).collect();
    let mut columns: Vec<String> = Vec::new();
    let each = |row: &[String]| {
        if columns.is_empty() {
            columns = row.to_vec();
            return Ok(());
        }
        let text = |column: &str| &row[columns.iter().position(|own| own == column).unwrap()];
        let bytes = |column: &str| text(column).parse().ok();
        let life: i64 = text("life").parse().unwrap();
        samples.entry(life).or_default().push(ImportedSample {
            wall_us: started[&life] + (text("age_seconds").parse::<f64>().unwrap() * 1e6).round() as i64,
            rss_bytes: bytes("rss_bytes").unwrap_or(0),
            vsize_bytes: bytes("vsize_bytes"),
            hwm_bytes: bytes("hwm_bytes"),
            anon_bytes: bytes("anon_bytes"),
            swap_bytes: bytes("swap_bytes"),
            cgroup_current_bytes: bytes("cgroup_current_bytes"),
            highest_bytes: None,
        });
        Ok::<(), StoreError>(())
    };
    store.each_sample(trial_id, each).unwrap();
    samples
}
