//! Files of the scripts become a trial: arms, lives, events, and nothing twice.

use crate::support;

use heaptrial_exchange::{ImportError, ProblemKind, TimezoneSource, TorUtilsImport, import_torutils};
use heaptrial_model::{About, LifeStart, TrialKind};
use heaptrial_store::{ImportedTrial, Store};
use support::{DAYS, Fleet, HEADER, RESTART_DAY, collection, memory_only, relay};

const DAY_US: i64 = 86_400_000_000;

fn read(store: &Store, name: &str) -> ImportedTrial {
    store.read_imported(name, heaptrial_model::TrialKind::ImportTorutils).unwrap().unwrap().1
}

#[test]
fn a_fleet_becomes_a_trial() {
    let fleet = Fleet::new(DAYS);
    let mut store = fleet.store();
    let summary = import_torutils(&mut store, &fleet.request()).unwrap();
    assert_eq!((summary.trial.as_str(), summary.updated), ("memory", false));
    assert_eq!((summary.services, summary.new_samples, summary.new_aggregates), (12, 12 * DAYS, DAYS));
    assert_eq!((summary.lives_unknown, summary.lives_inferred), (12, 12));
    assert_eq!(summary.timezone, "-08:00");
    assert_eq!(summary.timezone_source, TimezoneSource::OtherTimes);
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
            panic!("{}: {} lives", service.name, service.lives.len())
        };
        assert_eq!((first.start, first.samples.len() as u64), (LifeStart::Unknown, RESTART_DAY));
        assert_eq!(first.started_wall_us, first.samples[0].wall_us);
        assert_eq!(second.start, LifeStart::Inferred { uncertainty_us: 60_000_000 });
        // Restarted at 10:00, read at 02:00 of the next day.
        assert_eq!(second.samples[0].wall_us - second.started_wall_us, DAY_US * 2 / 3);
        assert_eq!(service.attributes["starts"][1], "event: restart: everything was restarted");
    }
    let roles: Vec<&str> = trial.sources.iter().map(|source| source.role.as_str()).collect();
    assert_eq!(roles, ["memory", "groups", "groups", "groups", "events", "diagnostics"]);
    assert_eq!((trial.sources[0].rows, trial.sources[0].sha256.len()), (13 * DAYS, 64));
}

#[test]
fn the_same_files_again_change_nothing() {
    let fleet = Fleet::new(DAYS);
    let mut store = fleet.store();
    let first = import_torutils(&mut store, &fleet.request()).unwrap();
    let before = format!("{:?}", read(&store, "memory"));
    let second = import_torutils(&mut store, &fleet.request()).unwrap();
    assert_eq!((second.new_samples, second.duplicate_samples, second.new_aggregates), (0, 12 * DAYS, 0));
    assert_eq!((second.trial_id, second.updated), (first.trial_id, true));
    assert_eq!(format!("{:?}", read(&store, "memory")), before);
    assert_eq!(store.trials().unwrap().len(), 1);
}

#[test]
fn a_longer_file_adds_what_is_new_and_lives_are_inferred_anew() {
    let fleet = Fleet::new(RESTART_DAY);
    let mut store = fleet.store();
    let first = import_torutils(&mut store, &fleet.request()).unwrap();
    assert_eq!((first.lives_unknown, first.lives_inferred), (12, 0));
    fleet.measure(DAYS);
    let second = import_torutils(&mut store, &fleet.request()).unwrap();
    assert_eq!((second.new_samples, second.lives_inferred), (12 * (DAYS - RESTART_DAY), 12));
    let whole = Fleet::new(DAYS);
    let mut other = whole.store();
    import_torutils(&mut other, &whole.request()).unwrap();
    let lives = |store: &Store| {
        let services = read(store, "memory").services;
        services
            .into_iter()
            .map(|service| format!("{} {:?}", service.name, service.lives))
            .collect::<Vec<_>>()
    };
    assert_eq!(lives(&store), lives(&other));
}

