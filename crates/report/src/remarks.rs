//! What a report says besides its figures: warnings, what could not be measured, and notes.

use heaptrial_evaluate::judgement::{ArmFacts, cut};
use heaptrial_model::Metric;

use crate::document::{Arm, Event, Kind, Outcome, Report, Service};
use crate::text::{ended, names, sentence};
use crate::units;

/// Excluded services that one warning names.
const REASONS_NAMED: usize = 3;
/// Kinds of events that are warnings.
const WARNED: [&str; 7] =
    ["cpu_saturated", "gap", "warning", "arm_failed", "reboot", "clock_jump", "treatment_failed"];
/// Events of one kind beyond these are only counted.
const LISTED_AT_MOST: usize = 4;
/// From this share of one CPU on, sampling is worth a warning.
const COSTLY_SAMPLING_SHARE: f64 = 0.05;
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
    let often = report.arms.iter().filter_map(|arm| counted_often(report, arm));
    lost.chain(early_end(report)).chain(costly).chain(often).chain(events).collect()
}

fn own<'r>(report: &'r Report, arm: &Arm) -> impl Iterator<Item = &'r Service> {
    report.services.iter().filter(move |service| service.counts && service.arm == arm.name)
}

/// An arm whose memory has pages that several processes share more than once, by the proportional sums of its services. A lab counts
/// each page once.
fn counted_often(report: &Report, arm: &Arm) -> Option<String> {
    if report.kind != Kind::Field || !matches!(report.analysis.metric, Metric::Rss | Metric::Anon) {
        return None;
    }
    let both = own(report, arm)
        .filter_map(|service| Some((service.smaps_anon_bytes? as f64, service.smaps?.pss_bytes as f64)));
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
    let (lab, field) = (report.kind.is_lab(), report.kind == Kind::Field);
    let short = field && report.duration_seconds < WHOLE_SHARE * report.planned_seconds;
    let what = match report.outcome {
        _ if !lab && !field => return None,
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
    // Each service of a lab has a life of the planned length, one after the other where they are repeated.
    let (which, planned) = match lab {
        true => ("run", String::new()),
        false => ("trial", format!(" of {} planned", units::duration(report.planned_seconds))),
    };
    Some(format!("The {which} {what} after {after}{planned}; figures are of what was read."))
}

/// The events of a kind as warnings; the first ones where they are many.
fn of_kind(report: &Report, kind: &str) -> Vec<String> {
    // A failure of a service is a warning of its arm.
    let of_arm = |event: &Event| kind == "arm_failed" && event.service.is_some();
    let events: Vec<&Event> =
        report.events.iter().filter(|event| event.kind == kind && !of_arm(event)).collect();
    let more = events.len().saturating_sub(LISTED_AT_MOST);
    let more = (more > 0).then(|| format!("There are {more} more events of kind {kind}."));
    events.iter().take(LISTED_AT_MOST).map(|event| about(report, event)).chain(more).collect()
}

/// What happened, and to which service of which arm.
fn about(report: &Report, event: &Event) -> String {
    let text = cut(&event.text);
    let Some(name) = &event.service else { return sentence(&text) };
    let service = report.services.iter().find(|service| service.name == *name);
    let arm = service.filter(|service| !service.name.contains(&service.arm));
    let arm = arm.map_or_else(String::new, |service| format!(" ({})", service.arm));
    format!("{name}{arm}: {}", ended(&text))
}

/// What may have distorted the figures of an arm of a lab run.
pub(crate) fn of_arm(arm: &Arm, facts: &ArmFacts) -> Vec<String> {
    let excluded = &arm.services_excluded;
    let all = arm.services as usize + excluded.len();
    let reasons: Vec<String> =
        excluded.iter().map(|service| format!("{} ({})", service.name, service.reason)).collect();
    let reasons = names(&reasons, REASONS_NAMED);
    let lost = match excluded.len() {
        _ if all == 0 => Some("none of its services was started".to_owned()),
        0 => None,
        lost if lost == all => Some(format!("all services were excluded: {reasons}")),
        1 => Some(format!("1 of {all} services was excluded: {reasons}")),
        lost => Some(format!("{lost} of {all} services were excluded: {reasons}")),
    };
    let builds = (!facts.builds.is_empty())
        .then(|| format!("its services did not all run the same build: {}", facts.builds.join(", ")));
    let unproved = arm.identity.as_ref().is_some_and(|identity| identity.version.is_none());
    let unproved = unproved.then(|| "the version of its allocator could not be proved".to_owned());
    [lost, builds, unproved].into_iter().flatten().collect()
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
    let read = report.services.iter().filter(|service| service.readings > 0);
    let without_smaps = read.clone().filter(|service| service.smaps.is_none()).count();
    let any = |has: fn(&Arm) -> bool| report.arms.iter().any(has);
    let none = |has: fn(&Service) -> bool| !report.services.iter().any(has);
    let missing = [
        (!unknown.is_empty()).then(|| format!("Of the host: {}.", names(&unknown, unknown.len()))),
        none(|service| service.anon_bytes_final.is_some())
            .then(|| "RssAnon and swap of the services.".to_owned()),
        none(|service| service.cpu_seconds.is_some())
            .then(|| "CPU time of the services: its cost is not known.".to_owned()),
        (lab && without_smaps > 0).then(|| {
            let all = read.count();
            format!(
                "PSS, private dirty, lazily freed and huge pages were not read for {without_smaps} of {all} services."
            )
        }),
        (!any(|arm| arm.result.work.is_some())).then(|| NO_WORK.to_owned()),
        report.analysis.matched_age_seconds.is_none().then(|| no_matched_age(report)),
        (lab && any(|arm| arm.memory.as_ref().is_some_and(|memory| memory.median_bytes.is_none())))
            .then(|| "Levels, ratios and slopes: there are no readings after warm-up.".to_owned()),
        any(|arm| arm.ratio().is_some_and(|ratio| ratio.estimate.low.is_none()))
            .then(|| "Intervals of arms with too few services; a lab repeats its run by --repeat.".to_owned()),
    ];
    missing.into_iter().flatten().collect()
}

/// Why arms are not compared at an equal age.
fn no_matched_age(report: &Report) -> String {
    let empty = report.arms.iter().filter(|arm| arm.services == 0 && !arm.services_excluded.is_empty());
    let empty: Vec<&str> = empty.map(|arm| arm.name.as_str()).collect();
    match empty.is_empty() {
        true => "Levels and ratios: services of the arms have no age in common.".to_owned(),
        false => format!("Levels and ratios: no service of {} counts.", names(&empty, empty.len())),
    }
}

fn notes(report: &Report) -> Vec<String> {
    let lab = report.kind.is_lab();
    let metric = report.analysis.metric;
    let general = [
        (
            lab,
            "The lab screens, the field decides: this run shows which arms are worth a trial on real services, not what those will need.",
        ),
        (
            lab && metric == Metric::Cgroup,
            "Memory of a control group includes cached pages of files, charged to the group that touched them first.",
        ),
        (
            report.kind == Kind::LabTor && metric == Metric::Rss,
            "RSS includes the pages of the program's file, which relays share; RssAnon is the allocator's part.",
        ),
    ];
    let general = general.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text.to_owned());
    let events = report.events.iter().filter(|event| event.kind == "note").map(|event| about(report, event));
    let lazy = report.arms.iter().filter_map(|arm| lazily_freed(report, arm));
    general.chain(lazy).chain(events).collect()
}

/// On a host they may have been read days before.
fn lazily_freed(report: &Report, arm: &Arm) -> Option<String> {
    let both = own(report, arm)
        .filter_map(|service| Some((service.smaps?.lazyfree_bytes as f64, service.rss_bytes_final? as f64)));
    let (freed, rss) = both.fold((0.0, 0.0), |sum, both| (sum.0 + both.0, sum.1 + both.1));
    (report.kind.is_lab() && rss > 0.0 && freed >= LAZYFREE_SHARE * rss).then(|| {
        format!(
            "{}: {} of its RSS is memory already given back to the kernel (MADV_FREE) that still counts until the kernel takes it.",
            arm.name,
            units::share(freed / rss)
        )
    })
}
