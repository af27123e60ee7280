//! What a report says besides its figures: warnings, what could not be measured, and notes.

use heaptrial_evaluate::judgement::ArmFacts;
use heaptrial_model::Metric;

use crate::document::{Arm, Event, ExcludedService, Kind, Outcome, Report, Service};
use crate::text::{ended, names, sentence};
use crate::units;

/// From this share of all CPUs on, services wait for each other.
const SATURATED_CPU_SHARE: f64 = 0.85;
/// Reasons that one warning names.
const REASONS_NAMED: usize = 3;
/// Kinds of events that are warnings.
const WARNED: [&str; 7] =
    ["cpu_saturated", "gap", "warning", "arm_failed", "reboot", "clock_jump", "treatment_failed"];
/// Events of one kind beyond these are only counted.
const LISTED_AT_MOST: usize = 8;
/// From this share of one CPU on, sampling is worth a warning.
const COSTLY_SAMPLING_SHARE: f64 = 0.05;
/// Final readings are called unequal in age below this share of the oldest.
const EQUAL_AGE_SHARE: f64 = 0.95;
/// A field trial with data over a smaller share of its planned length was ended early.
const WHOLE_SHARE: f64 = 0.95;
/// Where nobody read what services do.
pub(crate) const NO_WORK: &str =
    "Work of the services: it was not read. An arm that saves memory by doing less would not be noticed.";
/// Anonymous memory so many times the proportional sum of the same tick counts pages more than once.
const COUNTED_OFTEN: f64 = 1.25;
/// From this share of RSS on, pages that were given back but still count are worth a note.
const LAZYFREE_SHARE: f64 = 0.05;

/// Adds them to a report that is otherwise complete.
pub(crate) fn add(report: &mut Report) {
    report.warnings = warnings(report);
    report.unmeasured = unmeasured(report);
    report.notes = notes(report);
}

fn warnings(report: &Report) -> Vec<String> {
    let lost = report.sources.iter().filter(|source| source.skipped > 0).map(|source| {
        let rows = if source.skipped == 1 { "row was" } else { "rows were" };
        format!("{} malformed {rows} excluded from {}.", units::count(source.skipped), source.file)
    });
    let lasted = Some(report.duration_seconds).filter(|seconds| *seconds > 0.0);
    let sampling = report.sampler.zip(lasted).map_or(0.0, |(sampler, lasted)| sampler.cpu_seconds / lasted);
    let costly = (sampling > COSTLY_SAMPLING_SHARE)
        .then(|| format!("Sampling took {} of one CPU.", units::share(sampling)));
    let events = WARNED.iter().flat_map(|kind| of_kind(report, kind));
    let single = [early_end(report), saturation(report), unequal_age(report), costly];
    let often = report.arms.iter().filter_map(|arm| counted_often(report, arm));
    lost.chain(single.into_iter().flatten()).chain(often).chain(events).collect()
}

/// An arm whose memory has pages that several processes share more than once, by the proportional sums of its services. A lab counts
/// each page once.
fn counted_often(report: &Report, arm: &Arm) -> Option<String> {
    if report.kind != Kind::Field || !matches!(report.analysis.metric, Metric::Rss | Metric::Anon) {
        return None;
    }
    let own = report.services.iter().filter(|service| service.counts && service.arm == arm.name);
    let both =
        own.filter_map(|service| Some((service.smaps_anon_bytes? as f64, service.smaps?.pss_bytes as f64)));
    let (anon, proportional) = both.fold((0.0, 0.0), |sum, both| (sum.0 + both.0, sum.1 + both.1));
    (proportional > 0.0 && anon > COUNTED_OFTEN * proportional).then(|| {
        format!(
            "Anonymous memory of {} double-counts pages shared after fork ({} times PSS), which can bias ratios. Use metric = \"pss\" or \
             \"cgroup\".",
            arm.name,
            units::ratio(anon / proportional)
        )
    })
}

/// How it ended, where not as planned.
fn early_end(report: &Report) -> Option<String> {
    let lab = report.kind.is_lab();
    if !lab && report.kind != Kind::Field {
        return None;
    }
    let short = !lab && report.duration_seconds < WHOLE_SHARE * report.planned_seconds;
    let what = match report.outcome {
        Outcome::Failed => "failed",
        Outcome::Interrupted => "was stopped",
        Outcome::Completed if short => "was ended",
        Outcome::Unfinished if lab => {
            return Some(
                "No end of the run was recorded: it still runs or was killed; figures are of what was read."
                    .to_owned(),
            );
        }
        Outcome::Completed | Outcome::Unfinished => return None,
    };
    let after = units::duration(report.duration_seconds);
    let which = if lab { "run" } else { "trial" };
    // Each service of a lab has a life of the planned length, one after the other where they are repeated.
    let planned = match lab {
        true => String::new(),
        false => format!(" of {} planned", units::duration(report.planned_seconds)),
    };
    Some(format!("The {which} {what} after {after}{planned}; figures are of what was read."))
}