#[test]
fn only_the_new_part_of_a_file_can_be_given_and_lists_need_not_be_repeated() {
    let fleet = Fleet::new(RESTART_DAY);
    let mut store = fleet.store();
    import_torutils(&mut store, &fleet.request()).unwrap();
    let rest: String = (RESTART_DAY..DAYS).map(collection).collect();
    let path = fleet.write("more.csv", &format!("{HEADER}{rest}"));
    let mut request = memory_only(&path);
    request.name = Some("memory".into());
    request.timezone = Some("-08:00".parse().unwrap());
    let summary = import_torutils(&mut store, &request).unwrap();
    assert_eq!((summary.new_samples, summary.lives_inferred), (12 * (DAYS - RESTART_DAY), 12));
    // The event of the first import tells the starts of the second.
    let starts = read(&store, "memory").services[0].attributes["starts"].clone();
    assert_eq!(starts[1], "event: restart: everything was restarted");
    assert_eq!(summary.arms.len(), 3);
}

#[test]
fn other_lists_make_another_trial_or_are_refused() {
    let fleet = Fleet::new(2);
    let mut store = fleet.store();
    import_torutils(&mut store, &fleet.request()).unwrap();
    let moved = fleet.write("group_C_jemalloc.txt", "relayc0\nrelayc1\nrelayc2\n");
    let second = import_torutils(&mut store, &fleet.request()).unwrap();
    assert_eq!((second.trial.as_str(), second.new_samples, second.ungrouped_services), ("memory-2", 22, 1));
    assert!(second.notes[0].contains("a trial `memory` exists"), "{:?}", second.notes);
    let again = import_torutils(&mut store, &fleet.request()).unwrap();
    assert_eq!((again.trial.as_str(), again.new_samples), ("memory-2", 0));

    std::fs::remove_file(moved).unwrap();
    let mut request = fleet.request();
    request.groups.pop();
    request.name = Some("memory".into());
    let error = import_torutils(&mut store, &request).unwrap_err();
    assert!(
        matches!(&error, ImportError::OtherLists { difference, .. } if difference == "3 arms there, 2 here"),
        "{error}"
    );
    assert_eq!(store.trials().unwrap().len(), 2);
}

#[test]
fn an_earlier_list_belongs_to_its_arm_and_alone_it_is_an_arm() {
    let fleet = Fleet::new(2);
    let earlier = fleet.write("group_A_glibc_historical.txt", "relaya0\nrelayb0\nrelayc0\n");
    let mut request = fleet.request();
    request.groups.insert(0, earlier.clone());
    let summary = import_torutils(&mut fleet.store(), &request).unwrap();
    assert_eq!(summary.arms[0].earlier_list_of.as_deref(), Some("group_A_glibc"));
    assert!(!summary.arms[0].control && summary.arms[1].control);
    let trial = read(&fleet.store(), "memory");
    assert_eq!((trial.lists[0].earlier_list_of, trial.lists[0].members.len()), (Some(1), 3));

    request.groups = vec![earlier, fleet.path("group_B_mimalloc209.txt")];
    request.name = Some("other".into());
    let summary = import_torutils(&mut fleet.store(), &request).unwrap();
    assert_eq!(summary.arms[0].earlier_list_of, None);
    assert!(summary.arms[0].control);
    assert!(
        summary.notes.iter().any(|note| note.contains("services in two or more arms: 1")),
        "{:?}",
        summary.notes
    );
}

