//! A small fleet in the format of the TorUtils scripts, generated: nothing of it was measured.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod hosts;
pub mod stored;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_exchange::CsvImport;
use heaptrial_store::{ImportedService, ImportedTrial, Store};

pub const HEADER: &str = "timestamp,server,type,fingerprint,nickname,rss_kb,vmsize_kb,hwm_kb,frag_ratio,count,total_kb,avg_kb,min_kb,max_kb\n";

/// Days of measurements, one a day at 02:00 from 2026-03-01 on.
pub const DAYS: u64 = 10;

/// After this many days everything was restarted, at 10:00.
pub const RESTART_DAY: u64 = 6;

/// Groups with the RSS in MiB that their relays tend to.
pub const GROUPS: [(&str, u64); 3] =
    [("group_A_glibc", 6_000), ("group_B_mimalloc209", 1_300), ("group_C_jemalloc", 2_700)];

pub struct Fleet {
    pub dir: tempfile::TempDir,
}

pub fn relay(group: usize, number: usize) -> String {
    format!("relay{}{number}", ["a", "b", "c"][group])
}

/// Resident memory after `hours` of life, in KiB.
fn rss_kib(group: usize, number: usize, hours: u64) -> u64 {
    let full = GROUPS[group].1 * 1024 + number as u64 * 4_000;
    full - full * 40 / (50 + 10 * hours)
}

/// One collection, as `collect.sh` appends it.
pub fn collection(day: u64) -> String {
    let time = format!("2026-03-{:02}T02:00:00", day + 1);
    let mut relays = String::new();
    let (mut total, mut min, mut max) = (0, u64::MAX, 0);
    for group in 0..3 {
        for number in 0..4 {
            let hours = if day < RESTART_DAY { 100 + 24 * day } else { 24 * (day - RESTART_DAY) + 16 };
            let rss = rss_kib(group, number, hours);
            let (vsize, hwm) = (rss * 2, rss + 100);
            (total, min, max) = (total + rss, min.min(rss), max.max(rss));
            let fingerprint = format!("{:040X}", group * 16 + number + 1);
            let name = relay(group, number);
            writeln!(relays, "{time},alpha,relay,{fingerprint},{name},{rss},{vsize},{hwm},2.00,,,,,")
                .unwrap();
        }
    }
    format!("{time},alpha,aggregate,,,,,,,12,{total},{},{min},{max}\n{relays}", total / 12)
}

impl Fleet {
    /// Files of the first `days` days.
    pub fn new(days: u64) -> Self {
        let fleet = Self { dir: tempfile::tempdir().unwrap() };
        fleet.measure(days);
        for (group, (name, _)) in GROUPS.iter().enumerate() {
            let members: Vec<String> = (0..4).map(|number| relay(group, number)).collect();
            fleet.write(&format!("{name}.txt"), &(members.join("\n") + "\n"));
        }
        let events = format!(
            "timestamp,event_type,description,group\n\
             2026-03-{:02}T10:00:00-08:00,restart,everything was restarted,all\n\
             2026-03-02T09:00:00,experiment,another naming,group_a\n",
            RESTART_DAY
        );
        fleet.write("events.csv", &events);
        fleet.write(
            "diagnostics.csv",
            "date,time,hostname,tor_version,os_release,kernel,allocator,mem_total_mb,mem_available_mb,relay_count\n\
             2026-03-01,02:00:05,alpha,0.4.8.21,Debian GNU/Linux 13 (trixie),6.12,glibc,64000,20000,12\n",
        );
        fleet
    }

    /// Writes `memory.csv` with this many days.
    pub fn measure(&self, days: u64) {
        let collections: String = (0..days).map(collection).collect();
        self.write("memory.csv", &format!("{HEADER}{collections}"));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }

    pub fn request(&self) -> CsvImport {
        CsvImport {
            memory: vec![self.path("memory.csv")],
            groups: GROUPS.iter().map(|(name, _)| self.path(&format!("{name}.txt"))).collect(),
            events: Some(self.path("events.csv")),
            diagnostics: Some(self.path("diagnostics.csv")),
            timezone: Some("-08:00".parse().unwrap()),
            tool_version: "test".into(),
            command: "test".into(),
            ..CsvImport::default()
        }
    }

    pub fn store(&self) -> Store {
        Store::create(&self.path("heaptrial.db")).unwrap()
    }
}

pub fn memory_only(path: &Path) -> CsvImport {
    CsvImport { memory: vec![path.to_owned()], ..CsvImport::default() }
}

/// The name of each arm, and the services in its list.
pub fn lists_of(trial: &ImportedTrial) -> Vec<(&str, Vec<&ImportedService>)> {
    let members =
        |arm: usize| trial.services.iter().filter(|service| service.arms().any(|own| own == arm)).collect();
    let arms = trial.plan.arms.iter().enumerate();
    arms.map(|(arm, own)| (own.name.as_str(), members(arm))).collect()
}
