//! What to do after a field trial.

use heaptrial_analysis::{FindingKind, Severity};

use super::words::{Words, words};
use super::{ended, names};
use crate::document::{Arm, DayLevel, Finding, Ratio, Report};
use crate::table::level;
use crate::units;
use crate::verdict::plural_days;

/// Services younger than this have not shown what their allocator makes of memory.
const YOUNGEST_SECONDS: f64 = 3600.0;
/// p-values above this, adjusted for the number of arms, show nothing.
const LEVEL: f64 = 0.05;
/// From one day's median to that of a day so much later, in days, which has few readings at its end,
const LEAST_DAYS: f64 = 0.9;
/// so much more a day is growth, where nothing else tells.
const LEAST_STEP: f64 = 0.05;
/// Growth of which more than this share is shared is told with what is its own.
const LEAST_SHARED: f64 = 0.05;
/// Days ahead where a report tells none.
const HORIZON_DAYS: f64 = 30.0;
/// Arms of which is told what speaks against them.
const ARMS_TOLD: usize = 4;

/// Which arm to take, or none, and why.
pub(crate) fn recommendation(report: &Report) -> Vec<String> {
    let mut sentences = match impossible(report) {
        Some(why) => {
            let mut sentences = vec![format!("None: {}", ended(&why))];
            // Where levels are there and mislead, last readings do so too.
            if report.analysis.matched_age_seconds.is_none() || report.ranked().len() < 2 {
                sentences.extend(by_last_readings(report));
            }
            sentences
        }
        None => among_arms(report),
    };
    let bloating: Vec<&str> =
        report.arms.iter().filter(|arm| bloats(arm)).map(|arm| arm.name.as_str()).collect();
    if !bloating.is_empty() {
        sentences.push(format!("Do not leave services on {}.", names(&bloating, bloating.len())));
    }
    sentences
}

/// What last readings say where levels at an equal age are missing.
fn by_last_readings(report: &Report) -> Option<String> {
    let control = report.arms.iter().position(|arm| arm.control)?;
    let lower =
        report.extremes.against_control.iter().filter(|pair| pair.higher == control && pair.shows(LEVEL));
    let lower: Vec<&str> = lower
        .filter_map(|pair| report.arms.get(pair.lower))
        .filter(|arm| !arm.does_less())
        .map(|arm| arm.name.as_str())
        .collect();
    let need = if lower.len() == 1 { "needs" } else { "need" };
    (!lower.is_empty()).then(|| {
        format!(
            "By ranks of their services {} {need} less than the control, and not for being younger: observe {} first.",
            names(&lower, lower.len()),
            if lower.len() == 1 { "it" } else { "these" }
        )
    })
}

/// Why no arm can be recommended whatever its figures, and what to do about it.
fn impossible(report: &Report) -> Option<String> {
    let Some(control) = report.control() else {
        return Some("without a control nothing can be compared".to_owned());
    };
    if report.arms.len() < 2 {
        let how = if report.kind().is_import() { "; import with --groups" } else { "" };
        return Some(format!("only one arm: nothing to compare{how}"));
    }
    let Some(matched) = report.analysis.matched_age_seconds else {
        let or = if report.kind().is_import() {
            ", or import events that date their starts (--events)"
        } else {
            ""
        };
        return Some(format!(
            "there is no age that services of all arms reached, so they cannot be compared at an equal age; observe \
             them longer{or}"
        ));
    };
    if control.as_treated.as_ref().is_some_and(|treated| treated.services == 0) {
        return Some(format!(
            "none of the {} of the control, {}, ran its treatment; prove what they run, and begin again",
            units::counted(control.services as usize, "service"),
            control.name
        ));
    }
    if level(control).is_none() {
        let how = if report.kind().is_import() { "choose another one (--control), or " } else { "" };
        return Some(format!(
            "the control, {}, has no figures to compare with; {how}observe it longer",
            control.name
        ));
    }
    if report.arms.iter().any(|arm| arm.does_less()) && report.ranked().len() < 2 {
        return Some(format!(
            "every arm that has figures beside the control, {}, does less than its work, so that its memory says nothing \
             for it; compare memory for each unit of work",
            control.name
        ));
    }
    if report.ranked().len() < 2 {
        return Some(format!(
            "only {} has figures, so there is nothing to compare; observe the other arms longer",
            control.name
        ));
    }
    if matched < YOUNGEST_SECONDS {
        return Some(format!(
            "services are compared at an age of {}, which is too young to tell what an arm comes to need; observe \
             them for days",
            units::duration(matched)
        ));
    }
    let finding = prohibitive(report, control)?;
    let (what, remedy) = in_words(finding.kind)?;
    Some(format!("the control, {}, {what}, so ratios to it mislead; {remedy}", control.name))
}

