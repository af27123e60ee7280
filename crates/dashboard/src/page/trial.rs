//! A trial: while it runs what was read, and after its end its report.

use heaptrial_model::{Treatment, TrialKind, units};
use heaptrial_report::embedded::{printable, swatch};
use maud::{Markup, PreEscaped, html};

use super::{events, looks, services, words};
use crate::compute::Computed;
use crate::data::{Line, Stage, Trial};

pub(crate) fn trial(trial: &Trial, computed: Option<&Computed>, now_us: i64) -> Markup {
    let concluded = trial.may_conclude();
    let recorded: Vec<_> = trial.events.iter().map(|event| (trial, event)).collect();
    let (first, last) = if trial.record.plan.kind.is_import() {
        ("first reading", "last reading")
    } else {
        ("started", "ended")
    };
    html! {
        div class="heading" {
            h1 { (words::name(trial.name())) }
            p class="meta" {
                span { (trial.record.plan.kind.describe()) }
                " " (words::state(trial))
                " " span { (first) " " (words::date_and_ago(trial.record.plan.started_wall_us, now_us)) }
                @if let Some(end) = trial.record.ended_wall_us {
                    " " span { (last) " " (words::date_and_ago(end, now_us)) }
                }
            }
            nav aria-label="On this page" class="sections" {
                @if concluded {
                    a href=(words::report_address(trial)) { "The report as one page" } " "
                    a href="#result" { "Result" } " "
                } @else {
                    a href="#arms" { "Arms" } " "
                    a href="#chart" { "Memory" } " "
                }
                @if has_looks(trial) { a href="#looks" { "Looks" } " " }
                @if concluded {
                    a href="#service-pages" { "Pages of the services" }
                } @else {
                    a href="#events" { "Events" } " "
                    a href="#services" { "Services" }
                }
            }
        }
        @if trial.stage == Stage::Silent && !concluded {
            aside class="warnings" aria-label="Warning" {
                h2 { "Nothing is read" }
                p {
                    "The trial has not ended, but its last tick was "
                    @match trial.last_read_us { Some(read) => (words::ago(read, now_us)), None => "never" }
                    ". Is the agent running? " code { "systemctl status heaptrial-agent" }
                }
            }
        }
        @if concluded {
            @if has_looks(trial) { (looks::looks(trial, now_us)) }
            (report(computed))
            (services::services(&[trial], "service-pages", now_us))
        } @else {
            (progress(trial, now_us))
            (arms(trial))
            (chart(computed, now_us))
            @if has_looks(trial) { (looks::looks(trial, now_us)) }
            section id="events" {
                h2 { "Events" }
                (events::events(&recorded, trial.event_counts.0, now_us))
            }
            (services::services(&[trial], "services", now_us))
        }
    }
}

/// Whether looks are, or were, to be expected.
fn has_looks(trial: &Trial) -> bool {
    let open = trial.record.plan.kind == TrialKind::Field && !trial.may_conclude();
    open || !trial.looks.is_empty()
}

fn progress(trial: &Trial, now_us: i64) -> Markup {
    let plan = &trial.record.plan;
    let elapsed = trial.begun_wall_us.map_or(0, |begun| (now_us - begun).max(0));
    if plan.planned_us <= 0 || trial.record.plan.kind.is_lab() {
        return html! {};
    }
    let share = (elapsed as f64 / plan.planned_us as f64).min(1.0);
    let left = plan.planned_us - elapsed;
    html! {
        p class="progress" {
            progress max="100" value=(format!("{:.1}", 100.0 * share)) aria-label="Share of the planned time" {}
            " " (words::rough(elapsed as f64 / 1e6)) " of " (words::rough(plan.planned_us as f64 / 1e6))
            @if left > 0 { ", " (words::rough(left as f64 / 1e6)) " left" } @else { ": over its planned end" }
            @if let Some(next) = trial.next_look_wall_us() {
                ". Next look " (words::ago(next, now_us)) "."
            }
        }
    }
}

