//! The label of a server changes in the middle of a trial, and its services stay what they are.

use std::fmt::Write as _;

use crate::support::stored;
use heaptrial_exchange::{CsvImport, ImportSummary, import_csv};
use heaptrial_store::{ImportedTrial, Store};

/// One reading.
#[derive(Debug, Clone)]
struct Row {
    hour: i64,
    server: &'static str,
    fingerprint: String,
    nickname: String,
    group: &'static str,
    rss_kb: u64,
    hwm_kb: u64,
}

fn row(hour: i64, server: &'static str, nickname: &str, rss_kb: u64) -> Row {
    let (fingerprint, nickname) = (String::new(), nickname.to_owned());
    Row { hour, server, fingerprint, nickname, group: "A", rss_kb, hwm_kb: rss_kb }
}

/// A day of a server: relays `r0`, `r1`, ... whose memory grows by the hour.
fn day(hour: i64, server: &'static str, relays: u64) -> Vec<Row> {
    let grown = |relay: u64| 1_000_000 + 1_000 * relay + hour as u64;
    (0..relays).map(|relay| row(hour, server, &format!("r{relay}"), grown(relay))).collect()
}

fn days(hours: impl IntoIterator<Item = i64>, server: &'static str, relays: u64) -> Vec<Row> {
    hours.into_iter().flat_map(|hour| day(hour, server, relays)).collect()
}

fn csv(rows: &[Row]) -> String {
    let mut text = "timestamp,server,type,fingerprint,nickname,group,rss_kb,hwm_kb\n".to_owned();
    for row in rows {
        let time = jiff::Timestamp::from_second(1_767_225_600 + row.hour * 3600).unwrap();
        let Row { server, fingerprint, nickname, group, rss_kb, hwm_kb, .. } = row;
        writeln!(text, "{time},{server},relay,{fingerprint},{nickname},{group},{rss_kb},{hwm_kb}").unwrap();
    }
    text
}

/// What is stored of these rows, and what was said of them.
fn import(rows: &[Row]) -> (ImportedTrial, ImportSummary) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.csv");
    std::fs::write(&path, csv(rows)).unwrap();
    let mut store = Store::create(&folder.path().join("heaptrial.db")).unwrap();
    let request = CsvImport { memory: vec![path], ..CsvImport::default() };
    let summary = import_csv(&mut store, &request).unwrap();
    (stored::read(&store, "memory"), summary)
}

fn names(trial: &ImportedTrial) -> Vec<&str> {
    trial.services.iter().map(|service| service.service.name.as_str()).collect()
}

const BEFORE: [i64; 5] = [0, 24, 48, 72, 96];
const AFTER: [i64; 4] = [120, 144, 168, 192];

fn relabelled(relays: u64) -> Vec<Row> {
    [days(BEFORE, "go", relays), days(AFTER, "alpha", relays)].concat()
}

/// The same rows with a fingerprint for each nickname.
fn with_fingerprints(mut rows: Vec<Row>, of: char) -> Vec<Row> {
    for row in &mut rows {
        row.fingerprint = format!("{of}{:039}", row.nickname[1..].parse::<u64>().unwrap());
    }
    rows
}

#[test]
fn a_label_that_changes_in_the_middle_of_a_trial_leaves_100_services() {
    for rows in [relabelled(100), with_fingerprints(relabelled(100), 'A')] {
        let (trial, summary) = import(&rows);
        assert_eq!((summary.services, summary.samples, summary.lives_unknown), (100, 900, 100));
        assert_eq!((summary.duplicate_samples, summary.problems.counts.len()), (0, 0));
        for (number, service) in trial.services.iter().enumerate() {
            assert_eq!(service.service.name, format!("r{number}"));
            assert_eq!((service.lives.len(), service.lives[0].samples.len()), (1, 9), "{number}");
            assert_eq!(service.service.attributes["server"], "alpha");
        }
        let told =
            "services whose server was read under one label after another, each counted once: 100 (r0, r1";
        assert!(summary.notes.iter().any(|note| note.starts_with(told)), "{:?}", summary.notes);
    }
}

#[test]
fn two_servers_with_the_same_nicknames_at_the_same_time_are_two_services_each() {
    let both = [days(BEFORE, "go", 2), days(BEFORE, "co", 2)].concat();
    let in_turn = [days(BEFORE, "go", 2), days(BEFORE.map(|hour| hour + 12), "co", 2)].concat();
    let with_own =
        [with_fingerprints(days(BEFORE, "go", 2), 'A'), with_fingerprints(days(BEFORE, "co", 2), 'B')];
    for rows in [both, in_turn, with_own.concat()] {
        let (trial, summary) = import(&rows);
        assert_eq!((summary.services, summary.samples), (4, 20));
        let mut names = names(&trial);
        names.sort();
        assert_eq!(names, ["r0@co", "r0@go", "r1@co", "r1@go"]);
        let told = "nicknames of several services, which are named NICKNAME@SERVER: 2 (r0, r1)";
        assert!(summary.notes.iter().any(|note| note == told), "{:?}", summary.notes);
    }
}

#[test]
fn a_server_that_is_renamed_beside_another_with_the_same_nicknames_goes_on() {
    let all = [BEFORE.as_slice(), &AFTER].concat();
    let (trial, summary) = import(&[relabelled(1), days(all, "co", 1)].concat());
    assert_eq!((names(&trial), summary.samples), (vec!["r0@alpha", "r0@co"], 18));
    // Of two that are renamed at once, either could be either.
    let two = [relabelled(1), days(BEFORE, "co", 1), days(AFTER, "beta", 1)].concat();
    assert_eq!(names(&import(&two).0), ["r0@go", "r0@alpha", "r0@co", "r0@beta"]);
}

#[test]
fn another_fingerprint_is_another_service_whatever_the_times() {
    let rows =
        [with_fingerprints(days(BEFORE, "go", 1), 'A'), with_fingerprints(days(AFTER, "alpha", 1), 'B')];
    let (trial, _) = import(&rows.concat());
    assert_eq!(names(&trial), ["r0@go", "r0@alpha"]);
}

#[test]
fn readings_without_a_server_are_of_the_server_that_other_rows_name() {
    let (trial, summary) =
        import(&[days(BEFORE, "", 2), days(BEFORE, "go", 2), days(AFTER, "go", 2)].concat());
    assert_eq!((names(&trial), summary.samples, summary.duplicate_samples), (vec!["r0", "r1"], 18, 10));
}