/// The arm that is recommended among those that can be compared, and what speaks against those that need less still.
fn among_arms(report: &Report) -> Vec<String> {
    let Some(control) = report.control() else { return Vec::new() };
    let ranked: Vec<&Arm> = report.ranked().into_iter().map(|(arm, _)| arm).collect();
    let others = || ranked.iter().copied().filter(|arm| !arm.control);
    let smaller: Vec<&Arm> = others().filter(|arm| needs_less(arm.ratio_as_treated())).collect();
    let chosen = smaller.iter().position(|arm| obstacle(report, arm, control).is_none());
    let mut sentences = Vec::new();
    match chosen {
        Some(position) => sentences.extend(choice(report, smaller[position], control, &ranked)),
        None if smaller.is_empty() => {
            let verdict = control.verdict.as_deref();
            let grows = bloats(control)
                || verdict == Some("some_bloat")
                || verdict == Some("inconclusive") && most_grow(control);
            let stay = if grows || worse_as_assigned(control).is_some() {
                "Observe longer with more services, or try other arms."
            } else {
                "Keep it, or observe longer with more services."
            };
            sentences.push(format!(
                "None: no arm is shown to need less than the control, {}. {stay}",
                control.name
            ));
        }
        None => sentences.push(format!(
            "None: something speaks against every arm that needs less than the control, {}.",
            control.name
        )),
    }
    let passed = &smaller[..chosen.unwrap_or(smaller.len())];
    for arm in passed.iter().take(ARMS_TOLD) {
        let why = obstacle(report, arm, control).unwrap_or_default();
        sentences.push(format!("{} needs less at this age, but {why}.", arm.name));
    }
    let chosen = chosen.map(|position| smaller[position].name.as_str());
    let before = others().take_while(|arm| Some(arm.name.as_str()) != chosen);
    sentences.extend(before.filter_map(not_shown).take(ARMS_TOLD));
    let not_compared = others().filter(|arm| arm.ratio_as_treated().is_none());
    let why = |arm: &Arm| prohibitive(report, arm).and_then(|finding| in_words(finding.kind));
    let not_compared = not_compared.filter_map(|arm| Some((arm, why(arm)?)));
    let told = not_compared.map(|(arm, (what, remedy))| format!("{} {what}: {remedy}.", arm.name));
    sentences.extend(told.take(ARMS_TOLD));
    sentences
}

fn bloats(arm: &Arm) -> bool {
    arm.verdict.as_deref() == Some("bloating")
}

/// Whether a ratio is shown to be below 1, by its interval and for as many arms as there are.
fn needs_less(ratio: Option<&Ratio>) -> bool {
    ratio.is_some_and(|ratio| ratio.high.is_some_and(|high| high < 1.0) && holds_for_several_arms(ratio))
}

/// Whether a difference stays shown when the number of arms is taken into account; true where nothing was tested.
pub(super) fn holds_for_several_arms(ratio: &Ratio) -> bool {
    ratio.p_value_adjusted.or(ratio.p_value).is_none_or(|p| p <= LEVEL)
}

/// An arm whose interval alone would say that it needs less.
fn not_shown(arm: &Arm) -> Option<String> {
    let ratio = arm.ratio_as_treated()?;
    let p = ratio.p_value_adjusted.or(ratio.p_value)?;
    (ratio.high? < 1.0 && p > LEVEL).then(|| {
        format!(
            "{} seems to need less, but that may be chance: with its number of arms taken into account p is {}.",
            arm.name,
            units::p_value(p)
        )
    })
}

