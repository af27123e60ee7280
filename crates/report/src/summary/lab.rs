//! A lab run in sentences.

use super::{host, needs};
use crate::chart::metric_name;
use crate::document::{Arm, Report, Sampler};
use crate::units;

/// The result: who needs how much.
pub(crate) fn result(report: &Report) -> Vec<String> {
    let ranked = report.ranked();
    let (Some((least, first)), Some((most, last))) = (ranked.first(), ranked.last()) else {
        let mut sentences =
            vec!["No arm has a service that counts and does its work, so there is no result.".to_owned()];
        sentences.extend(needs::doing_less(report));
        return sentences;
    };
    let metric = metric_name(report.analysis.metric);
    let figure = needs::figure;
    let control = report.control();
    let of_control = control.and_then(|control| Some((control, control.typical_bytes()?)));
    let needed = format!("{} of {metric} per service{}", figure(first), needs::basis(report));
    let mut sentences = Vec::new();
    match (control, of_control) {
        _ if ranked.len() == 1 => sentences.push(format!("{} needed {needed}.", least.name)),
        (Some(control), None) => {
            sentences.push(format!("{} needed the least: {needed}.", least.name));
            sentences.push(format!(
                "The control, {}, has no service that counts, so there are no ratios.",
                control.name
            ));
        }
        (Some(control), _) if least.control => {
            sentences.push(format!("No arm needed less than the control, {}: {needed}.", control.name));
        }
        (_, Some((control, bytes))) => {
            sentences.push(format!(
                "{} needed the least: {needed}, against {} under the control, {}.",
                least.name,
                units::memory(bytes as f64),
                control.name
            ));
            sentences.extend(compared(least));
        }
        (None, _) => sentences.push(format!("{} needed the least: {needed}.", least.name)),
    }
    if ranked.len() > 1 && !most.control {
        sentences.push(format!("{} needed the most: {}.", most.name, figure(last)));
        sentences.extend(compared(most).filter(|_| of_control.is_some()));
    }
    sentences.extend(needs::without_levels(report));
    sentences.extend(needs::doing_less(report));
    sentences
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
        ("Run", format!("{} ({})", report.name, report.kind().describe())),
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
        ("Repeats", report.repeats().to_string()),
    ];
    setup.extend(host(report));
    if let Some(share) = report.cpu_share() {
        setup.push(("CPU use of the services", format!("{} of all CPUs", units::share(share))));
    }
    setup.extend(report.sampler().map(|sampler| ("Samples", sampling(report, sampler))));
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