#[test]
fn members_without_data_and_services_without_an_arm_are_told() {
    let fleet = Fleet::new(2);
    fleet.write("group_C_jemalloc.txt", "relayc0\nghost\n");
    let summary = import_torutils(&mut fleet.store(), &fleet.request()).unwrap();
    assert_eq!((summary.services, summary.ungrouped_services), (9, 3));
    let told = |part: &str| summary.notes.iter().any(|note| note.contains(part));
    assert!(told("members of lists that were never measured: 1 (ghost)"), "{:?}", summary.notes);
    assert!(told("services in no list, left out: 3 (relayc1, relayc2, relayc3)"), "{:?}", summary.notes);
    let trial = read(&fleet.store(), "memory");
    let ghost = trial.services.iter().find(|service| service.name == "ghost").unwrap();
    assert!(ghost.lives.is_empty());
}

#[test]
fn a_group_column_makes_arms_and_migrations() {
    let fleet = Fleet::new(1);
    let text = "timestamp,server,type,fingerprint,nickname,group,rss_kb,vmsize_kb,hwm_kb\n\
                2026-03-01T02:00:00Z,a,relay,,one,A,500,900,600\n\
                2026-03-01T02:00:00Z,a,relay,,two,B,500,900,600\n\
                2026-03-01T02:00:00Z,a,relay,,new,,500,900,600\n\
                2026-03-02T02:00:00Z,a,relay,,one,B,300,900,310\n\
                2026-03-02T02:00:00Z,a,relay,,two,B,500,900,600\n\
                2026-03-02T02:00:00Z,a,relay,,new,A,300,900,310\n\
                2026-03-03T02:00:00Z,a,relay,,new,,301,900,311\n";
    let path = fleet.write("columns.csv", text);
    let mut store = fleet.store();
    let summary = import_torutils(&mut store, &memory_only(&path)).unwrap();
    let arms: Vec<(&str, usize)> = summary.arms.iter().map(|arm| (arm.name.as_str(), arm.services)).collect();
    assert_eq!(arms, [("A", 1), ("B", 2)]);
    let trial = read(&store, "columns");
    let events: Vec<(&str, &str)> = trial
        .events
        .iter()
        .map(|event| (trial.services[event.service.unwrap()].name.as_str(), event.text.as_str()))
        .collect();
    assert_eq!(events, [("one", "from group A to B"), ("new", "into group A")]);
    // Somewhere in the day between the two readings.
    assert_eq!(trial.services[0].lives[1].start, LifeStart::Inferred { uncertainty_us: 43_200_000_000 });
    // A longer file may bring new relays and groups.
    fleet.write("columns.csv", &format!("{text}2026-03-03T02:00:00Z,a,relay,,late,C,500,900,600\n"));
    let summary = import_torutils(&mut store, &memory_only(&path)).unwrap();
    assert_eq!((summary.trial.as_str(), summary.new_samples, summary.arms.len()), ("columns", 1, 3));
}

#[test]
fn the_configuration_makes_arms_with_what_it_claims() {
    let fleet = Fleet::new(2);
    let mut text = "fingerprint,nickname,group,allocator,config,notes\n".to_owned();
    for (group, allocator, config, notes) in [
        (0, "jemalloc", "LD_PRELOAD=/x", "jemalloc"),
        (1, "glibc", "restart=24h", "x"),
        (2, "glibc", "none", "control group"),
    ] {
        for number in 0..4 {
            text += &format!(
                ",{},{},{allocator},{config},{notes}\n",
                relay(group, number),
                ["J", "R", "Z"][group]
            );
        }
    }
    let mut request = memory_only(&fleet.path("memory.csv"));
    request.config = Some(fleet.write("relay_config.csv", &text));
    let summary = import_torutils(&mut fleet.store(), &request).unwrap();
    let arms: Vec<(&str, bool)> = summary.arms.iter().map(|arm| (arm.name.as_str(), arm.control)).collect();
    assert_eq!(arms, [("J", false), ("R", false), ("Z", true)]);
    let trial = read(&fleet.store(), "memory");
    assert_eq!(trial.lists[0].arm.allocator().to_string(), "jemalloc");
    assert_eq!(trial.lists[1].arm.treatment.restart_every.unwrap().to_string(), "1d");
    assert_eq!(trial.services[0].attributes["config"]["allocator"], "jemalloc");
    assert_eq!(summary.timezone_source, TimezoneSource::Assumed);
    assert!(summary.notes[0].contains("read as UTC"), "{:?}", summary.notes);
}

