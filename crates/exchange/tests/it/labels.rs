//! The label of a server changes in the middle of a trial, and its services stay what they are.

use std::fmt::Write as _;

use heaptrial_exchange::{ImportSummary, TorUtilsImport, import_torutils};
use heaptrial_model::LifeStart;
use heaptrial_store::{ImportedService, ImportedTrial, Store};
use proptest::prelude::*;

const HOUR_US: i64 = 3_600_000_000;

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

struct Import {
    dir: tempfile::TempDir,
    store: Store,
}

impl Import {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create(&dir.path().join("heaptrial.db")).unwrap();
        Self { dir, store }
    }

    fn request(&self, rows: &[Row]) -> TorUtilsImport {
        let path = self.dir.path().join("memory.csv");
        std::fs::write(&path, csv(rows)).unwrap();
        TorUtilsImport { memory: vec![path], ..TorUtilsImport::default() }
    }

    fn add(&mut self, rows: &[Row]) -> ImportSummary {
        let request = self.request(rows);
        import_torutils(&mut self.store, &request).unwrap()
    }

    fn trial(&self) -> ImportedTrial {
        self.store.read_imported("memory", heaptrial_model::TrialKind::ImportTorutils).unwrap().unwrap().1
    }

    fn services(&self) -> Vec<String> {
        self.trial().services.iter().map(|service| service.name.clone()).collect()
    }

    fn events(&self, kind: &str) -> Vec<String> {
        let events = self.trial().events;
        events.into_iter().filter(|event| event.kind.as_str() == kind).map(|event| event.text).collect()
    }
}

fn once(rows: &[Row]) -> (Import, ImportSummary) {
    let mut import = Import::new();
    let summary = import.add(rows);
    (import, summary)
}

fn readings(service: &ImportedService) -> usize {
    service.lives.iter().map(|life| life.samples.len()).sum()
}

const BEFORE: [i64; 5] = [0, 24, 48, 72, 96];
const AFTER: [i64; 4] = [120, 144, 168, 192];

fn renamed(relays: u64) -> Vec<Row> {
    [days(BEFORE, "go", relays), days(AFTER, "alpha", relays)].concat()
}

#[test]
fn a_label_that_changes_leaves_one_service_with_one_life() {
    let (import, summary) = once(&renamed(3));
    assert_eq!((summary.services, summary.new_samples, summary.lives_unknown), (3, 27, 3));
    assert_eq!(import.services(), ["r0", "r1", "r2"]);
    let trial = import.trial();
    for service in &trial.services {
        assert_eq!((service.lives.len(), readings(service)), (1, 9), "{}", service.name);
        assert_eq!(service.attributes["server"], "alpha");
        assert_eq!(service.attributes["labels"][0]["server"], "go");
        let change = service.attributes["labels"][1]["first_us"].as_i64().unwrap();
        assert_eq!(change, service.lives[0].samples[5].wall_us);
    }
    let [told] = &summary.relabelled[..] else { panic!("{:?}", summary.relabelled) };
    assert_eq!((told.from.as_str(), told.to.as_str(), told.known_by), ("go", "alpha", "list"));
    assert_eq!((told.services.len(), told.went_on), (3, 3));
    assert_eq!(told.first_after_us - told.last_before_us, 24 * HOUR_US);
    assert_eq!(
        import.events("relabelled"),
        [
            "server `go` became `alpha` on 2026-01-06 00:00 UTC, 1 d after its last reading: 3 services the same by \
          nickname and list, no restart shows (r0, r1, r2)"
        ]
    );
}

