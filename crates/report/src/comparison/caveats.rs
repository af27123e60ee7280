//! Caveats of trials side by side: what differs between them besides the treatments.

use std::collections::BTreeSet;

use super::{ComparedTreatment, ComparedTrial, treatment};
use crate::caveats::grave_findings;
use crate::chart::metric_name;
use crate::document::Assignment;
use crate::text::names;
use crate::{Report, libraries, units};

/// Times that differ by less than this share are the same to a reader.
const SAME_TIME: f64 = 0.1;

type Fact<T> = (&'static str, fn(&Report) -> Option<T>);

const FACTS: [Fact<String>; 9] = [
    ("The kind of trial", |report| Some(report.kind.describe().to_owned())),
    ("The control, and with it what a ratio means,", |report| report.control().map(treatment)),
    ("The metric", |report| Some(metric_name(report.analysis.metric).to_owned())),
    ("The assignment", |report| {
        Some(report.assignment.map_or("drawn within repeats", Assignment::describe).to_owned())
    }),
    ("The number of processors", |report| report.host.cpu_count.map(|count| count.to_string())),
    ("The memory of the host", |report| report.host.ram_bytes.map(|bytes| units::memory(bytes as f64))),
    ("The operating system", |report| report.host.userland.clone().or_else(|| report.host.os.clone())),
    ("The kernel", |report| report.host.kernel.clone()),
    ("The version of Heaptrial", |report| Some(report.tool_version.clone())),
];

/// Lengths of time that may differ a little.
const TIMES: [Fact<f64>; 2] = [
    ("The age at which services are compared", |report| report.analysis.matched_age_seconds),
    ("The length", |report| Some(report.duration_seconds)),
];

pub(super) fn of(
    reports: &[Report],
    trials: &[ComparedTrial],
    treatments: &[ComparedTreatment],
) -> Vec<String> {
    let mut caveats: Vec<String> = same_measurements(reports, trials).into_iter().collect();
    caveats.extend(reports.iter().zip(trials).filter_map(|(report, trial)| {
        Some(format!("{} has grave findings about its data: {}.", trial.name, grave_findings(report)?))
    }));
    let mut differs = |what: &str, values: Vec<Option<String>>| {
        if values.windows(2).any(|pair| pair[0] != pair[1]) {
            let each = trials.iter().zip(values).map(|(trial, value)| {
                format!("{} ({})", value.unwrap_or_else(|| "not known".to_owned()), trial.name)
            });
            caveats.push(format!("{what} differs: {}.", each.collect::<Vec<_>>().join("; ")));
        }
    };
    for (what, fact) in FACTS {
        differs(what, reports.iter().map(fact).collect());
    }
    for (what, time) in TIMES {
        let times: Vec<f64> = reports.iter().filter_map(time).collect();
        let longest = times.iter().copied().fold(0.0, f64::max);
        if times.len() < reports.len() || times.iter().any(|time| *time < (1.0 - SAME_TIME) * longest) {
            differs(what, reports.iter().map(|report| time(report).map(units::duration)).collect());
        }
    }
    // What lab runs of one kind did to their services.
    if reports.windows(2).all(|pair| pair[0].kind == pair[1].kind && pair[0].kind.is_lab()) {
        let options = reports.iter().filter_map(|report| report.parameters.as_object());
        let names: BTreeSet<&String> = options.flat_map(|options| options.keys()).collect();
        for name in names {
            let value = |report: &Report| report.parameters.get(name).map(ToString::to_string);
            differs(&format!("The option `{name}` of the lab"), reports.iter().map(value).collect());
        }
    }
    let libraries =
        reports.iter().zip(trials).map(|(report, trial)| (trial.name.as_str(), libraries::of(report)));
    caveats.extend(
        libraries::differences(libraries).map(|differ| {
            format!("The libraries differ, and change what an allocator is asked for: {differ}.")
        }),
    );
    let once = treatments.iter().filter(|treatment| treatment.results.iter().flatten().count() == 1).count();
    if once > 0 && trials.len() > 1 {
        let of = treatments.len();
        caveats.push(format!("{once} of {of} treatments ran in one trial only: nothing repeats the result."));
    }
    caveats
}

/// Trials that were imported from the same file do not confirm each other.
fn same_measurements(reports: &[Report], trials: &[ComparedTrial]) -> Option<String> {
    let measured = |report: &Report, sha256: &str| {
        report.sources.iter().any(|source| source.role == "memory" && source.sha256 == sha256)
    };
    let shares = |report: &Report| {
        report
            .sources
            .iter()
            .any(|source| reports.iter().filter(|other| measured(other, &source.sha256)).count() > 1)
    };
    let shared: Vec<&str> = reports
        .iter()
        .zip(trials)
        .filter(|(report, _)| shares(report))
        .map(|(_, trial)| trial.name.as_str())
        .collect();
    (!shared.is_empty()).then(|| {
        let names = names(&shared, shared.len());
        format!("The same measurements are behind {names}: they do not confirm each other.")
    })
}
