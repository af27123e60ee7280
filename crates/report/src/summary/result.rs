//! The summary: what the control needs, who needs least and most, what to do, and how sure that is.

use heaptrial_analysis::FindingKind;

use super::confidence::confidence;
use super::words::words;
use super::{advice, capitalised, ended, names, needs, number};
use crate::chart::metric_name;
use crate::document::{Arm, Basis, Finding, Kind, LimitKind, Ratio, Report, ServiceVerdicts};
use crate::table::level;
use crate::units;
use crate::verdict::{NO_LIMIT, measured_over, runs_out_briefly};

/// Names of services in a sentence.
const NAMED: usize = 6;

/// An arm grows that gains this share of what it needs over the time that it was looked at.
const GROWS: f64 = 0.1;

const RECOMMENDATION: &str = "Recommendation";

/// A paragraph of the summary.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Paragraph {
    pub(crate) title: &'static str,
    pub(crate) sentences: Vec<String>,
    /// Whether each sentence is about something else.
    pub(crate) is_list: bool,
}

impl Paragraph {
    /// Whether it says what to do.
    pub(crate) fn is_advice(&self) -> bool {
        self.title == RECOMMENDATION
    }
}

/// The summary: what was expected, problem, result, recommendation, services that do not count, confidence, next steps.
pub(crate) fn paragraphs(report: &Report) -> Vec<Paragraph> {
    let words = words(report.kind());
    let about = |text: &Option<String>| text.iter().cloned().collect::<Vec<_>>();
    let all = match report.kind() {
        _ if report.samples == 0 => vec![(
            "Result",
            vec![format!("No service has readings, so nothing can be compared. {}", why_no_readings(report))],
        )],
        // A rollout has one arm, and nobody to compare it with.
        Kind::Host | Kind::Field if report.arms.len() < 2 => vec![
            ("Result", as_found(report)),
            (words.paragraph, contaminated(report)),
            ("Confidence", confidence(report)),
        ],
        // A lab screens: it recommends nothing for services that it has not seen.
        Kind::LabCommand | Kind::LabTor => {
            vec![("Problem", problem(report)), ("Result", result(report)), ("Confidence", confidence(report))]
        }
        Kind::ImportTorutils | Kind::ImportPrometheus | Kind::Field | Kind::Host => vec![
            ("Problem", problem(report)),
            ("Result", result(report)),
            (RECOMMENDATION, advice::recommendation(report)),
            (words.paragraph, contaminated(report)),
            ("Confidence", confidence(report)),
        ],
    };
    let before = [("Hypothesis", about(&report.about.hypothesis))];
    let after =
        [("Notes of the plan", about(&report.about.notes)), ("Next steps", about(&report.about.next_steps))];
    let all = before.into_iter().chain(all).chain(after);
    let told = all.filter(|(_, sentences)| !sentences.is_empty());
    told.map(|(title, sentences)| Paragraph { title, sentences, is_list: title == words.paragraph }).collect()
}

/// Why a trial has no reading: what is told of its services, or what is usual.
fn why_no_readings(report: &Report) -> String {
    let mut reasons: Vec<&str> =
        report.services.iter().filter_map(|service| service.excluded.as_deref()).collect();
    reasons.dedup();
    match reasons[..] {
        [] => words(report.kind()).no_readings.to_owned(),
        [reason] => format!("Of each service is told: {}", ended(reason)),
        [first, ..] => format!("Of the first service is told: {}", ended(first)),
    }
}

/// What services need as they are found, by the allocator that they run.
fn as_found(report: &Report) -> Vec<String> {
    let metric = metric_name(report.analysis.metric);
    let mut sentences = Vec::new();
    for arm in &report.arms {
        let place = report.extremes.order.iter().find(|place| report.arms[place.arm].name == arm.name);
        let Some(place) = place else { continue };
        let how = match report.extremes.basis {
            Basis::LastReadings => "median of the last readings of",
            Basis::AverageOverTime => "average over time of",
            Basis::LevelAtEqualAge { .. } => "geometric mean of the levels of",
        };
        sentences.push(format!(
            "A service needs {} of {metric} ({how} {} of {}).",
            units::memory(place.bytes),
            place.services,
            number(u64::from(place.of), "service")
        ));
        sentences.extend(verdict(arm));
    }
    let mut ran: Vec<&str> = report.services.iter().filter_map(|service| service.ran.as_deref()).collect();
    ran.sort_unstable();
    let kinds: Vec<String> =
        ran.chunk_by(|a, b| a == b).map(|same| format!("{} {}", same.len(), same[0])).collect();
    if !kinds.is_empty() {
        sentences.push(format!("What runs in them, as proved: {}.", names(&kinds, kinds.len())));
    }
    sentences.push("There is one arm, so nothing is compared: heaptrial trial new plans a trial.".to_owned());
    sentences
}

