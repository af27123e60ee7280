//! The table of services: sorted and narrowed by links, so that it works without a script.

use std::cmp::Ordering;

use heaptrial_report::embedded::{printable, swatch};
use maud::{Markup, html};
use serde::Deserialize;

use super::words;
use crate::data::{Condition, Line, Trial, distinct, metrics};

const AT_A_TIME: usize = 250;

/// Which services are shown, and in which order: the query of an address.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Choice {
    sort: Option<String>,
    show: Option<String>,
    arm: Option<String>,
    page: Option<usize>,
}

/// A column by which the table can be sorted: its word in addresses, its title, and whether it holds figures.
const COLUMNS: [(&str, &str, bool); 6] = [
    ("name", "Service", false),
    ("arm", "Arm", false),
    ("identity", "Runs", false),
    ("memory", "Memory", true),
    ("age", "Age", true),
    ("state", "State", false),
];

struct Row<'a> {
    trial: &'a Trial,
    line: &'a Line,
}

/// The services of `trials`. `address` is that of the page, and `id` that of the section.
pub(super) fn services(
    trials: &[&Trial],
    choice: &Choice,
    (address, id): (&str, &str),
    now_us: i64,
) -> Markup {
    let services = distinct(trials);
    let measured = measured(&services);
    let mut rows: Vec<Row<'_>> = services.into_iter().map(|(trial, line)| Row { trial, line }).collect();
    let all = rows.len();
    let contaminated = rows.iter().filter(|row| row.line.is_contaminated()).count();
    let left_out = rows.iter().filter(|row| row.line.is_left_out()).count();
    let troubled = rows.iter().filter(|row| troubled(row.line)).count();
    let arms: Vec<(&Trial, usize)> =
        trials.iter().flat_map(|trial| (0..trial.arms.len()).map(move |arm| (*trial, arm))).collect();
    rows.retain(|row| choice.keeps(row));
    rows.sort_by(|a, b| choice.order(a, b));
    let found = rows.len();
    let pages = found.div_ceil(AT_A_TIME).max(1);
    let page = choice.page.unwrap_or(1).clamp(1, pages);
    let shown = &rows[(page - 1) * AT_A_TIME..(page * AT_A_TIME).min(found)];
    let with = |change: &dyn Fn(&mut Choice)| choice.address((address, id), change);
    let chip = |text: String, on: bool, link: String| {
        html! { a class="chip" href=(link) aria-current=[on.then_some("true")] { (text) } " " }
    };
    let showing = |word: Option<&str>| choice.show.as_deref() == word && choice.arm.is_none();
    html! {
        section id=(id) class="services" {
            h2 { @if id == "services" { "Services" } @else { "Pages of the services" } }
            @if all > 1 {
                nav class="chips" aria-label="Which services" {
                    (chip(format!("All {all}"), showing(None), with(&|choice| *choice = Choice { sort: choice.sort.clone(), ..Choice::default() })))
                    @if contaminated > 0 {
                        (chip(format!("Contaminated {contaminated}"), showing(Some("contaminated")), with(&|choice| choice.only("contaminated"))))
                    }
                    @if left_out > 0 {
                        (chip(format!("Left out {left_out}"), showing(Some("left-out")), with(&|choice| choice.only("left-out"))))
                    }
                    @if troubled > 0 {
                        (chip(format!("Not as it should be {troubled}"), showing(Some("trouble")), with(&|choice| choice.only("trouble"))))
                    }
                    @for (trial, arm) in arms.iter().filter(|_| arms.len() > 1) {
                        @let name = &trial.arms[*arm].arm.name;
                        a class="chip" href=(with(&|choice| choice.only_arm(name))) aria-current=[(choice.arm.as_deref() == Some(name)).then_some("true")] {
                            (swatch(&trial.looks(), *arm)) (printable(name))
                        } " "
                    }
                }
            }
            @if shown.is_empty() {
                p { (if all == 0 { "No service has been seen yet." } else { "No service is so." }) }
            } @else {
                div class="scroll" tabindex="0" role="region" aria-labelledby="services-caption" {
                    table class="stack" role="table" {
                        caption id="services-caption" class="quiet" {
                            span {
                                (words::counted(found, "service"))
                                @if pages > 1 { ", page " (page) " of " (pages) }
                                ". Memory is " (measured)
                                @if trials.iter().any(|trial| trial.rests()) { " at the end of the last rest, as reports compare it." } @else { " at the last reading." }
                            }
                        }
                        thead role="rowgroup" {
                            tr role="row" {
                                @for (word, title, figures) in COLUMNS {
                                    (heading(choice, word, title, figures, &with))
                                }
                            }
                        }
                        tbody role="rowgroup" { @for row in shown { (body_row(row, now_us)) } }
                    }
                }
                @if pages > 1 {
                    nav class="chips" aria-label="Pages of services" {
                        @for number in 1..=pages {
                            (chip(number.to_string(), number == page, with(&|choice| choice.page = Some(number))))
                        }
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

fn heading(
    choice: &Choice,
    word: &str,
    title: &str,
    figures: bool,
    with: &impl Fn(&dyn Fn(&mut Choice)) -> String,
) -> Markup {
    let down = format!("-{word}");
    let (sorted, next) = match choice.sort.as_deref().unwrap_or("name") {
        now if now == word => (Some("ascending"), down),
        now if now == down => (Some("descending"), word.to_owned()),
        // What is largest is looked for first.
        _ => (None, if figures { down } else { word.to_owned() }),
    };
    let arrow = match sorted {
        Some("ascending") => " ▲",
        Some(_) => " ▼",
        None => "",
    };
    html! {
        th scope="col" role="columnheader" class=[figures.then_some("figure")] aria-sort=[sorted] {
            a href=(with(&|choice| choice.sort = Some(next.clone()))) { (title) }
            @if sorted.is_some() { span aria-hidden="true" { (arrow) } }
        }
    }
}

fn body_row(row: &Row<'_>, now_us: i64) -> Markup {
    let Row { trial, line } = row;
    let arm = trial.arms.get(line.arm).map_or("", |arm| arm.arm.name.as_str());
    html! {
        tr role="row" data-key=(format!("{}-{}", trial.record.id, line.service_id)) {
            th scope="row" role="rowheader" class="plain" {
                a href=(words::service_address(&line.name, trial.record.id)) { (words::name(&line.name)) }
            }
            td role="cell" class="arm" { (swatch(&trial.looks(), line.arm)) (words::name(arm)) }
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
            Condition::Contaminated(why) => { span class="badge bad" { "contaminated" } " " span class="why" { (printable(why)) } }
            Condition::LeftOut(why) => { span class="badge bad" { "left out" } " " span class="why" { (printable(why)) } }
            Condition::Ended(ending) => span class="badge bad" { (ending) },
            Condition::Dropped => span class="badge" { "taken out of the trial" },
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

impl Choice {
    fn keeps(&self, row: &Row<'_>) -> bool {
        let of_arm = self
            .arm
            .as_ref()
            .is_none_or(|arm| row.trial.arms.get(row.line.arm).is_some_and(|record| record.arm.name == *arm));
        let so = match self.show.as_deref() {
            Some("contaminated") => row.line.is_contaminated(),
            Some("left-out") => row.line.is_left_out(),
            Some("trouble") => troubled(row.line),
            _ => true,
        };
        of_arm && so
    }

    fn only(&mut self, word: &str) {
        *self = Self { sort: self.sort.take(), show: Some(word.to_owned()), ..Self::default() };
    }

    fn only_arm(&mut self, name: &str) {
        *self = Self { sort: self.sort.take(), arm: Some(name.to_owned()), ..Self::default() };
    }

    fn order(&self, a: &Row<'_>, b: &Row<'_>) -> Ordering {
        let sort = self.sort.as_deref().unwrap_or("name");
        let (word, down) = sort.strip_prefix('-').map_or((sort, false), |word| (word, true));
        let (x, y) = (a.line, b.line);
        let figures = |x: Option<f64>, y: Option<f64>| {
            // What is not known comes last, whichever way the rest goes.
            match (x, y) {
                (Some(x), Some(y)) if down => y.total_cmp(&x),
                (Some(x), Some(y)) => x.total_cmp(&y),
                (x, y) => x.is_none().cmp(&y.is_none()),
            }
        };
        let ordering = match word {
            "memory" => {
                figures(x.memory_bytes.map(|bytes| bytes as f64), y.memory_bytes.map(|bytes| bytes as f64))
            }
            "age" => figures(x.age_seconds, y.age_seconds),
            word => {
                let ordering = match word {
                    "arm" => (a.trial.record.id, x.arm).cmp(&(b.trial.record.id, y.arm)),
                    "identity" => x.identity.cmp(&y.identity),
                    "state" => troubled(y).cmp(&troubled(x)),
                    _ => natural(&x.name, &y.name),
                };
                if down { ordering.reverse() } else { ordering }
            }
        };
        ordering.then_with(|| natural(&x.name, &y.name))
    }

    /// The address of the same page with another choice.
    fn address(&self, (page, id): (&str, &str), change: &dyn Fn(&mut Self)) -> String {
        let mut choice = Self { page: None, ..self.clone() };
        change(&mut choice);
        let page_number = choice.page.filter(|page| *page > 1).map(|page| page.to_string());
        let parts =
            [("sort", choice.sort), ("show", choice.show), ("arm", choice.arm), ("page", page_number)];
        let query: Vec<String> = parts
            .into_iter()
            .filter_map(|(name, value)| Some(format!("{name}={}", words::encoded(&value?))))
            .collect();
        let joint = if page.contains('?') { "&" } else { "?" };
        let query = if query.is_empty() { String::new() } else { format!("{joint}{}", query.join("&")) };
        format!("{page}{query}#{id}")
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

    #[test]
    fn a_choice_is_kept_in_addresses_and_escaped() {
        let choice = Choice { sort: Some("-memory".to_owned()), page: Some(3), ..Choice::default() };
        let to_arm = choice.address(("/", "services"), &|choice| choice.only_arm("a&b=\"c"));
        assert_eq!(to_arm, "/?sort=-memory&arm=a%26b%3D%22c#services");
        let next = choice.address(("/trial/x?id=1", "services"), &|choice| choice.page = Some(4));
        assert_eq!(next, "/trial/x?id=1&sort=-memory&page=4#services");
        assert_eq!(Choice::default().address(("/", "services"), &|_| {}), "/#services");
    }
}
