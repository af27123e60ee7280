//! The forms of a document of sections: what searches and scores are written as.

use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::chart::{Chart, Looks};
use crate::page::{Block, Section};
use crate::table::{Emphasis, Row, Table};
use crate::terminal::{self, Paint};
use crate::write::replace;
use crate::{ReportError, escape, html, markdown};

/// A section of one table, if there is one, below a legend.
pub(crate) fn table_section(
    id: &'static str,
    title: &'static str,
    legend: Option<String>,
    table: Option<Table>,
) -> Option<Section> {
    let table = Block::Table(title.to_owned(), table?);
    Some(Section { id, title, blocks: legend.map(Block::Legend).into_iter().chain([table]).collect() })
}

/// A row of no arm.
pub(crate) fn row(cells: Vec<String>) -> Row {
    Row { arm: None, emphasis: Emphasis::None, cells }
}

/// What a document of sections is made of.
pub(crate) trait Contents: Serialize + DeserializeOwned {
    const NAME: &'static str;

    fn title(&self) -> String;

    fn sections(&self) -> Vec<Section>;

    fn looks(&self) -> Looks;

    fn charts(&self) -> Vec<Chart> {
        Vec::new()
    }
}

/// A document of sections in its forms, each of whose texts is made printable before it is shown: a [`BisectReport`], a
/// [`TuneReport`] or a [`ScoreReport`].
///
/// [`BisectReport`]: crate::BisectReport
/// [`TuneReport`]: crate::TuneReport
/// [`ScoreReport`]: crate::ScoreReport
pub trait Paper: DeserializeOwned {
    /// Stem of its files: `bisect` of `bisect.html`, `bisect.md` and `bisect.json`.
    const NAME: &'static str;

    /// As JSON: what its JSON file holds.
    fn json(&self) -> Result<String, ReportError>;

    /// For a terminal, in colour if `colored`.
    fn terminal(&self, colored: bool) -> Result<String, ReportError>;

    /// As Markdown that refers to its charts in `charts/`.
    fn markdown(&self) -> Result<String, ReportError>;

    fn html(&self) -> Result<String, ReportError>;

    /// Writes page, Markdown, JSON and `charts/` into `folder`, creating it where it is missing; gives the first three.
    fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError>;
}

impl<D: Contents> Paper for D {
    const NAME: &'static str = <D as Contents>::NAME;

    fn json(&self) -> Result<String, ReportError> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    fn terminal(&self, colored: bool) -> Result<String, ReportError> {
        let paper = escape::printable_copy(self)?;
        Ok(terminal::plain(&paper.title(), &paper.sections(), Paint { colored }))
    }

    fn markdown(&self) -> Result<String, ReportError> {
        let paper = escape::printable_copy(self)?;
        let body = markdown::body(&paper.sections(), &paper.charts());
        Ok(format!("# {}\n\n{body}", paper.title()))
    }

    fn html(&self) -> Result<String, ReportError> {
        let paper = escape::printable_copy(self)?;
        Ok(html::with_charts(&paper.title(), &paper.sections(), &paper.looks(), &paper.charts()))
    }

    fn write(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        std::fs::create_dir_all(folder).map_err(ReportError::write(folder))?;
        let drawn = escape::printable_copy(self)?.charts();
        if !drawn.is_empty() {
            let charts = folder.join("charts");
            std::fs::create_dir_all(&charts).map_err(ReportError::write(&charts))?;
            for chart in &drawn {
                replace(&charts.join(format!("{}.svg", chart.name)), chart.file().as_bytes())?;
            }
        }
        let forms = [("html", self.html()?), ("md", self.markdown()?), ("json", self.json()?)];
        let written = forms.into_iter().map(|(ending, content)| {
            let path = folder.join(format!("{}.{ending}", <D as Contents>::NAME));
            replace(&path, content.as_bytes())?;
            Ok(path)
        });
        written.collect()
    }
}
