//! Services that are alike: what those of one kind use says nothing of another.

use std::collections::BTreeMap;

use heaptrial_analysis::{DAY, Fleet, FleetLife, FleetService, Forecast, Settings};
use heaptrial_model::{ServiceName, units};
use heaptrial_stats::median;
use serde::{Deserialize, Serialize};

/// Services of one kind whose sizes are this many times apart are unlike.
const UNLIKE: f64 = 1.5;
/// A part of a kind has a forecast of its own from so many services of the arm on.
const FEWEST: usize = 3;
/// The end of a trial is so much of it, a day at most.
const END_SHARE: f64 = 0.1;
/// Effects of arms and blocks are fitted in turn so many times; where blocks are whole the first time is exact.
const ROUNDS: usize = 20;

/// Services of a rollout that are held to one forecast.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stratum {
    /// What they have in common: unit template, whether they are relays, size.
    pub name: String,
    /// The rollout's services of it.
    pub services: Vec<ServiceName>,
    /// What they are expected to use; without one each is held to what it used before.
    pub forecast: Option<Forecast>,
    pub why_not: Option<String>,
}

/// Services of a trial of one kind: a unit template, relays apart from others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Kind {
    /// The unit template, such as `tor@*`.
    template: String,
    relay: bool,
    /// Those whose sizes are alike.
    parts: Vec<Part>,
}

impl Kind {
    /// Whether a service of the trial is of it.
    pub(crate) fn has(&self, service: &str) -> bool {
        self.parts.iter().any(|part| part.members.iter().any(|member| member == service))
    }
}

/// Services of one kind whose sizes are alike.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Part {
    name: String,
    /// The trial's services of it; of a trial over several hosts `HOST/SERVICE`.
    members: Vec<String>,
    forecast: Option<Forecast>,
    why_not: Option<String>,
}

/// The kinds of services of a trial, with the forecast of an arm in each part, by the trial's readings.
///
/// A kind in which sizes are unlike is divided by size: where that explains most of the squares, as a regression tree does,
/// as long as both parts have enough services of the arm. The size of a service is its level in the trial without the effect
/// of its arm, which is fitted beside that of the block within which arms were drawn.
pub fn kinds(fleet: &Fleet, arm: &str, is_relay: &dyn Fn(&str) -> bool) -> Vec<Kind> {
    let mut kinds: BTreeMap<(String, bool), Vec<&FleetService>> = BTreeMap::new();
    for service in &fleet.services {
        let kind = (template(&service.name), is_relay(&service.name));
        kinds.entry(kind).or_default().push(service);
    }
    let of = |((template, relay), members): ((String, bool), Vec<&FleetService>)| {
        let parts = parts(fleet, arm, &kind_name(&template, relay), &members);
        Kind { template, relay, parts }
    };
    kinds.into_iter().map(of).collect()
}

/// The strata of a rollout's services, with the forecast of an arm in each, by a trial's readings.
pub fn strata(
    fleet: &Fleet,
    arm: &str,
    services: &[ServiceName],
    is_relay: &dyn Fn(&str) -> bool,
) -> Vec<Stratum> {
    strata_of(&kinds(fleet, arm, is_relay), arm, None, services, is_relay)
}

/// The strata of a rollout's services on a host, with the forecast of an arm in each, by the kinds of services of a trial.
pub fn strata_of(
    known: &[Kind],
    arm: &str,
    host: Option<&str>,
    services: &[ServiceName],
    is_relay: &dyn Fn(&str) -> bool,
) -> Vec<Stratum> {
    let mut kinds: BTreeMap<(String, bool), Vec<ServiceName>> = BTreeMap::new();
    for service in services {
        let kind = (template(service.as_str()), is_relay(service.as_str()));
        kinds.entry(kind).or_default().push(service.clone());
    }
    let of = |((template, relay), own): ((String, bool), Vec<ServiceName>)| {
        let found = known.iter().find(|kind| kind.template == template && kind.relay == relay);
        match found {
            Some(kind) => of_kind(kind, host, own),
            None => vec![Stratum {
                name: kind_name(&template, relay),
                services: own,
                forecast: None,
                why_not: Some(format!("arm `{arm}` had no services of this kind")),
            }],
        }
    };
    kinds.into_iter().flat_map(of).collect()
}

fn kind_name(template: &str, relay: bool) -> String {
    if relay { format!("{template} relays") } else { template.to_owned() }
}

