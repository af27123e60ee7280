//! A trial as it is stored, read row by row.

use heaptrial_store::{
    ImportedEvent, ImportedLife, ImportedList, ImportedSample, ImportedService, ImportedTrial, LifeRecord,
    SAMPLE_COLUMNS, Store, StoreError,
};

pub fn read(store: &Store, name: &str) -> ImportedTrial {
    let trials = store.trials().unwrap();
    let trial = trials.into_iter().find(|trial| trial.plan.name == name).unwrap();
    let (arms, rows) = (store.arms(trial.id).unwrap(), store.services(trial.id).unwrap());
    let lists = arms.iter().map(|record| {
        let is_member =
            |index: &usize| rows[*index].arm_id == record.id || rows[*index].also_in.contains(&record.id);
        ImportedList {
            arm: record.arm.clone(),
            members: (0..rows.len()).filter(is_member).collect(),
            source: record.source.clone().unwrap_or_default(),
        }
    });
    let services = rows.iter().map(|row| ImportedService {
        name: row.name.clone(),
        block: row.block,
        attributes: row.attributes.clone().unwrap_or_default(),
        lives: store.lives_of(row.id).unwrap().iter().map(|life| self::life(store, life)).collect(),
    });
    let events = store.events(trial.id).unwrap().into_iter().map(|event| ImportedEvent {
        wall_us: event.wall_us,
        service: event.service_id.map(|id| rows.iter().position(|row| row.id == id).unwrap()),
        arm: event.arm_id.map(|id| arms.iter().position(|arm| arm.id == id).unwrap()),
        kind: event.kind,
        text: event.text,
    });
    ImportedTrial {
        plan: trial.plan,
        lists: lists.collect(),
        services: services.collect(),
        events: events.collect(),
        sources: store.import_sources(trial.id).unwrap(),
    }
}

fn life(store: &Store, life: &LifeRecord) -> ImportedLife {
    let mut samples = Vec::new();
    let each = |sample: &heaptrial_store::StoredSample| {
        let bytes = |column: &str| {
            let place = SAMPLE_COLUMNS.iter().position(|own| *own == column).unwrap();
            sample.values[place].map(|bytes| bytes as u64)
        };
        samples.push(ImportedSample {
            wall_us: sample.wall_us,
            rss_bytes: bytes("rss_bytes").unwrap(),
            vsize_bytes: bytes("vsize_bytes"),
            hwm_bytes: bytes("hwm_bytes"),
            anon_bytes: bytes("anon_bytes"),
            swap_bytes: bytes("swap_bytes"),
            cgroup_current_bytes: bytes("cgroup_current_bytes"),
            highest_bytes: None,
        });
        Ok::<(), StoreError>(())
    };
    store.each_sample_of_life(life, each).unwrap();
    ImportedLife {
        started_wall_us: life.started_wall_us,
        start: life.start,
        contamination: life.contamination.clone(),
        samples,
    }
}