/// What speaks against an arm that needs less at the matched age.
fn obstacle(report: &Report, arm: &Arm, control: &Arm) -> Option<String> {
    if arm.does_less() {
        return Some("it does less work than the control: compare memory for each unit of work".to_owned());
    }
    if let Some((what, remedy)) = prohibitive(report, arm).and_then(|finding| in_words(finding.kind)) {
        return Some(format!("{what}: {remedy}"));
    }
    if bloats(arm) {
        return Some("it is bloating".to_owned());
    }
    let at_limit =
        |finding: &&Finding| finding.kind == FindingKind::LimitReached && finding.arms.contains(&arm.name);
    if let Some(finding) = report.findings.iter().find(at_limit) {
        return Some(format!("{} of its services reached their memory limit", finding.services.len()));
    }
    if arm.verdict.as_deref() == Some("some_bloat") {
        return Some("some of its services bloat: find out what sets them apart".to_owned());
    }
    if let Some(soon) = soon_at_control(report, arm, control) {
        return Some(soon);
    }
    let assigned = worse_as_assigned(arm)?;
    let Words { off_treatment, assigned: as_assigned, .. } = words(report.kind());
    Some(format!(
        "it is {} only without its {off_treatment}, and {assigned} over all services {as_assigned}: settle first which of them \
         run it",
        arm.verdict.as_deref().unwrap_or("without a verdict")
    ))
}

/// `it grows by 1.20 GiB a day: at that pace it needs as much as the control, glibc, in 4 days`: of an arm that is shown to grow, however short the
/// time, and comes up to the control within the time for which verdicts look ahead. And of one of which nothing tells how it grows.
pub(crate) fn soon_at_control(report: &Report, arm: &Arm, control: &Arm) -> Option<String> {
    // What grows between two restarts is lost at the next, and what is stable does not grow by more than its margin.
    if arm.sawtooth.is_some() || arm.verdict.as_deref() == Some("stable") {
        return None;
    }
    let Some(pace) = pace(arm) else {
        return Some("how it grows is not known yet: observe it for days".to_owned());
    };
    let shared = shared(arm, control);
    let days = catches_up(arm, control)?;
    let is_shown = match goes_on(control) {
        true => pace.least > shared,
        // Services are of unlike sizes: what they share is a share.
        false => pace.least_share > self::pace(control).map_or(0.0, |pace| pace.share_per_day.max(0.0)),
    };
    let soon = is_shown && days <= report.analysis.horizon_days.unwrap_or(HORIZON_DAYS);
    let beyond = match shared > LEAST_SHARED * pace.bytes_per_day {
        true => format!(
            ", {} of it more than what the control tells of all",
            units::memory(pace.bytes_per_day - shared)
        ),
        false => String::new(),
    };
    soon.then(|| {
        format!(
            "it grows by {} a day{beyond}: at that pace it needs as much as the control, {}, in {}",
            units::memory(pace.bytes_per_day),
            control.name,
            plural_days(days.ceil().max(1.0))
        )
    })
}

/// How fast an arm grows.
struct Pace {
    bytes_per_day: f64,
    /// As a share of its memory.
    share_per_day: f64,
    /// What both are at least by their intervals; themselves where nothing tells how sure they are.
    least: f64,
    least_share: f64,
}

/// By the slopes of its services, or from an earlier day to the last where readings are too few for slopes: of days that half of its services
/// or more were read on. Medians of two days are apart by chance as well.
fn pace(arm: &Arm) -> Option<Pace> {
    if let Some(growth) = &arm.growth {
        let bytes_per_day = growth.bytes_per_day.value;
        let least = growth.bytes_per_day.low.unwrap_or(bytes_per_day);
        let share_per_day = growth.share_per_day.value;
        let least_share = growth.share_per_day.low.unwrap_or(share_per_day);
        return Some(Pace { bytes_per_day, share_per_day, least, least_share });
    }
    let most = arm.by_day.iter().map(|day| day.services).max()?;
    let days: Vec<_> = arm.by_day.iter().filter(|day| 2 * day.services >= most).collect();
    let last = days.last()?;
    let age = |day: &DayLevel| day.age_days.unwrap_or(f64::from(day.day));
    // Less than a day is the course of a day.
    let before = days.iter().rev().find(|before| age(last) - age(before) >= LEAST_DAYS)?;
    let days = age(last) - age(before);
    let bytes_per_day = (last.median_bytes - before.median_bytes) / days;
    let share_per_day = bytes_per_day / before.median_bytes.max(1.0);
    let (least, least_share) =
        if share_per_day >= LEAST_STEP { (bytes_per_day, share_per_day) } else { (0.0, 0.0) };
    Some(Pace { bytes_per_day, share_per_day, least, least_share })
}

