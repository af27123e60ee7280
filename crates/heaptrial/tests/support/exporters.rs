//! Exporters as they are: what they tell of services whose lives are known, and what of it is of which life.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::ops::Range;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

/// 2026-10-01, in seconds since 1970.
pub const BEGIN: i64 = 1_790_812_800;
pub const HOURS: i64 = 40;
const END: f64 = (BEGIN + HOURS * 3600) as f64;
/// What a service of each arm needs from an age of an hour on, in KiB: the second needs three tenths of the first.
pub const LEVELS_KIB: [u64; 2] = [400_000, 120_000];
pub const ARMS: [&str; 2] = ["glibc", "mimalloc-2.0.9"];

/// Who tells of the services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exporter {
    /// process-exporter: zeros, and a start before 1970, of a group that does not run. Restarted itself it tells the starts of what runs
    /// some seconds otherwise.
    Processes,
    /// The same, scraped by two servers, each of which is away now and then.
    TwoServers,
    /// cAdvisor over systemd: all control groups with those that hold them, at times of its own, in memory and in swap.
    Cadvisor,
    /// cAdvisor in Kubernetes: pods' sums, pause containers, and another id after each restart.
    Kubernetes,
    /// systemd_exporter: units of a template; starts to the microsecond, zero while a unit is down; memory that is no number now and then.
    Systemd,
}

/// A life: from when until when it was, in seconds since 1970.
#[derive(Debug, Clone)]
struct Life {
    began: f64,
    ended: f64,
}

/// What was told of a life.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Told {
    /// Its start as the exporter tells it, in seconds since 1970.
    pub started: f64,
    /// Readings: milliseconds since 1970, bytes.
    pub readings: Vec<(i64, u64)>,
}

/// A service as it was told.
#[derive(Debug, Clone, Default)]
pub struct Service {
    pub arm: &'static str,
    /// By the number of its life; of lives that nobody saw there is none.
    pub lives: BTreeMap<usize, Told>,
}