/// The events of a kind as warnings; the first ones where they are many.
fn of_kind(report: &Report, kind: &str) -> Vec<String> {
    // A failure of a service is a warning of its arm.
    let of_arm = |event: &Event| kind == "arm_failed" && event.service.is_some();
    let events: Vec<&Event> =
        report.events.iter().filter(|event| event.kind == kind && !of_arm(event)).collect();
    // Each round has one about its processors; the others are among the events.
    if let ("cpu_saturated", Some(first)) = (kind, events.first()) {
        let first = sentence(&heaptrial_evaluate::judgement::cut(&first.text));
        return vec![match events.len() {
            1 => first,
            rounds => format!("Processors were saturated in {rounds} rounds. First: {first}"),
        }];
    }
    let mut warnings: Vec<String> =
        events.iter().take(LISTED_AT_MOST).map(|event| about(report, event)).collect();
    if events.len() > LISTED_AT_MOST {
        warnings.push(format!("There are {} more events of kind {kind}.", events.len() - LISTED_AT_MOST));
    }
    warnings
}

/// What happened, and to which service of which arm.
fn about(report: &Report, event: &Event) -> String {
    let text = heaptrial_evaluate::judgement::cut(&event.text);
    let Some(name) = &event.service else { return sentence(&text) };
    let service = report.services.iter().find(|service| service.name == *name);
    let arm = service.filter(|service| !service.name.contains(&service.arm));
    let arm = arm.map_or_else(String::new, |service| format!(" ({})", service.arm));
    format!("{name}{arm}: {}", ended(&text))
}

/// What may have distorted the figures of an arm of a lab run.
pub(crate) fn of_arm(arm: &Arm, facts: &ArmFacts) -> Vec<String> {
    let mut warnings = Vec::new();
    let all = arm.services as usize + arm.services_excluded.len();
    let named = |service: &ExcludedService| format!("{} ({})", service.name, service.reason);
    let mut reasons: Vec<String> = arm.services_excluded.iter().take(REASONS_NAMED).map(named).collect();
    if arm.services_excluded.len() > REASONS_NAMED {
        reasons.push(format!("and {} more", arm.services_excluded.len() - REASONS_NAMED));
    }
    let reasons = reasons.join(", ");
    match arm.services_excluded.len() {
        _ if all == 0 => warnings.push("none of its services was started".to_owned()),
        0 => {}
        lost if lost == all => warnings.push(format!("all services were excluded: {reasons}")),
        1 => warnings.push(format!("1 of {all} services was excluded: {reasons}")),
        lost => warnings.push(format!("{lost} of {all} services were excluded: {reasons}")),
    }
    if !facts.builds.is_empty() {
        warnings.push(format!("its services did not all run the same build: {}", facts.builds.join(", ")));
    }
    if arm.identity.as_ref().is_some_and(|identity| identity.version.is_none()) {
        warnings.push("the version of its allocator could not be proved".to_owned());
    }
    warnings
}

fn saturation(report: &Report) -> Option<String> {
    // The sampler's own observation says more.
    if report.events.iter().any(|event| event.kind == "cpu_saturated") {
        return None;
    }
    let share = report.cpu_share.filter(|share| *share >= SATURATED_CPU_SHARE)?;
    let cpus = report.host.cpu_count?;
    Some(format!(
        "The services used {} of the machine's {cpus} CPUs: they waited for each other and did less work than on \
         an idle machine.",
        units::share(share)
    ))
}

/// On hosts services start at different times; in a lab they should not differ.
fn unequal_age(report: &Report) -> Option<String> {
    if !report.kind.is_lab() {
        return None;
    }
    let ages =
        || report.services.iter().filter(|service| service.counts).filter_map(|service| service.age_seconds);
    let oldest = ages().fold(0.0, f64::max);
    let youngest = ages().fold(f64::INFINITY, f64::min);
    (youngest < EQUAL_AGE_SHARE * oldest).then(|| {
        format!(
            "The last readings are not of equal age ({} to {}); levels and ratios end at {}.",
            units::duration(youngest),
            units::duration(oldest),
            report.analysis.matched_age_seconds.map_or_else(|| "none".to_owned(), units::duration)
        )
    })
}

