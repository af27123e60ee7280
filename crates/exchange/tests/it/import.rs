//! Files of the scripts become a trial: arms, lives, events, and nothing twice.

use crate::support;

use heaptrial_exchange::{CsvImport, ProblemKind, import_csv};
use heaptrial_model::{LifeStart, TrialKind};
use heaptrial_store::{ImportedTrial, Store};
use support::stored;
use support::{DAYS, Fleet, HEADER, RESTART_DAY, collection, memory_only};

const DAY_US: i64 = 86_400_000_000;

fn read(store: &Store, name: &str) -> ImportedTrial {
    stored::read(store, name)
}

#[test]
fn a_fleet_becomes_a_trial() {
    let fleet = Fleet::new(DAYS);
    let mut store = fleet.store();
    let summary = import_csv(&mut store, &fleet.request()).unwrap();
    assert_eq!((summary.trial.as_str(), summary.replaced), ("memory", false));
    assert_eq!((summary.services, summary.samples), (12, 12 * DAYS));
    assert_eq!((summary.lives_unknown, summary.lives_inferred), (12, 12));
    assert_eq!(summary.timezone, "-08:00");
    assert!(summary.problems.counts.is_empty(), "{:?}", summary.problems);
    assert!(
        summary.notes.iter().any(|note| note.starts_with("events about groups that are no arms: 1;")),
        "{:?}",
        summary.notes
    );

    let arms: Vec<(&str, bool, Option<&str>)> = summary
        .arms
        .iter()
        .map(|arm| (arm.name.as_str(), arm.control, arm.claimed_allocator.as_deref()))
        .collect();
    assert_eq!(
        arms,
        [
            ("group_A_glibc", true, Some("glibc")),
            ("group_B_mimalloc209", false, Some("mimalloc@2.0.9")),
            ("group_C_jemalloc", false, Some("jemalloc")),
        ]
    );
    let trial = read(&store, "memory");
    assert_eq!(trial.plan.kind, TrialKind::ImportTorutils);
    assert_eq!(trial.plan.host_facts["ram_bytes"], 64_000u64 << 20);
    for service in &trial.services {
        let [first, second] = &service.lives[..] else {
            panic!("{}: {} lives", service.service.name, service.lives.len())
        };
        assert_eq!((first.start, first.samples.len() as u64), (LifeStart::Unknown, RESTART_DAY));
        assert_eq!(first.started_wall_us, first.samples[0].wall_us);
        assert_eq!(second.start, LifeStart::Inferred { uncertainty_us: 60_000_000 });
        // Restarted at 10:00, read at 02:00 of the next day.
        assert_eq!(second.samples[0].wall_us - second.started_wall_us, DAY_US * 2 / 3);
        assert_eq!(service.service.attributes["starts"][1], "event: restart: everything was restarted");
    }
    let roles: Vec<&str> = trial.sources.iter().map(|source| source.role.as_str()).collect();
    assert_eq!(roles, ["memory", "groups", "groups", "groups", "events", "diagnostics"]);
    assert_eq!((trial.sources[0].rows, trial.sources[0].sha256.len()), (13 * DAYS, 64));
}

#[test]
fn an_import_replaces_what_was_imported_under_its_name() {
    let fleet = Fleet::new(RESTART_DAY);
    let mut store = fleet.store();
    let first = import_csv(&mut store, &fleet.request()).unwrap();
    assert_eq!((first.lives_unknown, first.lives_inferred), (12, 0));
    // A longer file, and another list.
    fleet.measure(DAYS);
    fleet.write("group_C_jemalloc.txt", "relayc0\nrelayc1\nrelayc2\n");
    let second = import_csv(&mut store, &fleet.request()).unwrap();
    assert_eq!((second.trial_id, second.replaced), (first.trial_id, true));
    assert_eq!((second.services, second.samples, second.lives_inferred), (11, 11 * DAYS, 11));
    // Nothing is left of what was there.
    let mut other = Store::create(&fleet.path("other.db")).unwrap();
    import_csv(&mut other, &fleet.request()).unwrap();
    let content = |store: &Store| format!("{:?}", read(store, "memory"));
    assert_eq!(content(&store), content(&other));
    import_csv(&mut store, &fleet.request()).unwrap();
    assert_eq!(content(&store), content(&other));
    assert_eq!(store.trials().unwrap().len(), 1);
}