/// What the control needs, and what it does over time.
fn problem(report: &Report) -> Vec<String> {
    let Some(control) = report.control() else {
        return vec!["The trial has no control.".to_owned()];
    };
    let metric = metric_name(report.analysis.metric);
    if control.as_treated.as_ref().is_some_and(|treated| treated.services == 0) {
        return vec![format!(
            "None of the {} of the control, {}, ran its treatment: what they need is no measure.",
            units::counted(control.services as usize, "service"),
            control.name
        )];
    }
    let Some(needs) = control.typical_bytes() else {
        let was_read = needs::left_out_of(report, control).next().is_some();
        let what = if was_read {
            "has no figure: none of its services counts"
        } else {
            "has no service with readings"
        };
        return vec![format!("The control, {}, {what}.", control.name)];
    };
    let age = match (level(control), control.sawtooth, report.analysis.matched_age_seconds) {
        (Some(_), None, Some(age)) => format!("at an age of {}", units::duration(age)),
        (Some(_), _, _) => "averaged over time".to_owned(),
        (None, _, _) => "at the end".to_owned(),
    };
    let needs = units::memory(needs as f64);
    let mut sentences =
        vec![format!("Under the control, {}, a service needs {needs} of {metric} {age}.", control.name)];
    let mixed = |finding: &&Finding| {
        finding.kind == FindingKind::MostlyAsAnotherArm && finding.arms.contains(&control.name)
    };
    let mixture = report.findings.iter().find(mixed);
    sentences.extend(mixture.map(|finding| format!("That is a mixture: {}.", finding.evidence)));
    sentences.extend(verdict(control));
    sentences
}

/// `Its memory is growing: it grows by ...`.
fn verdict(arm: &Arm) -> Option<String> {
    let (word, reason) = (arm.verdict.as_ref()?, arm.verdict_reason.as_ref()?);
    Some(format!("Its memory is {}: {reason}", said(word)))
}

fn said(word: &str) -> &str {
    match word {
        "inconclusive" => "neither shown to be stable nor to grow",
        "some_bloat" => "bloating in some of its services",
        word => word,
    }
}

/// Who needs least and most, and who grows.
fn result(report: &Report) -> Vec<String> {
    let ranked = report.ranked();
    let (Some(&(least, first)), Some(&(most, last))) = (ranked.first(), ranked.last()) else {
        let mut sentences = vec!["No arm has services with readings that can be compared.".to_owned()];
        sentences.extend(needs::left_out(report));
        sentences.extend(needs::doing_less(report));
        return sentences;
    };
    let last_readings = report.extremes.basis == Basis::LastReadings;
    let needs = |arm: &Arm, bytes: u64| {
        let basis = match last_readings {
            true => " at the last reading",
            false if arm.sawtooth.is_some() => " averaged over time",
            false => "",
        };
        format!("{}{basis}", units::memory(bytes as f64))
    };
    // Ratios are not of last readings.
    let times = |arm: &Arm| match arm.ratio_as_treated().filter(|_| !last_readings) {
        Some(ratio) => format!(", {}", compared(ratio)),
        None => String::new(),
    };
    let mut sentences = Vec::new();
    if ranked.len() == 1 {
        sentences.push(format!("Only {} has a figure: {}.", least.name, needs(least, first)));
    } else if least.control {
        sentences.push(format!(
            "No arm needs less than the control, {}: {}.",
            least.name,
            needs(least, first)
        ));
    } else {
        sentences.push(format!("{} needs the least: {}{}.", least.name, needs(least, first), times(least)));
    }
    if report.kind().is_lab() {
        let others = ranked.iter().skip(1).map(|(arm, _)| *arm);
        sentences.extend(overtakes(report, least, others));
    }
    if ranked.len() > 1 && !most.control {
        sentences.push(format!("{} needs the most: {}{}.", most.name, needs(most, last), times(most)));
    }
    sentences.extend(needs::without_levels(report));
    sentences.extend(needs::left_out(report));
    sentences.extend(needs::doing_less(report));
    // The users of a relay are counted, not timed: its table tells them.
    if report.kind() == Kind::LabCommand {
        sentences.extend(needs::prices(report));
    }
    let ranked: Vec<&Arm> = report.ranking().into_iter().map(|arm| &report.arms[arm]).collect();
    for word in ["bloating", "growing"] {
        let told = |arm: &&&Arm| arm.verdict.as_deref() == Some(word) && !arm.control;
        let arms: Vec<String> = ranked.iter().filter(told).map(|arm| with_pace(arm)).collect();
        if !arms.is_empty() {
            let verb = if arms.len() == 1 { "is" } else { "are" };
            sentences.push(format!("{} {verb} {word}.", names(&arms, arms.len())));
        }
    }
    let some = ranked.iter().filter(|arm| arm.verdict.as_deref() == Some("some_bloat") && !arm.control);
    sentences.extend(some.filter_map(|arm| some_bloat(arm)));
    sentences.extend(how_days_count(ranked.iter().copied().filter(|arm| !arm.control)));
    sentences
}

