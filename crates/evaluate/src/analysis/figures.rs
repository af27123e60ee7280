//! The figures of arms over sets of their services.

use std::collections::BTreeMap;

use heaptrial_stats::{Block, geometric_mean, holm, mean, median, ratio_to_control};

use crate::analysis::age::Ages;
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{Analysis, ArmFigures, Estimate, RatioToControl, ServiceResult, Settings};

/// What of a service is compared.
pub(crate) type Value = fn(&ServiceResult) -> Option<f64>;

/// Figures of all arms over `members` (positions of services by arm), with ratios to the control's members and
/// p-values adjusted over the arms.
pub(crate) fn of_arms(
    fleet: &Fleet,
    settings: &Settings,
    ages: &Ages,
    services: &[ServiceResult],
    members: &[Vec<usize>],
) -> Vec<ArmFigures> {
    let mut arms: Vec<ArmFigures> = members.iter().map(|members| of_services(services, members)).collect();
    let Some(control) = fleet.arms.iter().position(|arm| arm.control) else { return arms };
    for index in (0..fleet.arms.len()).filter(|index| *index != control) {
        let value = compared(ages, control, index);
        arms[index].ratio = ratio(fleet, settings, (services, value), &members[control], &members[index]);
    }
    let p_values: Vec<Option<f64>> = arms.iter().map(|arm| arm.ratio.as_ref()?.p_value).collect();
    for (arm, adjusted) in arms.iter_mut().zip(holm(&p_values)) {
        if let Some(ratio) = &mut arm.ratio {
            ratio.p_value_adjusted = adjusted;
        }
    }
    arms
}

fn of_services(services: &[ServiceResult], members: &[usize]) -> ArmFigures {
    let values = |value: fn(&ServiceResult) -> Option<f64>| -> Vec<f64> {
        members.iter().filter_map(|index| value(&services[*index])).collect()
    };
    let finals = values(|service| service.final_bytes);
    let levels = values(|service| service.level_bytes);
    ArmFigures {
        services: finals.len() as u32,
        services_compared: levels.len() as u32,
        final_mean_bytes: (!finals.is_empty()).then(|| mean(&finals)),
        final_median_bytes: median(&finals),
        level_bytes: geometric_mean(&levels),
        age_seconds: median(&values(|service| service.age_seconds)),
        ratio: None,
    }
}

/// The ratio of a value of services, arm over control.
pub(crate) fn ratio(
    fleet: &Fleet,
    settings: &Settings,
    (services, value): (&[ServiceResult], Value),
    control: &[usize],
    treated: &[usize],
) -> Option<RatioToControl> {
    ratio_of(fleet, settings, &|index| value(&services[index]), control, treated)
}

/// The ratio of a value of services by their positions, arm over control. `None` where nothing can be compared.
pub fn ratio_of(
    fleet: &Fleet,
    settings: &Settings,
    value: &dyn Fn(usize) -> Option<f64>,
    control: &[usize],
    treated: &[usize],
) -> Option<RatioToControl> {
    let blocks = blocks_of(fleet, value, control, treated);
    let found = ratio_to_control(&blocks, settings.confidence_level, fleet.seed)?;
    Some(RatioToControl {
        estimate: Estimate::new(found.estimate, found.interval),
        method: found.method.as_str().to_owned(),
        p_value: found.p_value,
        p_value_adjusted: None,
    })
}

/// The values of control and arm by block.
pub(crate) fn blocks(
    fleet: &Fleet,
    (services, value): (&[ServiceResult], Value),
    control: &[usize],
    treated: &[usize],
) -> Vec<Block> {
    blocks_of(fleet, &|index| value(&services[index]), control, treated)
}

fn blocks_of(
    fleet: &Fleet,
    value: &dyn Fn(usize) -> Option<f64>,
    control: &[usize],
    treated: &[usize],
) -> Vec<Block> {
    let mut blocks: BTreeMap<u32, Block> = BTreeMap::new();
    for index in control {
        let values = value(*index).filter(|value| *value > 0.0);
        blocks.entry(fleet.services[*index].block).or_default().control.extend(values);
    }
    for index in treated {
        let values = value(*index).filter(|value| *value > 0.0);
        blocks.entry(fleet.services[*index].block).or_default().treated.extend(values);
    }
    let blocks: Vec<Block> = blocks.into_values().collect();
    match by_server(fleet, &blocks) {
        Some(servers) => vec![servers],
        None => blocks,
    }
}

/// Servers of which each has one of the two arms alone: then the server is what was given a treatment, and counts as one, by the
/// geometric mean of its services. `None` where some server has both, and where an arm has fewer servers than two: of one nothing
/// separates what the arm does from what the server does.
fn by_server(fleet: &Fleet, blocks: &[Block]) -> Option<Block> {
    let whole = |of: fn(&Block) -> &Vec<f64>| -> Vec<f64> {
        blocks.iter().filter_map(|block| geometric_mean(of(block))).collect()
    };
    let servers = Block { control: whole(|block| &block.control), treated: whole(|block| &block.treated) };
    let shared = blocks.iter().any(|block| !block.control.is_empty() && !block.treated.is_empty());
    (fleet.clock.has_calendar()
        && !fleet.identities_proved
        && !shared
        && servers.control.len() >= 2
        && servers.treated.len() >= 2)
        .then_some(servers)
}

/// The memory by which an arm is compared to the control: an average over time is compared to an average over the same
/// time, never to a level.
pub(crate) fn compared(ages: &Ages, control: usize, arm: usize) -> Value {
    if ages.sawtooth[control] || ages.sawtooth[arm] {
        |service| service.time_average_bytes
    } else {
        |service| service.level_bytes
    }
}

/// The memory of one arm in proportion to that of another, over services that belong to them: as that to the control.
/// `None` where nothing can be compared.
pub fn ratio_of_arms(
    fleet: &Fleet,
    analysis: &Analysis,
    over: usize,
    under: usize,
) -> Option<RatioToControl> {
    let ages = Ages::of(fleet, &analysis.settings);
    let value = compared(&ages, under, over);
    let (control, treated) = (analysis.members(under), analysis.members(over));
    ratio(fleet, &analysis.settings, (&analysis.services, value), &control, &treated)
}
