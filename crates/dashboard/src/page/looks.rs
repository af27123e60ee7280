//! The looks of a trial: when they are planned, and what those that were taken recorded.

use heaptrial_model::units;
use heaptrial_report::embedded::printable;
use heaptrial_store::LookRecord;
use maud::{Markup, html};
use serde_json::Value;

use super::words;
use crate::data::{Stage, Trial};

/// What a recorded look tells of an arm; what it does not tell is `None`.
pub(super) struct LookArm {
    pub(super) name: String,
    pub(super) standing: Option<String>,
    pub(super) ratio: Option<(f64, Option<(f64, f64)>)>,
    p_value: Option<f64>,
    verdict: Option<String>,
}

/// The arms of a recorded look.
pub(super) fn arms(look: &LookRecord) -> Vec<LookArm> {
    let arms = look.outcome.get("arms").and_then(Value::as_array);
    arms.map_or_else(Vec::new, |arms| arms.iter().filter_map(arm).collect())
}

fn arm(value: &Value) -> Option<LookArm> {
    let text = |name: &str| value.get(name).and_then(Value::as_str).map(printable);
    let number = |name: &str| value.get(name).and_then(Value::as_f64);
    let ratio = value.get("ratio").and_then(|ratio| {
        let of = |name: &str| ratio.get(name).and_then(Value::as_f64);
        Some((of("estimate")?, of("low").zip(of("high"))))
    });
    Some(LookArm {
        name: text("name")?,
        standing: text("standing"),
        ratio,
        p_value: number("p_value_adjusted"),
        verdict: text("verdict"),
    })
}

/// A standing or decision as a reader says it.
pub(super) fn spoken(word: &str) -> String {
    match word {
        "not_compared" => "the control".to_owned(),
        "less" => "needs less".to_owned(),
        "more" => "needs more".to_owned(),
        "same" => "needs the same, within 10%".to_owned(),
        "open" => "no difference shown".to_owned(),
        "difference" => "a difference is shown".to_owned(),
        "no_difference" => "all need the same, within 10%".to_owned(),
        other => other.replace('_', " "),
    }
}

pub(super) fn looks(trial: &Trial, now_us: i64) -> Markup {
    let planned = trial.planned_looks_us.iter().skip(trial.looks.len());
    html! {
        section id="looks" {
            h2 { "Looks" }
            @if trial.looks.is_empty() && trial.planned_looks_us.is_empty() {
                p { "None is planned." @if !trial.may_conclude() { " Figures that tell whether arms differ come when the trial has ended." } }
            } @else {
                @if !trial.may_conclude() {
                    p { "An analysis of a running trial is made at these times only: each further one would raise the chance of a false alarm." }
                }
                @if let Some((last, earlier)) = trial.looks.split_last() {
                    (taken(trial, last, now_us))
                    @if !earlier.is_empty() {
                        details {
                            summary { (words::counted(earlier.len(), "earlier look")) }
                            @for look in earlier.iter().rev() { (taken(trial, look, now_us)) }
                        }
                    }
                }
                @if trial.stage != Stage::Ended && trial.planned_looks_us.len() > trial.looks.len() {
                    h3 { "Still to come" }
                    ol class="planned" start=(trial.looks.len() + 1) {
                        @for planned in planned {
                            li {
                                "Look after " (words::rough(*planned as f64 / 1e6))
                                @if let Some(at) = trial.begun_wall_us.map(|begun| begun + planned) {
                                    ": " (words::date_and_ago(at, now_us))
                                    @if at < now_us { " " span class="badge stale" { "due" } }
                                } @else {
                                    ", counted from when the last service has its treatment"
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn taken(trial: &Trial, look: &LookRecord, now_us: i64) -> Markup {
    let arms = arms(look);
    let decision = look.outcome.get("decision").and_then(Value::as_str);
    let shown = trial.looks();
    let place = |name: &str| trial.arms.iter().position(|arm| printable(&arm.arm.name) == name);
    let caption = format!("look-{}", look.number);
    html! {
        article class="look" data-key=(caption) {
            h3 {
                "Look " (look.number)
                @if let Some(decision) = decision { ": " (spoken(&printable(decision))) }
            }
            p class="quiet" {
                "Taken " (words::date_and_ago(look.taken_wall_us, now_us)) ", planned after "
                (words::rough(look.planned_us as f64 / 1e6)) ". Its share of the error is " (units::p_value(look.alpha)) "."
            }
            @if let Some(result) = look.outcome.get("result").and_then(Value::as_str) {
                p class="result" { (printable(result)) }
            }
            @if arms.is_empty() {
                details { summary { "What was recorded" } pre tabindex="0" { code { (pretty(&look.outcome)) } } }
            } @else {
                div class="scroll" tabindex="0" role="region" aria-labelledby=(caption) {
                    table {
                        caption id=(caption) class="quiet" { span { "As recorded at look " (look.number) ", not as of now." } }
                        thead {
                            tr {
                                th scope="col" { "Arm" }
                                th scope="col" class="figure" { "Ratio to control" }
                                th scope="col" class="figure" { "p, adjusted" }
                                th scope="col" { "Standing" }
                                @if arms.iter().any(|arm| arm.verdict.is_some()) { th scope="col" { "Growth" } }
                            }
                        }
                        tbody {
                            @for arm in &arms {
                                tr {
                                    th scope="row" {
                                        @if let Some(place) = place(&arm.name) { (heaptrial_report::embedded::swatch(&shown, place)) }
                                        (words::name(&arm.name))
                                    }
                                    td class="figure" { (ratio(arm.ratio)) }
                                    td class="figure" { (arm.p_value.map_or_else(|| "–".to_owned(), units::p_value)) }
                                    td { (arm.standing.as_deref().map_or_else(|| "–".to_owned(), spoken)) }
                                    @if arms.iter().any(|arm| arm.verdict.is_some()) { td { (arm.verdict.as_deref().unwrap_or("–")) } }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// A ratio with its interval.
fn ratio(ratio: Option<(f64, Option<(f64, f64)>)>) -> String {
    match ratio {
        Some((value, Some((low, high)))) => {
            format!("{} ({} to {})", units::ratio(value), units::ratio(low), units::ratio(high))
        }
        Some((value, None)) => units::ratio(value),
        None => "–".to_owned(),
    }
}

fn pretty(value: &Value) -> String {
    printable(&serde_json::to_string(value).unwrap_or_default())
}