fn arms(trial: &Trial) -> Markup {
    let titles = [("Arm", false), ("Median now", true), ("Range", true), ("Services", true)];
    let titles =
        titles.into_iter().chain([("Non-compliant", true), ("Excluded", true), ("Treatment", false)]);
    html! {
        section id="arms" {
            h2 { "Arms" }
            div class="scroll" tabindex="0" role="region" aria-labelledby="arms-caption" {
                table {
                    caption id="arms-caption" class="quiet" {
                        span {
                            "Descriptive: last readings (" (trial.record.plan.metric.at_once().describe())
                            ") of services that count, at different ages. They do not show whether arms differ."
                        }
                    }
                    thead {
                        tr {
                            @for (title, figures) in titles {
                                th scope="col" class=[figures.then_some("figure")] { (title) }
                            }
                        }
                    }
                    tbody { @for place in 0..trial.arms.len() { (arm_row(trial, place)) } }
                }
            }
        }
    }
}

fn arm_row(trial: &Trial, place: usize) -> Markup {
    let record = &trial.arms[place];
    let counted: Vec<&Line> = trial.counted(place).collect();
    let own = || trial.lines.iter().filter(|line| line.arm == place);
    let contaminated = own().filter(|line| line.contamination().is_some()).count();
    html! {
        tr class=[record.arm.control.then_some("control-row")] data-key=(record.id) {
            th scope="row" {
                (swatch(&trial.styles(), place)) (words::name(&record.arm.name))
                @if record.arm.control { span class="sub" { "control" } }
            }
            td class="figure" { b { (words::memory(middle(&counted))) } }
            td class="figure" { (range(&counted)) }
            td class="figure" { (counted.len()) " of " (own().count()) }
            td class="figure" { @if contaminated > 0 { span class="badge bad" { (contaminated) } } @else { "0" } }
            td class="figure" { (own().filter(|line| line.failure().is_some()).count()) }
            td class="long" { (treatment(&record.arm.treatment)) }
        }
    }
}

pub(super) fn treatment(treatment: &Treatment) -> String {
    let mut parts: Vec<String> = treatment.allocator.iter().map(ToString::to_string).collect();
    parts.extend(treatment.torrc.iter().map(|(option, value)| format!("torrc {option} {value}")));
    parts.extend(treatment.restart_every.iter().map(|every| format!("restart every {every}")));
    if parts.is_empty() { "as it is".to_owned() } else { printable(&parts.join(", ")) }
}

fn middle(lines: &[&Line]) -> Option<u64> {
    let bytes: Vec<f64> =
        lines.iter().filter_map(|line| line.memory_bytes).map(|bytes| bytes as f64).collect();
    heaptrial_evaluate::judgement::middle(&bytes).map(|bytes| bytes as u64)
}

fn range(lines: &[&Line]) -> String {
    let bytes = || lines.iter().filter_map(|line| line.memory_bytes);
    let range = bytes().min().zip(bytes().max()).filter(|_| lines.len() > 1);
    range.map_or_else(
        || "–".to_owned(),
        |(low, high)| format!("{} to {}", units::memory(low as f64), units::memory(high as f64)),
    )
}

fn chart(computed: Option<&Computed>, now_us: i64) -> Markup {
    html! {
        section id="chart" {
            h2 { "Memory" }
            @match computed.map(|computed| (&computed.markup, computed.at_wall_us)) {
                Some((Ok(figure), at)) if !figure.is_empty() => {
                    div data-whole="" { (PreEscaped(figure)) }
                    p class="quiet" { "Drawn from readings up to " (words::ago(at, now_us)) "." }
                }
                Some((Ok(_), _)) => p { "Nothing was read yet." },
                Some((Err(text), _)) => (wrong(text)),
                None => (wait("The chart")),
            }
        }
    }
}

fn report(computed: Option<&Computed>) -> Markup {
    html! {
        @match computed.map(|computed| &computed.markup) {
            Some(Ok(sections)) => div class="report" data-whole="" { (PreEscaped(sections)) },
            Some(Err(text)) => section id="result" { h2 { "Result" } (wrong(text)) },
            None => section id="result" { h2 { "Result" } (wait("The report")) },
        }
    }
}

fn wrong(text: &str) -> Markup {
    html! { aside class="warnings" aria-label="Warning" { p { (printable(text)) } } }
}

fn wait(what: &str) -> Markup {
    html! { p class="quiet" { (what) " is being computed. It appears here by itself, or when you " a href="" { "reload" } "." } }
}
