//! Lists of events, of which those to be looked at are marked.

use heaptrial_model::units;
use heaptrial_report::embedded::printable;
use heaptrial_store::EventRecord;
use maud::{Markup, html};

use super::words;
use crate::data::{GRAVE, Trial};

/// Events that are shown at once; the others are folded.
const UNFOLDED: usize = 8;

/// The newest events of trials, of `all` that there are.
pub(super) fn events(events: &[(&Trial, &EventRecord)], all: usize, now_us: i64) -> Markup {
    let (first, rest) = events.split_at(events.len().min(UNFOLDED));
    let earlier = all.max(events.len()) - first.len();
    html! {
        @if first.is_empty() { p class="quiet" { "None." } } @else { (list(first, now_us)) }
        @if !rest.is_empty() {
            details {
                summary { (words::counted(earlier, "earlier event")) }
                (list(rest, now_us))
                @if earlier > rest.len() {
                    p class="quiet" { (units::count((earlier - rest.len()) as u64)) " of them are not shown." }
                }
            }
        }
    }
}

fn is_grave(event: &EventRecord) -> bool {
    event.kind.known().is_some_and(|kind| GRAVE.contains(&kind))
}

fn list(events: &[(&Trial, &EventRecord)], now_us: i64) -> Markup {
    html! {
        ul class="events" {
            @for (trial, event) in events {
                li { (line(trial, event, now_us)) }
            }
        }
    }
}

fn line(trial: &Trial, event: &EventRecord, now_us: i64) -> Markup {
    let service = event.service_id.and_then(|id| trial.lines.iter().find(|line| line.service_id == id));
    let arm = event.arm_id.and_then(|id| trial.arms.iter().find(|arm| arm.id == id));
    let class = if is_grave(event) { "badge bad" } else { "badge" };
    html! {
        span class="when" { (words::ago(event.wall_us, now_us)) } " "
        span class="what" {
            span class=(class) { (printable(event.kind.as_str()).replace('_', " ")) } " "
            @if let Some(service) = service {
                a href=(words::service_address(&service.name, trial.record.id)) { (words::name(&service.name)) } " "
            }
            @if let Some(arm) = arm { b { (words::name(&arm.arm.name)) } " " }
            (printable(&event.text))
        }
    }
}
