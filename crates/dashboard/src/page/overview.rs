//! The first page: what runs, what happened, and every service.

use std::path::Path;

use heaptrial_model::units;
use heaptrial_report::embedded::printable;
use maud::{Markup, html};

use super::{events, services, words};
use crate::data::{Line, Overview, Stage, Trial, distinct};

pub(crate) fn overview(overview: &Overview, now_us: i64, database: &Path) -> Markup {
    let present = overview.present();
    let recent = overview.last_day(now_us);
    let of_day: usize = overview.trials.iter().map(|trial| trial.event_counts.1).sum();
    html! {
        h1 { "Overview" }
        @if overview.trials.is_empty() {
            (nothing_yet(database))
        } @else {
            (tiles(&present, now_us))
            div class="two" {
                section id="trials" {
                    h2 { "Trials" }
                    (trials(overview, now_us))
                }
                section id="events" {
                    h2 { "Last 24 hours" }
                    (events::events(&recent, of_day, now_us))
                }
            }
            (services::services(&present, "services", now_us))
        }
    }
}

fn nothing_yet(database: &Path) -> Markup {
    html! {
        p class="lead" { "This database holds no trial yet." }
        p { "The page fills by itself when a trial begins. It shows " code { (database.display()) } "." }
        ul {
            li { "A trial on this fleet: " code { "heaptrial trial new NAME --services 'tor@*'" } }
            li { "A lab run in a database of its own: " code { "heaptrial serve --db RUN" } }
        }
    }
}

/// The state of things in a few figures.
fn tiles(present: &[&Trial], now_us: i64) -> Markup {
    let running = present.iter().filter(|trial| trial.stage == Stage::Running).count();
    let silent = present.iter().any(|trial| trial.stage == Stage::Silent);
    let imported = !present.is_empty() && present.iter().all(|trial| trial.record.plan.kind.is_import());
    let last = present.iter().filter_map(|trial| trial.last_read_us).max();
    let lines: Vec<&Line> = distinct(present).into_iter().map(|(_, line)| line).collect();
    let count = |so: fn(&Line) -> bool| lines.iter().filter(|line| so(line)).count();
    let contaminated = count(|line| line.contamination().is_some());
    let (excluded, stale) = (count(|line| line.failure().is_some()), count(|line| line.is_stale));
    let is_read = |line: &&&Line| line.ended.is_none() && !line.is_dropped && !line.is_stale;
    let memory: u64 = lines.iter().filter(is_read).filter_map(|line| line.memory_bytes).sum();
    let (class, word) = match (running > 0, silent) {
        _ if imported => ("tile", "imported"),
        (true, _) => ("tile good", "alive"),
        (false, true) => ("tile bad", "silent"),
        (false, false) => ("tile", "at rest"),
    };
    let of = match running {
        0 => "of the last trial".to_owned(),
        running => format!("in {}", words::counted(running, "running trial")),
    };
    let troubled = if contaminated + excluded + stale > 0 { "tile bad" } else { "tile" };
    html! {
        dl class="tiles" {
            (tile(class, "Sampling", word, html! {
                @match last {
                    Some(last) if imported => { "last reading " (words::date(last)) }
                    Some(last) => { "last tick " (words::ago(last, now_us)) }
                    None => "no tick yet",
                }
            }))
            (tile("tile", "Services", &units::count(lines.len() as u64), html! { (of) }))
            @if running > 0 {
                (tile("tile", "Memory of all", &units::memory(memory as f64), html! { "of processes that are read now" }))
            }
            (tile(troubled, "Non-compliant", &contaminated.to_string(), html! {
                (excluded) " excluded by failures, " (stale) " stale"
            }))
        }
    }
}

pub(super) fn tile(class: &str, title: &str, figure: &str, note: Markup) -> Markup {
    html! { div class=(class) { dt { (title) } dd { (figure) } dd class="note" { (note) } } }
}

fn trials(overview: &Overview, now_us: i64) -> Markup {
    html! {
        div class="scroll" tabindex="0" role="region" aria-labelledby="trials-caption" {
            table class="stack" role="table" {
                caption id="trials-caption" class="quiet" { span { "Newest first, what runs before what has ended." } }
                thead role="rowgroup" {
                    tr role="row" {
                        th scope="col" role="columnheader" { "Trial" }
                        th scope="col" role="columnheader" { "State" }
                        th scope="col" role="columnheader" { "Arms and services" }
                        th scope="col" role="columnheader" { "Started" }
                        th scope="col" role="columnheader" { "Looks" }
                    }
                }
                tbody role="rowgroup" { @for trial in &overview.trials { (trial_row(trial, now_us)) } }
            }
        }
        @if !overview.further.is_empty() {
            details {
                summary { (words::counted(overview.further.len(), "older trial")) }
                ul { @for (id, name) in &overview.further { li { a href=(words::trial_address(*id, name)) { (words::name(name)) } } } }
            }
        }
    }
}

fn trial_row(trial: &Trial, now_us: i64) -> Markup {
    let id = trial.record.id;
    let started = trial.record.plan.started_wall_us;
    let arms: Vec<String> = trial.arms.iter().map(|arm| printable(&arm.arm.name)).collect();
    html! {
        tr role="row" data-key=(id) {
            th scope="row" role="rowheader" class="plain" {
                a href=(words::trial_address(id, trial.name())) { (words::name(trial.name())) }
                span class="sub" { (trial.record.plan.kind.describe()) }
            }
            td role="cell" { (words::state(trial)) }
            td role="cell" class="long" title=(arms.join(", ")) {
                (words::counted(arms.len(), "arm")) ", " (words::counted(trial.lines.len(), "service"))
            }
            td role="cell" {
                (words::date(started))
                span class="sub" { (length(trial, now_us)) }
            }
            td role="cell" { (looks(trial, now_us)) }
        }
    }
}

/// How long it ran, or is running.
fn length(trial: &Trial, now_us: i64) -> String {
    let until = trial.record.ended_wall_us.or(trial.last_read_us).unwrap_or(now_us);
    let seconds = (until - trial.record.plan.started_wall_us) as f64 / 1e6;
    format!("for {}", words::rough(seconds))
}

fn looks(trial: &Trial, now_us: i64) -> Markup {
    let (taken, planned) = (trial.looks.len(), trial.planned_looks_us.len());
    let next = trial.next_look_wall_us().filter(|_| trial.stage == Stage::Running);
    html! {
        @if planned + taken == 0 {
            "–"
        } @else {
            (taken) " of " (planned.max(taken)) " taken"
            @if let Some(next) = next {
                span class="sub" {
                    @if next > now_us { "next " } @else { "due " }
                    (words::ago(next, now_us))
                }
            }
        }
    }
}
