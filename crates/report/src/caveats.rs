//! What may distort the figures of a report, what was not measured, and what was noted during the trial: one list.

use heaptrial_evaluate::analysis::Severity;
use heaptrial_evaluate::judgement::{ArmFacts, cut};
use heaptrial_model::{Metric, TrialKind};

use crate::document::{Arm, Assignment, Event, FindingKind, Outcome, Report, Service};
use crate::text::{date_and_time, ended, names};
use crate::{finding_text, libraries, units};

/// Excluded services that one caveat names.
const REASONS_NAMED: usize = 3;
/// Kinds of events that distort figures.
const WARNED: [&str; 7] =
    ["cpu_saturated", "gap", "warning", "arm_failed", "reboot", "clock_jump", "treatment_failed"];
/// Events of one kind beyond these are only counted.
const LISTED_AT_MOST: usize = 4;
/// A field trial with data over a smaller share of its planned length was ended early.
const WHOLE_SHARE: f64 = 0.95;
/// Anonymous memory so many times the proportional sum of the same tick counts pages more than once.
const COUNTED_OFTEN: f64 = 1.25;
/// Less memory than this outside of malloc is worth no warning.
const UNREACHED_BYTES: u64 = 16 << 20;
/// A share of halvings further above 5% than this many standard errors is no accident.
const ERRORS_APART: f64 = 2.0;
/// Where nobody read what services do.
pub(crate) const NO_WORK: &str =
    "Work of the services was not read: an arm that saves memory by doing less would not be noticed.";

/// Of a report that is otherwise complete, the gravest first; `facts` are those of its arms.
pub(crate) fn of(report: &Report, facts: &[ArmFacts]) -> Vec<String> {
    let lost = report.sources.iter().filter(|source| source.skipped > 0).map(|source| {
        let rows = if source.skipped == 1 { "row was" } else { "rows were" };
        format!("{} malformed {rows} excluded from {}.", units::count(source.skipped), source.file)
    });
    let arms = report.arms.iter().zip(facts).filter(|_| report.kind.is_lab());
    let arms = arms
        .flat_map(|(arm, facts)| of_arm(arm, facts).into_iter().map(|text| format!("{}: {text}.", arm.name)));
    let mut caveats: Vec<String> = lost.chain(early_end(report)).collect();
    caveats.extend(report.arms.iter().filter_map(|arm| counted_often(report, arm)));
    caveats.extend(events(report, &WARNED));
    caveats.extend(arms);
    caveats.extend(libraries::difference_of_arms(report));
    if report.samples > 0 {
        caveats.extend(of_inference(report));
        caveats.extend(unmeasured(report));
    }
    caveats.extend(events(report, &["note"]));
    caveats
}

/// What limits conclusions, whatever was measured.
fn of_inference(report: &Report) -> Vec<String> {
    let unproved = report.findings.iter().any(|finding| finding.kind == FindingKind::IdentityNotProved);
    let (lab, metric) = (report.kind.is_lab(), report.analysis.metric);
    let general = [
        (
            report.assignment.is_some_and(|how| how != Assignment::Random),
            "Services were not assigned at random: intervals hold only as far as services could have been exchanged between arms.",
        ),
        (report.kind.is_import(), "The lists claim what ran; it is not proved."),
        (unproved && !report.kind.is_import(), "It is not proved for every service what ran."),
        (
            report.analysis.ages_are_lower_bounds == Some(true),
            "Most starts are unknown, so ages count from the first reading.",
        ),
        (
            report.outcome_word() == "running" && !report.looks.is_empty(),
            "The trial runs, and this is none of its planned looks: repeated reading finds differences that are not there. Decide by \
             heaptrial trial look.",
        ),
        (
            lab,
            "The lab screens, the field decides: this run shows which arms are worth a trial on real services, not how much memory \
             those will need.",
        ),
        (
            lab && metric == Metric::Cgroup,
            "Memory of a control group includes cached pages of files, charged to the group that touched them first.",
        ),
        (
            report.kind == TrialKind::LabTor && metric == Metric::Rss,
            "RSS includes the pages of the program's file, which relays share; RssAnon is the allocator's part.",
        ),
    ];
    let general = general.into_iter().filter(|(holds, _)| *holds).map(|(_, text)| text.to_owned());
    let grave = grave_findings(report)
        .map(|kinds| format!("Grave findings about the data, described below: {kinds}."));
    general.chain(grave).chain(self_check(report)).collect()
}

