//! The published five-way trial. The data is not part of the project: where it is absent, this is skipped.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::support::{lists_of, stored};
use heaptrial_exchange::{CsvImport, import_csv};
use heaptrial_model::LifeStart;
use heaptrial_store::{ImportedService, ImportedTrial, Store};

fn data() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/tor-five-way-2026-01");
    if root.join("memory.csv").is_file() {
        return Some(root);
    }
    heaptrial_testbed::skip("the published measurements of 200 relays are not on this machine");
    None
}

/// A list: its services, their readings, and sum and upper median of their last readings in KiB.
type List<'a> = (&'a str, usize, usize, u64, u64);

fn samples(service: &ImportedService) -> Vec<u64> {
    service.lives.iter().flat_map(|life| &life.samples).map(|sample| sample.rss_bytes / 1024).collect()
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

fn lists(trial: &ImportedTrial) -> Vec<List<'_>> {
    let lists = lists_of(trial).into_iter().map(|(list, members)| {
        let of: Vec<Vec<u64>> = members.iter().map(|member| samples(member)).collect();
        let last: Vec<u64> = of.iter().filter_map(|readings| readings.last().copied()).collect();
        let readings = of.iter().map(Vec::len).sum();
        (list, members.len(), readings, last.iter().sum(), median(last))
    });
    lists.collect()
}

/// Figures that a script of its own took from the files with Python's `csv`.
const FINAL: [List<'_>; 5] = [
    ("group_A_mimalloc301", 20, 544, 218_873_928, 10_928_304),
    ("group_B_mimalloc209", 80, 1_941, 107_401_016, 1_333_484),
    ("group_C_mimalloc217", 60, 1_476, 111_937_716, 1_881_708),
    ("group_D_jemalloc", 20, 494, 57_533_804, 2_864_808),
    ("group_E_glibc", 20, 485, 129_913_640, 6_650_088),
];
const OLDER: [List<'_>; 3] = [
    ("group_B_mimalloc209_historical", 20, 560, 29_495_256, 1_355_044),
    ("group_C_mimalloc217_historical", 20, 560, 38_283_528, 1_915_824),
    ("group_E_glibc_historical", 20, 560, 87_004_052, 6_091_660),
];

#[test]
#[ignore = "needs the published measurements"]
fn ages_at_the_end_of_the_five_way_trial() {
    let Some(root) = data() else { return };
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::create(&dir.path().join("heaptrial.db")).unwrap();
    let groups = |lists: &[List<'_>]| -> Vec<PathBuf> {
        lists.iter().map(|list| root.join("groups").join(format!("{}.txt", list.0))).collect()
    };
    let mut request = CsvImport {
        memory: vec![root.join("memory.csv")],
        groups: groups(&FINAL),
        events: Some(root.join("events.csv")),
        diagnostics: Some(root.join("diagnostics.csv")),
        timezone: Some("-08:00".parse().unwrap()),
        ..CsvImport::default()
    };
    let summary = import_csv(&mut store, &request).unwrap();
    assert_eq!((summary.services, summary.samples, summary.duplicate_samples), (200, 4_940, 0));
    assert!(summary.problems.counts.is_empty(), "{:?}", summary.problems.details);
    assert_eq!(summary.timezone, "-08:00");

    let trial = stored::read(&store, "memory");
    let all: Vec<u64> = trial.services.iter().flat_map(samples).collect();
    assert_eq!((all.iter().sum::<u64>(), median(all)), (16_891_467_552, 2_842_576));
    assert_eq!(trial.services.iter().map(|service| service.lives.len()).sum::<usize>(), 604);
    assert_eq!(lists(&trial), FINAL);
    let mut ages: BTreeMap<(&str, String), usize> = BTreeMap::new();
    for (list, members) in lists_of(&trial) {
        for member in members {
            let life = member.lives.last().unwrap();
            let age = (life.samples.last().unwrap().wall_us - life.started_wall_us) as f64 / 86_400e6;
            let known = if life.start == LifeStart::Unknown { "at least " } else { "" };
            *ages.entry((list, format!("{known}{age:.2}"))).or_default() += 1;
        }
    }
    let ages: Vec<(&str, &str, usize)> =
        ages.iter().map(|((arm, age), count)| (*arm, age.as_str(), *count)).collect();
    assert_eq!(
        ages,
        [
            ("group_A_mimalloc301", "8.49", 19),
            ("group_A_mimalloc301", "at least 10.00", 1),
            ("group_B_mimalloc209", "5.47", 60),
            ("group_B_mimalloc209", "6.01", 20),
            ("group_C_mimalloc217", "5.47", 40),
            ("group_C_mimalloc217", "6.01", 20),
            ("group_D_jemalloc", "6.01", 20),
            ("group_E_glibc", "6.01", 20),
        ]
    );
    // VmHWM fell 406 times; two of these, by 0.2% on a relay that kept running, are the kernel's counting.
    assert_eq!((summary.lives_unknown, summary.lives_inferred), (200, 404));
    (request.groups, request.name) = (groups(&OLDER), Some("older".into()));
    import_csv(&mut store, &request).unwrap();
    let older = stored::read(&store, "older");
    assert_eq!(lists(&older), OLDER);
}