#[test]
fn times_without_an_offset_beside_others_with_one_need_a_timezone() {
    let fleet = Fleet::new(2);
    let mut request = fleet.request();
    request.timezone = None;
    let mut store = fleet.store();
    let error = import_csv(&mut store, &request).unwrap_err().to_string();
    assert!(error.contains("others have -08:00") && error.contains("--timezone UTC"), "{error}");
    request.timezone = Some("UTC".parse().unwrap());
    assert_eq!(import_csv(&mut store, &request).unwrap().timezone, "UTC");
}

#[test]
fn members_without_data_and_services_without_an_arm_are_told() {
    let fleet = Fleet::new(2);
    fleet.write("group_C_jemalloc.txt", "relayc0\nghost\n");
    let summary = import_csv(&mut fleet.store(), &fleet.request()).unwrap();
    assert_eq!((summary.services, summary.ungrouped_services), (9, 3));
    let told = |part: &str| summary.notes.iter().any(|note| note.contains(part));
    assert!(told("members of lists that were never measured: 1 (ghost)"), "{:?}", summary.notes);
    assert!(told("services in no list, excluded: 3 (relayc1, relayc2, relayc3)"), "{:?}", summary.notes);
    let trial = read(&fleet.store(), "memory");
    let ghost = trial.services.iter().find(|service| service.service.name == "ghost").unwrap();
    assert!(ghost.lives.is_empty());
}

#[test]
fn a_group_column_makes_arms_and_migrations() {
    let fleet = Fleet::new(1);
    let text = "timestamp,server,type,fingerprint,nickname,group,rss_kb,vmsize_kb,hwm_kb\n\
                2026-03-01T02:00:00Z,a,relay,,one,A,50000,90000,60000\n\
                2026-03-01T02:00:00Z,a,relay,,two,B,50000,90000,60000\n\
                2026-03-01T02:00:00Z,a,relay,,new,,50000,90000,60000\n\
                2026-03-02T02:00:00Z,a,relay,,one,B,30000,90000,31000\n\
                2026-03-02T02:00:00Z,a,relay,,two,B,50000,90000,60000\n\
                2026-03-02T02:00:00Z,a,relay,,new,A,30000,90000,31000\n\
                2026-03-03T02:00:00Z,a,relay,,new,,30100,90000,31100\n";
    let path = fleet.write("columns.csv", text);
    let mut store = fleet.store();
    let summary = import_csv(&mut store, &memory_only(&path)).unwrap();
    let arms: Vec<(&str, usize)> = summary.arms.iter().map(|arm| (arm.name.as_str(), arm.services)).collect();
    assert_eq!(arms, [("A", 1), ("B", 2)]);
    let trial = read(&store, "columns");
    let events: Vec<(&str, &str)> = trial
        .events
        .iter()
        .map(|event| (trial.services[event.service.unwrap()].service.name.as_str(), event.text.as_str()))
        .collect();
    assert_eq!(events, [("one", "from group A to B"), ("new", "into group A")]);
    // Somewhere in the day between the two readings.
    assert_eq!(trial.services[0].lives[1].start, LifeStart::Inferred { uncertainty_us: 43_200_000_000 });
}

#[test]
fn several_files_are_one_trial() {
    let fleet = Fleet::new(5);
    let second: String = (3..DAYS).map(collection).collect();
    let mut request = fleet.request();
    request.memory.push(fleet.write("second.csv", &format!("{HEADER}{second}")));
    let summary = import_csv(&mut fleet.store(), &request).unwrap();
    // Two days are in both files.
    assert_eq!((summary.samples, summary.duplicate_samples), (12 * DAYS, 2 * 12));
}

