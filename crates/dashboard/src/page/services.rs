//! The table of services, those to be looked at first.

use heaptrial_report::embedded::{printable, swatch};
use maud::{Markup, html};

use super::words;
use crate::data::{Line, Trial, distinct, metrics};

/// Services that are shown; of more those that come first in the order.
const SHOWN: usize = 1000;

const COLUMNS: [(&str, bool); 6] =
    [("Service", false), ("Arm", false), ("Runs", false), ("Memory", true), ("Age", true), ("State", false)];

/// The services of `trials`, those to be looked at first. `id` is that of the section.
pub(super) fn services(trials: &[&Trial], id: &str, now_us: i64) -> Markup {
    let mut rows = distinct(trials);
    rows.sort_by(|(_, a), (_, b)| troubled(b).cmp(&troubled(a)).then_with(|| a.name.cmp(&b.name)));
    let all = rows.len();
    rows.truncate(SHOWN);
    html! {
        section id=(id) class="services" {
            h2 { @if id == "services" { "Services" } @else { "Pages of the services" } }
            @if rows.is_empty() {
                p { "No service has been seen yet." }
            } @else {
                div class="scroll" tabindex="0" role="region" aria-labelledby="services-caption" {
                    table class="stack" role="table" {
                        caption id="services-caption" class="quiet" {
                            span {
                                (words::counted(all, "service"))
                                @if all > SHOWN { ", the first " (SHOWN) " of them" }
                                ". Memory is " (metrics(&rows).join(" or ")) " at the last reading."
                            }
                        }
                        thead role="rowgroup" {
                            tr role="row" {
                                @for (title, figures) in COLUMNS {
                                    th scope="col" role="columnheader" class=[figures.then_some("figure")] { (title) }
                                }
                            }
                        }
                        tbody role="rowgroup" { @for (trial, line) in &rows { (body_row(trial, line, now_us)) } }
                    }
                }
            }
        }
    }
}

fn body_row(trial: &Trial, line: &Line, now_us: i64) -> Markup {
    let arm = trial.arms.get(line.arm).map_or("", |arm| arm.arm.name.as_str());
    html! {
        tr role="row" data-key=(format!("{}-{}", trial.record.id, line.service_id)) {
            th scope="row" role="rowheader" class="plain" {
                a href=(words::service_address(&line.name, trial.record.id)) { (words::name(&line.name)) }
            }
            td role="cell" class="arm" { (swatch(&trial.styles(), line.arm)) (words::name(arm)) }
            td role="cell" class="identity" { (line.identity().map_or_else(|| "–".to_owned(), printable)) }
            td role="cell" class="figure memory" { (words::memory(line.memory_bytes)) }
            td role="cell" class="figure age" { @if line.may_be_older() { "≥ " } (line.age_seconds.map_or_else(|| "–".to_owned(), words::rough)) }
            td role="cell" class=(if troubled(line) { "state" } else { "state calm" }) { (state(line, now_us)) }
        }
    }
}

/// What there is to say of a service, in words.
pub(super) fn state(line: &Line, now_us: i64) -> Markup {
    html! {
        @if line.latest.is_none() { span class="badge" { "not seen yet" } }
        @if let Some(why) = line.contamination() { span class="badge bad" { "non-compliant" } " " span class="why" { (printable(why)) } " " }
        @if let Some(why) = line.failure() { span class="badge bad" { "excluded" } " " span class="why" { (printable(why)) } " " }
        @if let Some(ending) = &line.ended { span class="badge bad" { (ending) } " " }
        @if line.is_dropped { span class="badge" { "dropped from the trial" } " " }
        @if line.is_stale {
            span class="badge stale" { "stale" }
            @if let Some(read) = line.read_wall_us() { " " span class="why" { "read " (words::ago(read, now_us)) } }
        }
        @if !troubled(line) { span class="quiet" { @if line.identity().is_some() { "counts" } @else { "not proved" } } }
    }
}

fn troubled(line: &Line) -> bool {
    line.is_stale || !line.counts()
}
