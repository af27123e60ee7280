//! The figures of an arm over the services that count.

use std::collections::BTreeMap;

use heaptrial_model::Identity;
use heaptrial_stats::{Block, IntervalMethod, holm, median, ratio_to_control};
use heaptrial_store::ArmRecord;

use crate::document::{Analysis, Arm, ConsensusAge, ExcludedService, Memory, Ratio, Service};
use crate::ledger::LedgerEntry;

/// Reasons that one warning names.
const REASONS_NAMED: usize = 3;

/// An arm's row with its services: positions in the report's list, and what was proved of them.
#[derive(Debug)]
pub(crate) struct Group<'a> {
    record: &'a ArmRecord,
    services: Vec<usize>,
    identities: Vec<&'a Identity>,
}

impl<'a> Group<'a> {
    pub(crate) fn new(record: &'a ArmRecord) -> Self {
        Self { record, services: Vec::new(), identities: Vec::new() }
    }

    pub(crate) fn add(&mut self, entry: &LedgerEntry<'a>, position: usize) {
        self.services.push(position);
        if entry.counts() {
            self.identities.extend(entry.life.and_then(|life| life.identity.as_ref()));
        }
    }

    fn own<'s>(&self, services: &'s [Service]) -> impl Iterator<Item = &'s Service> {
        self.services.iter().filter_map(|index| services.get(*index))
    }

    fn counted<'s>(&self, services: &'s [Service]) -> Vec<&'s Service> {
        self.own(services).filter(|service| service.counts).collect()
    }
}

