//! Who needs least and who most, over all arms that have any figure.

use heaptrial_analysis::{AgeStanding, ArmPair, ArmPlace, Basis, MeasureResult, WorkStanding};

use super::{names, number};
use crate::chart::metric_name;
use crate::document::{Arm, Kind, Report};
use crate::table::level;
use crate::table::work::BYTES;
use crate::units;

/// How the reason of a service begins that ran something else than its arm's treatment.
const CONTAMINATED: &str = "contaminated: ";
/// p-values up to this, adjusted for the number of arms, are no accident.
const ALPHA: f64 = 0.05;
/// Pairs of arms that are told to be apart.
const PAIRS_TOLD: usize = 3;
/// Arms told one by one with their ages.
const ARMS_TOLD: usize = 8;

/// Arms whose memory says nothing for them, because they do less.
pub(crate) fn doing_less(report: &Report) -> Vec<String> {
    let metric = metric_name(report.analysis.metric);
    let arms = report.extremes.order.iter().filter(|place| !place.ranked);
    arms.map(|place| {
        let (arm, figure) = (&report.arms[place.arm], units::memory(report.needs(place) as f64));
        if place.work != Some(WorkStanding::ClearlyLess) {
            let own = || report.services.iter().filter(|service| service.arm == arm.name);
            let failed = own().filter(|service| service.excluded.is_some()).count();
            let of = own().count();
            return format!(
                "{} has no rank: {failed} of its {of} services failed, and the {figure} of {metric} are of those that lived.",
                arm.name
            );
        }
        let did =
            arm.work.as_ref().and_then(|work| work.measures.iter().find_map(|measure| less(report, measure)));
        let did = did.unwrap_or_else(|| "did clearly less than the control's work".to_owned());
        format!("{} {did}: its {figure} of {metric} are no saving, and it has no rank.", arm.name)
    })
    .collect()
}

/// Services of an arm that were read and do not count, though they ran its treatment: they crashed, or were killed.
pub(crate) fn left_out_of<'r>(report: &'r Report, arm: &'r Arm) -> impl Iterator<Item = (&'r str, u64)> {
    let own = report.services.iter().filter(|service| service.arm == arm.name);
    let told =
        own.filter_map(|service| Some((service.excluded.as_deref()?, service.memory.as_ref()?.final_bytes)));
    told.filter(|(why, _)| arm.identity.is_some() && !why.starts_with(CONTAMINATED))
}

/// Arms of a lab run none of whose services counts: why, and what their services had all the same.
pub(crate) fn left_out(report: &Report) -> Vec<String> {
    let metric = metric_name(report.analysis.metric);
    let lost = report.arms.iter().filter(|arm| report.kind().is_lab() && arm.services == 0);
    lost.filter_map(|arm| {
        let services: Vec<(&str, u64)> = left_out_of(report, arm).collect();
        let (why, _) = services.first()?;
        let (least, most) = (services.iter().map(|found| found.1).min()?, services.iter().map(|found| found.1).max()?);
        let (least, most) = (units::memory(least as f64), units::memory(most as f64));
        let had = if least == most { least } else { format!("{least} to {most}") };
        let (whose, of_first) = match services.len() {
            1 => ("its service does not count".to_owned(), ""),
            several => (format!("none of its {several} services counts"), "the first: "),
        };
        Some(format!(
            "{} has no figure and no rank: {whose} ({of_first}{why}). Told beside, and compared with nothing: {had} of {metric} at the \
             last reading.",
            arm.name
        ))
    })
    .collect()
}

/// `did 0 documents where the control did 3,686`: the measure by which an arm does less.
fn less(report: &Report, measure: &MeasureResult) -> Option<String> {
    if measure.standing != WorkStanding::ClearlyLess {
        return None;
    }
    if measure.less_is_better {
        return Some(format!("took {}", price(measure)?));
    }
    // What a load tells is mostly a rate already: there is no count to tell.
    if report.kind() == Kind::LabCommand && measure.tried.is_none() && measure.total > 0.0 {
        return Some(format!("did {}", price(measure)?));
    }
    let count = |value: f64| units::count(value.round() as u64);
    let control = measure.of_control?;
    Some(match (measure.tried, control.tried) {
        (Some(tried), Some(of_control)) => format!(
            "failed {} of {} {} where the control failed {} of {}",
            count(measure.total),
            count(tried),
            measure.name,
            count(control.total),
            count(of_control)
        ),
        _ => {
            let ratio = measure.ratio.as_ref().filter(|_| measure.total > 0.0);
            let share = ratio.map_or_else(String::new, |ratio| {
                let interval = ratio.estimate.interval().map_or_else(String::new, |(low, high)| {
                    format!(" ({} to {})", units::ratio(low), units::ratio(high))
                });
                format!(", {}{interval} of it for each service", units::ratio(ratio.estimate.value))
            });
            match measure.name.as_str() {
                BYTES => format!(
                    "read and wrote {} where the control did {}{share}",
                    units::memory(measure.total),
                    units::memory(control.total)
                ),
                name => format!(
                    "did {} {name} where the control did {}{share}",
                    count(measure.total),
                    count(control.total)
                ),
            }
        }
    })
}

