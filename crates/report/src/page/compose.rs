//! From a report to its sections.

use super::{Block, FindingBlock, Section, section};
use crate::document::{Arm, Finding, Report, Reproduce, SettingDefault};
use crate::table::{Columns, Detail, Table, arms, data, hosts, optional, over_time, services, work};
use crate::terms::terms;
use crate::text::{names, sentence};
use crate::{finding_text, method, setup, summary, units, verdict};

/// Tables of services longer than this are folded.
const SERVICES_UNFOLDED: usize = 40;
const NAMED: usize = 10;
/// The same where there is little room.
const NAMED_BRIEFLY: usize = 4;
/// Findings shown where there is little room.
const FINDINGS_SHOWN: usize = 6;
/// Names of arms in the heading of a finding.
const ARMS_NAMED: usize = 4;

/// The sections of a report that have content. Brief ones are for a terminal: no services, charts, setup and method.
pub(crate) fn sections(report: &Report, detail: Detail) -> Vec<Section> {
    let full = detail == Detail::Full;
    let paragraphs = summary::paragraphs(report).into_iter().map(Block::Paragraph).collect();
    let summary = section("result", if full { "Summary" } else { "" }, paragraphs);
    let (figures, more) = (figures(report, detail), more_metrics(report, detail));
    let metrics = |blocks| section("metrics", "Final metrics", blocks);
    // On a terminal the table comes first, and what it means next.
    let mut sections = match detail {
        Detail::Full => vec![summary, metrics([figures, more].concat())],
        Detail::Brief => vec![metrics(figures), summary, section("more-metrics", "", more)],
    };
    sections.extend([
        section("hosts", "Hosts", on_hosts(report, full)),
        section("over-time", if full { "Over time" } else { "" }, memory_over_time(report, full)),
        section("findings", "Findings about the data", findings(report, full)),
        section("identities", "What ran", what_ran(report, detail)),
    ]);
    if full {
        sections.extend([
            section("services", "Services", every_service(report)),
            section("reproduce", "Reproduce", report.reproduce.as_ref().map_or_else(Vec::new, reproduce)),
            section("setup", "Setup and data", setup_and_data(report)),
            section("method", "How the figures were made", vec![Block::List(method::lines(report))]),
            section("events", "Events", table("Events", data::events(report))),
        ]);
    } else {
        sections.push(section("setup", "", what_else(report)));
    }
    sections.retain(|section| !section.blocks.is_empty());
    sections
}

fn table(name: &str, (table, more): (Option<Table>, usize)) -> Vec<Block> {
    let table = table.map(|table| Block::Table(name.to_owned(), table));
    let more =
        (more > 0).then(|| Block::Text(format!("And {} more in report.json.", units::count(more as u64))));
    table.into_iter().chain(more).collect()
}

/// A table under a heading of its own, where there is one.
fn titled(title: &str, table: Option<Table>) -> Vec<Block> {
    let block = |table| [Block::Heading(title.to_owned()), Block::Table(title.to_owned(), table)];
    table.map(block).into_iter().flatten().collect()
}

fn list(title: &str, items: &[String]) -> Vec<Block> {
    if items.is_empty() {
        return Vec::new();
    }
    vec![Block::Heading(title.to_owned()), Block::List(items.to_vec())]
}

fn figures(report: &Report, detail: Detail) -> Vec<Block> {
    let figures = arms::results(report, detail);
    let figures = figures.map(|figures| Block::Table("Final metrics by arm".to_owned(), figures));
    std::iter::once(Block::Legend(setup::figures_in_brief(report))).chain(figures).collect()
}

fn more_metrics(report: &Report, detail: Detail) -> Vec<Block> {
    let mut blocks = list("Growth and verdicts", &verdicts(report));
    if detail == Detail::Full {
        blocks.push(Block::Chart("final-memory"));
        blocks.push(Block::Chart("where-the-memory-is"));
        let heading = format!("With and without {}", terms(report.kind).excluded);
        blocks.extend(titled(&heading, arms::with_and_without(report)));
    }
    let splits = report.ranking().into_iter().map(|index| (index, &report.arms[index]));
    let splits = splits.map(|(index, arm)| (index, arm.name.as_str(), arm.control, arm.memory_split));
    blocks.extend(titled("Where the memory is", arms::split(splits)));
    let work = if detail == Detail::Full { work::measures(report) } else { work::in_brief(report) };
    blocks.extend(titled("Work", work));
    blocks.extend(titled("Connections, flags and memory freed in distress", work::standing(report)));
    blocks
}

fn verdicts(report: &Report) -> Vec<String> {
    let level = report.analysis.confidence_level;
    let arms = report.ranking().into_iter().map(|index| &report.arms[index]);
    arms.filter_map(|arm| Some(format!("{}: {}.", arm.name, verdict::line(arm, level)?))).collect()
}

fn on_hosts(report: &Report, full: bool) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some(table) = hosts::by_host(report) {
        blocks.push(Block::Legend(
            "Memory at the matched age, geometric mean over services; the ratio is to the control's services of the same \
             host and blocks. The last column tests one ratio on all hosts."
                .to_owned(),
        ));
        blocks.push(Block::Table("Arms by host".to_owned(), table));
    }
    if full {
        blocks.extend(titled("The hosts", hosts::hosts(report)));
    }
    blocks
}