/// The kinds of grave findings, each once.
pub(crate) fn grave_findings(report: &Report) -> Option<String> {
    let grave = report.findings.iter().filter(|finding| finding.severity == Severity::Grave);
    let mut kinds: Vec<String> =
        grave.map(|finding| finding_text::of(finding.kind).0.to_lowercase()).collect();
    kinds.sort();
    kinds.dedup();
    (!kinds.is_empty()).then(|| names(&kinds, kinds.len()))
}

fn self_check(report: &Report) -> Option<String> {
    let check = report.self_check?;
    let too_narrow = check.found_share > 0.05 + ERRORS_APART * check.standard_error;
    let noise = check.noise_ratio.max(1.0);
    // Two decimals would call a narrow interval none.
    let ratio = |ratio: f64| if noise < 1.015 { format!("{ratio:.3}") } else { units::ratio(ratio) };
    Some(format!(
        "A/A check: {} of {} random splits of the control differed (expected: up to 5%{}). Ratios from {} to {} are noise.",
        units::share(check.found_share),
        units::count(u64::from(check.halvings)),
        if too_narrow { ", so intervals are too narrow" } else { "" },
        ratio(1.0 / noise),
        ratio(noise)
    ))
}

/// An arm whose memory counts pages that several processes share more than once, by the proportional sums of its services. A
/// lab counts each page once.
fn counted_often(report: &Report, arm: &Arm) -> Option<String> {
    if report.kind != TrialKind::Field || !matches!(report.analysis.metric, Metric::Rss | Metric::Anon) {
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
    let (lab, field) = (report.kind.is_lab(), report.kind == TrialKind::Field);
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

/// The events of some kinds: the first of those that differ by their figures alone, and of each kind the first ones where they
/// are many.
fn events(report: &Report, kinds: &[&str]) -> Vec<String> {
    let of_kind = |kind: &&str| {
        // A failure of a service is among the exclusions of its arm.
        let of_arm = |event: &Event| *kind == "arm_failed" && event.service.is_some();
        let events: Vec<&Event> =
            report.events.iter().filter(|event| event.kind == *kind && !of_arm(event)).collect();
        let mut alike: Vec<(&Event, usize)> = Vec::new();
        for event in events {
            let same = |(first, _): &&mut (&Event, usize)| {
                words(first).eq(words(event)) && first.service == event.service
            };
            match alike.iter_mut().find(same) {
                Some((_, more)) => *more += 1,
                None => alike.push((event, 0)),
            }
        }
        let more = alike.len().saturating_sub(LISTED_AT_MOST);
        let more = (more > 0).then(|| format!("There are {more} more events of kind {kind}."));
        let listed = alike.into_iter().take(LISTED_AT_MOST).map(|(event, more)| match more {
            0 => about(report, event),
            more => format!("{} And {more} more like it.", about(report, event)),
        });
        listed.chain(more).collect::<Vec<_>>()
    };
    kinds.iter().flat_map(of_kind).collect()
}

/// Its text without figures.
fn words(event: &Event) -> impl Iterator<Item = char> {
    event.text.chars().filter(|character| !character.is_ascii_digit())
}

/// What happened, and to which service of which arm.
fn about(report: &Report, event: &Event) -> String {
    let text = cut(&event.text);
    let Some(name) = &event.service else {
        return format!("{}: {}", date_and_time(&event.at), ended(&text));
    };
    let service = report.services.iter().find(|service| service.result.name == *name);
    let arm = service.filter(|service| !service.result.name.contains(&service.arm));
    let arm = arm.map_or_else(String::new, |service| format!(" ({})", service.arm));
    format!("{name}{arm}: {}", ended(&text))
}

/// What may have distorted the figures of an arm of a lab run.
fn of_arm(arm: &Arm, facts: &ArmFacts) -> Vec<String> {
    let excluded = &arm.services_excluded;
    let all = arm.services as usize + excluded.len();
    let reasons: Vec<String> =
        excluded.iter().map(|service| format!("{} ({})", service.name, service.reason)).collect();
    let reasons = names(&reasons, REASONS_NAMED);
    let lost = match excluded.len() {
        _ if all == 0 => Some("none of its services was started".to_owned()),
        0 => None,
        lost => Some(format!("{lost} of {} excluded: {reasons}", units::counted(all, "service"))),
    };
    let builds = (!facts.builds.is_empty())
        .then(|| format!("its services did not all run the same build: {}", facts.builds.join(", ")));
    let unproved = arm.identity.as_ref().is_some_and(|identity| identity.version.is_none());
    let unproved = unproved.then(|| "the version of its allocator could not be proved".to_owned());
    [lost, builds, unproved, unreached(arm)].into_iter().flatten().collect()
}

/// That most of an arm's memory is another allocator's, or the program's own.
fn unreached(arm: &Arm) -> Option<String> {
    let split = arm.memory_split?;
    let (whole, other) = (split.parts().iter().sum::<u64>(), split.other_bytes);
    (other >= UNREACHED_BYTES && other > whole / 2).then(|| {
        let [whole, other] = [whole, other].map(|bytes| units::memory(bytes as f64));
        format!("{other} of its {whole} are not malloc's: an arm that replaces malloc does not change the allocator that counts")
    })
}

fn unmeasured(report: &Report) -> Vec<String> {
    let lab = report.kind.is_lab();
    let any = |has: fn(&Arm) -> bool| report.arms.iter().any(has);
    let none = |has: fn(&Service) -> bool| !report.services.iter().any(has);
    let read = report.services.iter().filter(|service| service.result.readings > 0);
    let without_smaps = read.clone().filter(|service| service.smaps.is_none()).count();
    let host = &report.host;
    let facts = [
        (host.os.is_none(), "operating system of the host".to_owned()),
        (host.kernel.is_none(), "kernel of the host".to_owned()),
        (host.cpu_count.is_none(), "number of CPUs of the host".to_owned()),
        (host.ram_bytes.is_none(), "memory of the host".to_owned()),
        (host.thp_mode.is_none(), "mode of transparent huge pages".to_owned()),
        (none(|service| service.anon_bytes_final.is_some()), "RssAnon and swap of the services".to_owned()),
        (none(|service| service.cpu_seconds.is_some()), "CPU time of the services".to_owned()),
        (
            lab && without_smaps > 0,
            format!(
                "PSS, private dirty, lazily freed and huge pages of {without_smaps} of {} services",
                read.count()
            ),
        ),
    ];
    let facts: Vec<String> =
        facts.into_iter().filter(|(missing, _)| *missing).map(|(_, what)| what).collect();
    let no_level = |arm: &Arm| arm.memory.as_ref().is_some_and(|memory| memory.median_bytes.is_none());
    let missing = [
        (!facts.is_empty()).then(|| format!("Not measured: {}.", names(&facts, facts.len()))),
        (!any(|arm| arm.result.work.is_some())).then(|| NO_WORK.to_owned()),
        report.analysis.matched_age_seconds.is_none().then(|| no_matched_age(report)),
        (lab && any(no_level)).then(|| {
            "There are no levels, ratios and slopes: there are no readings after warm-up.".to_owned()
        }),
        any(|arm| arm.ratio().is_some_and(|ratio| ratio.estimate.low.is_none())).then(|| {
            "Arms whose services are too few, or alike to the byte, have no interval; a lab repeats its run by --repeat.".to_owned()
        }),
    ];
    missing.into_iter().flatten().collect()
}

/// Why arms are not compared at an equal age.
fn no_matched_age(report: &Report) -> String {
    let empty = report.arms.iter().filter(|arm| arm.services == 0 && !arm.services_excluded.is_empty());
    let empty: Vec<&str> = empty.map(|arm| arm.name.as_str()).collect();
    match empty.is_empty() {
        true => "There are no levels and ratios: services of the arms have no age in common.".to_owned(),
        false => {
            format!("There are no levels and ratios: no service of {} counts.", names(&empty, empty.len()))
        }
    }
}
