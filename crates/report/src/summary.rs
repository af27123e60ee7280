//! The summary: which arm needs how much memory, what to do, what is uncertain. All else is in tables.

use heaptrial_evaluate::analysis::{Basis, WorkStanding};

use crate::chart::metric_name;
use crate::document::{Arm, Report, Verdict};
use crate::finding_text::objection;
use crate::page::Paragraph;
use crate::terms::terms;
use crate::text::{capitalised, ended, estimate_in_sentence, names, no_interval};
use crate::{setup, units};

/// Services younger than this have not shown what their allocator makes of memory.
const YOUNGEST_SECONDS: f64 = 3600.0;
/// p-values above this, adjusted for the number of arms, show nothing.
const LEVEL: f64 = 0.05;
/// A ratio further from that of the levels than this is not so by rounding.
const ROUNDING: f64 = 0.02;
/// Arms and objections that a sentence names.
const NAMED: usize = 6;

/// What was expected, the result, the recommendation, the caveats and what follows.
pub(crate) fn paragraphs(report: &Report) -> Vec<Paragraph> {
    let about = |text: &Option<String>| text.iter().cloned().collect::<Vec<_>>();
    let compares = report.arms.len() > 1 && report.samples > 0;
    let on_hosts = !report.kind.is_lab();
    let all = [
        ("Hypothesis", about(&report.about.hypothesis)),
        ("Result", result(report)),
        ("Recommendation", if on_hosts && compares { recommendation(report) } else { Vec::new() }),
        ("Caveats", report.caveats.clone()),
        ("Notes of the plan", about(&report.about.notes)),
        ("Next steps", about(&report.about.next_steps)),
    ];
    let all = all.into_iter().filter(|(_, sentences)| !sentences.is_empty());
    all.map(|(title, sentences)| Paragraph {
        title,
        is_list: title == "Caveats",
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
            let Some(ratio) = least.ratio().filter(|_| !last_readings) else {
                let control = format!("{}, needs {}", control.name, units::memory(*of_control as f64));
                return format!("{} needs {}; the control, {control}.", least.name, needs(*bytes));
            };
            let estimate =
                estimate_in_sentence(&ratio.estimate, report.analysis.confidence_level, units::ratio);
            let unclear = match ratio.estimate.interval() {
                Some((low, high)) if low <= 1.0 && 1.0 <= high => "; a difference is not shown".to_owned(),
                Some(_) => String::new(),
                None => format!("; {}", no_interval(least.services_belonging())),
            };
            // Blocks that lack services of an arm are compared without them, and its level is over all of its services.
            let levels = *bytes as f64 / *of_control as f64;
            let within =
                if (levels / ratio.estimate.value).ln().abs() > ROUNDING { ", within blocks" } else { "" };
            format!(
                "{} needs {estimate} times the memory of the control, {}{within}{unclear}. Levels: {}, of the control {}.",
                least.name,
                control.name,
                needs(*bytes),
                units::memory(*of_control as f64)
            )
        }
    }
}

/// What services need that are not compared.
fn alone(report: &Report) -> Vec<String> {
    let needs = report.extremes.order.first().map(|place| {
        format!(
            "A service needs {} of {}, over {} of {}.",
            units::memory(place.bytes),
            metric_name(report.analysis.metric),
            place.services,
            units::counted(place.of as usize, "service")
        )
    });
    let single = "There is one arm, so nothing is compared.".to_owned();
    needs.into_iter().chain([single]).collect()
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
    /// The arm that is recommended instead of the control: it is shown to need less, nothing blocks it, and it needs least.
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
        sentences.push(format!("Take services off what bloats: {}.", names(&bloating, bloating.len())));
    }
    sentences
}

/// The recommended arm, and what is uncertain about it.
fn uses(report: &Report, arm: &Arm) -> Vec<String> {
    let growing = match arm.result.verdict {
        Some(Verdict::Stable) => ", and is stable",
        Some(Verdict::Growing { .. }) => ", and does not reach it soon, though it grows",
        _ => ", but whether it grows is not decided: keep watching it",
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
    let mut sentences = vec![format!("Use {}: it needs less than the control{growing}.", arm.name)];
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

/// What it was in a line, below the title.
pub(crate) fn about(report: &Report) -> String {
    let state = if report.kind.is_import() { "" } else { report.outcome_word() };
    let separator = if state.is_empty() { "" } else { ", " };
    let kind = capitalised(report.kind.describe());
    format!("{kind}{separator}{state}, {}", setup::circumstances(report))
}
