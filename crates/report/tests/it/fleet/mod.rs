//! A synthetic fleet, written through the store as an import writes it.
#![allow(dead_code)]

use std::path::Path;

use heaptrial_model::{Arm, LifeStart, Metric, Treatment, TrialKind};
use heaptrial_store::{
    ImportSource, ImportedEvent, ImportedLife, ImportedSample, ImportedService, ImportedTrial, NewService,
    NewTrial, Store,
};
use serde_json::{Value, json};

pub const GIB: f64 = 1_073_741_824.0;
const START_US: i64 = 1_767_323_045_000_000;
const HOUR_US: i64 = 3_600_000_000;
const DAY_HOURS: i64 = 24;

/// A trial as operators have it: services, and lists of them.
#[derive(Debug, Clone)]
pub struct Listed {
    pub plan: NewTrial,
    pub lists: Vec<List>,
    pub services: Vec<Service>,
    pub events: Vec<ImportedEvent>,
    pub sources: Vec<ImportSource>,
}

#[derive(Debug, Clone)]
pub struct List {
    pub arm: Arm,
    /// Positions of its services.
    pub members: Vec<usize>,
    pub source: String,
}

#[derive(Debug, Clone)]
pub struct Service {
    pub name: String,
    pub attributes: Value,
    pub lives: Vec<ImportedLife>,
}

/// What a service needs, by age in days.
#[derive(Debug, Clone, Copy)]
pub struct Curve {
    pub level_gib: f64,
    pub growth_gib_per_day: f64,
}

impl Curve {
    fn at(self, days: f64, service: usize) -> f64 {
        let own = 1.0 + 0.05 * (noise(service, 0) - 0.5);
        let rise = 1.0 - 0.6 * (-days / 0.3).exp();
        let wave = 1.0 + 0.02 * (noise(service, (days * 24.0) as usize + 1) - 0.5);
        (self.level_gib * own * rise + self.growth_gib_per_day * days) * wave * GIB
    }
}

/// A number in 0..1 that looks random and is always the same.
pub fn noise(a: usize, b: usize) -> f64 {
    let mut x = (b as u32).wrapping_add(7) ^ (a as u32 + 1).wrapping_mul(0x9e37_79b9);
    x = (x ^ (x >> 16)).wrapping_mul(0x7feb_352d);
    x = (x ^ (x >> 15)).wrapping_mul(0x846c_a68b);
    f64::from(x ^ (x >> 16)) / f64::from(u32::MAX)
}

/// A list of the fleet: the name, what its services need, how many it has.
pub const LISTS: [(&str, &str, Curve, usize); 6] = [
    ("group_glibc", "glibc", Curve { level_gib: 6.0, growth_gib_per_day: 0.06 }, 14),
    ("group_mimalloc209", "mimalloc@2.0.9", Curve { level_gib: 1.25, growth_gib_per_day: 0.0005 }, 16),
    ("group_mimalloc217", "mimalloc@2.1.7", Curve { level_gib: 1.7, growth_gib_per_day: 0.03 }, 12),
    ("group_jemalloc", "jemalloc@5.3.0", Curve { level_gib: 2.7, growth_gib_per_day: 0.001 }, 12),
    ("group_mimalloc301", "mimalloc@3.0.1", Curve { level_gib: 1.5, growth_gib_per_day: 0.9 }, 12),
    ("group_restarted", "glibc", Curve { level_gib: 5.5, growth_gib_per_day: 0.06 }, 8),
];
/// Services of `group_jemalloc` that the list of the control holds too.
pub const STRANGERS: usize = 4;