fn of_kind(kind: &Kind, host: Option<&str>, services: Vec<ServiceName>) -> Vec<Stratum> {
    let stratum = |part: &Part, services: Vec<ServiceName>| Stratum {
        name: part.name.clone(),
        services,
        forecast: part.forecast.clone(),
        why_not: part.why_not.clone(),
    };
    if let [part] = &kind.parts[..] {
        return vec![stratum(part, services)];
    }
    let mut left = services;
    let mut found = Vec::new();
    for part in &kind.parts {
        let is_own = |service: &ServiceName| {
            part.members.iter().any(|member| match (member.split_once('/'), host) {
                (Some((of, name)), Some(host)) => of == host && name == service.as_str(),
                // Of another host, though it has the same name.
                (None, Some(_)) => false,
                (_, None) => member == service.as_str(),
            })
        };
        let (own, others): (Vec<ServiceName>, Vec<ServiceName>) = left.into_iter().partition(is_own);
        left = others;
        found.push(stratum(part, own));
    }
    let why = "the trial does not tell how large they are, and its services of this kind are unlike";
    found.push(Stratum {
        name: format!("{} of unknown size", kind_name(&kind.template, kind.relay)),
        services: left,
        forecast: None,
        why_not: Some(why.to_owned()),
    });
    found.retain(|stratum| !stratum.services.is_empty());
    found
}

/// Services of one kind, those whose sizes are alike together.
fn parts(fleet: &Fleet, arm: &str, name: &str, members: &[&FleetService]) -> Vec<Part> {
    let position = fleet.arms.iter().position(|own| own.name == arm);
    let in_arm = |service: &FleetService| position.is_some_and(|arm| service.arms.contains(&arm));
    let enough =
        |part: &[(usize, f64)]| part.iter().filter(|(index, _)| in_arm(members[*index])).count() >= FEWEST;
    let parts = divided(sizes(members), &enough);
    if parts.len() < 2 {
        return vec![part(fleet, arm, name.to_owned(), members)];
    }
    let of = |indices: Vec<usize>| {
        let own: Vec<&FleetService> = indices.into_iter().map(|index| members[index]).collect();
        let mut part = part(fleet, arm, name.to_owned(), &own);
        let forecast = part.forecast.as_ref();
        if let Some(level) = forecast.and_then(|forecast| forecast.at(forecast.last_age(), 0.5)) {
            part.name += &format!(" of about {}", units::memory(level.median_bytes));
        }
        part
    };
    parts.into_iter().map(of).collect()
}

fn part(fleet: &Fleet, arm: &str, name: String, members: &[&FleetService]) -> Part {
    let own = Fleet {
        arms: fleet.arms.clone(),
        services: members.iter().map(|service| (*service).clone()).collect(),
        events: Vec::new(),
        limit: fleet.limit,
        randomised: fleet.randomised,
        identities_proved: fleet.identities_proved,
        clock: fleet.clock,
        seed: fleet.seed,
    };
    let (forecast, why_not) = match Forecast::of_arm(&own, &Settings::default(), arm) {
        Ok(forecast) => (Some(forecast), None),
        Err(why) => (None, Some(why.to_string())),
    };
    Part { name, members: members.iter().map(|service| service.name.clone()).collect(), forecast, why_not }
}

/// The unit template, such as `tor@*`; of other units the name without the number at its end.
fn template(service: &str) -> String {
    // Of a trial over several hosts.
    let service = service.rsplit_once('/').map_or(service, |(_, unit)| unit);
    if let Some((template, _)) = service.split_once('@') {
        return format!("{template}@*");
    }
    let stem = service.strip_suffix(".service").unwrap_or(service);
    let kind = stem.trim_end_matches(|c: char| c.is_ascii_digit());
    if kind.len() < stem.len() && !kind.is_empty() { format!("{kind}*") } else { stem.to_owned() }
}

/// Logarithms of the sizes of services, with their indices.
fn sizes(members: &[&FleetService]) -> Vec<(usize, f64)> {
    let level = |(index, service): (usize, &&FleetService)| {
        let [arm] = service.arms[..] else { return None };
        Some((index, arm, service.block, level(service)?.ln()))
    };
    let known: Vec<(usize, usize, u32, f64)> = members.iter().enumerate().filter_map(level).collect();
    let (arms, _) = effects(known.iter().map(|(_, arm, block, log)| (*arm, *block, *log)));
    known.into_iter().map(|(index, arm, _, log)| (index, log - arms[&arm])).collect()
}

