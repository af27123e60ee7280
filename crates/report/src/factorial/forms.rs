//! A factorial for a terminal, as Markdown and as JSON.

use std::path::{Path, PathBuf};

use heaptrial_model::Side;

use heaptrial_judgement::{Effect, Parts};

use super::FactorialReport;
use crate::document::Ratio;
use crate::page::{Block, Section};
use crate::table::{Column, Emphasis, NOTHING, Row, Table, ratio_with_interval};
use crate::terminal::{self, Paint};
use crate::write::replace;
use crate::{ReportError, markdown, units};

impl FactorialReport {
    /// As JSON: what `factorial.json` holds.
    pub fn json(&self) -> Result<String, ReportError> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    pub fn write(&self, folder: &Path) -> Result<PathBuf, ReportError> {
        let path = folder.join("factorial.json");
        replace(&path, self.json()?.as_bytes())?;
        Ok(path)
    }

    /// For a terminal, in colour if `colored`.
    pub fn terminal(&self, colored: bool) -> String {
        terminal::plain(&self.title(), &self.sections(), Paint { colored })
    }

    /// As Markdown without a heading.
    pub fn markdown(&self) -> String {
        markdown::body(&self.sections(), &[])
    }

    fn sections(&self) -> Vec<Section> {
        let blocks = vec![
            Block::Lead(self.sentences()),
            Block::Heading("Memory and CPU time".to_owned()),
            Block::Table("Memory and CPU time".to_owned(), self.cells_table()),
            Block::Heading("Effects".to_owned()),
            Block::Table("Effects".to_owned(), self.effects_table()),
            Block::Heading("What to mind".to_owned()),
            Block::List(self.notes.clone()),
        ];
        vec![Section { id: "factorial", title: "", blocks }]
    }

    /// `Version against settings: mimalloc@3.0.1 over mimalloc@2.1.7`.
    pub fn title(&self) -> String {
        format!("Version against settings: {} over {}", self.design.bad, self.design.good)
    }

    pub fn sentences(&self) -> Vec<String> {
        let Some(parts) = &self.parts else { return Vec::new() };
        let (good, bad) = (&self.design.good, &self.design.bad);
        let settings =
            |side: Side| self.design.default_of(side).map_or(String::new(), |level| self.level(level));
        let text = |effect: &Effect| ratio_with_interval(Some(&Ratio::from(effect)));
        let mut sentences = vec![format!(
            "Each with its own default ({} and {}), {bad} needs {} times the memory of {good}: {} times by the version \
             and {} times by the settings, which multiply to the whole.",
            settings(Side::Good),
            settings(Side::Bad),
            text(&parts.total),
            text(&parts.version),
            text(&parts.setting),
        )];
        sentences.extend(share(parts));
        sentences.extend(self.interaction(parts));
        sentences
    }

    /// Where the settings do not act alike in both versions, the effects one by one.
    fn interaction(&self, parts: &Parts) -> Option<String> {
        let (low, high) = (parts.interaction.low?, parts.interaction.high?);
        let (good, bad) = (self.design.good_default?, self.design.bad_default?);
        if low <= 1.0 && 1.0 <= high {
            return None;
        }
        let text = |effect: &Effect| ratio_with_interval(Some(&Ratio::from(effect)));
        let version = |level: usize| {
            let found = self.version_at.iter().find(|effect| effect.level == level)?;
            Some(format!("{} with {}", text(&found.ratio), self.level(level)))
        };
        // In the good version it is the step away from its default, in the bad one the step to it.
        let to_bad = self.setting_in.iter().find(|found| (found.side, found.level) == (Side::Good, bad))?;
        let to_good = self.setting_in.iter().find(|found| (found.side, found.level) == (Side::Bad, good))?;
        Some(format!(
            "But the settings do not act alike in both versions (interaction {}), so that these are means of unlike \
             effects; one by one: {} over {} is {} and {}; {} over {} is {} in {}, and {} over {} is {} in {}.",
            text(&parts.interaction),
            self.design.bad,
            self.design.good,
            version(good)?,
            version(bad)?,
            self.level(bad),
            self.level(good),
            text(&to_bad.ratio),
            self.design.good,
            self.level(good),
            self.level(bad),
            text(&to_good.ratio),
            self.design.bad,
        ))
    }