/// The whole fleet: a contaminated control, an arm that runs away, one that is restarted.
pub fn contaminated() -> Listed {
    let mut services = Vec::new();
    let mut lists: Vec<List> = Vec::new();
    for (index, (name, allocator, curve, count)) in LISTS.iter().enumerate() {
        let restarted = *name == "group_restarted";
        let first = services.len();
        for number in 0..*count {
            let seed = first + number;
            let lives = if restarted {
                (0..4).map(|life| life_of(*curve, seed, life * 2 * DAY_HOURS, 2 * DAY_HOURS - 1)).collect()
            } else {
                vec![life_of(*curve, seed, 0, 8 * DAY_HOURS)]
            };
            let short = name.trim_start_matches("group_");
            services.push(Service { name: format!("{short}{number:02}"), attributes: json!({}), lives });
        }
        let treatment = Treatment {
            allocator: allocator.parse().ok(),
            restart_every: restarted.then(|| "48h".parse().unwrap()),
            ..Treatment::default()
        };
        lists.push(List {
            arm: Arm { name: (*name).to_owned(), control: index == 0, treatment },
            members: (first..services.len()).collect(),
            source: format!("groups/{name}.txt"),
        });
    }
    let jemalloc = lists[3].members.clone();
    lists[0].members.extend(&jemalloc[..STRANGERS]);
    let events = vec![
        event(0, Some(4), "config_change", "mimalloc 3.0.1 enabled"),
        event(30, None, "note", "a server was rebooted elsewhere"),
    ];
    trial("five allocators and a timer", lists, services, events)
}

/// Names and texts that try to be markup, terminal codes and table cells.
pub fn hostile() -> Listed {
    const EVIL: &str = "<script>alert(1)</script>\"'`|[x](javascript:y)&lt;";
    let mut trial = contaminated();
    trial.plan.name = "a|b <img src=x onerror=alert(1)>".to_owned();
    trial.lists[0].arm.name = EVIL.to_owned();
    trial.lists[3].arm.name = "\u{202e}evil\u{1b}[31m".to_owned();
    trial.lists[1].source = "</title><script>alert(2)</script>".to_owned();
    trial.services[0].name = "<b>|bold|</b>\u{1b}]0;title\u{7}".to_owned();
    let off_treatment = trial.lists[3].members[0];
    trial.services[off_treatment].name = "</svg><style>*{display:none}</style>".to_owned();
    trial.sources[0].file = "</table><script>alert(3)</script>".to_owned();
    trial.events.push(event(20, None, "warning", "</svg><script>alert(4)</script>\u{1b}[2J"));
    trial.plan.parameters = json!({"<script>": "</dd><script>alert(5)</script>"});
    trial.plan.command = "heaptrial import torutils '```\n<b>\u{1b}[2J'".to_owned();
    trial
}

fn life_of(curve: Curve, seed: usize, start_hours: i64, hours: i64) -> ImportedLife {
    let started_wall_us = START_US + start_hours * HOUR_US;
    let sample = |hour: i64| {
        let bytes = curve.at(hour as f64 / 24.0, seed);
        let rss_bytes = (bytes / 1024.0).round() as u64 * 1024;
        ImportedSample {
            wall_us: started_wall_us + hour * HOUR_US,
            rss_bytes,
            vsize_bytes: Some(2 * rss_bytes),
            hwm_bytes: Some(rss_bytes),
            ..ImportedSample::default()
        }
    };
    ImportedLife {
        started_wall_us,
        start: LifeStart::Inferred { uncertainty_us: HOUR_US },
        contamination: None,
        samples: (1..=hours).step_by(2).map(sample).collect(),
    }
}

fn event(hours: i64, arm: Option<usize>, kind: &str, text: &str) -> ImportedEvent {
    let wall_us = START_US + hours * HOUR_US;
    ImportedEvent { wall_us, service: None, arm, kind: kind.into(), text: text.to_owned() }
}

