//! Caveats of trials side by side.

use std::collections::BTreeSet;

use super::{ComparedTreatment, ComparedTrial};
use crate::chart::metric_name;
use crate::document::{Assignment, Severity};
use crate::text::{names, number};
use crate::{Report, finding_text, libraries, units};

/// Times that differ by less than this share are the same to a reader.
const SAME_TIME: f64 = 0.1;

pub(super) fn of(trials: &[ComparedTrial], treatments: &[ComparedTreatment]) -> Vec<String> {
    let mut caveats = Vec::new();
    let mut differs = |what: &str, value: &dyn Fn(&ComparedTrial) -> Option<String>| {
        let values: Vec<Option<String>> = trials.iter().map(value).collect();
        if values.windows(2).any(|pair| pair[0] != pair[1]) {
            let each = trials.iter().zip(&values).map(|(trial, value)| {
                format!("{} ({})", value.as_deref().unwrap_or("not known"), trial.name)
            });
            caveats.push(format!("{what}: {}.", each.collect::<Vec<_>>().join("; ")));
        }
    };
    differs("The kind of trial differs", &|trial| Some(trial.kind.describe().to_owned()));
    differs("The controls differ, and with them what a ratio means", &|trial| trial.control.clone());
    differs("The metric differs", &|trial| Some(metric_name(trial.metric).to_owned()));
    let ages: Vec<f64> = trials.iter().filter_map(|trial| trial.matched_age_seconds).collect();
    if ages.len() < trials.len() || apart(&ages) {
        differs("Services are compared at different ages", &|trial| {
            Some(trial.matched_age_seconds.map_or_else(|| "no equal age".to_owned(), units::duration))
        });
    }
    let lengths: Vec<f64> = trials.iter().map(|trial| trial.duration_seconds).collect();
    if apart(&lengths) {
        differs("The length differs", &|trial| Some(units::duration(trial.duration_seconds)));
    }
    differs("The assignment differs", &|trial| {
        Some(trial.assignment.map_or("drawn within repeats", Assignment::describe).to_owned())
    });
    differs("The number of processors differs", &|trial| trial.host.cpu_count.map(|count| count.to_string()));
    caveats_of_load(trials, &mut differs);
    differs("The memory of the host differs", &|trial| {
        trial.host.ram_bytes.map(|bytes| units::memory(bytes as f64))
    });
    differs("The operating system differs", &|trial| {
        trial.host.userland.clone().or_else(|| trial.host.os.clone())
    });
    differs("The kernel differs", &|trial| trial.host.kernel.clone());
    differs("Transparent huge pages differ", &|trial| trial.host.thp_mode.clone());
    differs("The version of Heaptrial differs", &|trial| Some(trial.tool_version.clone()));
    caveats.extend(libraries_of(trials));
    let once = treatments.iter().filter(|treatment| treatment.results.iter().flatten().count() == 1).count();
    if once > 0 && trials.len() > 1 {
        let of = treatments.len();
        let verb = if once == 1 { "was" } else { "were" };
        caveats.push(format!(
            "{once} of {of} treatments {verb} in one trial only: nothing there repeats the result."
        ));
    }
    caveats
}

/// What lab runs of one kind did to their services.
fn caveats_of_load(
    trials: &[ComparedTrial],
    differs: &mut impl FnMut(&str, &dyn Fn(&ComparedTrial) -> Option<String>),
) {
    let one_kind = trials.windows(2).all(|pair| pair[0].kind == pair[1].kind);
    let names = trials.iter().flat_map(|trial| trial.parameters.keys());
    let names: BTreeSet<&String> = names.filter(|_| one_kind).collect();
    for name in names {
        let value = |trial: &ComparedTrial| trial.parameters.get(name).map(ToString::to_string);
        differs(&format!("The option `{name}` of the lab differs"), &value);
    }
}

/// Libraries ask the allocator: services of trials that ran with others are not quite the same services.
fn libraries_of(trials: &[ComparedTrial]) -> Option<String> {
    let known = trials.iter().filter(|trial| !trial.libraries.is_empty());
    let sides: Vec<_> = known.map(|trial| (trial.name.as_str(), trial.libraries.iter().collect())).collect();
    let differ = libraries::differences(&sides)?;
    Some(format!("The libraries differ, and with them what an allocator is asked for: {differ}."))
}

/// Trials that were imported from the same file do not confirm each other.
pub(super) fn same_measurements(trials: &[ComparedTrial]) -> Option<String> {
    let shared = trials.iter().filter(|trial| trial.shares_measurements);
    let names: Vec<&str> = shared.map(|trial| trial.name.as_str()).collect();
    (!names.is_empty()).then(|| {
        format!("The same measurements are behind {}: they do not confirm each other.", names.join(" and "))
    })
}

/// Of each trial, whether it was imported from a file that another one was imported from too.
pub(super) fn shared_measurements(reports: &[Report]) -> Vec<bool> {
    let measured = |report: &Report| -> Vec<String> {
        let memory = report.sources.iter().filter(|source| source.role == "memory");
        memory.map(|source| source.sha256.clone()).collect()
    };
    let files: Vec<Vec<String>> = reports.iter().map(measured).collect();
    let shared = |index: usize| {
        let others = files.iter().enumerate().filter(|(other, _)| *other != index);
        others.flat_map(|(_, files)| files).any(|file| files[index].contains(file))
    };
    (0..files.len()).map(shared).collect()
}

/// The grave findings of each trial: how many, and of which kinds.
pub(super) fn grave_findings(reports: &[Report], trials: &[ComparedTrial]) -> Vec<String> {
    let grave = reports.iter().zip(trials).filter_map(|(report, trial)| {
        let grave = report.findings.iter().filter(|finding| finding.severity == Severity::Grave);
        let mut kinds: Vec<String> =
            grave.clone().map(|finding| finding_text::of(finding.kind).title.to_lowercase()).collect();
        let number = number(kinds.len() as u64, "grave finding");
        kinds.sort_unstable();
        kinds.dedup();
        let kinds = names(&kinds, kinds.len());
        (!kinds.is_empty()).then(|| format!("{} has {number} about its data: {kinds}.", trial.name))
    });
    grave.collect()
}

fn apart(seconds: &[f64]) -> bool {
    let longest = seconds.iter().copied().fold(0.0, f64::max);
    let shortest = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    shortest < (1.0 - SAME_TIME) * longest
}
