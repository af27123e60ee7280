//! The summary: which arm needs how much memory, what to do, what is uncertain. All else is in tables.

use heaptrial_evaluate::analysis::{ArmPlace, Basis, Severity, WorkStanding};

use crate::chart::metric_name;
use crate::document::{Arm, Assignment, FindingKind, MeasureResult, Report, Verdict};
use crate::finding_text::{self, objection};
use crate::page::Paragraph;
use crate::terms::terms;
use crate::text::{capitalised, ended, estimate_in_sentence, names, number};
use crate::{libraries, units};

/// Services younger than this have not shown what their allocator makes of memory.
const YOUNGEST_SECONDS: f64 = 3600.0;
/// p-values above this, adjusted for the number of arms, show nothing.
const LEVEL: f64 = 0.05;
/// Arms and services that a sentence names.
const NAMED: usize = 6;
/// A share of halvings further above 5% than this many standard errors is no accident.
const ERRORS_APART: f64 = 2.0;

/// Hypothesis, result, recommendation, excluded services, caveats, next steps.
pub(crate) fn paragraphs(report: &Report) -> Vec<Paragraph> {
    let about = |text: &Option<String>| text.iter().cloned().collect::<Vec<_>>();
    let advises = !report.kind.is_lab() && report.arms.len() > 1 && report.samples > 0;
    let all = [
        ("Hypothesis", about(&report.about.hypothesis)),
        ("Result", result(report)),
        ("Recommendation", if advises { recommendation(report) } else { Vec::new() }),
        ("Excluded services", if report.kind.is_lab() { Vec::new() } else { excluded(report) }),
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
        return vec![format!(
            "No service has readings, so nothing can be compared. {}",
            why_no_readings(report)
        )];
    }
    let mut sentences = match report.arms.len() {
        1 => alone(report),
        _ => vec![lead(report)],
    };
    sentences.extend(unranked(report));
    sentences
}

/// The sentence to read first.
fn lead(report: &Report) -> String {
    let metric = metric_name(report.analysis.metric);
    let ranked = report.ranked();
    let Some(&(least, bytes)) = ranked.first() else {
        return "No arm has services with readings that can be compared.".to_owned();
    };
    let needs = units::memory(bytes as f64);
    let at = match report.extremes.basis {
        Basis::LastReadings => " at the last reading, at different ages",
        Basis::LevelAtEqualAge { .. } | Basis::AverageOverTime => "",
    };
    let Some(control) = report.control() else {
        return format!(
            "{} needs {needs} of {metric} a service{at}; without a control nothing is compared.",
            least.name
        );
    };
    let of_control = ranked.iter().find(|(arm, _)| arm.control);
    let Some(&(_, of_control)) = of_control else {
        return format!(
            "{} needs {needs} of {metric} a service{at}; the control, {}, has no figure.",
            least.name, control.name
        );
    };
    let of_control = units::memory(of_control as f64);
    if ranked.len() == 1 {
        return format!(
            "Only the control, {}, has a figure: {of_control} of {metric} a service.",
            control.name
        );
    }
    if least.control {
        return format!(
            "No arm needs less memory than the control, {}: {of_control} of {metric} a service{at}.",
            control.name
        );
    }
    let measured = report.extremes.basis != Basis::LastReadings;
    match least.ratio().filter(|_| measured) {
        Some(ratio) => {
            let holds = |low: f64, high: f64| low <= 1.0 && 1.0 <= high;
            let unclear = match ratio.estimate.interval() {
                Some((low, high)) if holds(low, high) => "; a difference is not shown",
                Some(_) => "",
                None if least.services_belonging() == 1 => "; one service per arm: no interval",
                None => "; too few services for an interval",
            };
            format!(
                "{} needs {} times the memory of the control, {}: {needs} of {metric} a service, the control {of_control}{unclear}.",
                least.name,
                estimate_in_sentence(&ratio.estimate, report.analysis.confidence_level, units::ratio),
                control.name
            )
        }
        None => format!(
            "{} needs {needs} of {metric} a service{at}, the control, {}, {of_control}.",
            least.name, control.name
        ),
    }
}

