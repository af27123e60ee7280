//! What a field trial observed, and how its figures were made.

use super::host;
use crate::chart::metric_name;
use crate::document::{Report, Sampler};
use crate::units;

/// What the figures of the table of results are.
pub(crate) fn figures_in_brief(report: &Report) -> String {
    let analysis = &report.analysis;
    let strangers = if report.arms.iter().any(|arm| arm.as_treated.is_some()) {
        let (all, without) = match report.kind().is_import() {
            true => ("of a list", "strangers"),
            false => ("put into an arm", "contaminated ones"),
        };
        format!(
            " As assigned is over all services {all}, as treated without {without}; level, ratio, growth and verdict \
             are as treated."
        )
    } else {
        String::new()
    };
    let metric = metric_name(analysis.metric);
    let window = units::duration(analysis.window_seconds.unwrap_or(0.0));
    match analysis.matched_age_seconds.map(units::duration) {
        Some(age) => format!(
            "Memory is {metric}. Level: median of the last {window} up to an age of {age}, at which services are \
             compared.{strangers}"
        ),
        None => format!(
            "Memory is {metric}. There is no age at which services of all arms can be compared.{strangers}"
        ),
    }
}

/// How it is known what ran.
pub(crate) fn what_ran(report: &Report) -> &'static str {
    if report.kind().is_import() {
        "The lists claim it; nothing in the data proves it."
    } else {
        "Read from the running processes, of every life."
    }
}

/// What was observed and where: names and values for a list.
pub(crate) fn setup(report: &Report) -> Vec<(&'static str, String)> {
    let arms: Vec<String> = report
        .arms
        .iter()
        .filter(|arm| arm.earlier_list_of.is_none())
        .map(|arm| format!("{} {}", arm.name, arm.services))
        .collect();
    let mut ages: Vec<f64> = report.services.iter().filter_map(|service| service.age_seconds).collect();
    ages.sort_by(f64::total_cmp);
    let mut setup = vec![
        ("Trial", format!("{} ({})", report.name, report.kind().describe())),
        (
            if report.kind().is_import() { "First reading" } else { "Start" },
            super::date_and_time(&report.started_at),
        ),
        ("Span of data", units::duration(report.duration_seconds)),
        ("Readings", units::count(report.samples)),
    ];
    setup.extend(
        report.sampling_interval_seconds().map(|seconds| ("Sampling interval", units::duration(seconds))),
    );
    if !report.kind().is_import() {
        setup.push(("State", report.outcome_word().to_owned()));
    }
    if report.planned_seconds > 0.0 {
        setup.push(("Planned length", units::duration(report.planned_seconds)));
    }
    if !report.looks().is_empty() {
        setup.push(("Planned looks", looks(report)));
    }
    setup.extend(
        report.sampler().map(|sampler| ("Cost of sampling", sampling(&sampler, report.duration_seconds))),
    );
    setup.push(("Services", arms.join(", ")));
    setup.extend(report.assignment().map(str::to_owned).map(|how| ("Assignment", how)));
    if let (Some(youngest), Some(oldest)) = (ages.first(), ages.last()) {
        let middle = ages[ages.len() / 2];
        let bound = if report.analysis.ages_are_lower_bounds == Some(true) { ", at least" } else { "" };
        let range = [*youngest, middle, *oldest].map(units::duration);
        setup.push((
            "Age at the last reading",
            format!("{} to {}, middle {}{bound}", range[0], range[2], range[1]),
        ));
    }
    let matched = report.analysis.matched_age_seconds.map(units::duration);
    setup.push(("Matched age", matched.unwrap_or_else(|| "none that all arms reached".to_owned())));
    let limit = report.analysis.memory_limit.unwrap_or_default();
    let memory = |bytes: u64| units::memory(bytes as f64);
    setup.extend(limit.service_bytes.map(|bytes| ("Memory limit of a service", memory(bytes))));
    setup.extend(limit.host_available_bytes.map(|bytes| ("Available on the host", memory(bytes))));
    // What nobody recorded is told once, among what could not be measured.
    setup.extend(host(report).into_iter().filter(|(_, value)| value != "unknown"));
    setup.push(("Heaptrial", report.tool_version.clone()));
    setup
}