fn trial(name: &str, lists: Vec<List>, services: Vec<Service>, events: Vec<ImportedEvent>) -> Listed {
    let source = |file: &str, role: &str, rows, skipped| ImportSource {
        file: file.to_owned(),
        role: role.to_owned(),
        sha256: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08".to_owned(),
        rows,
        skipped,
    };
    let plan = NewTrial {
        name: name.to_owned(),
        kind: TrialKind::ImportTorutils,
        boot_id: "import".to_owned(),
        host_facts: json!({"ram_bytes": 429_496_729_600_u64, "kernel": "6.1.0-28-amd64"}),
        metric: Metric::Rss,
        seed: 7,
        repeats: 0,
        planned_us: 0,
        arms: Vec::new(),
        parameters: json!({"timezone": "-08:00"}),
        command: "heaptrial import torutils memory.csv --groups groups/*.txt --timezone -08:00".to_owned(),
        tool_version: "0.1.0".to_owned(),
        started_wall_us: START_US,
    };
    let sources =
        vec![source("memory.csv", "memory", 7_104, 2), source("groups/group_glibc.txt", "groups", 18, 0)];
    Listed { plan, lists, services, events, sources }
}

/// Writes a trial into a new database at `path`; gives its row id.
pub fn write(trial: &Listed, path: &Path) -> (Store, i64) {
    let mut store = Store::create(path).unwrap();
    let arms_of = |index: usize| -> Vec<usize> {
        (0..trial.lists.len()).filter(|arm| trial.lists[*arm].members.contains(&index)).collect()
    };
    let listed: Vec<usize> = (0..trial.services.len()).filter(|index| !arms_of(*index).is_empty()).collect();
    let service = |index: &usize| {
        let (arms, Service { name, attributes, lives }) = (arms_of(*index), trial.services[*index].clone());
        let service = NewService { name, arm: arms[0], block: 0, position: *index as u32, attributes };
        ImportedService { service, also_in: arms[1..].to_vec(), lives }
    };
    let imported = ImportedTrial {
        plan: NewTrial {
            arms: trial.lists.iter().map(|list| list.arm.clone()).collect(),
            ..trial.plan.clone()
        },
        lists: trial.lists.iter().map(|list| list.source.clone()).collect(),
        services: listed.iter().map(service).collect(),
        events: trial.events.clone(),
        sources: trial.sources.clone(),
    };
    let id = store.write_imported(&imported).unwrap();
    drop(store);
    (Store::open(path).unwrap(), id)
}

/// Six weeks on two servers: every service ran glibc for a week, then half of them got mimalloc 2.0.9 at a time that an
/// event tells. One of these stands far out.
pub fn two_servers_for_six_weeks() -> Listed {
    const WEEK_HOURS: i64 = 7 * DAY_HOURS;
    const EACH: usize = 10;
    let [before, after] = [(6.0, 0.0), (1.25, 0.0)]
        .map(|(level_gib, growth_gib_per_day)| Curve { level_gib, growth_gib_per_day });
    let mut services = Vec::new();
    for number in 0..2 * EACH {
        let mut curve = if number < EACH { before } else { after };
        if number == 2 * EACH - 1 {
            curve.level_gib *= 3.0;
        }
        let server = if number % 2 == 0 { "alpha" } else { "beta" };
        services.push(Service {
            name: format!("relay{number:02}"),
            attributes: json!({"server": server}),
            lives: vec![
                life_of(before, number, 0, WEEK_HOURS - 1),
                life_of(curve, number, WEEK_HOURS, 5 * WEEK_HOURS),
            ],
        });
    }
    let list = |name: &str, allocator: &str, control, members: std::ops::Range<usize>| List {
        arm: Arm {
            name: name.to_owned(),
            control,
            treatment: Treatment { allocator: allocator.parse().ok(), ..Treatment::default() },
        },
        members: members.collect(),
        source: format!("groups/{name}.txt"),
    };
    let lists = vec![
        list("group_glibc", "glibc", true, 0..EACH),
        list("group_mimalloc209", "mimalloc@2.0.9", false, EACH..2 * EACH),
    ];
    let events = vec![event(WEEK_HOURS, Some(1), "config_change", "mimalloc 2.0.9 enabled")];
    let mut trial = trial("two servers", lists, services, events);
    trial.plan.parameters = json!({"about": {
        "hypothesis": "mimalloc 2.0.9 needs less than half of glibc.",
        "notes": "beta has older disks.",
        "next_steps": "Roll out on alpha first.",
    }});
    trial
}