/// What services need that are not compared, by the allocator that they run.
fn alone(report: &Report) -> Vec<String> {
    let metric = metric_name(report.analysis.metric);
    let needs = report.extremes.order.first().map(|place| {
        format!(
            "A service needs {} of {metric}, over {} of {}.",
            units::memory(place.bytes),
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

/// Why a trial has no reading: the reasons of its services, or what is usual.
fn why_no_readings(report: &Report) -> String {
    let reason = report.services.iter().find_map(|service| service.excluded.as_deref());
    reason.map_or_else(
        || terms(report.kind).no_readings.to_owned(),
        |reason| format!("First reason: {}", ended(reason)),
    )
}

/// Arms without a rank: they do less work, or services of theirs failed.
fn unranked(report: &Report) -> Vec<String> {
    let doing_less = report.extremes.order.iter().filter(|place| !place.ranked);
    let failed = report.arms.iter().filter(|arm| report.kind.is_lab() && arm.services == 0);
    let doing_less = doing_less.map(|place| place_unranked(report, place));
    doing_less.chain(failed.filter_map(|arm| nothing_counts(report, arm))).collect()
}

fn place_unranked(report: &Report, place: &ArmPlace) -> String {
    let arm = &report.arms[place.arm];
    let needs = units::memory(report.needs(place) as f64);
    if place.work != Some(WorkStanding::ClearlyLess) {
        return format!(
            "{} has no rank: {} of its {} services failed, and {needs} is what the others need.",
            arm.name,
            arm.services_excluded.len(),
            arm.services as usize + arm.services_excluded.len()
        );
    }
    let measures = arm.result.work.iter().flat_map(|work| &work.measures);
    let less = measures.filter(|measure| measure.standing == WorkStanding::ClearlyLess).find_map(less_work);
    let less = less.unwrap_or_else(|| "does clearly less work than the control".to_owned());
    format!("{} {less}: its {needs} are no saving, and it has no rank.", arm.name)
}

/// By which measure an arm does less: `did no documents where the control did 3,686`.
fn less_work(measure: &MeasureResult) -> Option<String> {
    let control = measure.of_control?;
    let count = |value: f64| units::count(value.round() as u64);
    Some(match (measure.tried, control.tried) {
        (Some(tried), Some(of_control)) => format!(
            "failed {} of {} {} where the control failed {} of {}",
            count(measure.total),
            count(tried),
            measure.name,
            count(control.total),
            count(of_control)
        ),
        _ if measure.total == 0.0 => {
            format!("did no {} where the control did {}", measure.name, count(control.total))
        }
        _ => {
            let ratio = measure.ratio.as_ref()?.estimate;
            let verb = if measure.less_is_better { "took" } else { "did" };
            format!("{verb} {} times the {} of the control", units::ratio(ratio.value), measure.name)
        }
    })
}

/// An arm of a lab run of which every service was excluded.
fn nothing_counts(report: &Report, arm: &Arm) -> Option<String> {
    let first = arm.services_excluded.first()?;
    let services = report.services.iter().filter(|service| service.arm == arm.name);
    let last: Vec<u64> = services.filter_map(|service| Some(service.memory.as_ref()?.final_bytes)).collect();
    let last = match (last.iter().min(), last.iter().max()) {
        (Some(least), Some(most)) if least == most => {
            format!(" The last reading was {}.", units::memory(*least as f64))
        }
        (Some(least), Some(most)) => format!(
            " Last readings were {} to {}.",
            units::memory(*least as f64),
            units::memory(*most as f64)
        ),
        _ => String::new(),
    };
    Some(format!(
        "{} has no figure and no rank: all of its services ({}) were excluded (first reason: {}).{last}",
        arm.name,
        arm.services_excluded.len(),
        first.reason
    ))
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
pub(crate) fn needs_less(arm: &Arm) -> bool {
    arm.ratio().is_some_and(|ratio| {
        let p = ratio.p_value_adjusted.or(ratio.p_value);
        ratio.estimate.high.is_some_and(|high| high < 1.0) && p.is_none_or(|p| p <= LEVEL)
    })
}

/// Which arm to use, or none; and why not those that need less still.
fn recommendation(report: &Report) -> Vec<String> {
    if let Some(why) = no_choice(report) {
        return vec![format!("None: {}", ended(&why))];
    }
    let chosen = report.recommended();
    let mut sentences = match chosen {
        Some(arm) => uses(report, arm),
        None => vec!["None: no arm is shown to need less than the control without an objection.".to_owned()],
    };
    let ranked = report.ranked().into_iter().map(|(arm, _)| arm).filter(|arm| !arm.control);
    let before = ranked.take_while(|arm| chosen.is_none_or(|chosen| chosen.name != arm.name));
    for arm in before.take(NAMED) {
        let blocking: Vec<String> =
            arm.objections.iter().filter(|known| known.blocks).map(objection).collect();
        if needs_less(arm) {
            sentences.push(format!("Not {}, which needs less: it {}.", arm.name, blocking.join("; it ")));
        } else if arm.ratio().and_then(|ratio| ratio.estimate.high).is_some_and(|high| high < 1.0) {
            let p = arm.ratio().and_then(|ratio| ratio.p_value_adjusted.or(ratio.p_value));
            let p = p.map_or(String::new(), |p| format!(": adjusted p is {}", units::p_value(p)));
            sentences.push(format!("Not {}: that it needs less may be chance{p}.", arm.name));
        }
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
    let mut sentences = vec![format!("{}: it needs less than the control; {growing}.", arm.name)];
    if !arm.objections.is_empty() {
        let caveats: Vec<String> = arm.objections.iter().take(NAMED).map(objection).collect();
        let more = match arm.objections.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!("; and {more} more"),
        };
        sentences.push(format!("Uncertain: it {}{more}.", caveats.join("; it ")));
    }
    if arm.ratio().is_some_and(|ratio| ratio.method == "student_t") {
        sentences.push(
            "Few services: its interval (Student's t) assumes that the logarithms of memory are normally distributed.".to_owned(),
        );
    }
    let overlaps = |other: &Arm| {
        let interval = |arm: &Arm| arm.ratio().and_then(|ratio| ratio.estimate.interval());
        let (own, other) = (interval(arm)?, interval(other)?);
        Some(other.0 <= own.1 && own.0 <= other.1)
    };
    let close = report.eligible().filter(|other| other.name != arm.name && overlaps(other) == Some(true));
    let close: Vec<&str> = close.map(|arm| arm.name.as_str()).collect();
    if !close.is_empty() {
        sentences.push(format!("Its interval overlaps with that of {}.", names(&close, close.len())));
    }
    if arm.identity.is_none() {
        sentences.push(
            "Before a rollout, prove what its services run: heaptrial allocators identify PID.".to_owned(),
        );
    }
    sentences
}

/// Why no arm can be recommended whatever its figures.
fn no_choice(report: &Report) -> Option<String> {
    let Some(control) = report.control() else {
        return Some("without a control nothing can be compared".to_owned());
    };
    let ranked = report.ranked().len();
    let Some(age) = report.analysis.matched_age_seconds else {
        return Some("services of the arms have no age in common; observe them longer".to_owned());
    };
    if control.services_belonging() == 0 {
        return Some(format!("no service of the control, {}, ran its treatment", control.name));
    }
    if control.level().is_none() {
        return Some(format!("the control, {}, has no level; observe it longer", control.name));
    }
    if ranked < 2 {
        return Some(match report.arms.iter().any(Arm::does_less) {
            true => "every other arm does less work than the control; compare memory for each unit of work"
                .to_owned(),
            false => format!("only {} has figures; observe the other arms longer", control.name),
        });
    }
    (age < YOUNGEST_SECONDS).then(|| {
        format!(
            "services are compared at an age of {}: too young to show what they will need",
            units::duration(age)
        )
    })
}

/// Who was excluded from which arm, and what they are like.
fn excluded(report: &Report) -> Vec<String> {
    let arms = report.arms.iter().filter(|arm| !arm.services_excluded.is_empty());
    arms.map(|arm| {
        let own = report.services.iter().filter(|service| service.arm == arm.name && !service.counts);
        let mut groups: Vec<(Option<&str>, Vec<&str>)> = Vec::new();
        for service in own {
            let like = service.like.as_deref();
            match groups.iter_mut().find(|group| group.0 == like) {
                Some((_, members)) => members.push(&service.name),
                None => groups.push((like, vec![&service.name])),
            }
        }
        let groups = groups.iter().map(|(like, members)| {
            let members = names(members, members.len());
            like.map_or_else(|| members.clone(), |like| format!("{members} (like {like})"))
        });
        let of = u64::from(arm.result.as_assigned.services);
        format!(
            "{}: {} of {}: {}.",
            arm.name,
            arm.services_excluded.len(),
            number(of, "service"),
            groups.collect::<Vec<_>>().join("; ")
        )
    })
    .collect()
}

/// What limits the conclusion, each once.
fn caveats(report: &Report) -> Vec<String> {
    let mut caveats = Vec::new();
    let has = |kind| report.findings.iter().any(|finding| finding.kind == kind);
    if report.assignment.is_some_and(|how| how != Assignment::Random) {
        caveats.push(
            "Services were not assigned at random: intervals hold only as far as services could have been exchanged between arms."
                .to_owned(),
        );
    }
    if report.kind.is_import() {
        caveats.push("What ran is as the lists claim, not proved.".to_owned());
    } else if has(FindingKind::IdentityNotProved) {
        caveats.push("What ran is not proved of every service.".to_owned());
    }
    if report.analysis.ages_are_lower_bounds == Some(true) {
        caveats.push("Most starts are unknown, so ages count from the first reading.".to_owned());
    }
    if report.outcome_word() == "running" && !report.looks.is_empty() {
        caveats.push(
            "The trial runs, and this is none of its planned looks: repeated reading finds differences that are not there. Decide by \
             heaptrial trial look."
                .to_owned(),
        );
    }
    caveats.extend(without_excluded(report));
    let grave = report.findings.iter().filter(|finding| finding.severity == Severity::Grave);
    let mut kinds: Vec<String> =
        grave.map(|finding| finding_text::of(finding.kind).title.to_lowercase()).collect();
    kinds.sort();
    kinds.dedup();
    if !kinds.is_empty() {
        caveats.push(format!("Grave findings about the data: {}.", names(&kinds, kinds.len())));
    }
    caveats.extend(self_check(report));
    caveats
}

/// Whether another arm needs least with the excluded services.
fn without_excluded(report: &Report) -> Option<String> {
    let compared = || report.arms.iter().filter(|arm| !arm.does_less());
    if !compared().any(|arm| arm.result.as_treated.is_some()) {
        return None;
    }
    let least = |bytes: &dyn Fn(&Arm) -> Option<f64>| {
        let arms = compared().filter_map(|arm| Some((bytes(arm)?, arm.name.as_str())));
        arms.min_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, name)| name)
    };
    let (with, without) = (least(&|arm| arm.result.as_assigned.level_bytes), least(&Arm::level));
    let excluded = terms(report.kind).excluded;
    (with != without).then(|| {
        format!(
            "With the {excluded} {} needs least, without them {}.",
            with.unwrap_or("none"),
            without.unwrap_or("none")
        )
    })
}

/// The A/A check.
fn self_check(report: &Report) -> Option<String> {
    let check = report.self_check?;
    let expected = match check.found_share > 0.05 + ERRORS_APART * check.standard_error {
        true => "expected: up to 5%, so intervals are too narrow",
        false => "expected: up to 5%",
    };
    let noise = check.noise_ratio.max(1.0);
    // Two decimals would call a narrow interval none.
    let ratio = |ratio: f64| if noise < 1.015 { format!("{ratio:.3}") } else { units::ratio(ratio) };
    Some(format!(
        "A/A check: {} of {} random splits of the control differed ({expected}). Ratios from {} to {} are noise.",
        units::share(check.found_share),
        units::count(u64::from(check.halvings)),
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
    format!("{kind}{separator}{state}, {}", crate::setup::circumstances(report))
}

/// Where the memory of the control is, else of the first arm of which that is known.
pub(crate) fn where_memory_is(report: &Report) -> Option<String> {
    let known = |arm: &&Arm| arm.memory_split.is_some();
    let arm = report.control().filter(known).or_else(|| report.arms.iter().find(known))?;
    let split = arm.memory_split?;
    let whole: u64 = split.parts().iter().sum();
    let part = |bytes: u64| {
        let share = bytes as f64 / whole.max(1) as f64;
        format!("{} ({:.0}%)", units::memory(bytes as f64), 100.0 * share)
    };
    Some(format!(
        "A service of {} ended with {} of anonymous memory: {} in use, {} free in pages in use, {} kept free by its \
         allocator, {} in stacks and outside of the heap.",
        arm.name,
        units::memory(whole as f64),
        part(split.in_use_bytes),
        part(split.free_in_pages_bytes),
        part(split.kept_free_bytes),
        part(split.other_bytes)
    ))
}