#[test]
fn a_name_that_a_lab_run_has_is_not_taken() {
    let fleet = Fleet::new(2);
    let mut store = fleet.store();
    let mut plan = {
        import_csv(&mut store, &fleet.request()).unwrap();
        read(&store, "memory").plan
    };
    plan.name = "lab".into();
    plan.kind = TrialKind::LabCommand;
    plan.boot_id = "boot".into();
    store.begin_trial(&plan).unwrap();
    let mut request = fleet.request();
    request.name = Some("lab".into());
    let refused = |store: &mut Store, request: &CsvImport| {
        let error = import_csv(store, request).unwrap_err().to_string();
        assert!(error.contains("a trial `lab` exists that was not imported this way"), "{error}");
    };
    refused(&mut store, &request);
    request.name = None;
    request.memory = vec![fleet.path("lab.csv")];
    std::fs::copy(fleet.path("memory.csv"), fleet.path("lab.csv")).unwrap();
    refused(&mut store, &request);
}

#[test]
fn strict_imports_nothing_where_something_is_wrong() {
    let fleet = Fleet::new(2);
    let text = std::fs::read_to_string(fleet.path("memory.csv")).unwrap();
    fleet.write("memory.csv", &format!("{text}2026-03-03T02:00:00,alpha,relay,,relaya0,many,,,,,,,,\n"));
    let mut request = fleet.request();
    request.strict = true;
    let mut store = fleet.store();
    let error = import_csv(&mut store, &request).unwrap_err().to_string();
    assert!(
        error.contains(
            "memory.csv:28, column 6 (`rss_kb`): expected a whole number of KiB, 0 or more: `many`"
        ),
        "{error}"
    );
    assert!(store.trials().unwrap().is_empty());
    request.strict = false;
    let summary = import_csv(&mut store, &request).unwrap();
    assert_eq!(summary.problems.count(ProblemKind::MalformedRow), 1);
    assert_eq!(read(&store, "memory").sources[0].skipped, 1);
}

#[test]
fn a_list_of_nobody_who_was_measured_is_refused() {
    let fleet = Fleet::new(2);
    let mut request = fleet.request();
    request.groups.push(fleet.write("typo_glibc.txt", "relaya9x\nrelayz\nsomething\n"));
    let mut store = fleet.store();
    let error = import_csv(&mut store, &request).unwrap_err().to_string();
    for words in [
        "typo_glibc.txt: the list `typo_glibc` has 3 services, none of which was measured",
        "(relaya9x, relayz, something)",
        "measured were relaya0, relaya1",
    ] {
        assert!(error.contains(words), "`{words}` is not in: {error}");
    }
    assert!(store.trials().unwrap().is_empty());
    // One member is enough; who was never measured is in no count.
    fleet.write("typo_glibc.txt", "relaya9x\nrelaya0\n");
    let summary = import_csv(&mut store, &request).unwrap();
    let arm = summary.arms.iter().find(|arm| arm.name == "typo_glibc").unwrap();
    assert_eq!((arm.services, summary.services, summary.samples), (1, 12, 24));
    assert!(
        summary.notes.iter().any(|note| note.contains("never measured: 1 (relaya9x)")),
        "{:?}",
        summary.notes
    );
}

#[test]
fn files_in_another_unit_are_refused() {
    let fleet = Fleet::new(2);
    let rows = std::fs::read_to_string(fleet.path("memory.csv")).unwrap();
    let error_of = |factor: &dyn Fn(u64) -> u64| {
        let row = |line: &str| {
            let field = |(column, field): (usize, &str)| match field.parse::<u64>() {
                Ok(number) if (5..8).contains(&column) => factor(number).to_string(),
                _ => field.to_owned(),
            };
            line.split(',').enumerate().map(field).collect::<Vec<_>>().join(",") + "\n"
        };
        fleet.write("memory.csv", &rows.lines().map(row).collect::<String>());
        import_csv(&mut fleet.store(), &fleet.request()).unwrap_err().to_string()
    };
    for (error, shown) in [
        (error_of(&|kib| kib * 1024), "above 1 TiB"),
        (error_of(&|kib| kib / (1024 * 1024)), "below 1 MiB"),
        (error_of(&|kib| kib / 8192), "below 1 MiB"),
    ] {
        assert!(
            error.contains(&format!("memory.csv: half of the readings are {shown}"))
                && error.contains("--unit"),
            "{error}"
        );
    }
}
