//! The table of services, sorted by links, so that it works without a script.

use std::cmp::Ordering;

use heaptrial_report::embedded::{printable, swatch};
use maud::{Markup, html};
use serde::Deserialize;

use super::words;
use crate::data::{Condition, Line, Trial, distinct, metrics};

/// Services that are shown; of more those that come first in the order.
const SHOWN: usize = 1000;

/// The order of the services: the query of an address.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Order {
    sort: Sort,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Sort {
    #[default]
    Name,
    /// Largest first.
    Memory,
    /// What somebody should look at first.
    State,
}

/// A column: its title, by what it sorts, and whether it holds figures.
const COLUMNS: [(&str, Option<Sort>, bool); 6] = [
    ("Service", Some(Sort::Name), false),
    ("Arm", None, false),
    ("Runs", None, false),
    ("Memory", Some(Sort::Memory), true),
    ("Age", None, true),
    ("State", Some(Sort::State), false),
];

/// The services of `trials`. `address` is that of the page, and `id` that of the section.
pub(super) fn services(trials: &[&Trial], order: Order, (address, id): (&str, &str), now_us: i64) -> Markup {
    let mut rows = distinct(trials);
    let measured = measured(&rows);
    rows.sort_by(|a, b| order.compare(a.1, b.1));
    let all = rows.len();
    rows.truncate(SHOWN);
    let joint = if address.contains('?') { "&" } else { "?" };
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
                                ". Memory is " (measured)
                                @if trials.iter().any(|trial| trial.rests()) { " at the end of the last rest, as reports compare it." } @else { " at the last reading." }
                            }
                        }
                        thead role="rowgroup" {
                            tr role="row" {
                                @for (title, sort, figures) in COLUMNS {
                                    @let by = sort.filter(|sort| *sort == order.sort).map(|_| "ascending");
                                    th scope="col" role="columnheader" class=[figures.then_some("figure")] aria-sort=[by] {
                                        @match sort {
                                            Some(sort) => a href=(format!("{address}{joint}sort={}#{id}", sort.word())) { (title) },
                                            None => (title),
                                        }
                                    }
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

/// What the memory of services is; where trials have different metrics, with their names.
fn measured(services: &[(&Trial, &Line)]) -> String {
    match &metrics(services)[..] {
        [(metric, _)] => (*metric).to_owned(),
        several => {
            let of = |(metric, names): &(&str, Vec<String>)| {
                let names: Vec<String> = names.iter().map(|name| printable(name)).collect();
                format!("{metric} (of {})", names.join(", "))
            };
            several.iter().map(of).collect::<Vec<_>>().join(" or ")
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
            td role="cell" class="identity" { (line.identity.as_deref().map_or_else(|| "–".to_owned(), printable)) }
            td role="cell" class="figure memory" { (words::memory(line.memory_bytes)) }
            td role="cell" class="figure age" { @if line.age_seconds.is_some() && line.may_be_older { "≥ " } (line.age_seconds.map_or_else(|| "–".to_owned(), words::rough)) }
            td role="cell" class=(if troubled(line) { "state" } else { "state calm" }) { (state(line, now_us)) }
        }
    }
}

/// What there is to say of a service, in words.
pub(super) fn state(line: &Line, now_us: i64) -> Markup {
    html! {
        @match &line.condition {
            Condition::Counts => @if !line.stale && !line.gone { span class="quiet" { "counts" } },
            Condition::Unproved => @if !line.stale && !line.gone { span class="quiet" { "not proved" } },
            Condition::Contaminated(why) => { span class="badge bad" { "non-compliant" } " " span class="why" { (printable(why)) } }
            Condition::LeftOut(why) => { span class="badge bad" { "excluded" } " " span class="why" { (printable(why)) } }
            Condition::Ended(ending) => span class="badge bad" { (ending) },
            Condition::Dropped => span class="badge" { "dropped from the trial" },
            Condition::NeverSeen => span class="badge" { "not seen yet" },
        }
        @if line.gone {
            " " span class="badge stale" { "read no more" }
            @if let Some(read) = line.read_wall_us { " " span class="why" { "last " (words::date(read)) } }
        }
        @if line.stale {
            " " span class="badge stale" { "stale" }
            @if let Some(read) = line.read_wall_us { " " span class="why" { "read " (words::ago(read, now_us)) } }
        }
    }
}

/// Whether somebody should look at it.
pub(super) fn troubled(line: &Line) -> bool {
    line.stale || line.gone || !matches!(line.condition, Condition::Counts | Condition::Unproved)
}

impl Sort {
    /// As addresses have it.
    fn word(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Memory => "memory",
            Self::State => "state",
        }
    }
}

impl Order {
    fn compare(self, a: &Line, b: &Line) -> Ordering {
        let ordering = match self.sort {
            Sort::Name => Ordering::Equal,
            // What is not known comes last.
            Sort::Memory => b.memory_bytes.cmp(&a.memory_bytes),
            Sort::State => troubled(b).cmp(&troubled(a)),
        };
        ordering.then_with(|| natural(&a.name, &b.name))
    }
}

/// Names by their letters, and by numbers within them.
fn natural(a: &str, b: &str) -> Ordering {
    let parts = |text: &str| -> Vec<(u64, String)> {
        let same = |a: &u8, b: &u8| a.is_ascii_digit() == b.is_ascii_digit();
        let chunks = text.as_bytes().chunk_by(same).map(String::from_utf8_lossy);
        chunks.map(|chunk| (chunk.parse().unwrap_or(u64::MAX), chunk.into_owned())).collect()
    };
    parts(a).cmp(&parts(b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_are_sorted_as_numbers() {
        let mut names = ["relay10", "relay9", "relay009b", "ü1", "relay"];
        names.sort_by(|a, b| natural(a, b));
        assert_eq!(names, ["relay", "relay009b", "relay9", "relay10", "ü1"]);
    }
}