/// The figures of all arms, in the order of `groups`.
pub(crate) fn figures(
    groups: &[Group<'_>],
    services: &[Service],
    analysis: &Analysis,
    seed: u64,
) -> Vec<Arm> {
    let control = groups.iter().find(|group| group.record.arm.control).map(|group| group.counted(services));
    let mut arms: Vec<Arm> = groups
        .iter()
        .map(|group| {
            let counted = group.counted(services);
            let ratio_to_control = match &control {
                Some(control) if !group.record.arm.control => ratio(control, &counted, analysis, seed),
                _ => None,
            };
            arm(group, services, &counted, analysis, ratio_to_control)
        })
        .collect();
    let p_values: Vec<Option<f64>> =
        arms.iter().map(|arm| arm.ratio_to_control.as_ref().and_then(|ratio| ratio.p_value)).collect();
    for (arm, adjusted) in arms.iter_mut().zip(holm(&p_values)) {
        if let Some(ratio) = &mut arm.ratio_to_control {
            ratio.p_value_adjusted = adjusted;
        }
    }
    arms
}

fn arm(
    group: &Group<'_>,
    services: &[Service],
    counted: &[&Service],
    analysis: &Analysis,
    ratio_to_control: Option<Ratio>,
) -> Arm {
    let ArmRecord { arm, obtained, .. } = group.record;
    let excluded = group.own(services).filter_map(|service| {
        Some(ExcludedService { name: service.name.clone(), reason: service.excluded.clone()? })
    });
    let whole = |bytes: f64| bytes.round() as u64;
    let slopes: Vec<f64> = counted.iter().filter_map(|service| service.slope_bytes_per_hour).collect();
    let mut figures = Arm {
        name: arm.name.clone(),
        control: arm.control,
        allocator: arm.allocator().to_string(),
        treatment: arm.treatment.clone(),
        identity: group.identities.first().map(|identity| (*identity).clone()),
        obtained: obtained.clone(),
        services: counted.len() as u32,
        services_excluded: excluded.collect(),
        memory: memory(counted, analysis),
        rss_bytes_final: mean(counted, |service| Some(service.rss_bytes_final? as f64)).map(whole),
        anon_bytes_final: mean(counted, |service| Some(service.anon_bytes_final? as f64)).map(whole),
        ratio_to_control,
        slope_bytes_per_hour: median(&slopes),
        cpu_seconds: mean(counted, |service| service.cpu_seconds),
        consensus_age: consensus_age(counted),
        warnings: Vec::new(),
        earlier_list_of: None,
        list: None,
        age_seconds: None,
        as_treated: None,
        verdict: None,
        verdict_reason: None,
        growth: None,
        days_until_full: None,
        days_until_doubled: None,
        limit: None,
        last_reading_at: None,
        verdict_as_assigned: None,
        days_needed: None,
        by_day: Vec::new(),
        level_changes: Vec::new(),
        sawtooth: None,
        work: None,
        events: None,
    };
    figures.warnings = warnings(group, &figures);
    figures
}

fn memory(counted: &[&Service], analysis: &Analysis) -> Option<Memory> {
    let memories: Vec<&Memory> = counted.iter().filter_map(|service| service.memory.as_ref()).collect();
    let medians: Vec<f64> = memories.iter().filter_map(|memory| Some(memory.median_bytes? as f64)).collect();
    Some(Memory {
        metric: analysis.metric,
        final_bytes: mean(&memories, |memory| Some(memory.final_bytes as f64))?.round() as u64,
        median_bytes: median(&medians).map(|bytes| bytes.round() as u64),
        peak_bytes: memories.iter().map(|memory| memory.peak_bytes).max()?,
    })
}

/// The ratio of two arms over their services that count.
pub(crate) fn ratio(
    control: &[&Service],
    treated: &[&Service],
    analysis: &Analysis,
    seed: u64,
) -> Option<Ratio> {
    let mut blocks: BTreeMap<u32, Block> = BTreeMap::new();
    let level = |service: &Service| Some(service.memory.as_ref()?.median_bytes? as f64);
    for service in control {
        blocks.entry(service.block).or_default().control.extend(level(service));
    }
    for service in treated {
        blocks.entry(service.block).or_default().treated.extend(level(service));
    }
    let blocks: Vec<Block> = blocks.into_values().collect();
    let found = ratio_to_control(&blocks, analysis.confidence_level, seed)?;
    let one_each = control.len() == 1 && treated.len() == 1;
    let note = match found.method {
        IntervalMethod::Permutation => None,
        IntervalMethod::StudentT => Some(
            "few services: the interval (Student's t) assumes that the logarithms are normally distributed",
        ),
        IntervalMethod::None if one_each => Some("one service per arm: no interval"),
        IntervalMethod::None => Some("too few services for an interval"),
    };
    Some(Ratio {
        estimate: found.estimate,
        low: found.interval.map(|interval| interval.0),
        high: found.interval.map(|interval| interval.1),
        method: found.method.as_str().to_owned(),
        p_value: found.p_value,
        p_value_adjusted: None,
        note: note.map(str::to_owned),
    })
}

fn consensus_age(counted: &[&Service]) -> Option<ConsensusAge> {
    let ages: Vec<ConsensusAge> = counted.iter().filter_map(|service| service.consensus_age).collect();
    let medians: Vec<f64> = ages.iter().map(|age| age.median_seconds).collect();
    Some(ConsensusAge {
        median_seconds: median(&medians)?,
        max_seconds: ages.iter().map(|age| age.max_seconds).fold(f64::MIN, f64::max),
        lag_events: ages.iter().map(|age| age.lag_events).sum(),
    })
}

fn warnings(group: &Group<'_>, arm: &Arm) -> Vec<String> {
    let mut warnings = Vec::new();
    let all = group.services.len();
    let named = |service: &ExcludedService| format!("{} ({})", service.name, service.reason);
    let mut reasons: Vec<String> = arm.services_excluded.iter().take(REASONS_NAMED).map(named).collect();
    if arm.services_excluded.len() > REASONS_NAMED {
        reasons.push(format!("and {} more", arm.services_excluded.len() - REASONS_NAMED));
    }
    let reasons = reasons.join(", ");
    match arm.services_excluded.len() {
        _ if all == 0 => warnings.push("none of its services was started".to_owned()),
        0 => {}
        lost if lost == all => warnings.push(format!("no service counts, so it has no figures: {reasons}")),
        1 => warnings.push(format!("1 of {all} services does not count: {reasons}")),
        lost => warnings.push(format!("{lost} of {all} services do not count: {reasons}")),
    }
    let builds = |identity: &Identity| (identity.label(), identity.path.clone(), identity.build_id.clone());
    if group.identities.windows(2).any(|pair| builds(pair[0]) != builds(pair[1])) {
        let mut labels: Vec<String> = group.identities.iter().map(|identity| identity.label()).collect();
        labels.sort();
        labels.dedup();
        warnings.push(format!("its services did not all run the same build: {}", labels.join(", ")));
    }
    if arm.identity.as_ref().is_some_and(|identity| identity.version.is_none()) {
        warnings.push("the version of its allocator could not be proved".to_owned());
    }
    warnings
}

fn mean<T>(items: &[T], value: impl Fn(&T) -> Option<f64>) -> Option<f64> {
    let values: Vec<f64> = items.iter().filter_map(value).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}