/// `1 d, 3 d (taken: decided: ...) and 10 d`.
fn looks(report: &Report) -> String {
    let told: Vec<String> = report
        .looks()
        .iter()
        .map(|look| {
            let at = units::duration(look.planned_seconds);
            match (&look.result, &look.taken_at) {
                (Some(result), _) => format!("{at} ({result})"),
                (None, Some(_)) => format!("{at} (taken)"),
                (None, None) => at,
            }
        })
        .collect();
    told.join("; ")
}

/// What sampling took of one CPU, and of a tick.
fn sampling(sampler: &Sampler, seconds: f64) -> String {
    let share = if seconds > 0.0 { sampler.cpu_seconds / seconds } else { 0.0 };
    format!(
        "{} ticks, {} of one CPU, {:.1} ms of a tick, longest gap {}",
        units::count(sampler.ticks),
        units::share(share),
        1000.0 * sampler.median_tick_seconds,
        units::duration(sampler.longest_gap_seconds)
    )
}

/// How the figures were made: one line for each method, with its source.
pub(crate) fn method(report: &Report) -> Vec<String> {
    let analysis = &report.analysis;
    let margin = units::share(analysis.stable_margin_per_day.unwrap_or(0.0));
    let horizon = analysis.horizon_days.unwrap_or(0.0);
    let window = units::duration(analysis.window_seconds.unwrap_or(0.0));
    let lines = [
        format!(
            "Unit: the service, never the single sample; pooled samples of one process are not independent. Memory is \
             {}.",
            analysis.metric.describe()
        ),
        "Mean at end: arithmetic mean over the services of an arm of the last reading, which is what operators add \
         up."
            .to_owned(),
        format!(
            "Level: of a service the median of its readings in a window of {window} that ends at the matched age, \
             which nine in ten services of every arm reached; of an arm the geometric mean."
        ),
        "Ratio to control: ratio of geometric means; interval by inversion of the permutation test of the assignment \
         (P. H. Garthwaite, \"Confidence Intervals from Randomization Tests\", Biometrics 52, 1996), Student's t on \
         logarithms where there are too few permutations."
            .to_owned(),
        "Several arms: each interval is of 95% by itself; p-values are adjusted for the number of arms (S. Holm, \"A \
         Simple Sequentially Rejective Multiple Test Procedure\", Scandinavian Journal of Statistics 6, 1979)."
            .to_owned(),
        "Growth: slope of each service after warm-up, over the days that all arms have behind theirs, by H. Theil \
         (1950) and P. K. Sen, \"Estimates of the Regression Coefficient Based on Kendall's Tau\" (1968); of an arm \
         the median over services with its interval between order statistics (W. J. Conover, \"Practical \
         Nonparametric Statistics\", 1999, section 3.2)."
            .to_owned(),
        format!(
            "Stable: the interval of growth lies inside ±{margin} a day, an equivalence claim (D. J. Schuirmann, \"A \
             Comparison of the Two One-Sided Tests Procedure and the Power Approach\", 1987). Growing: it lies above 0. \
             Bloating: it grows without saturation and memory runs out within {horizon:.0} days. Else inconclusive."
        ),
        if report.kind().is_import() {
            "Strangers: last values that form separate clusters, and trajectories nearer to another arm than to their \
             own; each finding names its test and false alarm rate."
                .to_owned()
        } else {
            "Contaminated: a life in which another allocator or other settings were found than its arm's, by reading the \
             running process. Nothing else takes a service out of its arm."
                .to_owned()
        },
        "Changes of level: times at which most services of an arm step together, tested by sign over services, \
         adjusted for all times looked at (Holm)."
            .to_owned(),
        "Self-check (A/A): the whole comparison on random halves of the control, where there is nothing to find."
            .to_owned(),
        units::LEGEND.to_owned(),
    ];
    lines.into()
}

/// Each arm's verdict with its numbers.
pub(crate) fn verdicts(report: &Report) -> Vec<String> {
    let arms = report.ranking().into_iter().map(|index| &report.arms[index]);
    arms.filter_map(|arm| {
        let (word, reason) = (arm.verdict.as_ref()?, arm.verdict_reason.as_ref()?);
        Some(format!("{}: {word}; {reason}", arm.name))
    })
    .collect()
}