fn unmeasured(report: &Report) -> Vec<String> {
    let host = &report.host;
    let facts = [
        ("operating system", host.os.is_none()),
        ("kernel", host.kernel.is_none()),
        ("number of CPUs", host.cpu_count.is_none()),
        ("memory", host.ram_bytes.is_none()),
        ("mode of transparent huge pages", host.thp_mode.is_none()),
    ];
    let unknown: Vec<&str> = facts.into_iter().filter(|fact| fact.1).map(|fact| fact.0).collect();
    let lab = report.kind.is_lab();
    let lived: Vec<&Service> = report.services.iter().filter(|service| service.readings > 0).collect();
    let without_smaps = lived.iter().filter(|service| service.smaps.is_none()).count();
    let unproved: Vec<&str> = report
        .arms
        .iter()
        .filter(|arm| arm.identity.as_ref().is_some_and(|identity| identity.version.is_none()))
        .map(|arm| arm.name.as_str())
        .collect();
    let no_interval = |arm: &Arm| arm.ratio().is_some_and(|ratio| ratio.estimate.low.is_none());
    let no_interval = report.arms.iter().any(no_interval);
    let no_level = |arm: &Arm| arm.memory.as_ref().is_some_and(|memory| memory.median_bytes.is_none());
    let missing = [
        (!unknown.is_empty()).then(|| format!("Of the host: {}.", names(&unknown, unknown.len()))),
        costs_unknown(report),
        (lab && without_smaps > 0).then(|| {
            format!(
                "PSS, private dirty, lazily freed and huge pages were not read for {without_smaps} of {} services.",
                lived.len()
            )
        }),
        (!unproved.is_empty()).then(|| {
            format!("The exact version of the allocator could not be proved for {}.", unproved.join(", "))
        }),
        report.arms.iter().all(|arm| arm.result.work.is_none()).then(|| NO_WORK.to_owned()),
        report.analysis.matched_age_seconds.is_none().then(|| no_matched_age(report)),
        (lab && report.arms.iter().any(no_level))
            .then(|| "Levels, ratios and slopes: there are no readings after warm-up.".to_owned()),
        no_interval.then(|| match lab && report.repeats == 1 {
            true => {
                "Intervals: one service per arm; repeat the run (--repeat) to get them."
                    .to_owned()
            }
            false => "Intervals of arms with too few services.".to_owned(),
        }),
    ];
    missing.into_iter().flatten().collect()
}

/// Why arms are not compared at an equal age.
fn no_matched_age(report: &Report) -> String {
    let excluded = |arm: &&Arm| arm.services == 0 && !arm.services_excluded.is_empty();
    let excluded: Vec<&str> = report.arms.iter().filter(excluded).map(|arm| arm.name.as_str()).collect();
    match excluded.len() {
        0 => "Levels and ratios: services of the arms have no age in common.".to_owned(),
        several => format!("Levels and ratios: no service of {} counts.", names(&excluded, several)),
    }
}

/// What services take besides memory, where it was not read.
fn costs_unknown(report: &Report) -> Option<String> {
    let anon = report.services.iter().all(|service| service.anon_bytes_final.is_none());
    let cpu = report.services.iter().all(|service| service.cpu_seconds.is_none())
        && report.kind == Kind::ImportPrometheus;
    let what = match (anon, cpu) {
        (true, _) => "RssAnon, swap and CPU time",
        (false, true) => "CPU time",
        (false, false) => return None,
    };
    Some(format!("{what} of the services: the cost in CPU time is not known."))
}

fn notes(report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if report.kind.is_lab() {
        notes.push(
            "The lab screens, the field decides: this run shows which arms are worth a trial on real services, not what those will need."
                .to_owned(),
        );
        if report.analysis.metric == Metric::Cgroup {
            notes.push(
                "Memory of a control group includes cached pages of files, charged to the group that touched them first."
                    .to_owned(),
            );
        }
    }
    for arm in &report.arms {
        let own = || report.services.iter().filter(|service| service.counts && service.arm == arm.name);
        let freed: u64 = own().filter_map(|service| service.smaps).map(|smaps| smaps.lazyfree_bytes).sum();
        // On a host they may have been read days before.
        let rss: u64 = own()
            .filter(|service| report.kind.is_lab() && service.smaps.is_some())
            .filter_map(|service| service.rss_bytes_final)
            .sum();
        if rss > 0 && freed as f64 >= LAZYFREE_SHARE * rss as f64 {
            notes.push(format!(
                "{}: {} of its RSS is memory already given back to the kernel (MADV_FREE) that still counts until \
                 the kernel takes it.",
                arm.name,
                units::share(freed as f64 / rss as f64)
            ));
        }
    }
    if report.analysis.metric == Metric::Rss && report.kind == Kind::LabTor {
        notes.push(
            "RSS includes the pages of the program's file, which relays share; RssAnon is the allocator's part."
                .to_owned(),
        );
    }
    let own = report.events.iter().filter(|event| event.kind == "note");
    notes.extend(own.map(|event| about(report, event)));
    notes
}