fn memory_over_time(report: &Report, full: bool) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let Some((unit, table)) = over_time::by_day(report) {
        let title = "Memory by day of age";
        blocks.push(Block::Heading(title.to_owned()));
        blocks.push(Block::Legend(format!(
            "Median over services, in {unit}; in brackets over less than half of the services."
        )));
        blocks.push(Block::Table(title.to_owned(), table));
    }
    if full {
        blocks.extend(["memory-over-time", "over-calendar-time", "arms"].map(Block::Chart));
    }
    blocks
}

fn findings(report: &Report, full: bool) -> Vec<Block> {
    let shown = if full { report.findings.len() } else { FINDINGS_SHOWN.min(report.findings.len()) };
    let (shown, more) = report.findings.split_at(shown);
    let mut blocks: Vec<Block> =
        shown.iter().map(|found| Block::Finding(finding(report, found, full))).collect();
    if !more.is_empty() {
        blocks.push(Block::Text(format!("And {} more.", more.len())));
    }
    if full && blocks.is_empty() {
        blocks.push(Block::Text("Nothing was found.".to_owned()));
    }
    blocks
}

fn finding(report: &Report, found: &Finding, full: bool) -> FindingBlock {
    let all_arms = found.arms.len() >= report.arms.len() && report.arms.len() > 2;
    let about = match found.arms.is_empty() || all_arms {
        true => String::new(),
        false => format!(": {}", names(&found.arms, ARMS_NAMED)),
    };
    let (title, consequence) = finding_text::of(found.kind);
    let consequence = if full { format!(" {consequence}") } else { String::new() };
    let named = names(&found.services, if full { NAMED } else { NAMED_BRIEFLY });
    FindingBlock {
        severity: found.severity,
        heading: format!("{title}{about}"),
        text: format!("{}{consequence}", sentence(&found.evidence)),
        services: match found.services.len() {
            0 => String::new(),
            several => format!("{}: {named}.", units::counted(several, "service")),
        },
    }
}

fn what_ran(report: &Report, detail: Detail) -> Vec<Block> {
    let mut blocks = Vec::new();
    if detail == Detail::Full {
        blocks.push(Block::Text(terms(report.kind).what_ran.to_owned()));
    }
    let ran = arms::identities(report, detail);
    blocks.extend(ran.map(|ran| Block::Table("What ran".to_owned(), ran)));
    if detail == Detail::Full {
        let evidence: Vec<Block> = report.arms.iter().flat_map(evidence).collect();
        if !evidence.is_empty() {
            blocks.push(Block::Folded("The evidence".to_owned(), evidence));
        }
    }
    blocks.extend(titled("What happened to services", arms::happened(report)));
    blocks
}

/// How it was proved what an arm ran.
fn evidence(arm: &Arm) -> Vec<Block> {
    let Some(identity) = &arm.identity else { return Vec::new() };
    let digest = identity.sha256.iter().map(|sha256| format!("SHA-256 of the file: {sha256}"));
    let items: Vec<String> = identity.evidence.iter().cloned().chain(digest).collect();
    list(&arm.name, &items)
}

/// Where figures of a service are of two moments.
const AT_WORK: &str = "PSS, private dirty, lazily freed and huge pages are of their last reading, which may be during a relay's work; all \
                       else is of the end of its last rest.";

fn every_service(report: &Report) -> Vec<Block> {
    let folded = report.services.len() > SERVICES_UNFOLDED;
    let mut content = table("Every service", services::every(report));
    if report.consensuses.is_some() && report.services.iter().any(|service| service.smaps.is_some()) {
        content.insert(0, Block::Legend(AT_WORK.to_owned()));
    }
    let mut blocks = Vec::new();
    blocks.extend(titled("Services far from their arm", services::outliers(report)));
    if folded {
        let title = format!("All {} services", units::count(report.services.len() as u64));
        blocks.push(Block::Folded(title, content));
    } else {
        blocks.extend(content);
    }
    blocks
}

fn setup_and_data(report: &Report) -> Vec<Block> {
    let mut blocks = vec![Block::Pairs(setup::pairs(report))];
    let parameters = setup::parameters(report);
    if !parameters.is_empty() {
        blocks.push(Block::Heading("Parameters".to_owned()));
        blocks.push(Block::Pairs(parameters));
    }
    blocks.extend(titled("Files", data::sources(report)));
    if !report.command.is_empty() {
        blocks.push(Block::Heading("The command that repeats it".to_owned()));
        blocks.push(Block::Command(report.command.clone()));
    }
    blocks
}

/// How the maintainers of an allocator see it again.
fn reproduce(found: &Reproduce) -> Vec<Block> {
    let mut blocks = vec![Block::Lead(vec![format!(
        "{} needs {} times the memory of {}.",
        found.bad,
        optional(found.ratio.as_ref(), ToString::to_string),
        found.good
    )])];
    let defaults = Columns::of("Setting", |setting: &&SettingDefault| setting.name.clone())
        .text(&found.good, |setting| setting.good.clone())
        .text(&found.bad, |setting| setting.bad.clone())
        .text("What it is", |setting| Some(setting.about.clone()));
    blocks.extend(titled("Defaults that differ", defaults.table(&found.defaults)));
    blocks.push(Block::Heading("A command that runs both".to_owned()));
    blocks.push(Block::Command(found.command.clone()));
    blocks
}

fn what_else(report: &Report) -> Vec<Block> {
    let legend = format!("{} Services, methods and charts are in the report's other forms.", units::LEGEND);
    let command = [Block::Heading("Repeat it".to_owned()), Block::Command(report.command.clone())];
    let command = command.into_iter().filter(|_| !report.command.is_empty());
    std::iter::once(Block::Legend(legend)).chain(command).collect()
}
