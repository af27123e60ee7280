//! The summary: which arm needs how much memory, what to do, what is uncertain. All else is in tables.

use heaptrial_evaluate::analysis::{Basis, Severity, WorkStanding};

use crate::chart::metric_name;
use crate::document::{Arm, Assignment, FindingKind, Report, Verdict};
use crate::finding_text::{self, objection};
use crate::page::Paragraph;
use crate::terms::terms;
use crate::text::{capitalised, ended, estimate_in_sentence, names, no_interval, number};
use crate::{libraries, setup, units};

/// Services younger than this have not shown what their allocator makes of memory.
const YOUNGEST_SECONDS: f64 = 3600.0;
/// p-values above this, adjusted for the number of arms, show nothing.
const LEVEL: f64 = 0.05;
/// Arms and objections that a sentence names.
const NAMED: usize = 6;
/// A share of halvings further above 5% than this many standard errors is no accident.
const ERRORS_APART: f64 = 2.0;

/// Hypothesis, result, recommendation, excluded services, caveats, next steps.
pub(crate) fn paragraphs(report: &Report) -> Vec<Paragraph> {
    let about = |text: &Option<String>| text.iter().cloned().collect::<Vec<_>>();
    let compares = report.arms.len() > 1 && report.samples > 0;
    let on_hosts = !report.kind.is_lab();
    let all = [
        ("Hypothesis", about(&report.about.hypothesis)),
        ("Result", result(report)),
        ("Recommendation", if on_hosts && compares { recommendation(report) } else { Vec::new() }),
        ("Excluded services", if on_hosts { excluded(report) } else { Vec::new() }),
        ("Caveats", if report.samples > 0 { caveats(report) } else { Vec::new() }),
        ("Notes of the plan", about(&report.about.notes)),
        ("Next steps", about(&report.about.next_steps)),
    ];
    let all = all.into_iter().filter(|(_, sentences)| !sentences.is_empty());
    all.map(|(title, sentences)| Paragraph {
        title,
        is_list: matches!(title, "Excluded services" | "Caveats"),
        is_advice: title == "Recommendation",
        sentences,
    })
    .collect()
}

/// Which arm needs how much memory relative to the control, and what the table cannot say of others.
fn result(report: &Report) -> Vec<String> {
    if report.samples == 0 {
        let reason = report.services.iter().find_map(|service| service.excluded.as_deref());
        let why = reason.map_or(terms(report.kind).no_readings.to_owned(), |reason| {
            format!("First reason: {}", ended(reason))
        });
        return vec![format!("No service has readings, so nothing can be compared. {why}")];
    }
    let first = if report.arms.len() == 1 { alone(report) } else { vec![lead(report)] };
    first.into_iter().chain(unranked(report)).collect()
}

/// The sentence to read first.
fn lead(report: &Report) -> String {
    let ranked = report.ranked();
    let metric = metric_name(report.analysis.metric);
    let last_readings = report.extremes.basis == Basis::LastReadings;
    let at = if last_readings { " at the last reading, at different ages" } else { "" };
    let needs = |bytes: u64| format!("{} of {metric} a service{at}", units::memory(bytes as f64));
    let control = ranked.iter().find(|(arm, _)| arm.control);
    match (&ranked[..], control) {
        ([], _) => "No arm has services with readings that can be compared.".to_owned(),
        ([(only, bytes)], _) => format!("Only {} has a figure: {}.", only.name, needs(*bytes)),
        ([(least, bytes), ..], None) => {
            format!("{} needs {}; no control has a figure to compare with.", least.name, needs(*bytes))
        }
        ([(least, bytes), ..], _) if least.control => {
            format!("No arm needs less memory than the control, {}: {}.", least.name, needs(*bytes))
        }
        ([(least, bytes), ..], Some((control, of_control))) => {
            let ratio = least.ratio().filter(|_| !last_readings).map(|ratio| {
                let estimate =
                    estimate_in_sentence(&ratio.estimate, report.analysis.confidence_level, units::ratio);
                let unclear = match ratio.estimate.interval() {
                    Some((low, high)) if low <= 1.0 && 1.0 <= high => "; a difference is not shown",
                    Some(_) => "",
                    None => no_interval(least.services_belonging()),
                };
                (format!("{estimate} times the memory of the control, {}: ", control.name), unclear)
            });
            let (ratio, unclear) = ratio.unwrap_or_default();
            format!(
                "{} needs {ratio}{}, the control {}{unclear}.",
                least.name,
                needs(*bytes),
                units::memory(*of_control as f64)
            )
        }
    }
}

