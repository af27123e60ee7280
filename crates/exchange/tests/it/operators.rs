//! Files as operators write them, where what matters is not in the measurements themselves.

use crate::support;

use heaptrial_exchange::{CsvImport, ImportSummary, ProblemKind, import_csv};
use heaptrial_model::LifeStart;
use heaptrial_store::{ImportedTrial, Store};
use support::Fleet;
use support::stored;

const FINGERPRINT: &str = "A1B2C3D4E5F67890A1B2C3D4E5F67890A1B2C3D4";
const HOUR_US: i64 = 3_600_000_000;

fn read(store: &Store, name: &str) -> ImportedTrial {
    stored::read(store, name)
}

/// Hourly readings of relays `one` and `two` without VmHWM and VmSize: `one` falls to 6 MB from the sixth hour on.
fn without_peaks(groups: [&str; 2]) -> String {
    let mut text = "timestamp,nickname,group,rss_kb\n".to_owned();
    for hour in 1..12 {
        let (rss, group) = if hour < 6 { (10_000, groups[0]) } else { (6_000, groups[1]) };
        text += &format!("2026-03-01T{hour:02}:00:00Z,one,{group},{rss}\n");
        text += &format!("2026-03-01T{hour:02}:00:00Z,two,{},{}\n", groups[0], 10_000 + 10 * hour);
    }
    text
}

fn request(fleet: &Fleet, text: &str) -> CsvImport {
    support::memory_only(&fleet.write("m.csv", text))
}

fn noted(summary: &ImportSummary, part: &str) -> bool {
    summary.notes.iter().any(|note| note.contains(part))
}

#[test]
fn a_service_that_changes_its_group_began_anew() {
    let fleet = Fleet::new(1);
    let mut store = fleet.store();
    import_csv(&mut store, &request(&fleet, &without_peaks(["glibc", "jemalloc"]))).unwrap();
    let lives = &read(&store, "m").services[0].lives;
    assert_eq!(lives.len(), 2);
    // Between 05:00 and 06:00.
    assert_eq!(lives[1].samples[0].wall_us - lives[1].started_wall_us, HOUR_US / 2);
    assert_eq!(lives[1].start, LifeStart::Inferred { uncertainty_us: HOUR_US / 2 });
}

#[test]
fn a_control_that_nothing_names_is_the_first_arm_and_can_be_chosen() {
    let fleet = Fleet::new(1);
    let control = |summary: &ImportSummary| {
        summary.arms.iter().find(|arm| arm.control).map(|arm| arm.name.clone()).unwrap()
    };
    let mut store = fleet.store();
    let first = request(&fleet, &without_peaks(["before", "after"]));
    let summary = import_csv(&mut store, &first).unwrap();
    assert_eq!(control(&summary), "after");
    assert!(noted(&summary, "after, the first, is taken for it"), "{:?}", summary.notes);
    let chosen = CsvImport { control: Some("before".into()), ..first.clone() };
    let summary = import_csv(&mut store, &chosen).unwrap();
    assert!(control(&summary) == "before" && !noted(&summary, "is taken for it"), "{:?}", summary.notes);
}

#[test]
fn a_relay_that_was_renamed_is_one_service() {
    let fleet = Fleet::new(1);
    // Restarted at the new name; a relay without a fingerprint beside it.
    let rows: String = (1..12)
        .map(|hour| {
            let (name, peak) = if hour < 6 { ("one", 20_000) } else { ("uno", 10_000) };
            let time = format!("2026-03-01T{hour:02}:00:00Z");
            format!("{time},{name},{FINGERPRINT},10000,{peak}\n{time},two,,9000,9000\n")
        })
        .collect();
    let mut request = request(&fleet, &format!("timestamp,nickname,fingerprint,rss_kb,hwm_kb\n{rows}"));
    // Without lists, and with lists that have the old name, the new one, or both.
    for names in ["", "one", "uno", "one\nuno"] {
        if !names.is_empty() {
            request.groups = vec![fleet.write("glibc.txt", names), fleet.write("jemalloc.txt", "two")];
        }
        let mut store = fleet.store();
        let summary = import_csv(&mut store, &request).unwrap();
        let told = "services that were renamed, each counted once by its fingerprint: 1 (one = uno)";
        assert!(noted(&summary, told), "{:?}", summary.notes);
        let services = read(&store, "m").services;
        let lives: Vec<(&str, usize)> =
            services.iter().map(|service| (service.service.name.as_str(), service.lives.len())).collect();
        assert_eq!(lives, [("uno", 2), ("two", 1)], "{names}");
    }
}

#[test]
fn readings_of_one_fingerprint_at_one_time_that_differ_are_a_conflict() {
    let fleet = Fleet::new(1);
    let mut text = "timestamp,nickname,fingerprint,rss_kb,hwm_kb\n".to_owned();
    for hour in 1..12 {
        for (name, rss) in [("one", 10_000), ("uno", 11_000)] {
            text += &format!("2026-03-01T{hour:02}:00:00Z,{name},{FINGERPRINT},{rss},{rss}\n");
        }
    }
    let summary = import_csv(&mut fleet.store(), &request(&fleet, &text)).unwrap();
    assert_eq!((summary.services, summary.samples), (1, 11));
    assert_eq!(summary.problems.count(ProblemKind::ConflictingReading), 11);
}

#[test]
fn where_nothing_could_be_read_the_first_row_tells_why() {
    let fleet = Fleet::new(1);
    let text = "timestamp,nickname,rss_kb\nsoon,one,1000\nlater,one,1000\n";
    let error = import_csv(&mut fleet.store(), &request(&fleet, text)).unwrap_err().to_string();
    assert!(error.contains("2 rows were excluded; the first: ") && error.contains("`soon`"), "{error}");
    let ahead = CsvImport {
        now_wall_us: Some(0),
        ..request(&fleet, "timestamp,nickname,rss_kb\n2026-03-01T01:00:00Z,one,1000\n")
    };
    let error = import_csv(&mut fleet.store(), &ahead).unwrap_err().to_string();
    assert!(
        error.contains("1 rows were excluded; the first: ") && error.contains("a time to come"),
        "{error}"
    );
}