/// That the arm which needs least grows so that it soon needs more than another: within as long again as it was looked at.
fn overtakes<'a>(report: &Report, least: &Arm, others: impl Iterator<Item = &'a Arm>) -> Option<String> {
    let age = report.analysis.matched_age_seconds?;
    let of = |arm: &Arm| Some((level(arm)? as f64, arm.slope_bytes_per_hour?));
    let (own, slope) = of(least)?;
    if slope * age / 3600.0 < GROWS * own {
        return None;
    }
    let overtaken_at = |other: &Arm| {
        let (needs, others_slope) = of(other)?;
        let left = 3600.0 * (needs - own) / (slope - others_slope);
        (slope > others_slope && left <= age).then_some(age + left.max(0.0))
    };
    let overtaken = others.filter_map(|other| Some((overtaken_at(other)?, other)));
    let (at, first) = overtaken.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let pace = units::Pace::for_length(age);
    Some(format!(
        "But it grows by {}: at that pace it needs more than {} from an age of {} on.",
        units::growth(slope, pace),
        first.name,
        units::duration(at)
    ))
}

/// `3 of 20 services of b bloat (x, y and z), though its median service does not.`
fn some_bloat(arm: &Arm) -> Option<String> {
    let verdicts = arm.service_verdicts.as_ref()?;
    let bloating: Vec<&str> = verdicts.bloating_services().map(|service| service.name.as_str()).collect();
    let verb = if bloating.len() == 1 { "bloats" } else { "bloat" };
    let but = match 2 * bloating.len() < verdicts.services as usize {
        true => ", though its median service does not",
        false => "",
    };
    Some(format!(
        "{} of {} of {} {verb} ({}){but}.",
        bloating.len(),
        units::counted(verdicts.services as usize, "service"),
        arm.name,
        names(&bloating, NAMED)
    ))
}

/// From when the days until memory is full count, and why it may be of doubling only.
fn how_days_count<'a>(arms: impl Iterator<Item = &'a Arm> + Clone) -> Vec<String> {
    let bloating = arms.filter(|arm| arm.verdict.as_deref() == Some("bloating"));
    let days =
        |arm: &&Arm| arm.days_until_full.or(arm.days_until_doubled).is_some_and(|days| days.value > 0.0);
    let dates = bloating.clone().filter(days).filter_map(|arm| arm.last_reading_at.as_deref()?.get(..10));
    let mut dates: Vec<&str> = dates.collect();
    dates.sort_unstable();
    dates.dedup();
    let mut sentences = Vec::new();
    match dates[..] {
        [] => {}
        [date] => sentences.push(format!("Days count from the last reading, {date}.")),
        _ => sentences.push(format!("Days count from each arm's last reading, {}.", names(&dates, NAMED))),
    }
    if bloating.clone().any(|arm| arm.limit == Some(LimitKind::Doubling)) {
        sentences.push(format!("{}.", capitalised(NO_LIMIT)));
    }
    sentences
}

/// `mimalloc-3.0.1 (+9.1%, +80 MiB/d over the last 5.0 days, 60 readings; it doubles in 12 days)`.
fn with_pace(arm: &Arm) -> String {
    let Some(growth) = &arm.growth else { return arm.name.clone() };
    let bytes = units::growth(growth.bytes_per_day.value / 24.0, units::Pace::Day);
    let bloating = arm.verdict.as_deref() == Some("bloating");
    let days = arm.days_until_full.or(arm.days_until_doubled).filter(|_| bloating);
    let full = days.map_or_else(String::new, |days| format!("; it {}", runs_out_briefly(&days, arm.limit)));
    let within = if arm.sawtooth.is_some() { " between restarts" } else { "" };
    let share = units::signed_percent(growth.share_per_day.value);
    format!("{} ({share}, {bytes}{within} {}{full})", arm.name, measured_over(growth))
}