/// Days from the matched age to that at which an arm needs as much as the control, if both go on as they did. `None` where it does not come
/// nearer, or is shown to level off before.
fn catches_up(arm: &Arm, control: &Arm) -> Option<f64> {
    let own = level(arm)? as f64;
    let left = level(control)? as f64 - own;
    if arm.growth.as_ref().and_then(|growth| growth.rise_to_come_bytes).is_some_and(|rise| rise < left) {
        return None;
    }
    let nearer = pace(arm)?.bytes_per_day - shared(arm, control);
    (nearer > 0.0).then(|| (left / nearer).max(0.0))
}

/// Whether a control's growth is its verdict over a day or more.
fn goes_on(control: &Arm) -> bool {
    let for_days = control.growth.as_ref().is_some_and(|growth| growth.days >= 1.0);
    for_days && matches!(control.verdict.as_deref(), Some("growing" | "bloating"))
}

/// What of an arm's growth, in bytes a day, is none of its own: a control goes on growing only where that is its verdict over a day or more. Otherwise
/// what it grows by is caches that fill on the first days, or load, and the arm's go by the same share.
fn shared(arm: &Arm, control: &Arm) -> f64 {
    pace(control).map_or(0.0, |pace| match goes_on(control) {
        true => pace.bytes_per_day.max(0.0),
        false => level(arm).unwrap_or(0) as f64 * pace.share_per_day.max(0.0),
    })
}

/// Whether more than half of an arm's services are shown to grow, each by itself.
fn most_grow(arm: &Arm) -> bool {
    arm.service_verdicts.as_ref().is_some_and(|own| 2 * (own.growing + own.bloating) > own.services)
}

/// The verdict over all services as listed, where it is worse than that without off-treatment services.
fn worse_as_assigned(arm: &Arm) -> Option<&str> {
    let rank = |word: Option<&str>| match word {
        Some("bloating") => 3,
        Some("some_bloat") => 2,
        Some("growing") => 1,
        _ => 0,
    };
    let assigned = arm.verdict_as_assigned.as_deref();
    assigned.filter(|_| rank(assigned) > rank(arm.verdict.as_deref()))
}

/// A grave finding about an arm (or about all) that no comparison of it survives.
fn prohibitive<'a>(report: &'a Report, arm: &Arm) -> Option<&'a Finding> {
    report.findings.iter().find(|finding| {
        finding.severity == Severity::Grave
            && in_words(finding.kind).is_some()
            && (finding.arms.is_empty() || finding.arms.contains(&arm.name))
    })
}

/// What such a finding says of an arm, and what to do about it.
pub(crate) fn in_words(kind: FindingKind) -> Option<(&'static str, &'static str)> {
    match kind {
        FindingKind::HostsMissing => {
            Some(("is not measured on every host of the plan", "gather the hosts that are missing"))
        }
        FindingKind::AgeUnknown => Some((
            "has services that are older than they are taken for, or is compared with such",
            "observe it until services of both arms have been restarted",
        )),
        FindingKind::AssignedByHand => Some((
            "is no arm that chance dealt services to",
            "draw a new plan, and leave its arms and blocks as they are",
        )),
        FindingKind::NeverConcurrent => {
            Some(("never ran at the same time as another arm", "observe the arms over the same days"))
        }
        FindingKind::AgeAndTimeDisagree => Some((
            "needs more at an equal time and less at an equal age, or the other way round",
            "begin all arms on the same day",
        )),
        FindingKind::ServersWithoutControl => {
            Some(("has no server in common with the control", "put services of both on one server"))
        }
        FindingKind::MostlyAsAnotherArm => Some((
            "has a list of which most services go as those of another arm",
            "prove what its services run, and correct the list",
        )),
        FindingKind::ComparedYoung => {
            Some(("is compared at a young age", "observe its services longer without restarts"))
        }
        FindingKind::RestartedMoreOften => {
            Some(("was restarted more often than others", "find out why, and compare lives of equal length"))
        }
        FindingKind::WorkBelowControl => {
            Some(("does less work than the control", "compare memory for each unit of work"))
        }
        FindingKind::FlagLost => {
            Some(("has fewer services with a flag than the control", "they are used for less: find out why"))
        }
        FindingKind::Swapped => Some((
            "has memory in swap, which these figures do not count",
            "compare anonymous memory with swap",
        )),
        FindingKind::FailsMoreOften => {
            Some(("has more services that fail than the control", "find out why before it goes anywhere"))
        }
        _ => None,
    }
}