/// Effects of arms and of blocks on logarithms of levels.
fn effects(
    levels: impl Iterator<Item = (usize, u32, f64)> + Clone,
) -> (BTreeMap<usize, f64>, BTreeMap<u32, f64>) {
    let (mut arms, mut blocks): (BTreeMap<usize, f64>, BTreeMap<u32, f64>) = Default::default();
    for _ in 0..ROUNDS {
        let effect = |arm: usize| arms.get(&arm).copied().unwrap_or(0.0);
        blocks = means(levels.clone().map(|(arm, block, log)| (block, log - effect(arm))));
        arms = means(levels.clone().map(|(arm, block, log)| (arm, log - blocks[&block])));
    }
    (arms, blocks)
}

/// Blocks of services of one kind, those whose sizes are alike together; each part has to be `enough`. `levels` have arm, block and
/// logarithm.
///
/// Blocks were made before arms were drawn. What a single service uses is the effect of its arm as well: divided by that, an arm's small
/// services would be those to which the arm did most.
pub(crate) fn alike_blocks(levels: &[(usize, u32, f64)], enough: &dyn Fn(&[u32]) -> bool) -> Vec<Vec<u32>> {
    let (_, blocks) = effects(levels.iter().copied());
    let of = |part: &[(usize, f64)]| part.iter().map(|(block, _)| *block as u32).collect::<Vec<u32>>();
    let sizes = blocks.into_iter().map(|(block, size)| (block as usize, size)).collect();
    let parts = divided(sizes, &|part| enough(&of(part)));
    parts.into_iter().map(|part| part.into_iter().map(|block| block as u32).collect()).collect()
}

/// The last life that ran its treatment and has readings.
pub(crate) fn level_life(service: &FleetService) -> Option<&FleetLife> {
    let counts = |life: &&FleetLife| life.contamination.is_none() && !life.readings.is_empty();
    service.lives.iter().rev().find(counts)
}

/// Memory of that life at its end: over the last day, or the second half of a shorter life.
pub(crate) fn level(service: &FleetService) -> Option<f64> {
    let life = level_life(service)?;
    let age = life.last_age()?;
    let from = (age / 2.0).max(age - DAY) as f32;
    let late = life.readings.iter().filter(|reading| reading.age_seconds >= from);
    let values: Vec<f64> = late.map(|reading| f64::from(reading.kib) * 1024.0).collect();
    median(&values).filter(|bytes| *bytes > 0.0)
}

/// When the trial's end began on each host, in seconds since 1970: its last day there, or the last tenth of a short one.
pub(crate) struct Ends<'a>(BTreeMap<Option<&'a str>, f64>);

impl<'a> Ends<'a> {
    pub(crate) fn of(fleet: &'a Fleet) -> Self {
        let mut spans: BTreeMap<Option<&str>, (f64, f64)> = BTreeMap::new();
        for service in &fleet.services {
            for life in &service.lives {
                let Some(age) = life.last_age() else { continue };
                let span = spans.entry(service.host.as_deref()).or_insert((f64::INFINITY, f64::NEG_INFINITY));
                *span = (span.0.min(life.started_at), span.1.max(life.started_at + age));
            }
        }
        let begin = |(first, last): (f64, f64)| last - DAY.min(END_SHARE * (last - first));
        Self(spans.into_iter().map(|(host, span)| (host, begin(span))).collect())
    }

    /// The level of a service that was read until then: what others used is of another time.
    pub(crate) fn level(&self, service: &FleetService) -> Option<f64> {
        let life = level_life(service)?;
        let last = life.started_at + life.last_age()? + life.rolled_up_seconds;
        (last >= *self.0.get(&service.host.as_deref())?).then(|| level(service)).flatten()
    }
}

fn means<K: Ord>(values: impl Iterator<Item = (K, f64)>) -> BTreeMap<K, f64> {
    let mut sums: BTreeMap<K, (f64, f64)> = BTreeMap::new();
    for (key, value) in values {
        let sum = sums.entry(key).or_default();
        *sum = (sum.0 + value, sum.1 + 1.0);
    }
    sums.into_iter().map(|(key, (sum, count))| (key, sum / count)).collect()
}