/// Names of labels and their values, in order.
type Labels = Vec<(&'static str, String)>;

/// A series: name and labels, milliseconds since 1970 and values.
type Series = BTreeMap<(&'static str, Labels), Vec<(i64, f64)>>;

/// What is in the store, and what it is of.
#[derive(Debug, Default)]
pub struct World {
    pub series: Series,
    /// By the name that an import has for it.
    pub services: BTreeMap<String, Service>,
}

/// Who scrapes a host.
struct Server {
    /// The label that tells it from another one.
    replica: Labels,
    /// After the first one.
    later_ms: i64,
    /// When it scrapes nothing, in seconds.
    away: Vec<Range<i64>>,
}

/// A host while it is drawn.
struct Host {
    exporter: Exporter,
    instance: String,
    /// Seconds that its clock is ahead of the store's.
    ahead: f64,
    /// Starts that it tells may be a second off.
    wavers: bool,
    /// Its exporter is restarted.
    restarts: bool,
    every: i64,
}

impl World {
    pub fn draw(exporter: Exporter, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut world = Self::default();
        for number in 0..3 {
            // Only where start and memory are of one scrape a clock may be off.
            let one_scrape = !matches!(exporter, Exporter::Cadvisor | Exporter::Kubernetes);
            let host = Host {
                exporter,
                instance: format!("10.0.0.{number}:9256"),
                ahead: if one_scrape { rng.random_range(-50.0..50.0) } else { rng.random_range(-0.5..0.5) },
                wavers: exporter == Exporter::Processes && number == 1,
                restarts: exporter == Exporter::Processes && number == 2,
                every: [15, 30, 60][rng.random_range(0..3)],
            };
            let outages = outages(&mut rng);
            let offset: i64 = rng.random_range(0..15);
            let scrapes: Vec<i64> = (0..HOURS * 3600 / host.every)
                .map(|turn| (BEGIN + offset + turn * host.every) * 1000 + rng.random_range(0..900))
                .filter(|at| !outages.iter().any(|away| away.contains(&(at / 1000))))
                .collect();
            let scrapes: Vec<i64> = scrapes.into_iter().filter(|_| !rng.random_bool(0.01)).collect();
            for place in 0..4 {
                let lives = lives(&mut rng, number == 0 && place == 0, number > 0);
                host.tell(&mut world, place, &lives, &scrapes, &mut rng);
            }
            if exporter == Exporter::Cadvisor {
                for at in &scrapes {
                    for id in ["/", "/system.slice"] {
                        world.put("container_memory_rss", host.labels(&[("id", id)]), *at, 7e9);
                        world.put("container_memory_swap", host.labels(&[("id", id)]), *at, 0.0);
                        world.put(
                            "container_start_time_seconds",
                            host.labels(&[("id", id)]),
                            *at,
                            BEGIN as f64 - 9e6,
                        );
                    }
                }
            }
        }
        world
    }

    fn put(&mut self, name: &'static str, labels: Labels, at_ms: i64, value: f64) {
        let values = self.series.entry((name, labels)).or_default();
        // Of two values of one time a store takes the first.
        if values.last().is_none_or(|(last, _)| *last < at_ms) {
            values.push((at_ms, value));
        }
    }

    pub fn openmetrics(&self) -> String {
        let mut text = String::new();
        for ((name, labels), values) in &self.series {
            let labels =
                labels.iter().map(|(label, value)| format!("{label}=\"{}\"", value.replace('\\', "\\\\")));
            let labels = labels.collect::<Vec<_>>().join(",");
            for (at, value) in values {
                writeln!(text, "{name}{{{labels}}} {value} {}.{:03}", at / 1000, at % 1000).unwrap();
            }
        }
        text + "# EOF\n"
    }

    pub fn json_lines(&self) -> String {
        let mut text = String::new();
        for ((name, labels), values) in &self.series {
            let mut metric = json!({ "__name__": name });
            labels.iter().for_each(|(label, value)| metric[*label] = Value::from(value.as_str()));
            // What is no number VictoriaMetrics does not keep.
            let values = values.iter().copied().filter(|(_, value)| value.is_finite());
            let (times, values): (Vec<i64>, Vec<f64>) = values.unzip();
            writeln!(text, "{}", json!({ "metric": metric, "values": values, "timestamps": times })).unwrap();
        }
        text
    }
}

/// Spans in which nothing is scraped, in seconds.
fn outages(rng: &mut StdRng) -> Vec<Range<i64>> {
    (0..rng.random_range(0..4))
        .map(|_| {
            let from = BEGIN + rng.random_range(0..HOURS * 3600);
            from..from + rng.random_range(70..5000)
        })
        .collect()
}

/// The first began before anything was read. A service that fails does so right after its start, again and again; one that settles is
/// old enough at the end for a level.
fn lives(rng: &mut StdRng, fails: bool, settles: bool) -> Vec<Life> {
    let mut lives = Vec::new();
    let mut began = BEGIN as f64 - rng.random_range(4_000.0..900_000.0);
    while began < END {
        let hours: f64 = match (lives.is_empty(), fails && rng.random_bool(0.8)) {
            // Ages from before the first reading are no other service's.
            (true, _) => rng.random_range(0.1..8.0),
            (false, true) => rng.random_range(3.0..400.0) / 3600.0,
            (false, false) => rng.random_range(0.1..60.0),
        };
        let mut ended = began.max(BEGIN as f64) + hours * 3600.0;
        if settles && ended > END - 108_000.0 {
            ended = END + 1.0;
        }
        lives.push(Life { began, ended });
        began = ended
            + if rng.random_bool(0.7) { rng.random_range(2.0..9.0) } else { rng.random_range(9.0..1500.0) };
    }
    lives
}

/// What a life needs at a time, in whole KiB.
fn need_kib(life: &Life, at: f64, arm: usize) -> u64 {
    let age = at - life.began;
    let grown = (0.4 + 0.6 * age / 3600.0).min(1.0);
    (LEVELS_KIB[arm] as f64 * grown) as u64
}

impl Host {
    fn labels(&self, own: &[(&'static str, &str)]) -> Labels {
        let instance = ("instance", self.instance.clone());
        std::iter::once(instance)
            .chain(own.iter().map(|(label, value)| (*label, (*value).to_owned())))
            .collect()
    }

    /// The start of a life as it is told at a time, by an exporter that was restarted at another and is off by seconds since.
    fn started(&self, life: &Life, at: f64, restarted: &Option<(f64, f64)>, rng: &mut StdRng) -> f64 {
        let off = restarted.filter(|(since, _)| *since <= at).map_or(0.0, |(_, seconds)| seconds);
        let by_its_clock = life.began + self.ahead + off;
        match self.exporter {
            Exporter::Systemd => (by_its_clock * 1e6).round() / 1e6,
            _ => by_its_clock.floor() + if self.wavers { f64::from(rng.random_range(0..2)) } else { 0.0 },
        }
    }

    /// All that is told of a service.
    fn tell(&self, world: &mut World, place: usize, lives: &[Life], scrapes: &[i64], rng: &mut StdRng) {
        let arm = place % 2;
        let (name, own): (String, Labels) = match self.exporter {
            Exporter::Processes | Exporter::TwoServers => {
                (format!("{}/tor@{place}", self.instance), vec![("groupname", format!("tor@{place}"))])
            }
            Exporter::Cadvisor => {
                let id = format!(
                    "/system.slice/system-tor.slice/system-tor-instances.slice/tor@number{place}.service"
                );
                (format!("{}/{id}", self.instance), vec![("id", id)])
            }
            Exporter::Kubernetes => {
                let pod = format!("tor-{}-{place}", self.instance.replace([':', '.'], "-"));
                (format!("{pod}/tor"), vec![("pod", pod), ("container", "tor".to_owned())])
            }
            Exporter::Systemd => {
                let unit = format!("tor@relay\\x2d{place}.service");
                (format!("{}/{unit}", self.instance), vec![("name", unit)])
            }
        };
        let mut service = Service { arm: ARMS[arm], lives: BTreeMap::new() };
        let with = |more: &[(&'static str, String)]| -> Labels {
            let mut labels = self.labels(&[("allocator", ARMS[arm])]);
            labels.extend(own.iter().cloned());
            labels.extend(more.iter().cloned());
            labels.sort();
            labels
        };
        let at_seconds = |at: f64| lives.iter().position(|life| life.began <= at && at < life.ended);
        // Of a life that is younger than clocks may be apart nobody could say that it goes on.
        let at = BEGIN as f64 + rng.random_range(0.0..HOURS as f64 * 3600.0);
        let runs = at_seconds(at).is_some_and(|number| at - lives[number].began > 300.0);
        let restarted = (self.restarts && runs).then(|| (at, rng.random_range(-20.0..20.0)));
        // When cAdvisor looked last.
        let mut collected_ms = i64::MIN;
        let server =
            |replica: Labels, later_ms: i64, away: Vec<Range<i64>>| Server { replica, later_ms, away };
        let servers = match self.exporter {
            Exporter::TwoServers => {
                let later_ms = rng.random_range(1000..self.every * 1000 / 2);
                vec![
                    server(vec![("replica", "a".to_owned())], 0, outages(rng)),
                    server(vec![("replica", "b".to_owned())], later_ms, outages(rng)),
                ]
            }
            _ => vec![server(Labels::new(), 0, Vec::new())],
        };
        for (turn, scrape) in scrapes.iter().enumerate() {
            for Server { replica, later_ms, away } in &servers {
                let at_ms = scrape + later_ms;
                if away.iter().any(|away| away.contains(&(at_ms / 1000))) {
                    continue;
                }
                let at = at_ms as f64 / 1e3;
                let number = at_seconds(at);
                match self.exporter {
                    Exporter::Processes | Exporter::TwoServers => {
                        let memory =
                            |kind: &str| with(&[&replica[..], &[("memtype", kind.to_owned())]].concat());
                        let bytes = number.map_or(0, |number| need_kib(&lives[number], at, arm) * 1024);
                        let started = number.map_or(-62_135_596_800.0, |number| {
                            self.started(&lives[number], at, &restarted, rng)
                        });
                        world.put(
                            "namedprocess_namegroup_memory_bytes",
                            memory("resident"),
                            at_ms,
                            bytes as f64,
                        );
                        world.put("namedprocess_namegroup_memory_bytes", memory("virtual"), at_ms, 9e10);
                        world.put(
                            "namedprocess_namegroup_oldest_start_time_seconds",
                            with(replica),
                            at_ms,
                            started,
                        );
                        let Some(number) = number else { continue };
                        service.see(number, started, (at_ms, bytes));
                    }
                    Exporter::Systemd => {
                        let started =
                            number.map_or(0.0, |number| self.started(&lives[number], at, &restarted, rng));
                        world.put("systemd_unit_start_time_seconds", with(&[]), at_ms, started);
                        let Some(number) = number else { continue };
                        let bytes = need_kib(&lives[number], at, arm) * 1024;
                        if rng.random_bool(0.01) {
                            world.put("systemd_process_resident_memory_bytes", with(&[]), at_ms, f64::NAN);
                            continue;
                        }
                        world.put("systemd_process_resident_memory_bytes", with(&[]), at_ms, bytes as f64);
                        service.see(number, started, (at_ms, bytes));
                    }
                    Exporter::Cadvisor | Exporter::Kubernetes => {
                        let id = |number: usize| match self.exporter {
                            Exporter::Cadvisor => with(&[]),
                            _ => with(&[
                                ("id", format!("/kubepods/pod{place}/{number:064}")),
                                ("image", "tor:0.4".to_owned()),
                            ]),
                        };
                        if self.exporter == Exporter::Kubernetes {
                            self.tell_pod(world, place, arm, at_ms);
                        }
                        let Some(number) = number else { continue };
                        let life = &lives[number];
                        let started = self.started(life, at, &restarted, rng);
                        // Told at the time of the scrape; memory at that of the last look, of which there is none right after the start.
                        world.put("container_start_time_seconds", id(number), at_ms, started);
                        if rng.random_bool(0.9) {
                            collected_ms = at_ms - rng.random_range(0..9000);
                        }
                        let looked = collected_ms as f64 / 1e3;
                        if looked < life.began {
                            continue;
                        }
                        let kib = need_kib(life, looked, arm);
                        // Now and then all of it is in swap, and more often a part.
                        let resident = match (turn / 60) % 11 {
                            3 => 0,
                            4..7 => kib / 3,
                            _ => kib,
                        };
                        world.put("container_memory_rss", id(number), collected_ms, (resident * 1024) as f64);
                        world.put(
                            "container_memory_swap",
                            id(number),
                            collected_ms,
                            ((kib - resident) * 1024) as f64,
                        );
                        service.see(number, started, (collected_ms, kib * 1024));
                    }
                }
            }
        }
        world.services.insert(name, service);
    }

    /// What of a pod is none of its containers.
    fn tell_pod(&self, world: &mut World, place: usize, arm: usize, at_ms: i64) {
        let pod = format!("tor-{}-{place}", self.instance.replace([':', '.'], "-"));
        let sum = [("allocator", ARMS[arm]), ("pod", pod.as_str()), ("id", &format!("/kubepods/pod{place}"))];
        let id = format!("/kubepods/pod{place}/pause");
        let pause = [
            ("allocator", ARMS[arm]),
            ("container", "POD"),
            ("id", id.as_str()),
            ("image", "registry.k8s.io/pause:3.9"),
            ("pod", pod.as_str()),
        ];
        for (labels, bytes) in [(self.labels(&sum), 9e9), (self.labels(&pause), 300_000.0)] {
            world.put("container_memory_rss", labels.clone(), at_ms, bytes);
            world.put("container_memory_swap", labels.clone(), at_ms, 0.0);
            world.put("container_start_time_seconds", labels, at_ms, BEGIN as f64 - 9e5);
        }
    }
}

impl Service {
    fn see(&mut self, life: usize, started: f64, (at_ms, bytes): (i64, u64)) {
        let told = self.lives.entry(life).or_insert_with(|| Told { started, readings: Vec::new() });
        if told.readings.last().is_none_or(|(last, _)| *last < at_ms) {
            told.readings.push((at_ms, bytes));
        }
    }
}
