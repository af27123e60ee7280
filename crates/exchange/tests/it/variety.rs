//! What is stored of many generated imports, compared with a plain reader of the same files.

use crate::support::naive;
use crate::support::stored;
use crate::support::variety;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use heaptrial_exchange::{CsvImport, ImportError, ProblemKind, import_csv};
use heaptrial_store::Store;
use naive::{Naive, Zone};
use variety::{Lists, Written};

/// Seeds that are tried; `VARIETY_SEEDS` tries others.
const SEEDS: u64 = 150;

fn request(written: &Written, folder: &Path) -> CsvImport {
    let put = |name: String, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let memory = written.memory.iter().enumerate().map(|(number, text)| put(format!("m{number}.csv"), text));
    let lists = written.lists.iter().filter(|_| written.lists_from == Lists::Files);
    let zone = match written.zone {
        Zone::LosAngeles => "America/Los_Angeles".to_owned(),
        Zone::Fixed(offset) => {
            let minutes = offset.abs() / 60;
            format!("{}{:02}:{:02}", if offset < 0 { '-' } else { '+' }, minutes / 60, minutes % 60)
        }
    };
    CsvImport {
        memory: memory.collect(),
        groups: lists.map(|(name, members)| put(format!("{name}.txt"), &members.join("\n"))).collect(),
        timezone: Some(zone.parse().unwrap()),
        name: Some("t".into()),
        ..CsvImport::default()
    }
}

/// Of each service: readings, lives, sum and median of RSS, first and last time.
type Figures = BTreeMap<String, (usize, usize, u64, u64, i64, i64)>;

fn expected(naive: &Naive) -> Figures {
    let figures = naive.services.iter().map(|(name, readings)| {
        let rss: Vec<u64> = readings.values().map(|reading| reading.0).collect();
        let (first, last) = (readings.keys().next().unwrap(), readings.keys().last().unwrap());
        let sum = rss.iter().sum();
        (name.clone(), (rss.len(), naive::lives(readings), sum, naive::median(rss), *first, *last))
    });
    figures.collect()
}

fn stored(store: &Store) -> Figures {
    let trial = stored::read(store, "t");
    let figures = trial.services.iter().filter(|service| !service.lives.is_empty()).map(|service| {
        let samples: Vec<_> = service.lives.iter().flat_map(|life| &life.samples).collect();
        let rss: Vec<u64> = samples.iter().map(|sample| sample.rss_bytes).collect();
        let times = || samples.iter().map(|sample| sample.wall_us / 1_000_000);
        let sum = rss.iter().sum();
        let (first, last) = (times().min().unwrap(), times().max().unwrap());
        (service.name.clone(), (rss.len(), service.lives.len(), sum, naive::median(rss), first, last))
    });
    figures.collect()
}

fn arms_of(store: &Store) -> BTreeMap<String, BTreeSet<String>> {
    let trial = stored::read(store, "t");
    let name = |index: &usize| trial.services[*index].name.clone();
    trial.lists.iter().map(|list| (list.arm.name.clone(), list.members.iter().map(name).collect())).collect()
}

/// Who should be in which arm.
fn expected_arms(written: &Written, naive: &Naive) -> BTreeMap<String, BTreeSet<String>> {
    let names = || naive.services.keys().cloned();
    let mut arms: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    match written.lists_from {
        Lists::Nothing => drop(arms.insert("all".to_owned(), names().collect())),
        Lists::Column => {
            for (name, group) in &naive.groups {
                arms.entry(group.clone()).or_default().insert(name.clone());
            }
        }
        Lists::Files => {
            for (list, members) in &written.lists {
                let arm = arms.entry(list.clone()).or_default();
                for member in members {
                    let of = |name: &String| name == member || name.starts_with(&format!("{member}@"));
                    let mut measured = names().filter(of).peekable();
                    // A member that was never read is a service without readings.
                    match measured.peek() {
                        Some(_) => arm.extend(measured),
                        None => drop(arm.insert(member.clone())),
                    }
                }
            }
        }
    }
    arms
}

fn compare(seed: u64) -> (usize, u64) {
    let written = variety::write(seed);
    let naive = naive::read(&written.memory, written.zone, &written.renamed);
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("heaptrial.db")).unwrap();
    let request = request(&written, folder.path());
    let summary = match import_csv(&mut store, &request) {
        Ok(summary) => summary,
        Err(ImportError::NoMeasurement { .. }) if naive.services.is_empty() => return (0, 0),
        Err(error) => panic!("seed {seed}: {error}\n{}", written.memory[0]),
    };
    let context = || format!("seed {seed}: {:?}\n{}", summary.problems, written.memory.join("\n"));
    assert_eq!(stored(&store), expected(&naive), "{}", context());
    assert_eq!(arms_of(&store), expected_arms(&written, &naive), "{}", context());
    assert_eq!(
        (
            summary.problems.count(ProblemKind::MalformedRow),
            summary.problems.count(ProblemKind::ConflictingReading),
            summary.duplicate_samples,
        ),
        (naive.malformed, naive.conflicts, naive.duplicates),
        "{}",
        context()
    );
    let again = import_csv(&mut store, &request).unwrap();
    assert_eq!((again.replaced, again.samples), (true, summary.samples), "{}", context());
    assert_eq!(stored(&store), expected(&naive), "{}", context());
    (naive.services.len(), naive.services.values().map(|readings| readings.len() as u64).sum())
}

#[test]
fn what_is_stored_is_what_a_plain_reader_finds() {
    let seeds = std::env::var("VARIETY_SEEDS").ok().and_then(|count| count.parse().ok());
    let found: Vec<(usize, u64)> = (0..seeds.unwrap_or(SEEDS)).map(compare).collect();
    // The generator makes what it should: fleets of one and of many, and readings to compare.
    assert!(
        found.iter().any(|(services, _)| *services == 1) && found.iter().any(|(services, _)| *services > 20)
    );
    assert!(found.iter().map(|(_, readings)| readings).sum::<u64>() > 10_000);
}
