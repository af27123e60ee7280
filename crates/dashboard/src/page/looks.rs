//! The looks of a trial: when they are planned, and what was recorded of those that were taken.

use heaptrial_model::units;
use heaptrial_report::LookReport;
use heaptrial_report::embedded::{printable, sections};
use heaptrial_store::LookRecord;
use maud::{Markup, html};

use super::words;
use crate::data::{Stage, Trial};

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
                    ol class="planned" start=(trial.looks.len() + 1) { @for after_us in planned { li { (to_come(trial, *after_us, now_us)) } } }
                }
            }
        }
    }
}

fn to_come(trial: &Trial, after_us: i64, now_us: i64) -> Markup {
    html! {
        "Look after " (words::rough(after_us as f64 / 1e6))
        @match trial.begun_wall_us.map(|begun| begun + after_us) {
            Some(at) => { ": " (words::date_and_ago(at, now_us)) @if at < now_us { " " span class="badge stale" { "due" } } }
            None => ", counted from when the last service has its treatment",
        }
    }
}

fn taken(trial: &Trial, look: &LookRecord, now_us: i64) -> Markup {
    html! {
        article class="look" data-key=(look.number) {
            h3 { "Look " (look.number) }
            p class="quiet" {
                "As recorded " (words::date_and_ago(look.taken_wall_us, now_us)) ", not as of now; planned after "
                (words::rough(look.planned_us as f64 / 1e6)) ". Its share of the error is " (units::p_value(look.alpha)) "."
            }
            @match LookReport::stored(look) {
                Ok(report) => (sections(&report, trial.styles())),
                Err(error) => p { (printable(&error.to_string())) },
            }
        }
    }
}