/// What services need that are not compared, by the allocator that they run.
fn alone(report: &Report) -> Vec<String> {
    let needs = report.extremes.order.first().map(|place| {
        format!(
            "A service needs {} of {}, over {} of {}.",
            units::memory(place.bytes),
            metric_name(report.analysis.metric),
            place.services,
            number(u64::from(place.of), "service")
        )
    });
    let mut ran: Vec<&str> = report.services.iter().filter_map(|service| service.ran.as_deref()).collect();
    ran.sort_unstable();
    let kinds: Vec<String> =
        ran.chunk_by(|a, b| a == b).map(|same| format!("{} {}", same.len(), same[0])).collect();
    let ran = (!kinds.is_empty()).then(|| format!("Allocators, as proved: {}.", names(&kinds, kinds.len())));
    let single = "There is one arm, so nothing is compared.".to_owned();
    needs.into_iter().chain(ran).chain([single]).collect()
}

/// Arms without a rank: they do less work, or services of theirs failed.
fn unranked(report: &Report) -> Vec<String> {
    let places = report.extremes.order.iter().filter(|place| !place.ranked).map(|place| place.arm);
    let failed = (0..report.arms.len()).filter(|arm| report.kind.is_lab() && report.arms[*arm].services == 0);
    let sentence = |place: usize| {
        let arm = &report.arms[place];
        let measures = arm.result.work.iter().flat_map(|work| &work.measures);
        let less = measures.filter(|measure| measure.standing == WorkStanding::ClearlyLess);
        let less: Vec<&str> = less.map(|measure| measure.name.as_str()).collect();
        if arm.does_less() {
            return Some(format!(
                "{} does less work than the control ({}): its {} are no saving, and it has no rank.",
                arm.name,
                names(&less, less.len()),
                arm.typical_bytes().map_or_else(String::new, units::memory)
            ));
        }
        let excluded = &arm.services_excluded;
        Some(format!(
            "{} has no rank: {} of {} services excluded (first reason: {}).",
            arm.name,
            excluded.len(),
            arm.services as usize + excluded.len(),
            excluded.first()?.reason
        ))
    };
    places.chain(failed).filter_map(sentence).collect()
}

impl Report {
    /// The arm that is recommended in place of the control: of those that are shown to need less and that nothing blocks the one
    /// that needs least.
    pub fn recommended(&self) -> Option<&Arm> {
        if !self.kind.is_lab() && self.samples > 0 && no_choice(self).is_none() {
            self.eligible().next()
        } else {
            None
        }
    }

    fn eligible(&self) -> impl Iterator<Item = &Arm> {
        let smaller = self.ranked().into_iter().map(|(arm, _)| arm).filter(|arm| needs_less(arm));
        smaller.filter(|arm| arm.objections.iter().all(|objection| !objection.blocks))
    }
}

/// Whether an arm is shown to need less than the control, by its interval and for as many arms as there are.
fn needs_less(arm: &Arm) -> bool {
    arm.ratio().is_some_and(|ratio| {
        let p = ratio.p_value_adjusted.or(ratio.p_value);
        ratio.estimate.high.is_some_and(|high| high < 1.0) && p.is_none_or(|p| p <= LEVEL)
    })
}

