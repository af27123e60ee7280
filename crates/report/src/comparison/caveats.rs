//! Caveats of trials side by side: what differs between them besides the treatments.

use std::collections::BTreeSet;

use super::{ComparedTreatment, ComparedTrial};
use crate::chart::metric_name;
use crate::document::{Assignment, Severity};
use crate::text::names;
use crate::{Report, finding_text, libraries, units};

/// Times that differ by less than this share are the same to a reader.
const SAME_TIME: f64 = 0.1;

type Fact<T> = (&'static str, fn(&ComparedTrial) -> Option<T>);

const FACTS: [Fact<String>; 9] = [
    ("The kind of trial", |trial| Some(trial.kind.describe().to_owned())),
    ("The control, and with it what a ratio means,", |trial| trial.control.clone()),
    ("The metric", |trial| Some(metric_name(trial.metric).to_owned())),
    ("The assignment", |trial| {
        Some(trial.assignment.map_or("drawn within repeats", Assignment::describe).to_owned())
    }),
    ("The number of processors", |trial| trial.host.cpu_count.map(|count| count.to_string())),
    ("The memory of the host", |trial| trial.host.ram_bytes.map(|bytes| units::memory(bytes as f64))),
    ("The operating system", |trial| trial.host.userland.clone().or_else(|| trial.host.os.clone())),
    ("The kernel", |trial| trial.host.kernel.clone()),
    ("The version of Heaptrial", |trial| Some(trial.tool_version.clone())),
];

/// Lengths of time that may differ a little.
const TIMES: [Fact<f64>; 2] = [
    ("The age at which services are compared", |trial| trial.matched_age_seconds),
    ("The length", |trial| Some(trial.duration_seconds)),
];

pub(super) fn of(
    reports: &[Report],
    trials: &[ComparedTrial],
    treatments: &[ComparedTreatment],
) -> Vec<String> {
    let mut caveats: Vec<String> = same_measurements(trials).into_iter().collect();
    caveats.extend(reports.iter().zip(trials).filter_map(|(report, trial)| grave_findings(report, trial)));
    let mut differs = |what: &str, values: Vec<Option<String>>| {
        if values.windows(2).any(|pair| pair[0] != pair[1]) {
            let each = trials.iter().zip(values).map(|(trial, value)| {
                format!("{} ({})", value.unwrap_or_else(|| "not known".to_owned()), trial.name)
            });
            caveats.push(format!("{what} differs: {}.", each.collect::<Vec<_>>().join("; ")));
        }
    };
    for (what, fact) in FACTS {
        differs(what, trials.iter().map(fact).collect());
    }
    for (what, time) in TIMES {
        let times: Vec<f64> = trials.iter().filter_map(time).collect();
        let longest = times.iter().copied().fold(0.0, f64::max);
        if times.len() < trials.len() || times.iter().any(|time| *time < (1.0 - SAME_TIME) * longest) {
            differs(what, trials.iter().map(|trial| time(trial).map(units::duration)).collect());
        }
    }
    // What lab runs of one kind did to their services.
    if trials.windows(2).all(|pair| pair[0].kind == pair[1].kind) {
        let names: BTreeSet<&String> = trials.iter().flat_map(|trial| trial.parameters.keys()).collect();
        for name in names {
            let value = |trial: &ComparedTrial| trial.parameters.get(name).map(ToString::to_string);
            differs(&format!("The option `{name}` of the lab"), trials.iter().map(value).collect());
        }
    }
    let known = trials.iter().filter(|trial| !trial.libraries.is_empty());
    let sides: Vec<_> = known.map(|trial| (trial.name.as_str(), trial.libraries.iter().collect())).collect();
    caveats.extend(
        libraries::differences(&sides).map(|differ| {
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
fn same_measurements(trials: &[ComparedTrial]) -> Option<String> {
    let shared = trials.iter().filter(|trial| trial.shares_measurements);
    let shared: Vec<&str> = shared.map(|trial| trial.name.as_str()).collect();
    (!shared.is_empty()).then(|| {
        let names = names(&shared, shared.len());
        format!("The same measurements are behind {names}: they do not confirm each other.")
    })
}

fn grave_findings(report: &Report, trial: &ComparedTrial) -> Option<String> {
    let grave = report.findings.iter().filter(|finding| finding.severity == Severity::Grave);
    let kinds: BTreeSet<String> =
        grave.map(|finding| finding_text::of(finding.kind).0.to_lowercase()).collect();
    let kinds: Vec<String> = kinds.into_iter().collect();
    (!kinds.is_empty())
        .then(|| format!("{} has grave findings about its data: {}.", trial.name, names(&kinds, kinds.len())))
}
