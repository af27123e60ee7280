//! The looks of a trial: when they are planned, and what was recorded of those that were taken.

use heaptrial_evaluate::analysis::LookStanding;
use heaptrial_model::units;
use heaptrial_report::LookReport;
use heaptrial_report::embedded::{printable, swatch};
use heaptrial_store::LookRecord;
use maud::{Markup, html};

use super::words;
use crate::data::{Stage, Trial};

/// Where an arm is by memory.
pub(super) fn standing(standing: LookStanding) -> &'static str {
    match standing {
        LookStanding::NotCompared => "not compared",
        LookStanding::Less => "needs less",
        LookStanding::More => "needs more",
        LookStanding::Same => "needs the same, within 10%",
        LookStanding::Open => "no difference shown",
    }
}

pub(super) fn looks(trial: &Trial, now_us: i64) -> Markup {
    let planned = trial.planned_looks_us.iter().skip(trial.looks.len());
    html! {
        section id="looks" {
            h2 { "Looks" }
            @if trial.looks.is_empty() && trial.planned_looks_us.is_empty() {
                p { "None is planned." @if !trial.may_conclude() { " Figures on whether arms differ come when the trial has ended." } }
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
    let caption = format!("look-{}", look.number);
    html! {
        article class="look" data-key=(caption) {
            h3 { "Look " (look.number) }
            p class="quiet" {
                "Taken " (words::date_and_ago(look.taken_wall_us, now_us)) ", planned after "
                (words::rough(look.planned_us as f64 / 1e6)) ". Its share of the error is " (units::p_value(look.alpha)) "."
            }
            @match LookReport::stored(look) {
                Ok(report) => (recorded(trial, &report, &caption)),
                Err(error) => p { (printable(&error.to_string())) },
            }
        }
    }
}

fn recorded(trial: &Trial, look: &LookReport, caption: &str) -> Markup {
    let styles = trial.styles();
    let place = |name: &str| trial.arms.iter().position(|arm| arm.arm.name == name);
    html! {
        p class="result" { (printable(&look.result)) }
        div class="scroll" tabindex="0" role="region" aria-labelledby=(caption) {
            table {
                caption id=(caption) class="quiet" { span { "As recorded at this look, not as of now." } }
                thead {
                    tr {
                        th scope="col" { "Arm" }
                        th scope="col" class="figure" { "Ratio to control" }
                        th scope="col" class="figure" { "p, adjusted" }
                        th scope="col" { "Result" }
                        th scope="col" { "Growth" }
                    }
                }
                tbody {
                    @for arm in &look.arms {
                        tr {
                            th scope="row" {
                                @if let Some(place) = place(&arm.name) { (swatch(&styles, place)) }
                                (words::name(&arm.name))
                            }
                            td class="figure" { (arm.ratio.as_ref().map_or_else(|| "–".to_owned(), ToString::to_string)) }
                            td class="figure" { (arm.p_value_adjusted.map_or_else(|| "–".to_owned(), units::p_value)) }
                            td { @if arm.control { "the control" } @else { (standing(arm.standing)) } }
                            td { (arm.verdict.as_deref().unwrap_or("–")) }
                        }
                    }
                }
            }
        }
    }
}