/// `0.21 times the control (95% interval 0.20 to 0.22); the control needs 4.8 times as much`.
fn compared(ratio: &Ratio) -> String {
    let interval = match (ratio.low, ratio.high) {
        (Some(low), Some(high)) => {
            let unclear = if low <= 1.0 && 1.0 <= high { ", so a difference is not shown" } else { "" };
            format!(" (95% interval {} to {}{unclear})", units::ratio(low), units::ratio(high))
        }
        _ => " (too few services for an interval)".to_owned(),
    };
    let inverse = match (ratio.low, ratio.high) {
        (Some(low), Some(high)) if high < 1.0 && low > 0.0 => format!(
            "; the control needs {} times as much ({} to {})",
            units::ratio(1.0 / ratio.estimate),
            units::ratio(1.0 / high),
            units::ratio(1.0 / low)
        ),
        _ => String::new(),
    };
    format!("{} times the control{interval}{inverse}", units::ratio(ratio.estimate))
}

/// Lists that hold off-treatment services: the figure with and without them, and who they are.
fn contaminated(report: &Report) -> Vec<String> {
    let words = words(report.kind());
    let arms = report.arms.iter().filter(|arm| !arm.services_excluded.is_empty());
    arms.map(|arm| {
        let treated = arm.as_treated.as_ref();
        let memory = |bytes: Option<u64>| bytes.map_or_else(|| "?".to_owned(), |b| units::memory(b as f64));
        let off_treatment: Vec<&str> =
            arm.services_excluded.iter().map(|service| service.name.as_str()).collect();
        let without = treated.map_or_else(String::new, |treated| {
            let verb = words.belong[usize::from(treated.services != 1)];
            format!(", {} over the {} that {verb}", memory(treated.final_bytes), treated.services)
        });
        let are = if off_treatment.len() == 1 { words.one } else { words.several };
        let assigned = words.assigned;
        format!(
            "{}: {} over {} {assigned}{without}. {} {are}: {}.",
            arm.name,
            memory(arm.final_bytes()),
            number(u64::from(arm.services), "service"),
            off_treatment.len(),
            by_likeness(report, arm)
        )
    })
    .collect()
}

/// `6 like b (x, y and z), 3 like d (v, w and x)`.
fn by_likeness(report: &Report, arm: &Arm) -> String {
    let own = report.services.iter().filter(|service| service.arm == arm.name && !service.counts);
    let mut groups: Vec<(Option<&str>, Vec<&str>)> = Vec::new();
    for service in own {
        let like = service.like.as_deref();
        match groups.iter_mut().find(|group| group.0 == like) {
            Some((_, members)) => members.push(&service.name),
            None => groups.push((like, vec![&service.name])),
        }
    }
    let several = groups.len() > 1;
    let told: Vec<String> = groups
        .iter()
        .map(|(like, members)| {
            let number = if several { format!("{} ", members.len()) } else { String::new() };
            let members = names(members, NAMED);
            like.map_or_else(|| members.clone(), |like| format!("{number}like {like} ({members})"))
        })
        .collect();
    told.join(", ")
}

/// Each arm's verdict with its numbers.
pub(crate) fn verdicts(report: &Report) -> Vec<String> {
    let arms = report.ranking().into_iter().map(|index| &report.arms[index]);
    arms.filter_map(|arm| {
        let (word, reason) = (arm.verdict.as_ref()?, arm.verdict_reason.as_ref()?);
        let shares = arm.service_verdicts.as_ref().map_or_else(String::new, shares);
        Some(format!("{}: {word}; {}{shares}", arm.name, ended(reason)))
    })
    .collect()
}

/// ` Of its 20 services 3 bloat, 2 grow, 14 are stable and 1 is undecided.`; nothing where none is decided.
fn shares(verdicts: &ServiceVerdicts) -> String {
    let ServiceVerdicts { services, stable, growing, bloating, inconclusive, .. } = verdicts;
    // That nothing is known of any says nothing.
    if *services < 2 || inconclusive == services {
        return String::new();
    }
    let told = |count: &u32, one: &str, several: &str| {
        if count == services {
            return Some(format!("all {several}"));
        }
        (*count > 0).then(|| format!("{count} {}", if *count == 1 { one } else { several }))
    };
    let parts = [
        told(bloating, "bloats", "bloat"),
        told(growing, "grows", "grow"),
        told(stable, "is stable", "are stable"),
        told(inconclusive, "is undecided", "are undecided"),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    format!(" Of its {services} services {}.", names(&parts, parts.len()))
}
