//! The sections of a lab run's page.

use maud::{Markup, html};

use super::{Figures, data_table, events, warnings};
use crate::document::Report;
use crate::summary;
use crate::table::{self, Detail};

/// Anchors and names for the links at the top.
pub(super) const SECTIONS: [(&str, &str); 6] = [
    ("result", "Result"),
    ("over-time", "Over time"),
    ("identities", "What ran"),
    ("services", "Services"),
    ("setup", "Setup"),
    ("method", "Method"),
];

pub(super) fn body(report: &Report, charts: &Figures) -> Markup {
    html! {
        (result(report, charts))
        (over_time(charts))
        (identities(report))
        (services(report, charts))
        (setup(report))
        (method(report))
        (events(report))
    }
}

fn result(report: &Report, charts: &Figures) -> Markup {
    let sentences = summary::lab::result(report);
    html! {
        section id="result" {
            h2 { "Result" }
            @if let Some((first, rest)) = sentences.split_first() {
                p class="lead" { (first) }
                @if !rest.is_empty() {
                    p { (rest.join(" ")) }
                }
            }
            (warnings(report))
            p class="brief" { (summary::lab::figures_in_brief(report)) }
            (data_table("Results by arm", &table::lab::results(report, Detail::Full), report))
            @if let Some(table) = table::work::measures(report) {
                h3 { "Work" }
                (data_table("Work by arm", &table, report))
            }
            (charts.show("final-memory"))
            @if !report.notes.is_empty() {
                aside class="notes" aria-label="Notes" {
                    ul { @for note in &report.notes { li { (note) } } }
                }
            }
        }
    }
}

fn over_time(charts: &Figures) -> Markup {
    html! {
        section id="over-time" {
            h2 { "Over time" }
            (charts.show("memory-over-time"))
            (charts.show("distribution-at-the-end"))
        }
    }
}

fn identities(report: &Report) -> Markup {
    html! {
        section id="identities" {
            h2 { "What really ran" }
            p { "The allocator as proved in the running processes, beside what was asked for." }
            (data_table("Identities by arm", &table::lab::identities(report), report))
            details {
                summary { "The evidence" }
                @for arm in &report.arms {
                    h3 { (arm.name) }
                    @if let Some(identity) = &arm.identity {
                        ul {
                            @for finding in &identity.evidence { li { (finding) } }
                            @if let Some(sha256) = &identity.sha256 { li { "SHA-256 of the file: " code { (sha256) } } }
                        }
                    } @else {
                        p { "No service counts." }
                    }
                }
            }
        }
    }
}

fn services(report: &Report, charts: &Figures) -> Markup {
    html! {
        section id="services" {
            h2 { "Services" }
            (charts.show("trajectories"))
            (data_table("Every service", &table::lab::services(report), report))
        }
    }
}

fn setup(report: &Report) -> Markup {
    let parameters = summary::parameters(report);
    html! {
        section id="setup" {
            h2 { "Setup" }
            dl {
                @for (name, value) in summary::lab::setup(report) {
                    div { dt { (name) } dd { (value) } }
                }
            }
            @if !parameters.is_empty() {
                h3 { "Parameters of the workload" }
                dl {
                    @for (name, value) in parameters {
                        div { dt { (name) } dd { (value) } }
                    }
                }
            }
            h3 { "The command that repeats it" }
            pre tabindex="0" { code { (report.command) } }
            h3 { "What could not be measured" }
            @if report.unmeasured.is_empty() {
                p { "Nothing that was asked for." }
            } @else {
                ul { @for missing in &report.unmeasured { li { (missing) } } }
            }
        }
    }
}

fn method(report: &Report) -> Markup {
    html! {
        section id="method" {
            h2 { "How the figures were made" }
            ul { @for paragraph in summary::lab::method(report) { li { (paragraph) } } }
        }
    }
}
