//! What the series of a host tell, put to the lives of its ledger.

use std::collections::{BTreeMap, HashMap};

use heaptrial_model::{Reading, RemoteLife, RemoteReadings};

use super::ledger::{HostLedger, KnownLife};

/// The agent tells the start of a life as the ledger has it, in floating point.
const SAME_START_US: u64 = 1_000_000;

/// When an agent took a tick, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tick {
    /// Since 1970, by the host's clock.
    pub wall_us: i64,
    pub boottime_us: i64,
}

/// A reading, and how it comes about.
#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Which span of the store's time it is of.
    window: i64,
    rolled_up: bool,
    reading: Reading,
}

/// Readings of one host, while they come.
#[derive(Debug)]
pub(super) struct Collected<'a> {
    pub host: &'a HostLedger,
    entries: HashMap<i64, Vec<Entry>>,
    /// The highest reading of each span, by life.
    peaks: HashMap<i64, BTreeMap<i64, Reading>>,
    /// The last readings of anonymous memory, with the time of their tick.
    anon_bytes: HashMap<i64, (i64, u64)>,
    unknown: BTreeMap<String, u64>,
}

impl<'a> Collected<'a> {
    pub fn new(host: &'a HostLedger) -> Self {
        Self {
            host,
            entries: HashMap::new(),
            peaks: HashMap::new(),
            anon_bytes: HashMap::new(),
            unknown: BTreeMap::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The life of a service that began then; readings of one that the ledger does not have are counted. `None` without a word
    /// for services of others.
    pub fn life(&mut self, service: &str, started_us: i64, readings: u64) -> Option<KnownLife> {
        let lives = self.host.services.get(service)?;
        let nearest = lives.iter().min_by_key(|life| life.started_us.abs_diff(started_us));
        let found = nearest.filter(|life| life.started_us.abs_diff(started_us) <= SAME_START_US).copied();
        if found.is_none() {
            *self.unknown.entry(service.to_owned()).or_default() += readings;
        }
        found
    }

    /// Takes the median and the maximum of a span within a life, in bytes.
    pub fn roll_up(&mut self, life: KnownLife, window: i64, tick: Tick, (median, max): (f64, f64)) {
        self.push(life, window, true, tick, median);
        self.peak(life, window, tick, max);
    }

    /// Takes a single reading, in bytes.
    pub fn single(&mut self, life: KnownLife, window: i64, tick: Tick, bytes: f64, anon: Option<f64>) {
        self.push(life, window, false, tick, bytes);
        self.peak(life, window, tick, bytes);
        if let Some(anon) = anon {
            let last = self.anon_bytes.entry(life.id).or_insert((i64::MIN, 0));
            if last.0 <= tick.wall_us {
                *last = (tick.wall_us, anon as u64);
            }
        }
    }

    fn push(&mut self, life: KnownLife, window: i64, rolled_up: bool, tick: Tick, bytes: f64) {
        let reading = reading(life, tick, bytes);
        self.entries.entry(life.id).or_default().push(Entry { window, rolled_up, reading });
    }

    fn peak(&mut self, life: KnownLife, window: i64, tick: Tick, bytes: f64) {
        let found = reading(life, tick, bytes);
        let peak = self.peaks.entry(life.id).or_default().entry(window).or_insert(found);
        if found.kib > peak.kib {
            *peak = found;
        }
    }

    /// Adds them to those of other hosts: of each span the median, and the last reading of a life as it is.
    ///
    /// A host may have been scraped by two, or under labels that changed: of a span the first median of the store counts, else that
    /// of single readings. A tick that was scraped twice is one reading.
    pub fn finish(mut self, into: &mut RemoteReadings) {
        for (life_id, mut entries) in self.entries {
            let order = |entry: &Entry| (entry.window, !entry.rolled_up);
            entries.sort_by(|a, b| {
                order(a).cmp(&order(b)).then(a.reading.age_seconds.total_cmp(&b.reading.age_seconds))
            });
            let mut readings: Vec<Reading> = Vec::new();
            let mut last = None;
            for of_window in entries.chunk_by(|a, b| a.window == b.window) {
                last = None;
                readings.extend(match of_window.first() {
                    Some(first) if first.rolled_up => Some(first.reading),
                    _ => {
                        let mut singles: Vec<Reading> = of_window.iter().map(|entry| entry.reading).collect();
                        singles.dedup_by_key(|reading| reading.age_seconds.to_bits());
                        last = singles.last().copied().filter(|_| singles.len() > 1);
                        median(&singles)
                    }
                });
            }
            readings.extend(last);
            readings.sort_by(|a, b| a.age_seconds.total_cmp(&b.age_seconds));
            readings.dedup_by_key(|reading| reading.age_seconds.to_bits());
            readings.shrink_to_fit();
            let mut peaks: Vec<Reading> =
                self.peaks.remove(&life_id).unwrap_or_default().into_values().collect();
            peaks.sort_by(|a, b| a.age_seconds.total_cmp(&b.age_seconds));
            let life = RemoteLife {
                readings,
                peaks,
                anon_bytes: self.anon_bytes.get(&life_id).map(|(_, bytes)| *bytes),
            };
            into.lives.insert(life_id, life);
        }
        for (service, readings) in self.unknown {
            let name =
                self.host.name.as_ref().map_or_else(|| service.clone(), |host| format!("{host}/{service}"));
            into.of_unknown_lives.insert(name, readings);
        }
    }
}

fn reading(life: KnownLife, tick: Tick, bytes: f64) -> Reading {
    let age_seconds = ((tick.boottime_us - life.started_boottime_us) as f64 / 1e6) as f32;
    Reading { age_seconds, kib: kib(bytes) }
}

/// The median of memory, at the age in the middle.
fn median(readings: &[Reading]) -> Option<Reading> {
    let age_seconds = readings.get(readings.len().checked_sub(1)? / 2)?.age_seconds;
    let mut kib: Vec<u32> = readings.iter().map(|reading| reading.kib).collect();
    kib.sort_unstable();
    let upper = *kib.get(kib.len() / 2)?;
    let lower = kib[(kib.len() - 1) / 2];
    Some(Reading { age_seconds, kib: lower + (upper - lower) / 2 })
}

fn kib(bytes: f64) -> u32 {
    (bytes / 1024.0) as u32
}