    fn level(&self, level: usize) -> String {
        self.design.levels[level].to_string()
    }

    /// Cells: a row for each build, a column for each level, and the ratio of the builds below.
    fn cells_table(&self) -> Table {
        let levels = 0..self.design.levels.len();
        let name = Column { title: format!("Level of {}", self.metric.describe()), figures: false };
        let title = |level: usize| Column { title: self.level(level), figures: true };
        let columns = std::iter::once(name).chain(levels.clone().map(title)).collect();
        let build = |side: Side| {
            let cell = |level: usize| {
                let cell = self.cell(side, level)?;
                let default = if cell.is_default { " (its default)" } else { "" };
                Some(format!("{}{default}", units::memory(cell.bytes? as f64)))
            };
            row(self.design.build(side).to_string(), levels.clone().map(cell))
        };
        let version = |level: usize| {
            let found = self.version_at.iter().find(|effect| effect.level == level)?;
            Some(ratio_with_interval(Some(&Ratio::from(&found.ratio))))
        };
        let cpu = |side: Side| {
            let cell = |level: usize| Some(units::cpu(self.cell(side, level)?.cpu_seconds?));
            row(format!("CPU time of {}", self.design.build(side)), levels.clone().map(cell))
        };
        let over = format!("{} over {}", self.design.bad, self.design.good);
        let rows = vec![
            build(Side::Good),
            build(Side::Bad),
            row(over, levels.clone().map(version)),
            cpu(Side::Good),
            cpu(Side::Bad),
        ];
        Table { columns, rows }
    }

    fn effects_table(&self) -> Table {
        let columns = ["Effect", "Ratio", "p"].iter().enumerate();
        let columns =
            columns.map(|(index, title)| Column { title: (*title).to_owned(), figures: index > 0 }).collect();
        let effect = |name: String, effect: &Effect| {
            let p = effect.p_value.map(units::p_value);
            row(name, [Some(ratio_with_interval(Some(&Ratio::from(effect)))), p].into_iter())
        };
        let (good, bad) = (&self.design.good, &self.design.bad);
        let mut rows = Vec::new();
        for found in &self.setting_in {
            let build = self.design.build(found.side);
            let from = self.design.default_of(found.side).map_or(String::new(), |level| self.level(level));
            rows.push(effect(format!("{build}: {} over {from}", self.level(found.level)), &found.ratio));
        }
        if let Some(parts) = &self.parts {
            rows.push(effect("version, mean over both defaults".to_owned(), &parts.version));
            rows.push(effect("settings, mean over both versions".to_owned(), &parts.setting));
            rows.push(effect(
                format!("interaction, settings in {bad} over those in {good}"),
                &parts.interaction,
            ));
            rows.push(effect("whole, each version with its own default".to_owned(), &parts.total));
        }
        Table { columns, rows }
    }
}

fn row(name: String, cells: impl Iterator<Item = Option<String>>) -> Row {
    let cells = cells.map(|cell| cell.unwrap_or_else(|| NOTHING.to_owned()));
    Row { arm: None, emphasis: Emphasis::None, cells: std::iter::once(name).chain(cells).collect() }
}

fn share(parts: &Parts) -> Option<String> {
    let share = parts.setting_share.as_ref()?;
    if !(parts.total.low.is_none_or(|low| low > 1.0) || parts.total.high.is_none_or(|high| high < 1.0)) {
        return Some(
            "The interval of the whole holds 1, so that there is no difference to be split.".to_owned(),
        );
    }
    let percent = |value: f64| format!("{:.0}%", 100.0 * value);
    let interval = match (share.low, share.high) {
        (Some(low), Some(high)) => format!(" ({} to {})", percent(low), percent(high)),
        _ => String::new(),
    };
    let apart = if (0.0..=1.0).contains(&share.estimate) {
        ""
    } else {
        "; a share outside 0 to 100% means that version and settings pull apart"
    };
    Some(format!(
        "On the log scale the settings are {}{interval} of the difference, the version the rest{apart}.",
        percent(share.estimate)
    ))
}