#[test]
fn a_control_can_be_chosen() {
    let fleet = Fleet::new(2);
    let mut request = fleet.request();
    request.control = Some("group_C_jemalloc".into());
    assert!(import_torutils(&mut fleet.store(), &request).unwrap().arms[2].control);
    request.control = Some("group_D".into());
    let error = import_torutils(&mut fleet.store(), &request).unwrap_err().to_string();
    assert_eq!(
        error,
        "no arm is called `group_D`; the arms are: group_A_glibc, group_B_mimalloc209, group_C_jemalloc"
    );
}

#[test]
fn the_older_formats_are_read() {
    let fleet = Fleet::new(1);
    let sums = "date,time,num_relays,total_mb,avg_mb,min_mb,max_mb,total_kb,avg_kb,min_kb,max_kb\n\
                2025-11-02,14:00:00,32,60570,1892,1814,1949,62023936,1937748,1857588,1996516\n";
    let request = memory_only(&fleet.write("memory_stats.csv", sums));
    let summary = import_torutils(&mut fleet.store(), &request).unwrap();
    assert_eq!((summary.new_samples, summary.new_aggregates, summary.services), (0, 1, 0));

    let wide = "# values in GB\ngroup,relay,day0,day1,day9\nA,one,5.03,0.28,0.27\nB,two,,0.57,\n# end\n";
    let mut request = memory_only(&fleet.write("data.csv", wide));
    let error = import_torutils(&mut fleet.store(), &request).unwrap_err();
    assert!(matches!(error, ImportError::FirstDay { .. }), "{error}");
    request.first_day = Some(jiff::civil::date(2025, 9, 9));
    let summary = import_torutils(&mut fleet.store(), &request).unwrap();
    assert_eq!((summary.new_samples, summary.lives_inferred, summary.arms.len()), (4, 1, 2));
    let trial = read(&fleet.store(), "data");
    let first = &trial.services[0].lives[0];
    assert_eq!((first.samples.len(), first.samples[0].rss_bytes), (1, 5_274_337 * 1024));
    let last = trial.services[0].lives[1].samples.last().unwrap();
    assert_eq!(last.wall_us - first.samples[0].wall_us, 9 * DAY_US);
}

#[test]
fn several_files_are_one_trial() {
    let fleet = Fleet::new(5);
    let second: String = (3..DAYS).map(collection).collect();
    let mut request = fleet.request();
    request.memory.push(fleet.write("second.csv", &format!("{HEADER}{second}")));
    let summary = import_torutils(&mut fleet.store(), &request).unwrap();
    // Two days are in both files: 12 relays and one row of sums each.
    assert_eq!((summary.new_samples, summary.duplicate_samples), (12 * DAYS, 2 * 13));
}

#[test]
fn a_name_that_a_lab_run_has_is_not_taken() {
    let fleet = Fleet::new(2);
    let mut store = fleet.store();
    let mut plan = {
        import_torutils(&mut store, &fleet.request()).unwrap();
        read(&store, "memory").plan
    };
    plan.name = "lab".into();
    plan.kind = TrialKind::LabCommand;
    plan.boot_id = "boot".into();
    store.begin_trial(&plan).unwrap();
    let mut request = fleet.request();
    request.name = Some("lab".into());
    assert!(matches!(import_torutils(&mut store, &request), Err(ImportError::NameTaken(_))));
    request.name = None;
    request.memory = vec![fleet.path("lab.csv")];
    std::fs::copy(fleet.path("memory.csv"), fleet.path("lab.csv")).unwrap();
    assert_eq!(import_torutils(&mut store, &request).unwrap().trial, "lab-2");
}