#[test]
fn labels_are_kept_apart_where_it_is_asked_for_and_stay_so() {
    let mut import = Import::new();
    let mut request = import.request(&renamed(2));
    request.keep_apart = true;
    let summary = import_torutils(&mut import.store, &request).unwrap();
    assert_eq!((summary.services, summary.relabelled.len()), (4, 0));
    assert_eq!(import.services(), ["r0@go", "r1@go", "r0@alpha", "r1@alpha"]);
    request.keep_apart = false;
    assert_eq!(import_torutils(&mut import.store, &request).unwrap().services, 4);

    // What was joined is cut again, without a reading lost.
    let (mut import, _) = once(&renamed(2));
    let mut request = import.request(&[]);
    std::fs::write(&request.memory[0], csv(&days([216], "alpha", 2))).unwrap();
    request.keep_apart = true;
    let summary = import_torutils(&mut import.store, &request).unwrap();
    assert_eq!((summary.services, summary.new_samples, summary.duplicate_samples), (4, 2, 0));
    let found: Vec<usize> = import.trial().services.iter().map(readings).collect();
    assert_eq!(found, [5, 5, 5, 5]);
}

#[test]
fn parts_are_joined_with_what_is_stored_and_nothing_comes_twice() {
    for (first, second) in [
        (days(BEFORE, "go", 3), days(AFTER, "alpha", 3)),
        (days(AFTER, "alpha", 3), days(BEFORE, "go", 3)),
        (renamed(3), days(AFTER, "alpha", 3)),
        (renamed(3), days(BEFORE, "go", 3)),
    ] {
        let mut import = Import::new();
        import.add(&first);
        let summary = import.add(&second);
        assert_eq!((summary.services, summary.relabelled.len()), (3, 1));
        assert_eq!(import.services(), ["r0", "r1", "r2"]);
        assert_eq!(import.trial().services.iter().map(readings).sum::<usize>(), 27);
        assert_eq!(import.events("relabelled").len(), 1);
        for part in [&first, &second, &renamed(3)] {
            assert_eq!(import.add(part).new_samples, 0);
        }
        assert_eq!(import.services(), ["r0", "r1", "r2"]);
    }
}

#[test]
fn a_part_of_the_services_leaves_the_others() {
    // Neither their readings nor their groups are in the second file.
    let mut import = Import::new();
    import.add(&days(BEFORE, "go", 3));
    let summary = import.add(&days(AFTER, "alpha", 1));
    assert_eq!((summary.services, summary.new_samples, summary.ungrouped_services), (3, 4, 0));
    let found: Vec<usize> = import.trial().services.iter().map(readings).collect();
    assert_eq!(found, [9, 5, 5]);
    let without_groups =
        |rows: Vec<Row>| -> Vec<Row> { rows.into_iter().map(|row| Row { group: "", ..row }).collect() };
    let mut import = Import::new();
    import.add(&without_groups(days(BEFORE, "go", 3)));
    let summary = import.add(&without_groups(days(AFTER, "alpha", 1)));
    assert_eq!((summary.services, summary.arms[0].services), (3, 3));
}

#[test]
fn two_servers_with_the_same_nicknames_are_two_services_each() {
    let hours: Vec<i64> = (0..8).map(|day| day * 24).collect();
    let both = [days(hours.clone(), "go", 2), days(hours.clone(), "co", 2)].concat();
    let (import, summary) = once(&both);
    assert_eq!((summary.services, summary.relabelled.len(), summary.kept_apart.len()), (4, 0, 0));
    assert_eq!(import.services(), ["r0@go", "r1@go", "r0@co", "r1@co"]);
    // In parts, so that the first import knows of one only.
    let mut import = Import::new();
    import.add(&days(hours.clone(), "go", 2));
    assert_eq!(import.services(), ["r0", "r1"]);
    let summary = import.add(&days(hours, "co", 2));
    assert_eq!((summary.services, summary.new_samples), (4, 16));
    assert_eq!(import.services(), ["r0@go", "r1@go", "r0@co", "r1@co"]);
    // One of them is renamed while the other stays.
    let moved =
        [days(BEFORE, "go", 2), days(AFTER, "alpha", 2), days([BEFORE.as_slice(), &AFTER].concat(), "co", 2)];
    let (import, summary) = once(&moved.concat());
    assert_eq!((summary.services, summary.relabelled.len()), (4, 1));
    assert_eq!(import.services(), ["r0@alpha", "r1@alpha", "r0@co", "r1@co"]);
}

