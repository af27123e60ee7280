//! What to do after a field trial.

use heaptrial_analysis::Severity;

use super::field::ranked;
use super::names;
use super::odd::findings;
use crate::document::{Arm, Report};
use crate::units;

/// Which arm to take, or none, and why.
pub(crate) fn recommendation(report: &Report) -> Vec<String> {
    let Some(control) = report.control() else {
        return vec!["None: without a control nothing can be compared.".to_owned()];
    };
    let ranked = ranked(report);
    let clearly_less = |arm: &&Arm| {
        let high = arm.ratio_as_treated().and_then(|ratio| ratio.high);
        !arm.control && high.is_some_and(|high| high < 1.0)
    };
    let smaller: Vec<&Arm> = ranked.iter().copied().filter(clearly_less).collect();
    let chosen = smaller.iter().copied().find(|arm| holds(arm, control));
    let mut sentences = Vec::new();
    match chosen {
        Some(arm) => sentences.extend(choice(report, arm, control, &ranked)),
        None if smaller.is_empty() => sentences.push(format!(
            "None: no arm is shown to need less than the control, {}. Keep it, or observe longer with more services.",
            control.name
        )),
        None => sentences.push(format!(
            "None: every arm that needs less than the control, {}, runs away or grows faster than it.",
            control.name
        )),
    }
    let passed: Vec<&str> = smaller
        .iter()
        .take_while(|arm| Some(arm.name.as_str()) != chosen.map(|chosen| chosen.name.as_str()))
        .map(|arm| arm.name.as_str())
        .collect();
    if chosen.is_some() && !passed.is_empty() {
        let (verb, they) = if passed.len() == 1 { ("needs", "it grows") } else { ("need", "they grow") };
        sentences.push(format!(
            "{} {verb} less at this age, but {they} faster than the control or until memory is full.",
            names(&passed, passed.len())
        ));
    }
    let bloating: Vec<&str> = ranked
        .iter()
        .filter(|arm| arm.verdict.as_deref() == Some("bloating"))
        .map(|arm| arm.name.as_str())
        .collect();
    if !bloating.is_empty() {
        sentences.push(format!("Do not leave services on {}.", names(&bloating, bloating.len())));
    }
    sentences
}

/// Whether an arm keeps what it promises: it is not bloating, and does not grow faster than the control.
fn holds(arm: &Arm, control: &Arm) -> bool {
    match arm.verdict.as_deref() {
        Some("bloating") => false,
        Some("growing") => grows_slower(arm, control),
        _ => true,
    }
}

fn grows_slower(arm: &Arm, control: &Arm) -> bool {
    let bytes = |arm: &Arm| arm.growth.as_ref().map(|growth| growth.bytes_per_day.value);
    match (bytes(arm), bytes(control)) {
        (Some(arm), Some(control)) => arm <= control,
        _ => false,
    }
}

/// The arm that is recommended, and what goes with it.
fn choice(report: &Report, arm: &Arm, control: &Arm, ranked: &[&Arm]) -> Vec<String> {
    let pace = arm.growth.as_ref().map_or_else(String::new, |growth| {
        format!(" ({} a day)", units::signed_percent(growth.share_per_day.value))
    });
    let why = match arm.verdict.as_deref() {
        Some("stable") => "it needs clearly less than the control and is stable".to_owned(),
        Some("growing") => format!(
            "it needs clearly less than the control; it is growing{pace}, though by fewer bytes a day than the control"
        ),
        _ => format!(
            "it needs clearly less than the control; whether it is stable is not decided{pace}, so keep watching it"
        ),
    };
    let mut sentences = vec![format!("{}: {why}.", arm.name)];
    let high = arm.ratio_as_treated().and_then(|ratio| ratio.high);
    let close: Vec<&str> = ranked
        .iter()
        .filter(|other| other.name != arm.name && !other.control && holds(other, control))
        .filter(|other| {
            let low = other.ratio_as_treated().and_then(|ratio| ratio.low);
            low.zip(high).is_some_and(|(low, high)| low <= high)
        })
        .map(|other| other.name.as_str())
        .collect();
    if !close.is_empty() {
        let list = names(&close, close.len());
        sentences.push(format!("The intervals do not tell it apart from {list}."));
    }
    let grave = findings(report).iter().filter(|finding| {
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
