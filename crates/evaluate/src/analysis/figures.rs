//! The figures of arms over sets of their services, and the one comparison of an arm with another.

use std::collections::BTreeMap;

use heaptrial_stats::{Block, geometric_mean, holm, mean, median, ratio_to_control};

use crate::analysis::data::Data;
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{Analysis, ArmFigures, Estimate, RatioToControl, ServiceResult, Settings};

/// Figures of all arms over `members` (positions of services by arm), with ratios to the control's members and
/// p-values adjusted over the arms.
pub(crate) fn of_arms(data: Data<'_>, members: &[Vec<usize>]) -> Vec<ArmFigures> {
    let mut arms: Vec<ArmFigures> = members.iter().map(|members| of_services(data, members)).collect();
    let Some(control) = data.fleet.control() else { return arms };
    for arm in (0..arms.len()).filter(|arm| *arm != control) {
        let memory = memory(data.fleet, data.services, control, arm);
        arms[arm].ratio = ratio_of(data.fleet, data.settings, &memory, &members[control], &members[arm]);
    }
    let p_values: Vec<Option<f64>> = arms.iter().map(|arm| arm.ratio.as_ref()?.p_value).collect();
    for (arm, adjusted) in arms.iter_mut().zip(holm(&p_values)) {
        if let Some(ratio) = &mut arm.ratio {
            ratio.p_value_adjusted = adjusted;
        }
    }
    arms
}

fn of_services(data: Data<'_>, members: &[usize]) -> ArmFigures {
    let finals = data.values(members, |service| service.final_bytes);
    let levels = data.values(members, |service| service.level_bytes);
    ArmFigures {
        services: finals.len() as u32,
        services_compared: levels.len() as u32,
        final_mean_bytes: (!finals.is_empty()).then(|| mean(&finals)),
        final_median_bytes: median(&finals),
        level_bytes: geometric_mean(&levels),
        age_seconds: median(&data.values(members, |service| service.age_seconds)),
        ratio: None,
    }
}

/// The ratio of a value of services by their positions, arm over control: the one comparison, of memory, work and cost alike.
/// `None` where nothing can be compared.
pub fn ratio_of(
    fleet: &Fleet,
    settings: &Settings,
    value: &dyn Fn(usize) -> Option<f64>,
    control: &[usize],
    treated: &[usize],
) -> Option<RatioToControl> {
    let blocks = blocks(fleet, value, control, treated);
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
    value: &dyn Fn(usize) -> Option<f64>,
    control: &[usize],
    treated: &[usize],
) -> Vec<Block> {
    let mut blocks: BTreeMap<u32, Block> = BTreeMap::new();
    for (members, is_control) in [(control, true), (treated, false)] {
        for index in members {
            let block = blocks.entry(fleet.services[*index].block).or_default();
            let side = if is_control { &mut block.control } else { &mut block.treated };
            side.extend(value(*index).filter(|value| *value > 0.0));
        }
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

/// The memory of services by which two arms are compared: an average over time is compared to an average over the same
/// time, never to a level.
pub(crate) fn memory<'a>(
    fleet: &Fleet,
    services: &'a [ServiceResult],
    one: usize,
    other: usize,
) -> impl Fn(usize) -> Option<f64> + 'a {
    let averaged = fleet.arms[one].restarted || fleet.arms[other].restarted;
    move |index| match averaged {
        true => services[index].time_average_bytes,
        false => services[index].level_bytes,
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
    let memory = memory(fleet, &analysis.services, under, over);
    ratio_of(fleet, &analysis.settings, &memory, &analysis.members(under), &analysis.members(over))
}