#[test]
fn what_the_trial_is_about_is_kept_until_it_is_said_anew() {
    let fleet = Fleet::new(2);
    let mut store = fleet.store();
    let about = |text: &str| Some(About::from_toml(text).unwrap());
    let mut request = fleet.request();
    request.about = about("hypothesis = 'mimalloc needs less'");
    import_torutils(&mut store, &request).unwrap();
    request.about = None;
    fleet.measure(DAYS);
    import_torutils(&mut store, &request).unwrap();
    let stored = |store: &Store| About::of_parameters(&read(store, "memory").plan.parameters);
    assert_eq!(stored(&store).hypothesis.as_deref(), Some("mimalloc needs less"));
    request.about = about("notes = 'one server'\nnext_steps = 'roll out'");
    assert!(import_torutils(&mut store, &request).unwrap().changed);
    assert_eq!(stored(&store).hypothesis, None);
    assert_eq!(stored(&store).next_steps.as_deref(), Some("roll out"));
}

#[test]
fn strict_imports_nothing_where_something_is_wrong() {
    let fleet = Fleet::new(2);
    let text = std::fs::read_to_string(fleet.path("memory.csv")).unwrap();
    fleet.write("memory.csv", &format!("{text}2026-03-03T02:00:00,alpha,relay,,relaya0,many,,,,,,,,\n"));
    let mut request = fleet.request();
    request.strict = true;
    let mut store = fleet.store();
    let error = import_torutils(&mut store, &request).unwrap_err().to_string();
    assert!(
        error.contains(
            "memory.csv:28, column 6 (`rss_kb`): expected a whole number of KiB, 0 or more: `many`"
        ),
        "{error}"
    );
    assert!(store.trials().unwrap().is_empty());
    request.strict = false;
    let summary = import_torutils(&mut store, &request).unwrap();
    assert_eq!(summary.problems.count(ProblemKind::MalformedRow), 1);
    assert_eq!(read(&store, "memory").sources[0].skipped, 1);
}

#[test]
fn a_reading_that_differs_from_the_stored_one_is_told_and_the_stored_one_kept() {
    let fleet = Fleet::new(2);
    let mut store = fleet.store();
    import_torutils(&mut store, &fleet.request()).unwrap();
    let before = read(&store, "memory").services[0].lives[0].samples[0];
    let text = std::fs::read_to_string(fleet.path("memory.csv")).unwrap();
    let rss = (before.rss_bytes / 1024).to_string();
    fleet.write("memory.csv", &text.replacen(&format!("relaya0,{rss}"), "relaya0,77", 1));
    let summary = import_torutils(&mut store, &fleet.request()).unwrap();
    assert_eq!((summary.new_samples, summary.problems.count(ProblemKind::ConflictingReading)), (0, 1));
    assert_eq!(read(&store, "memory").services[0].lives[0].samples[0], before);
}

#[test]
fn a_list_of_nobody_who_was_measured_is_refused_with_near_names() {
    let fleet = Fleet::new(2);
    let mut request = fleet.request();
    request.groups.push(fleet.write("typo_glibc.txt", "relaya9x\nrelayz\nsomething\n"));
    let mut store = fleet.store();
    let error = import_torutils(&mut store, &request).unwrap_err().to_string();
    for words in [
        "typo_glibc.txt: the list `typo_glibc` has 3 services, none of which was measured",
        "relaya9x, did you mean `relaya",
        "measured were relaya0, relaya1",
    ] {
        assert!(error.contains(words), "`{words}` is not in: {error}");
    }
    assert!(!error.contains("something, did you mean"), "{error}");
    assert!(store.trials().unwrap().is_empty());
    // One member is enough; who was never measured is in no count.
    fleet.write("typo_glibc.txt", "relaya9x\nrelaya0\n");
    let summary = import_torutils(&mut store, &request).unwrap();
    let arm = summary.arms.iter().find(|arm| arm.name == "typo_glibc").unwrap();
    assert_eq!((arm.services, summary.services, summary.new_samples), (1, 12, 24));
    assert!(
        summary.notes.iter().any(|note| note.contains("never measured: 1 (relaya9x)")),
        "{:?}",
        summary.notes
    );
}

