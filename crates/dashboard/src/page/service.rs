//! A service: its ledger, its memory, what happened to it.

use heaptrial_model::Identity;
use heaptrial_report::embedded::{self, printable, swatch};
use maud::{Markup, html};

use super::overview::tile;
use super::{events, services, trial as trial_page, words};
use crate::data::{Life, Line, Service};

/// Process lifetimes that are shown at once.
const LIVES: usize = 60;

pub(crate) fn service(service: &Service, now_us: i64) -> Markup {
    let Service { trial, record, .. } = service;
    let line = trial.lines.iter().find(|line| line.service_id == record.id);
    let place = line.map_or(0, |line| line.arm);
    let arm = trial.arms.get(place);
    let recorded: Vec<_> = service.events.iter().map(|event| (trial, event)).collect();
    html! {
        div class="heading" {
            p class="crumbs" { a href=(words::trial_address(trial.record.id, trial.name())) { (words::name(trial.name())) } " ›" }
            h1 { (words::name(&record.name)) }
            p class="meta" {
                @if let Some(arm) = arm {
                    span class="arm" { (swatch(&trial.styles(), place)) (words::name(&arm.arm.name)) }
                    " " span { (trial_page::treatment(&arm.arm.treatment)) }
                }
                @if let Some(line) = line { " " (services::state(line, now_us)) }
            }
        }
        @if let Some(line) = line { (tiles(service, line, now_us)) }
        section id="memory" {
            h2 { "Memory" }
            @match embedded::lives(&service.series, service.metric, &trial.styles(), place) {
                Some(figure) => div data-whole="" { (figure) },
                None => p { "Nothing was read yet." },
            }
        }
        (ledger(service, now_us))
        section id="events" {
            h2 { "Events" }
            (events::events(&recorded, recorded.len(), now_us))
        }
    }
}

fn tiles(service: &Service, line: &Line, now_us: i64) -> Markup {
    let (class, proof) = match (line.contamination().is_some(), line.identity()) {
        (true, _) => ("tile bad", "not its arm's treatment"),
        (false, Some(_)) => ("tile", "proved from the process"),
        (false, None) => ("tile", "nothing proves it"),
    };
    let age = line.age_seconds.map_or_else(|| "–".to_owned(), words::rough);
    let at_least = if line.may_be_older() { "≥ " } else { "" };
    html! {
        dl class="tiles" {
            (tile("tile", "Memory", &words::memory(line.memory_bytes), html! {
                @match line.read_wall_us() {
                    Some(read) => { "read " (words::date_and_ago(read, now_us)) }
                    None => "never read",
                }
            }))
            (tile("tile", "Age", &format!("{at_least}{age}"), html! {
                (words::counted(service.lives.len(), "process")) " here"
            }))
            (tile(class, "Runs", &line.identity().map_or_else(|| "not proved".to_owned(), printable), html! { (proof) }))
        }
    }
}

fn ledger(service: &Service, now_us: i64) -> Markup {
    let lives = &service.lives;
    html! {
        section id="lives" {
            h2 { "Process lifetimes" }
            @if lives.is_empty() {
                p { "No process of it is known." }
            } @else {
                div class="scroll" tabindex="0" role="region" aria-labelledby="lives-caption" {
                    table {
                        caption id="lives-caption" class="quiet" { span { "The ledger: what was proved to run in each process, newest first." } }
                        thead {
                            tr {
                                th scope="col" { "Started" }
                                th scope="col" { "Ended" }
                                th scope="col" class="figure" { "Age" }
                                th scope="col" { "Ran" }
                                th scope="col" { "As its arm asks" }
                                th scope="col" class="figure" { "PID" }
                            }
                        }
                        tbody { @for life in lives.iter().take(LIVES) { (life_row(life, now_us)) } }
                    }
                }
                @if lives.len() > LIVES { p { "And " (lives.len() - LIVES) " earlier ones." } }
                @if let Some(identity) = lives.iter().find_map(|life| life.record.identity.as_ref()) {
                    details {
                        summary { "The evidence of the newest proved process" }
                        (evidence(identity))
                    }
                }
            }
        }
    }
}

fn life_row(life: &Life, now_us: i64) -> Markup {
    let record = &life.record;
    html! {
        tr data-key=(record.id) {
            th scope="row" class="plain" {
                (words::date(record.started_wall_us))
                @if let Some(note) = life.start_note() { span class="sub" { (note) } }
            }
            td class="long" {
                @match (life.ended_wall_us, life.read_wall_us) {
                    (Some(end), _) => (words::date(end)),
                    (None, Some(read)) if !life.lives => { "last read " (words::date(read)) },
                    _ => "–",
                }
                @if let Some(ending) = &record.ending { span class="sub" { (ending) } }
            }
            td class="figure" {
                @if life.may_be_older() { "≥ " }
                (words::rough(life.age_seconds(now_us)))
            }
            td { (printable(&life.label())) @if let Some(identity) = &record.identity { span class="sub" { (identity.linkage.as_str()) } } }
            td class="long" {
                @match (&record.contamination, &record.identity) {
                    (Some(why), _) if record.failed => { "yes, proved " span class="badge bad" { "excluded" } " " span class="why" { (printable(why)) } }
                    (Some(why), _) => { span class="badge bad" { "non-compliant" } " " span class="why" { (printable(why)) } }
                    (None, Some(_)) => "yes, proved",
                    (None, None) => span class="quiet" { "not proved" },
                }
            }
            td class="figure" { (record.key.as_ref().map_or_else(|| "–".to_owned(), |key| key.pid.to_string())) }
        }
    }
}

fn evidence(identity: &Identity) -> Markup {
    let path = identity.path.as_ref().map(|path| path.display().to_string());
    let pairs = [
        ("File", path.as_ref()),
        ("Build id", identity.build_id.as_ref()),
        ("SHA-256", identity.sha256.as_ref()),
    ];
    html! {
        ul { @for finding in &identity.evidence { li { (printable(finding)) } } }
        dl {
            @for (name, value) in pairs {
                @if let Some(value) = value { div { dt { (name) } dd { code { (printable(value)) } } } }
            }
            @for (name, value) in &identity.settings {
                div { dt { (printable(name)) } dd { code { (printable(value)) } } }
            }
        }
    }
}