/// Whether an arm is shown to grow by fewer bytes than the control.
fn grows_slower(arm: &Arm, control: &Arm) -> bool {
    let bytes = |arm: &Arm| arm.growth.as_ref()?.bytes_per_day.interval();
    bytes(arm).zip(bytes(control)).is_some_and(|((_, high), (low, _))| high <= low)
}

/// The arm that is recommended, and what goes with it.
fn choice(report: &Report, arm: &Arm, control: &Arm, ranked: &[&Arm]) -> Vec<String> {
    let pace = arm.growth.as_ref().map_or_else(String::new, |growth| {
        format!(" ({} a day)", units::signed_percent(growth.share_per_day.value))
    });
    let assumed = arm.ratio_as_treated().is_some_and(|ratio| ratio.method == "student_t");
    let less = if assumed { "needs less than the control" } else { "needs clearly less than the control" };
    let why = match arm.verdict.as_deref() {
        Some("stable") => format!("it {less} and is stable"),
        Some("growing") => {
            let after = match catches_up(arm, control) {
                _ if grows_slower(arm, control) => "though by fewer bytes a day than the control".to_owned(),
                Some(days) => format!(
                    "and at that pace needs as much as the control in {}",
                    plural_days(days.ceil().max(1.0))
                ),
                None => "and does not come up to the control at that pace".to_owned(),
            };
            format!("it {less}; it is growing{pace}, {after}")
        }
        _ => format!("it {less}; whether it is stable is not decided{pace}, so keep watching it"),
    };
    let mut sentences = vec![format!("{}: {why}.", arm.name)];
    if assumed {
        sentences.push(
            "That assumes that the logarithms of memory are normally distributed over services (Student's t): there \
             are too few services for a test without it."
                .to_owned(),
        );
    }
    let interval = |arm: &Arm| arm.ratio_as_treated().and_then(|ratio| ratio.low.zip(ratio.high));
    let close: Vec<&str> = ranked
        .iter()
        .filter(|other| {
            other.name != arm.name && !other.control && obstacle(report, other, control).is_none()
        })
        .filter(|other| {
            let overlap = |(own, other): ((f64, f64), (f64, f64))| other.0 <= own.1 && own.0 <= other.1;
            interval(arm).zip(interval(other)).is_some_and(overlap)
        })
        .map(|other| other.name.as_str())
        .collect();
    if !close.is_empty() {
        let list = names(&close, close.len());
        sentences.push(format!("The intervals do not tell it apart from {list}."));
    }
    let grave = report.findings.iter().filter(|finding| {
        let about = |name: &String| *name == arm.name || *name == control.name;
        finding.severity == Severity::Grave && finding.arms.iter().any(about)
    });
    let grave = grave.count();
    if grave > 0 {
        let findings =
            if grave == 1 { "a grave finding".to_owned() } else { format!("{grave} grave findings") };
        sentences.push(format!(
            "This rests on data with {findings} about these arms: read them before acting on it."
        ));
    }
    if arm.identity.is_none() {
        sentences.push(
            "Before a rollout, prove on some of its services what they run: heaptrial allocators identify PID."
                .to_owned(),
        );
    }
    sentences
}
