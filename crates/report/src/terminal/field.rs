//! A field trial for a terminal: short, with where the rest is.

use std::fmt::Write;

use super::{Paint, WIDTH, table_lines, wrap};
use crate::document::{Finding, Severity};
use crate::summary::odd::severity;
use crate::table::{self, Detail, Table};
use crate::{Report, summary, units};

/// Names of arms in tables.
const LONGEST_NAME: usize = 24;
/// Findings beyond these are in the other forms.
const FINDINGS_SHOWN: usize = 6;
/// Names of services in a finding.
const NAMED: usize = 4;

pub(super) fn lines(report: &Report, paint: Paint) -> String {
    let mut out = String::new();
    let mut put = |line: &str| {
        let _ = writeln!(out, "{}", line.trim_end());
    };
    put(&paint.bold(&format!("{}: {}", report.name, report.kind().describe())));
    put(&paint.dim(&circumstances(report)));
    for paragraph in summary::field::paragraphs(report) {
        put("");
        put(&paint.bold(paragraph.title));
        for sentence in &paragraph.sentences {
            wrap(sentence, WIDTH, 0).iter().for_each(|line| put(line));
        }
    }
    let mut table = |title: &str, table: &Table| {
        put("");
        put(&paint.bold(title));
        table_lines(table, LONGEST_NAME, paint).iter().for_each(|line| put(line));
    };
    table("Final metrics", &table::field::results(report, Detail::Brief));
    if let Some((unit, days)) = table::field::by_day(report) {
        table(
            &format!(
                "Memory by day of age ({unit}, median over services; in brackets over less than half of them)"
            ),
            &days,
        );
    }
    if let Some(changes) = table::field::level_changes(report) {
        table("Sudden changes of level", &changes);
    }
    if let Some(sawtooth) = table::field::sawtooth(report) {
        table("Arms restarted at intervals", &sawtooth);
    }
    if let Some(work) = table::field::work(report, Detail::Brief) {
        table("Work", &work);
    }
    if let Some(happened) = table::field::happened(report, Detail::Brief) {
        table("What happened to services", &happened);
    }
    let all = &report.findings;
    if !all.is_empty() {
        put("");
        put(&paint.bold("Findings about the data"));
        let alike = summary::odd::alike(report);
        for run in alike.iter().take(FINDINGS_SHOWN) {
            finding_lines(report, &run[0], run.len() - 1, paint).iter().for_each(|line| put(line));
        }
        let shown: usize = alike.iter().take(FINDINGS_SHOWN).map(|run| run.len()).sum();
        if all.len() > shown {
            put(&format!("And {} more.", all.len() - shown));
        }
    }
    for (title, lines) in [
        ("Warnings", &summary::warnings(report)),
        ("Not measured", &report.unmeasured),
        ("Notes", &report.notes),
    ] {
        if !lines.is_empty() {
            put("");
            put(&paint.bold(title));
            for text in lines {
                wrap(&format!("- {text}"), WIDTH, 2).iter().for_each(|line| put(line));
            }
        }
    }
    put("");
    let brief = format!(
        "{} {} Services, {}, methods and charts are in the report's other forms.",
        summary::observed::figures_in_brief(report),
        units::LEGEND,
        if report.kind().is_import() { "strangers" } else { "what ran" }
    );
    wrap(&brief, WIDTH, 0).iter().for_each(|line| put(&paint.dim(line)));
    if !report.command.is_empty() {
        put(&format!("Repeat it: {}", report.command));
    }
    out
}

fn circumstances(report: &Report) -> String {
    let mut names: Vec<&str> = report.services.iter().map(|service| service.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let state = match report.kind().is_import() {
        true => String::new(),
        false => format!(", {}", report.outcome_word()),
    };
    let planned = match report.planned_seconds {
        seconds if seconds > 0.0 => format!(" of {} planned", units::duration(seconds)),
        _ => String::new(),
    };
    format!(
        "{}, {} from {}, {}{planned}{state}",
        summary::number(names.len() as u64, "service"),
        summary::number(report.samples, "reading"),
        summary::date_and_time(&report.started_at),
        units::duration(report.duration_seconds)
    )
}

fn finding_lines(report: &Report, finding: &Finding, alike: usize, paint: Paint) -> Vec<String> {
    let about = summary::odd::arms_of(report, finding);
    let about = if about.is_empty() { about } else { format!(" ({about})") };
    let services = match finding.services.len() {
        0 => String::new(),
        _ => format!(" {}.", summary::names(&finding.services, NAMED)),
    };
    let more = match alike {
        0 => String::new(),
        1 => " One more finding says the like.".to_owned(),
        more => format!(" {more} more findings say the like."),
    };
    let text = format!(
        "- {}: {}{about}:{services} {}{more}",
        severity(finding.severity),
        finding.kind.describe(),
        summary::sentence(&finding.evidence)
    );
    let mut lines = wrap(&text, WIDTH, 2);
    if let (Some(first), Severity::Grave) = (lines.first_mut(), finding.severity) {
        *first = paint.with(Paint::YELLOW, first);
    }
    lines
}
