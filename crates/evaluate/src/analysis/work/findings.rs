//! What of work an operator must know before memory is compared.

use heaptrial_model::units;

use super::freed;
use crate::analysis::data::Data;
use crate::analysis::outcome::{
    ArmResult, ArmWork, Estimate, Finding, FindingKind, FlagCount, MeasureResult, Severity, WorkStanding,
};
use crate::analysis::shares::{Share, is_shown};

/// Work below this share of the control's is a finding, if its interval lies below 1.
const LESS_WORK: f64 = 0.9;
/// A flag that this much smaller a share has is a finding even where the test cannot show it.
const SHARE_LOST: f64 = 0.5;

pub(crate) fn findings(data: Data<'_>, members: &[Vec<usize>], arms: &[ArmResult]) -> Vec<Finding> {
    let fleet = data.fleet;
    let control = fleet.control();
    let mut findings = Vec::new();
    for (arm, result) in arms.iter().enumerate() {
        let Some(work) = &result.work else { continue };
        let name = data.name(arm);
        let of_control = control.filter(|control| *control != arm).and_then(|c| arms[c].work.as_ref());
        if let Some(of_control) = of_control {
            findings.extend(less_work(name, arm, (work, of_control), result));
            findings.extend(unknown_work(name, arm, work, of_control));
            findings.extend(lost_flags(name, arm, work, of_control));
        }
        if work.oom_services > 0 {
            let who = |index: &usize| freed(&fleet.services[*index]) > 0.0;
            let who: Vec<usize> = members[arm].iter().copied().filter(who).collect();
            let evidence = format!(
                "the program's own out-of-memory handler freed {} in {} of {} services of {name}",
                units::memory(work.oom_bytes),
                work.oom_services,
                members[arm].len()
            );
            let finding = Finding::new(FindingKind::MemoryRunsShort, Severity::Caution, evidence);
            findings.push(finding.of_arm(arm).naming(fleet.names(&who)));
        }
    }
    findings
}

fn less_work(
    name: &str,
    arm: usize,
    (work, of_control): (&ArmWork, &ArmWork),
    result: &ArmResult,
) -> Option<Finding> {
    // Without an interval nothing is shown, but a reader must know where to look.
    let may_be_less =
        |estimate: Estimate| estimate.value < LESS_WORK && estimate.high.is_none_or(|high| high < 1.0);
    let is_less = |measure: &&MeasureResult| {
        measure.standing == WorkStanding::ClearlyLess || measure.of_work().is_some_and(may_be_less)
    };
    let less: Vec<&MeasureResult> = work.measures.iter().filter(is_less).collect();
    let less_of = |measure: &&MeasureResult| less_of(name, measure, of_control.measure(&measure.name));
    let evidence = less.iter().map(less_of).collect::<Vec<_>>().join("; ");
    let memory = result.treated().ratio.as_ref().map(|ratio| ratio.estimate.value);
    let saves = memory.is_some_and(|memory| memory < 1.0);
    // Of some services alone it would be held against the memory of all.
    let mut whole = less.iter().filter(|measure| measure.services == measure.of);
    let for_each = whole.find_map(|measure| measure.memory_ratio.as_ref()).filter(|_| saves);
    let for_each = memory.zip(for_each).map_or_else(String::new, |(memory, ratio)| {
        format!(
            "; it needs {} of the control's memory, and {} of it for the same work",
            units::ratio(memory),
            units::ratio(ratio.estimate.value)
        )
    });
    // Less by more than the margin is shown; less than all of it is not.
    let is_shown = work.standing == WorkStanding::ClearlyLess;
    let severity = if is_shown { Severity::Grave } else { Severity::Caution };
    let finding = Finding::new(FindingKind::WorkBelowControl, severity, evidence + &for_each);
    (!less.is_empty()).then(|| finding.of_arm(arm))
}

/// What an arm did of a measure in proportion to the control.
fn less_of(name: &str, measure: &MeasureResult, of_control: Option<&MeasureResult>) -> String {
    let what = &measure.name;
    if let (Some(tried), Some(of_control)) = (measure.tried, of_control) {
        return format!(
            "of {} {what} of {name} {} failed, of the control's {} of {}",
            units::count(tried as u64),
            units::count(measure.total as u64),
            units::count(of_control.total as u64),
            units::count(of_control.tried.unwrap_or(0.0) as u64)
        );
    }
    if measure.idle == measure.services {
        return format!("services of {name} had no {what} at all, and those of the control did");
    }
    let estimate = measure.ratio.as_ref().map(|ratio| ratio.estimate);
    let value = estimate.map_or_else(String::new, |estimate| units::ratio(estimate.value));
    let interval = match estimate.and_then(|estimate| estimate.interval()) {
        Some((low, high)) => format!(" ({} to {})", units::ratio(low), units::ratio(high)),
        None => ", without an interval: services are too few, or agree to the last digit".to_owned(),
    };
    format!("services of {name} had {value} times the {what} of those of the control{interval}")
}

fn unknown_work(name: &str, arm: usize, work: &ArmWork, of_control: &ArmWork) -> Option<Finding> {
    let is_known =
        |measure: &MeasureResult| of_control.measure(&measure.name).is_some_and(|own| own.services > 0);
    let missing: Vec<&str> = work
        .measures
        .iter()
        .filter(|measure| is_known(measure) && 2 * measure.services < measure.of)
        .map(|measure| measure.name.as_str())
        .collect();
    let missing_of = missing.join(", ");
    let evidence =
        format!("{missing_of} of the control were counted, and not of half of the services of {name}");
    let finding = Finding::new(FindingKind::WorkUnknown, Severity::Caution, evidence);
    (!missing.is_empty()).then(|| finding.of_arm(arm))
}

fn lost_flags(name: &str, arm: usize, work: &ArmWork, control: &ArmWork) -> Option<Finding> {
    let mut lost = Vec::new();
    let mut shown = false;
    for flag in &work.flags {
        let Some(usual) = control.flags.iter().find(|other| other.name == flag.name) else { continue };
        let share = |count: &FlagCount| Share { with: count.with as usize, of: count.of as usize };
        let p = share(flag).fewer_than(share(usual));
        if is_shown(p) || share(usual).value() - share(flag).value() >= SHARE_LOST {
            shown |= is_shown(p);
            lost.push(format!(
                "{} {} of {} against {} of {} (exact test, p {})",
                flag.name,
                flag.with,
                flag.of,
                usual.with,
                usual.of,
                units::p_value(p)
            ));
        }
    }
    let severity = if shown { Severity::Grave } else { Severity::Caution };
    let evidence = format!("fewer services of {name} have a flag than of the control: {}", lost.join(", "));
    let finding = Finding::new(FindingKind::FlagLost, severity, evidence);
    (!lost.is_empty()).then(|| finding.of_arm(arm))
}
