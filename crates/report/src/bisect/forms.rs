//! A search for a terminal, as Markdown, as a page and as JSON.

use heaptrial_model::{Arm, Treatment};

use super::{BisectReport, ChangeReport};
use crate::chart::{ArmStyles, Chart};
use crate::forms::Document;
use crate::page::{Block, Section};
use crate::table::{Detail, Table, figure, row, table_section, text};
use crate::text::names;
use crate::units;

/// Files of a commit that are listed.
const FILES: usize = 20;
/// Why a ratio is not that of the position's own blocks.
const FITTED: &str = "Ratios are those of the course that fits all blocks together: those of a position's own blocks may differ.";
/// Commits of a range that are listed.
const COMMITS: usize = 40;

impl BisectReport {
    fn positions_table(&self) -> Option<Table> {
        let columns =
            [figure("Position"), text("Build"), figure("Blocks"), figure("Ratio"), figure("± 2 sd")];
        let rows = self.measured.iter().map(|at| {
            row(vec![
                at.position.to_string(),
                self.with_same_builds(&at.name),
                if at.position == 0 { "all".to_owned() } else { at.blocks.to_string() },
                units::ratio(at.log_ratio.exp()),
                format!(
                    "{}–{}",
                    units::ratio((at.log_ratio - 2.0 * at.sd).exp()),
                    units::ratio((at.log_ratio + 2.0 * at.sd).exp())
                ),
            ])
        });
        Table::of(columns, rows)
    }

    /// `125099f3623c (0c3fea0f715b builds the same)`.
    fn with_same_builds(&self, name: &str) -> String {
        let others: Vec<&str> = self
            .same
            .iter()
            .filter_map(|(same, with)| match (same == name, with == name) {
                (false, true) => Some(same.as_str()),
                (true, false) => Some(with.as_str()),
                _ => None,
            })
            .collect();
        match others.as_slice() {
            [] => name.to_owned(),
            [one] => format!("{name} ({one} builds the same)"),
            several => format!("{name} ({} build the same)", names(several, COMMITS)),
        }
    }

    fn skipped_table(&self) -> Option<Table> {
        let columns = [figure("Position"), text("Build"), text("Why")];
        let rows = self.skipped.iter().map(|skipped| {
            let why = skipped.why.lines().map(str::trim).collect::<Vec<_>>().join(" ");
            row(vec![skipped.position.to_string(), skipped.name.clone(), why.chars().take(300).collect()])
        });
        Table::of(columns, rows)
    }

    fn blocks_table(&self) -> Option<Table> {
        let columns =
            [figure("Block"), text("Build"), figure("Older end"), figure("Build's"), figure("Ratio")];
        let rows = self.blocks.iter().map(|block| {
            row(vec![
                block.number.to_string(),
                block.name.clone(),
                units::memory(block.older_bytes),
                units::memory(block.bytes),
                units::ratio(block.log_ratio.exp()),
            ])
        });
        Table::of(columns, rows)
    }
}

impl Document for BisectReport {
    const NAME: &'static str = "bisect";

    fn title(&self) -> String {
        let settings = match self.settings.is_empty() {
            true => String::new(),
            false => format!(", with {}", self.settings.join(", ")),
        };
        format!("{}: what changed from {} to {}{settings}", self.family, self.older, self.newer)
    }

    /// One look for all: the family's.
    fn styles(&self) -> ArmStyles {
        let spec = heaptrial_model::AllocatorSpec::family(&self.family);
        let treatment = Treatment { allocator: Some(spec), ..Treatment::default() };
        let arm = Arm { name: self.family.clone(), control: false, treatment };
        ArmStyles::of([(&arm, None)])
    }

    fn sections(&self, _: Detail) -> Vec<Section> {
        let section = |id, title, blocks| Section { id, title, blocks };
        let mut result = vec![Block::Lead(self.sentences())];
        if !self.measured.is_empty() {
            result.push(Block::Chart("history"));
        }
        let mut sections = vec![section("result", "Result", result)];
        let what: Vec<Block> = self.changes.iter().flat_map(what_changed).collect();
        if !what.is_empty() {
            sections.push(section("changes", "What changed", what));
        }
        sections.extend(table_section(
            "positions",
            "Positions that were measured",
            Some(format!("{}. {FITTED}", self.figure())),
            self.positions_table(),
        ));
        sections.extend(table_section("skipped", "What could not be measured", None, self.skipped_table()));
        sections.push(section("notes", "What to mind", vec![Block::List(self.notes())]));
        sections.extend(table_section("blocks", "Blocks", None, self.blocks_table()));
        sections.push(section("again", "Again", vec![Block::Command(self.command.clone())]));
        sections
    }

    fn charts(&self) -> Vec<Chart> {
        vec![self.chart()]
    }
}

fn what_changed(change: &ChangeReport) -> Vec<Block> {
    let mut blocks = Vec::new();
    if let [commit] = change.commits.as_slice() {
        blocks.push(Block::Heading(format!("{} {}", commit.id, commit.subject)));
        let mut pairs = vec![("day".to_owned(), commit.day.clone())];
        if let Some(merged) = commit.merged {
            pairs.push(("merge".to_owned(), format!("brings {}", units::counted(merged, "commit"))));
        }
        if !commit.tags.is_empty() {
            pairs.push(("tags".to_owned(), commit.tags.join(", ")));
        }
        let more = commit.files.len().saturating_sub(FILES);
        let mut files = commit.files.iter().take(FILES).cloned().collect::<Vec<_>>().join(", ");
        if more > 0 {
            files.push_str(&format!(" and {more} more"));
        }
        pairs.push(("files".to_owned(), files));
        blocks.push(Block::Pairs(pairs));
        return blocks;
    }
    if change.commits.is_empty() {
        return blocks;
    }
    blocks.push(Block::Heading(format!("After {} up to {}", change.after, change.to)));
    let mut items: Vec<String> = change
        .commits
        .iter()
        .take(COMMITS)
        .map(|commit| {
            let skipped = commit.skipped.as_ref().map_or("", |_| " (could not be measured)");
            format!(
                "{} {} {}{skipped}",
                commit.id.get(..12).unwrap_or(&commit.id),
                commit.day,
                commit.subject
            )
        })
        .collect();
    if change.commits.len() > COMMITS {
        items.push(format!("and {} more", change.commits.len() - COMMITS));
    }
    blocks.push(Block::List(items));
    blocks
}