#[test]
fn files_in_another_unit_are_refused_and_can_be_read_in_theirs() {
    let fleet = Fleet::new(2);
    let mut truth = fleet.store();
    import_torutils(&mut truth, &fleet.request()).unwrap();
    let truth = format!("{:?}", read(&truth, "memory").services);
    let columns = |factor: &dyn Fn(u64) -> String| {
        let rows = std::fs::read_to_string(fleet.path("memory.csv")).unwrap();
        let row = |line: &str| {
            let field = |(column, field): (usize, &str)| match field.parse::<u64>() {
                // Not the number of relays.
                Ok(number) if column != 9 && column != 3 => factor(number),
                _ => field.to_owned(),
            };
            line.split(',').enumerate().map(field).collect::<Vec<_>>().join(",") + "\n"
        };
        rows.lines().map(row).collect::<String>()
    };
    let (bytes, mib) = (columns(&|kib| (kib * 1024).to_string()), columns(&|kib| (kib / 1024).to_string()));
    let gib = columns(&|kib| format!("{}", kib / (1024 * 1024)));
    let mut request = fleet.request();
    request.diagnostics = None;
    request.name = Some("other".into());
    let attempt = |text: &str, unit: Option<&str>| {
        let request = TorUtilsImport {
            memory: vec![fleet.write("other.csv", text)],
            unit: unit.map(|unit| unit.parse().unwrap()),
            ..request.clone()
        };
        let mut store = Store::create(&fleet.path(&format!("{}.db", unit.unwrap_or("none")))).unwrap();
        import_torutils(&mut store, &request)
            .map(|summary| (summary, format!("{:?}", read(&store, "other").services)))
    };
    // A third of the relays has more than 4 TiB then: the import is not one of the others.
    let error = attempt(&bytes, None).unwrap_err().to_string();
    assert!(
        error.contains(
            "8 of 26 rows have more than 4 TiB in one process, read as KiB: the unit seems to be B"
        ),
        "{error}"
    );
    assert!(error.contains("--unit B, or --unit KiB"), "{error}");
    assert_eq!(attempt(&bytes, Some("b")).unwrap().1, truth);
    // Whoever says that it is KiB has these rows left out, and with them all of an arm.
    let error = attempt(&bytes, Some("KiB")).unwrap_err();
    assert!(
        matches!(&error, ImportError::ListNotMeasured { list, .. } if list == "group_A_glibc"),
        "{error}"
    );
    let error = attempt(&gib, None).unwrap_err().to_string();
    assert!(error.contains("read as KiB: the unit seems to be GiB"), "{error}");
    let (summary, _) = attempt(&mib, None).unwrap();
    assert!(summary.notes.iter().any(|note| note.contains("--unit MiB")), "{:?}", summary.notes);
    assert!(attempt(&mib, Some("MiB")).unwrap().0.notes.iter().all(|note| !note.contains("--unit")));
}

#[test]
fn a_row_that_is_there_twice_is_told_apart_from_one_that_is_stored() {
    let fleet = Fleet::new(2);
    let text = std::fs::read_to_string(fleet.path("memory.csv")).unwrap();
    let last = text.lines().last().unwrap();
    fleet.write("memory.csv", &format!("{text}{last}\n"));
    let mut store = fleet.store();
    let first = import_torutils(&mut store, &fleet.request()).unwrap();
    assert_eq!((first.duplicate_samples, first.repeated_samples), (1, 1));
    let second = import_torutils(&mut store, &fleet.request()).unwrap();
    assert_eq!((second.duplicate_samples, second.repeated_samples), (25, 1));
}