#[test]
fn two_servers_renamed_at_once_could_be_either() {
    let rows =
        [days(BEFORE, "a", 2), days(BEFORE, "b", 2), days(AFTER, "c", 2), days(AFTER, "d", 2)].concat();
    let (import, summary) = once(&rows);
    assert_eq!((summary.services, summary.relabelled.len()), (8, 0));
    assert_eq!((summary.kept_apart.len(), summary.kept_apart[0].why), (1, "ambiguous"));
    assert!(
        import.events("kept_apart")[0].starts_with(
            "2 nicknames under the labels `a` and `b` and `c` and `d` count apart and may be the same: each could be"
        ),
        "{:?}",
        import.events("kept_apart")
    );
}

#[test]
fn labels_that_overlap_by_one_reading_are_two_services_and_told() {
    let rows = [days([0, 24, 48, 72, 96], "go", 2), days([96, 120, 144, 168], "alpha", 2)].concat();
    let (import, summary) = once(&rows);
    assert_eq!((summary.services, summary.relabelled.len()), (4, 0));
    assert_eq!((summary.kept_apart[0].why, summary.kept_apart[0].nicknames.len()), ("overlap", 2));
    assert!(
        summary.notes.iter().any(|note| note.contains("both were read in the same time")),
        "{:?}",
        summary.notes
    );
    assert_eq!(import.events("kept_apart").len(), 1);
}

#[test]
fn there_and_back_three_labels_and_a_gap() {
    let back = [days([0, 24, 48], "go", 2), days([72, 96, 120], "alpha", 2), days([144, 168, 192], "go", 2)];
    let (import, summary) = once(&back.concat());
    assert_eq!((summary.services, summary.relabelled.len()), (2, 2));
    let labels = import.trial().services[0].attributes["labels"].as_array().unwrap().len();
    assert_eq!(labels, 3);
    let three = [days([0, 24, 48], "a", 2), days([72, 96], "b", 2), days([120, 144], "c", 2)];
    let (_, summary) = once(&three.concat());
    assert_eq!((summary.services, summary.relabelled.len()), (2, 2));
    let gap = [days([0, 24, 48], "a", 2), days([24 * 40, 24 * 41], "b", 2)];
    let (import, summary) = once(&gap.concat());
    assert_eq!(summary.services, 2);
    assert!(
        import.events("relabelled")[0].contains("38 d after its last reading"),
        "{:?}",
        import.events("relabelled")
    );
}

#[test]
fn spellings_of_one_server_are_one_server() {
    for other in ["GO", "go.example.org", "go."] {
        let in_turn: Vec<Row> =
            (0..8).flat_map(|hour| day(hour, if hour % 2 == 0 { "go" } else { other }, 2)).collect();
        let (import, summary) = once(&in_turn);
        assert_eq!((summary.services, summary.relabelled[0].known_by), (2, "spelling"), "{other}");
        assert_eq!(import.add_again(&in_turn), 0);
    }
    // Written by two scripts at the same moments.
    let twice = [days(BEFORE, "go", 2), days(BEFORE, "go.example.org", 2)].concat();
    let (_, summary) = once(&twice);
    assert_eq!((summary.services, summary.new_samples, summary.duplicate_samples), (2, 10, 10));
}

impl Import {
    fn add_again(mut self, rows: &[Row]) -> u64 {
        self.add(rows).new_samples
    }
}

#[test]
fn fingerprints_decide_before_times_and_groups() {
    let with = |rows: Vec<Row>, fingerprint: char| -> Vec<Row> {
        rows.into_iter().map(|row| Row { fingerprint: fingerprint.to_string().repeat(40), ..row }).collect()
    };
    let other = [with(days(BEFORE, "go", 1), 'A'), with(days(AFTER, "alpha", 1), 'B')].concat();
    let (_, summary) = once(&other);
    assert_eq!((summary.services, summary.relabelled.len(), summary.kept_apart.len()), (2, 0, 0));
    let mut same = [with(days(BEFORE, "go", 1), 'A'), with(days(AFTER, "alpha", 1), 'A')].concat();
    let (_, summary) = once(&same);
    assert_eq!((summary.services, summary.relabelled[0].known_by), (1, "fingerprint"));
    same.iter_mut().filter(|row| row.server == "alpha").for_each(|row| row.group = "B");
    let (import, summary) = once(&same);
    assert_eq!((summary.services, import.events("migration").len()), (1, 1));
    same.iter_mut().for_each(|row| row.fingerprint.clear());
    let (_, summary) = once(&same);
    assert_eq!((summary.services, summary.kept_apart[0].why), (2, "group"));
}

