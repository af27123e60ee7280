//! A lab run in sentences.

use super::host;
use crate::chart::metric_name;
use crate::document::{Arm, Report, Sampler};
use crate::units;

/// The result: who needs how much.
pub(crate) fn result(report: &Report) -> Vec<String> {
    let ranked: Vec<&Arm> = report
        .ranking()
        .into_iter()
        .map(|index| &report.arms[index])
        .filter(|arm| arm.memory.is_some())
        .collect();
    let (Some(least), Some(most)) = (ranked.first(), ranked.last()) else {
        return vec!["No arm has a service that counts, so there is no result.".to_owned()];
    };
    let metric = metric_name(report.analysis.metric);
    let mut sentences = Vec::new();
    match report.control() {
        _ if ranked.len() == 1 => {
            sentences.push(format!("{} needed {} of {metric} per service.", least.name, typical(least)));
        }
        Some(control) if control.memory.is_none() => {
            sentences.push(format!(
                "{} needed the least: {} of {metric} per service.",
                least.name,
                typical(least)
            ));
            sentences.push(format!(
                "The control, {}, has no service that counts, so there are no ratios.",
                control.name
            ));
        }
        Some(control) if least.control => {
            sentences.push(format!(
                "No arm needed less than the control, {}: {} of {metric} per service.",
                control.name,
                typical(control)
            ));
        }
        Some(control) => {
            sentences.push(format!(
                "{} needed the least: {} of {metric} per service, against {} under the control, {}.",
                least.name,
                typical(least),
                typical(control),
                control.name
            ));
            sentences.extend(compared(least));
        }
        None => {
            sentences.push(format!(
                "{} needed the least: {} of {metric} per service.",
                least.name,
                typical(least)
            ));
        }
    }
    if ranked.len() > 1 && !most.control {
        sentences.push(format!("{} needed the most: {}.", most.name, typical(most)));
        sentences.extend(
            compared(most).filter(|_| report.control().is_some_and(|control| control.memory.is_some())),
        );
    }
    sentences
}

fn typical(arm: &Arm) -> String {
    arm.typical_bytes().map_or_else(String::new, |bytes| units::memory(bytes as f64))
}

fn compared(arm: &Arm) -> Option<String> {
    let ratio = arm.ratio_to_control.as_ref()?;
    let estimate = units::ratio(ratio.estimate);
    Some(match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => {
            let unclear = if low <= 1.0 && 1.0 <= high { ", so a difference is not shown" } else { "" };
            let (low, high) = (units::ratio(low), units::ratio(high));
            format!(
                "That is {estimate} times as much as the control (95% interval {low} to {high}{unclear})."
            )
        }
        _ => format!("That is {estimate} times as much as the control, from one service each: no interval."),
    })
}

/// What the figures of the table of results are, in two sentences.
pub(crate) fn figures_in_brief(report: &Report) -> String {
    let analysis = &report.analysis;
    format!(
        "Memory is {}; medians are from an age of {} to {}, least first.",
        metric_name(analysis.metric),
        units::duration(analysis.warm_up_seconds),
        analysis.matched_age_seconds.map_or_else(|| "the end".to_owned(), units::duration)
    )
}

/// What was run and where: names and values for a list.
pub(crate) fn setup(report: &Report) -> Vec<(&'static str, String)> {
    let mut setup = vec![
        ("Run", format!("{} ({})", report.name, report.kind.describe())),
        ("Started", report.started_at.clone()),
        (
            "Length",
            format!(
                "{} in all, {} planned for each service; {}",
                units::duration(report.duration_seconds),
                units::duration(report.planned_seconds),
                report.outcome.as_str()
            ),
        ),
        ("Seed", report.seed.to_string()),
        ("Repeats", report.repeats.to_string()),
    ];
    setup.extend(host(report));
    if let Some(share) = report.cpu_share {
        setup.push(("CPU use of the services", format!("{} of all CPUs", units::share(share))));
    }
    setup.extend(report.sampler.map(|sampler| ("Samples", sampling(report, sampler))));
    setup.push(("Heaptrial", report.tool_version.clone()));
    setup
}

fn sampling(report: &Report, sampler: Sampler) -> String {
    let share =
        if report.duration_seconds > 0.0 { sampler.cpu_seconds / report.duration_seconds } else { 0.0 };
    format!(
        "{} in {} ticks; sampling took {} of CPU time ({} of one CPU), {:.1} ms for a tick (median); longest gap {}",
        units::count(report.samples),
        units::count(sampler.ticks),
        units::cpu(sampler.cpu_seconds),
        units::share(share),
        sampler.median_tick_seconds * 1000.0,
        units::duration(sampler.longest_gap_seconds)
    )
}

/// How the figures were made.
pub(crate) fn method(report: &Report) -> Vec<String> {
    let analysis = &report.analysis;
    let warm_up = units::duration(analysis.warm_up_seconds);
    let matched = analysis.matched_age_seconds.map_or_else(|| "the end".to_owned(), units::duration);
    let metric = analysis.metric.describe();
    vec![
        format!(
            "Memory is {metric}, summed over the processes of a service. At the end: the last reading, mean over \
             the services of an arm. Median: of each service from an age of {warm_up} (the end of warm-up) to \
             {matched} (an age that all reached), then over services. Peak: the highest reading of any service."
        ),
        "Ratio to control: geometric mean over services of their medians, arm over control. The interval comes from \
         the permutations of the assignment within repeats, or from Student's t on the logarithms where there are \
         too few of them; the unit is the service, never the single sample. Each interval is of \
         95% by itself; p-values are also given adjusted for the number of arms (S. Holm, \"A Simple Sequentially \
         Rejective Multiple Test Procedure\", 1979)."
            .to_owned(),
        "Growth: Theil-Sen slope of each service after warm-up, median over services. In a short run it tells \
         settling from growing, not what happens in days. CPU: user and system time since start, mean over services."
            .to_owned(),
        "An allocator counts as run only where it was proved in the running process. A service that crashed, exited \
         early or ran something else is listed and is in no figure of an arm."
            .to_owned(),
        units::LEGEND.to_owned(),
    ]
}
