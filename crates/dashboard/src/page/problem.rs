//! Pages for what is not there, that help to find what is.

use heaptrial_report::embedded::printable;
use maud::{Markup, html};

use super::words;
use crate::data::{Overview, Trial};

const OFFERED: usize = 40;

/// No such trial; `known` are those that there are.
pub(crate) fn no_trial(name: &str, known: &[(i64, String)]) -> Markup {
    html! {
        h1 { "No such trial" }
        p { "The database has no trial called " b { (printable(name)) } "." }
        @if known.is_empty() {
            p { "It has none at all yet." }
        } @else {
            p { "It has:" }
            ul {
                @for (id, name) in known.iter().rev().take(OFFERED) {
                    li { a href=(words::trial_address(*id, name)) { (words::name(name)) } }
                }
            }
        }
        (back())
    }
}

pub(crate) fn no_service(name: &str, overview: &Overview) -> Markup {
    let lower = name.to_lowercase();
    let stem = lower.trim_end_matches(".service");
    let every =
        || overview.present().into_iter().flat_map(|trial| trial.lines.iter().map(move |line| (trial, line)));
    let alike = |name: &str| {
        let name = name.to_lowercase();
        !stem.is_empty() && (name.contains(stem) || stem.contains(name.trim_end_matches(".service")))
    };
    let alike: Vec<_> = every().filter(|(_, line)| alike(&line.name)).take(OFFERED).collect();
    let offered: Vec<_> = if alike.is_empty() { every().take(OFFERED).collect() } else { alike };
    html! {
        h1 { "No such service" }
        p { "No trial of the database has a service called " b { (printable(name)) } "." }
        @if !offered.is_empty() {
            p { "There are, among others:" }
            ul {
                @for (trial, line) in offered {
                    li { a href=(words::service_address(&line.name, trial.record.id)) { (words::name(&line.name)) } }
                }
            }
        }
        (back())
    }
}

pub(crate) fn no_report_yet(trial: &Trial) -> Markup {
    html! {
        h1 { "No report yet" }
        p {
            a href=(words::trial_address(trial.record.id, trial.name())) { (words::name(trial.name())) }
            " is still running. Its report comes when it has ended: one that is seen earlier is a look that nobody planned."
        }
        (back())
    }
}

pub(crate) fn nowhere(path: &str) -> Markup {
    html! {
        h1 { "Nothing here" }
        p { "There is no page " b { (printable(path)) } "." }
        (back())
    }
}

pub(crate) fn unavailable(text: &str) -> Markup {
    html! {
        h1 { "Cannot be shown now" }
        p { (printable(text)) }
        p { "This page looks again by itself, or when you " a href="" { "reload" } "." }
        (back())
    }
}

fn back() -> Markup {
    html! { p { a href="/" { "To the overview" } } }
}