/// What the memory of each arm costs: `b: 0.40 times the memory at 1.02 times the latency_ms (0.98 to 1.06).`
pub(crate) fn prices(report: &Report) -> Vec<String> {
    let arms = report.extremes.order.iter().map(|place| &report.arms[place.arm]);
    let margin = units::ratio(1.0 / report.analysis.work_margin);
    arms.filter_map(|arm| {
        let memory = arm.ratio_as_treated()?.estimate;
        let measures = || arm.work.iter().flat_map(|work| &work.measures);
        let prices: Vec<String> =
            measures().filter(|measure| measure.tried.is_none()).filter_map(price).collect();
        let unsure =
            measures().filter(|measure| measure.standing != WorkStanding::ClearlyLess).any(|measure| {
                let least = measure.of_work().map(|work| work.low.unwrap_or(work.value));
                least.is_some_and(|least| least < report.analysis.work_margin)
            });
        let unsure = match unsure {
            true => format!("; whether that is within the margin of {margin} is not shown"),
            false => String::new(),
        };
        (!prices.is_empty()).then(|| {
            let (memory, prices) = (units::ratio(memory), names(&prices, prices.len()));
            format!("{}: {memory} times the memory at {prices}{unsure}.", arm.name)
        })
    })
    .collect()
}

/// `1.02 times the latency_ms (0.98 to 1.06)`.
fn price(measure: &MeasureResult) -> Option<String> {
    let ratio = measure.ratio.as_ref()?.estimate;
    let interval = ratio.interval().map_or_else(String::new, |(low, high)| {
        format!(" ({} to {})", units::ratio(low), units::ratio(high))
    });
    Some(format!("{} times the {}{interval}", units::ratio(ratio.value), measure.name))
}

/// Where not all arms have a level at an equal age: what stands in its place, and how sure that is.
pub(crate) fn without_levels(report: &Report) -> Vec<String> {
    let extremes = &report.extremes;
    if extremes.basis != Basis::LastReadings {
        return Vec::new();
    }
    let name = |arm: &usize| report.arms[*arm].name.as_str();
    let missing: Vec<&str> = extremes.without_level.iter().map(name).collect();
    let mut sentences = Vec::new();
    if !missing.is_empty() {
        let some = extremes.without_level.iter().any(|arm| level(&report.arms[*arm]).is_some());
        sentences.push(format!(
            "{} {} {}level at an age that all arms reached, so arms are put into order by their last readings, which \
             are of different ages.",
            names(&missing, ARMS_TOLD),
            if missing.len() == 1 { "has" } else { "have" },
            // Half of its services or more lack one.
            if some { "too few services with a " } else { "no " }
        ));
    }
    let told: Vec<String> =
        extremes.order.iter().take(ARMS_TOLD).map(|place| aged(&report.arms[place.arm], place)).collect();
    sentences.push(format!("Last readings, median over services: {}.", names(&told, ARMS_TOLD)));
    sentences.extend(apart(report));
    sentences
}

/// `b 4.12 GiB (5 services at 2 d 3 h)`.
fn aged(arm: &Arm, place: &ArmPlace) -> String {
    let least = if place.ages.starts_unknown > 0 { "at least " } else { "" };
    format!(
        "{} {} ({} {least}{} old)",
        arm.name,
        units::memory(place.bytes),
        number(u64::from(place.services), "service"),
        units::duration(place.ages.median_seconds)
    )
}

/// Arms that are completely apart, and arms that ranks tell from the control.
pub(crate) fn apart(report: &Report) -> Vec<String> {
    let extremes = &report.extremes;
    let mut told: Vec<(usize, usize)> = Vec::new();
    let mut sentences = Vec::new();
    for pair in extremes.separations.iter().take(PAIRS_TOLD) {
        told.push((pair.lower, pair.higher));
        sentences.extend(separation(report, pair));
    }
    let others = extremes.against_control.iter().filter(|pair| !told.contains(&(pair.lower, pair.higher)));
    for pair in others.filter(|pair| pair.shows(ALPHA)) {
        sentences.push(format!(
            "By ranks of services {} lies below {} (exact test, adjusted p {}).",
            report.arms[pair.lower].name,
            report.arms[pair.higher].name,
            units::p_value(pair.ranks.p_value_adjusted)
        ));
    }
    sentences
}

/// `Every service of a lies below every service of b, by a factor of 2.1 at least; ...`.
fn separation(report: &Report, pair: &ArmPair) -> Option<String> {
    let gap = pair.ranks.gap?;
    let (lower, higher) = (&report.arms[pair.lower].name, &report.arms[pair.higher].name);
    let ages = match pair.ages {
        AgeStanding::Equal => "at one age",
        AgeStanding::LowerNotYounger => "and is not younger",
        AgeStanding::LowerYounger if pair.shows(1.0) => {
            "though it is younger; at an age that both reached it is lower too"
        }
        AgeStanding::LowerYounger => "but it is younger, which alone could be the reason",
        AgeStanding::Unknown => "but ages are not known, and could be the reason",
    };
    Some(format!(
        "Each of the {} services of {lower} lies below each of the {} of {higher}, by a factor of {} or more, {ages}; \
         chance alone does that with probability {}.",
        pair.ranks.lower_services,
        pair.ranks.higher_services,
        units::ratio(gap.factor),
        units::p_value(gap.p_value)
    ))
}