/// What is divided, with the logarithm of its size.
type Size = (usize, f64);

/// The parts of what is unlike in size, smallest first; each has to be `enough`.
fn divided(mut sizes: Vec<Size>, enough: &dyn Fn(&[Size]) -> bool) -> Vec<Vec<usize>> {
    sizes.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mean = |part: &[(usize, f64)]| part.iter().map(|(_, log)| log).sum::<f64>() / part.len() as f64;
    // Squares that a division explains.
    let explained = |at: usize| {
        let (small, large) = sizes.split_at(at);
        let apart = mean(large) - mean(small);
        let known = apart >= UNLIKE.ln() && enough(small) && enough(large);
        known.then_some((apart.powi(2) * (small.len() * large.len()) as f64 / sizes.len() as f64, at))
    };
    let best = (1..sizes.len()).filter_map(explained).max_by(|a, b| a.0.total_cmp(&b.0));
    match best {
        None => vec![sizes.into_iter().map(|(index, _)| index).collect()],
        Some((_, at)) => {
            let large = sizes.split_off(at);
            let mut parts = divided(sizes, enough);
            parts.extend(divided(large, enough));
            parts
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use heaptrial_analysis::{FleetArm, Work};
    use heaptrial_model::{LifeStart, Reading};
    use proptest::prelude::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;

    const HOUR: f64 = 3600.0;
    const ARM: &str = "mimalloc";
    const BYTES: f64 = 100_000_000.0;

    /// A trial on services of two kinds, dealt to two arms in blocks of one kind each, and those of the other arm to which
    /// the treatment is brought.
    #[derive(Debug, Clone)]
    pub(crate) struct Kinds {
        /// Services of each kind in each arm.
        pub(crate) per_arm: [usize; 2],
        /// What a large service uses under the treatment.
        pub(crate) large_bytes: f64,
        /// What the other arm uses over that.
        pub(crate) other: f64,
        /// Whether kinds are told by their template, or by their size alone.
        pub(crate) by_template: bool,
        pub(crate) seed: u64,
    }

    pub(crate) fn kinds() -> impl Strategy<Value = Kinds> {
        ([4_usize..20, 3_usize..10], 2.5_f64..30.0, 0.4_f64..4.0, any::<bool>(), any::<u64>()).prop_map(
            |([small, large], ratio, other, by_template, seed)| Kinds {
                per_arm: [small, large],
                large_bytes: ratio * BYTES,
                other,
                by_template,
                seed,
            },
        )
    }

    impl Kinds {
        fn name(&self, kind: usize, arm: usize, number: usize) -> String {
            let template = if self.by_template && kind == 1 { "large" } else { "web" };
            format!("{template}@{}{arm}{number}.service", ["s", "l"][kind])
        }

        pub(crate) fn is_small(&self, name: &str) -> bool {
            name.contains("@s")
        }

        /// What a service uses under the treatment.
        pub(crate) fn level(&self, name: &str) -> f64 {
            if self.is_small(name) { BYTES } else { self.large_bytes }
        }

        fn fleet(&self) -> Fleet {
            let mut random = ChaCha8Rng::seed_from_u64(self.seed);
            let mut services = Vec::new();
            for (kind, count) in self.per_arm.iter().enumerate() {
                for number in 0..*count {
                    for (arm, factor) in [1.0, self.other].into_iter().enumerate() {
                        let name = self.name(kind, arm, number);
                        let bytes = self.level(&name) * factor * random.random_range(0.96..1.04);
                        services.push(FleetService {
                            arms: vec![arm],
                            block: (kind * 100 + number) as u32,
                            lives: vec![life(bytes)],
                            name,
                            ..FleetService::default()
                        });
                    }
                }
            }
            let arm = |(name, control): (&str, bool)| FleetArm {
                name: name.into(),
                control,
                ..FleetArm::default()
            };
            Fleet {
                arms: [(ARM, false), ("glibc", true)].map(arm).into(),
                services,
                identities_proved: true,
                ..Fleet::default()
            }
        }

        pub(crate) fn targets(&self) -> Vec<ServiceName> {
            let of = |kind: usize| (0..self.per_arm[kind]).map(move |number| self.name(kind, 1, number));
            of(1).chain(of(0)).map(|name| name.parse().unwrap()).collect()
        }

        pub(crate) fn strata(&self) -> Vec<Stratum> {
            strata(&self.fleet(), ARM, &self.targets(), &|_| false)
        }
    }

    /// Services of these sizes on these hosts, each in the arm and with the ratio that it was drawn into.
    pub(crate) fn fleet_of_hosts(sizes: &[(&str, f64)], drawn: &dyn Fn(usize) -> (usize, f64)) -> Fleet {
        let service = |(index, (host, bytes)): (usize, &(&str, f64))| {
            let (arm, ratio) = drawn(index);
            FleetService {
                host: Some((*host).to_owned()),
                name: format!("{host}/web@{index}.service"),
                arms: vec![arm],
                block: (index / 2) as u32,
                lives: vec![life(bytes * ratio)],
                ..FleetService::default()
            }
        };
        let arm =
            |(name, control): (&str, bool)| FleetArm { name: name.into(), control, ..FleetArm::default() };
        Fleet {
            arms: [("glibc", true), (ARM, false)].map(arm).into(),
            services: sizes.iter().enumerate().map(service).collect(),
            identities_proved: true,
            ..Fleet::default()
        }
    }

    fn life(bytes: f64) -> FleetLife {
        let reading = |number: i32| Reading {
            age_seconds: (f64::from(number) * HOUR) as f32,
            kib: (bytes / 1024.0) as u32,
        };
        FleetLife {
            started_at: 0.0,
            start: LifeStart::Observed,
            contamination: None,
            proved: true,
            readings: (0..=48).map(reading).collect(),
            rolled_up_seconds: 0.0,
            peaks: Vec::new(),
            work: Work::default(),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn each_kind_is_held_to_its_own_forecast(kinds in kinds()) {
            let found = kinds.strata();
            prop_assert_eq!(found.len(), 2, "{:?}", found);
            for stratum in &found {
                let level = kinds.level(stratum.services[0].as_str());
                prop_assert!(stratum.services.iter().all(|service| kinds.level(service.as_str()) == level));
                let expected = stratum.forecast.as_ref().unwrap().at(24.0 * HOUR, 0.9).unwrap();
                prop_assert!((expected.median_bytes / level).ln().abs() < 0.05);
                prop_assert!(expected.high_bytes < 1.5 * level);
            }
            let count: usize = found.iter().map(|stratum| stratum.services.len()).sum();
            prop_assert_eq!(count, kinds.targets().len());
        }
    }

    fn named(names: &[&str]) -> Vec<ServiceName> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    }

    #[test]
    fn services_of_one_kind_and_size_are_one_stratum() {
        let kinds =
            Kinds { per_arm: [12, 6], large_bytes: 1.1 * BYTES, other: 3.0, by_template: false, seed: 1 };
        let found = kinds.strata();
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].name.as_str(), found[0].forecast.as_ref().unwrap().services()), ("web@*", 18));
    }

    #[test]
    fn a_kind_that_the_arm_does_not_have_has_no_forecast_and_says_why() {
        let kinds =
            Kinds { per_arm: [5, 3], large_bytes: 5.0 * BYTES, other: 2.0, by_template: false, seed: 1 };
        let targets = named(&[
            "db.service",
            "web@new.service",
            "web@s10.service",
            "web@l10.service",
            "web@s11.service",
        ]);
        let relay = |name: &str| name == "web@s11.service";
        let found = strata(&kinds.fleet(), ARM, &targets, &relay);
        let told: Vec<(&str, usize, bool)> =
            found.iter().map(|one| (one.name.as_str(), one.services.len(), one.forecast.is_some())).collect();
        assert_eq!(told[0], ("db", 1, false));
        assert!(told[1].0.starts_with("web@* of about 9") && told[1].2, "{told:?}");
        assert!(told[2].0.starts_with("web@* of about 4") && told[2].2, "{told:?}");
        assert_eq!(told[3], ("web@* of unknown size", 1, false));
        assert_eq!(told[4], ("web@* relays", 1, false));
        assert!(found.iter().all(|stratum| stratum.forecast.is_some() != stratum.why_not.is_some()));
    }

    #[test]
    fn a_template_is_what_comes_before_the_instance_or_a_number() {
        for (name, expected) in [
            ("tor@a.service", "tor@*"),
            (r"tor@a\x2db.service", "tor@*"),
            ("tor12.service", "tor*"),
            ("nginx.service", "nginx"),
            ("8080.service", "8080"),
        ] {
            assert_eq!(template(name), expected);
        }
    }
}
