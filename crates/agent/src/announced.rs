//! Restarts that Heaptrial made itself, by the journals of its transactions on this host.

use std::collections::HashMap;
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use heaptrial_model::ServiceName;
use serde::Deserialize;

const JOURNAL: &str = "journal.jsonl";

/// A record of a transaction's journal, as far as it is about restarts.
#[derive(Debug, Deserialize)]
struct Record {
    wall_us: i64,
    what: String,
    service: Option<ServiceName>,
    stage: Option<String>,
}

/// The times in which transactions were at work on services, in microseconds since 1970; [`i64::MAX`] ends one that is under way.
#[derive(Debug, Default)]
pub(crate) struct Announced(HashMap<ServiceName, Vec<RangeInclusive<i64>>>);

impl Announced {
    /// Of all transactions in a folder. What cannot be read announces nothing: its restarts count as somebody else's.
    pub(crate) fn read(folder: &Path) -> Self {
        let mut announced = Self::default();
        for trial in fs::read_dir(folder).into_iter().flatten().flatten() {
            let text = fs::read_to_string(trial.path().join(JOURNAL)).unwrap_or_default();
            announced.add(&text);
        }
        announced
    }

    fn add(&mut self, journal: &str) {
        let mut opened_us = i64::MIN;
        let mut open: HashMap<ServiceName, i64> = HashMap::new();
        for record in journal.lines().filter_map(|line| serde_json::from_str::<Record>(line).ok()) {
            match (record.what.as_str(), record.stage.as_deref(), record.service) {
                ("opened", _, _) => opened_us = record.wall_us,
                ("ended", Some("stopped" | "reverted"), _) => open.clear(),
                ("committed" | "dropped", _, Some(service))
                | ("revert", Some("reverted" | "revert_failed"), Some(service)) => {
                    let from_us = open.remove(&service).unwrap_or(opened_us);
                    self.0.entry(service).or_default().push(from_us..=record.wall_us);
                }
                (_, _, Some(service)) => _ = open.entry(service).or_insert(opened_us),
                (_, _, None) => {}
            }
        }
        for (service, from_us) in open {
            self.0.entry(service).or_default().push(from_us..=i64::MAX);
        }
    }

    /// Whether a transaction was at work on the service at this time.
    pub(crate) fn has(&self, service: &ServiceName, wall_us: i64) -> bool {
        self.0.get(service).into_iter().flatten().any(|times| times.contains(&wall_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOURNAL: &str = r#"{"wall_us":100,"what":"opened","action":"start"}
{"wall_us":110,"what":"intent","service":"a.service","arm":"x","changes":[],"life":null}
{"wall_us":150,"what":"committed","service":"a.service","life":{"boot_id":"b","pid":7,"start_ticks":5},"identity":null}
{"wall_us":160,"what":"intent","service":"b.service","arm":"x","changes":[],"life":null}
{"wall_us":300,"what":"opened","action":"revert"}
{"wall_us":350,"what":"revert","service":"a.service","stage":"reverted","why":null}
{"wall_us":360,"what":"intent","serv"#;

    #[test]
    fn restarts_belong_to_the_transaction_that_was_at_work() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("five-way")).unwrap();
        fs::write(folder.path().join("five-way/journal.jsonl"), JOURNAL).unwrap();
        let announced = Announced::read(folder.path());
        let [a, b, c] = ["a.service", "b.service", "c.service"].map(|name| name.parse().unwrap());
        for (at, of_a, of_b) in
            [(90, false, false), (130, true, true), (200, false, true), (320, true, true), (400, false, true)]
        {
            assert_eq!([&a, &b, &c].map(|name| announced.has(name, at)), [of_a, of_b, false], "at {at}");
        }
    }
}