#[test]
fn a_restart_at_the_change_is_a_life_of_its_own() {
    let mut rows = renamed(2);
    for row in rows.iter_mut().filter(|row| row.server == "alpha" && row.nickname == "r1") {
        (row.rss_kb, row.hwm_kb) = (200_000 + row.hour as u64, 200_000 + row.hour as u64);
    }
    let (import, summary) = once(&rows);
    assert_eq!((summary.services, summary.relabelled[0].went_on), (2, 1));
    let lives: Vec<usize> = import.trial().services.iter().map(|service| service.lives.len()).collect();
    assert_eq!(lives, [1, 2]);
    let second = import.trial().services[1].lives[1].clone();
    assert_eq!(second.start, LifeStart::Inferred { uncertainty_us: 12 * HOUR_US });
    assert!(import.events("relabelled")[0].contains("1 restarted"), "{:?}", import.events("relabelled"));
}

#[test]
fn readings_without_a_server_are_of_the_server_told_later() {
    let mut import = Import::new();
    import.add(&days(BEFORE, "", 2));
    let summary = import.add(&[days(BEFORE, "go", 2), days(AFTER, "go", 2)].concat());
    assert_eq!((summary.services, summary.new_samples, summary.duplicate_samples), (2, 8, 10));
    assert_eq!(import.services(), ["r0", "r1"]);
    assert!(import.events("relabelled").is_empty());
}

/// What must be the same however the rows came in.
fn content(import: &Import) -> Vec<String> {
    let trial = import.trial();
    let mut services: Vec<String> = trial
        .services
        .iter()
        .map(|service| {
            let labels = &service.attributes["labels"];
            format!("{} {} {labels} {:?}", service.name, service.attributes["server"], service.lives)
        })
        .collect();
    services.sort();
    let mut told = [import.events("relabelled"), import.events("kept_apart")].concat();
    told.sort();
    [services, told].concat()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn parts_in_any_order_are_the_whole(
        cut in 1i64..11,
        back in 0i64..4,
        (relays, second_server, fingerprints) in (1u64..4, any::<bool>(), any::<bool>()),
        parts in prop::collection::vec(0usize..3, 29),
    ) {
        // `go` for `cut` days, then `alpha`, in some cases `go` again at the end; in some cases `co` all the time.
        let mut rows = Vec::new();
        for number in 0..14 {
            let label = if number < cut || number >= 14 - back { "go" } else { "alpha" };
            rows.extend(day(number * 24, label, relays));
            if second_server {
                rows.extend(day(number * 24, "co", relays).into_iter().map(|row| Row { rss_kb: row.rss_kb + 7, ..row }));
            }
        }
        if fingerprints {
            for row in &mut rows {
                let of = if row.server == "co" { 'C' } else { 'A' };
                row.fingerprint = format!("{of}{}", &row.nickname[1..]).repeat(20);
            }
        }
        let (whole, _) = once(&rows);
        let mut import = Import::new();
        for part in 0..3 {
            let chosen: Vec<Row> = rows
                .iter()
                .zip(parts.iter().cycle())
                .filter(|(_, of)| **of == part)
                .map(|(row, _)| row.clone())
                .collect();
            if !chosen.is_empty() {
                import.add(&chosen);
            }
        }
        for (parts, whole) in content(&import).into_iter().zip(content(&whole)) {
            prop_assert_eq!(parts, whole);
        }
        prop_assert_eq!(content(&import).len(), content(&whole).len());
    }
}