/// Which arm to use, or none; and why not those that need less still.
fn recommendation(report: &Report) -> Vec<String> {
    if let Some(why) = no_choice(report) {
        return vec![format!("None: {why}.")];
    }
    let chosen = report.recommended();
    let mut sentences = match chosen {
        Some(arm) => uses(report, arm),
        None => vec!["None: no arm is shown to need less than the control without an objection.".to_owned()],
    };
    let ranked = report.ranked().into_iter().map(|(arm, _)| arm).filter(|arm| !arm.control);
    let before = ranked.take_while(|arm| chosen.is_none_or(|chosen| chosen.name != arm.name));
    for arm in before.filter(|arm| needs_less(arm)).take(NAMED) {
        let blocking = arm.objections.iter().filter(|known| known.blocks).map(objection);
        let blocking = blocking.collect::<Vec<_>>().join("; ");
        sentences.push(format!("Not {}, which needs less: {blocking}.", arm.name));
    }
    let bloating =
        report.arms.iter().filter(|arm| matches!(arm.result.verdict, Some(Verdict::Bloating { .. })));
    let bloating: Vec<&str> = bloating.map(|arm| arm.name.as_str()).collect();
    if !bloating.is_empty() {
        sentences.push(format!("Do not leave services on {}: bloating.", names(&bloating, bloating.len())));
    }
    sentences
}

/// The recommended arm, and what is uncertain about it.
fn uses(report: &Report, arm: &Arm) -> Vec<String> {
    let growing = match arm.result.verdict {
        Some(Verdict::Stable) => "it is stable",
        Some(Verdict::Growing { .. }) => "it grows, and does not reach the control soon",
        _ => "its growth is not decided: keep watching it",
    };
    let interval = |arm: &Arm| arm.ratio().and_then(|ratio| ratio.estimate.interval());
    let overlaps = |other: &&Arm| {
        let both = interval(arm).zip(interval(other));
        other.name != arm.name && both.is_some_and(|(own, other)| other.0 <= own.1 && own.0 <= other.1)
    };
    let close: Vec<&str> = report.eligible().filter(overlaps).map(|arm| arm.name.as_str()).collect();
    let further = [
        arm.ratio()
            .filter(|ratio| ratio.method == "student_t")
            .map(|_| "its interval takes the logarithms of memory as normal (Student's t)".to_owned()),
        (!close.is_empty())
            .then(|| format!("its interval overlaps with that of {}", names(&close, close.len()))),
        arm.identity
            .is_none()
            .then(|| "what its services run is not proved (heaptrial allocators identify PID)".to_owned()),
    ];
    let uncertain = arm.objections.iter().map(objection).chain(further.into_iter().flatten());
    let uncertain: Vec<String> = uncertain.collect();
    let mut sentences = vec![format!("{}: it needs less than the control; {growing}.", arm.name)];
    if !uncertain.is_empty() {
        sentences.push(format!("Uncertain: {}.", uncertain.join("; ")));
    }
    sentences
}

/// Why no arm can be recommended whatever its figures.
fn no_choice(report: &Report) -> Option<String> {
    let Some(control) = report.control() else {
        return Some("without a control nothing can be compared".to_owned());
    };
    let Some(age) = report.analysis.matched_age_seconds else {
        return Some("services of the arms have no age in common; observe them longer".to_owned());
    };
    if control.level().is_none() {
        return Some(format!("the control, {}, has no level; observe it longer", control.name));
    }
    if report.ranked().len() < 2 {
        return Some("no other arm that does the control's work has figures".to_owned());
    }
    let too_young = age < YOUNGEST_SECONDS;
    too_young
        .then(|| format!("services are compared at an age of {}, which is too young", units::duration(age)))
}

/// Who was excluded from which arm, and what they are like.
fn excluded(report: &Report) -> Vec<String> {
    let arms = report.arms.iter().filter(|arm| !arm.services_excluded.is_empty());
    arms.map(|arm| {
        let own = report.services.iter().filter(|service| service.arm == arm.name && !service.counts);
        let mut own: Vec<(Option<&str>, &str)> =
            own.map(|service| (service.like.as_deref(), service.name.as_str())).collect();
        own.sort_by_key(|(like, _)| *like);
        let groups = own.chunk_by(|a, b| a.0 == b.0).map(|group| {
            let members: Vec<&str> = group.iter().map(|(_, name)| *name).collect();
            let like = group[0].0.map_or_else(String::new, |like| format!(" (like {like})"));
            format!("{}{like}", names(&members, members.len()))
        });
        format!(
            "{}: {} of {}: {}.",
            arm.name,
            arm.services_excluded.len(),
            number(u64::from(arm.result.as_assigned.services), "service"),
            groups.collect::<Vec<_>>().join("; ")
        )
    })
    .collect()
}

fn caveats(report: &Report) -> Vec<String> {
    let unproved = report.findings.iter().any(|finding| finding.kind == FindingKind::IdentityNotProved);
    let grave = report.findings.iter().filter(|finding| finding.severity == Severity::Grave);
    let mut kinds: Vec<String> =
        grave.map(|finding| finding_text::of(finding.kind).0.to_lowercase()).collect();
    kinds.sort();
    kinds.dedup();
    let caveats = [
        report.assignment.is_some_and(|how| how != Assignment::Random).then_some(
            "Services were not assigned at random: intervals hold only as far as services could have been exchanged between arms.",
        ),
        report.kind.is_import().then_some("What ran is as the lists claim, not proved."),
        (unproved && !report.kind.is_import()).then_some("What ran is not proved of every service."),
        (report.analysis.ages_are_lower_bounds == Some(true))
            .then_some("Most starts are unknown, so ages count from the first reading."),
        (report.outcome_word() == "running" && !report.looks.is_empty()).then_some(
            "The trial runs, and this is none of its planned looks: repeated reading finds differences that are not there. Decide by \
             heaptrial trial look.",
        ),
    ];
    let grave = (!kinds.is_empty())
        .then(|| format!("Grave findings about the data: {}.", names(&kinds, kinds.len())));
    let caveats = caveats.into_iter().flatten().map(str::to_owned);
    caveats.chain(grave).chain(self_check(report)).collect()
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

/// All warnings, those of arms with the arm's name.
pub(crate) fn warnings(report: &Report) -> Vec<String> {
    let of_arms = report
        .arms
        .iter()
        .flat_map(|arm| arm.warnings.iter().map(move |text| format!("{}: {text}.", arm.name)));
    report.warnings.iter().cloned().chain(of_arms).chain(libraries::difference_of_arms(report)).collect()
}

/// What it was in a line, below the title.
pub(crate) fn about(report: &Report) -> String {
    let state = if report.kind.is_import() { "" } else { report.outcome_word() };
    let separator = if state.is_empty() { "" } else { ", " };
    let kind = capitalised(report.kind.describe());
    format!("{kind}{separator}{state}, {}", setup::circumstances(report))
}

/// Where the memory of the control is, else of the first arm of which that is known.
pub(crate) fn where_memory_is(report: &Report) -> Option<String> {
    let known = |arm: &&Arm| arm.memory_split.is_some();
    let arm = report.control().filter(known).or_else(|| report.arms.iter().find(known))?;
    let parts = arm.memory_split?.parts();
    let whole = parts.iter().sum::<u64>() as f64;
    let [in_use, in_pages, kept, other] = parts.map(|bytes| {
        let bytes = bytes as f64;
        format!("{} ({})", units::memory(bytes), units::share(bytes / whole.max(1.0)))
    });
    Some(format!(
        "A service of {} ended with {} of anonymous memory: {in_use} in use, {in_pages} free in pages in use, {kept} kept free by its \
         allocator, {other} in stacks and outside of the heap.",
        arm.name,
        units::memory(whole)
    ))
}
