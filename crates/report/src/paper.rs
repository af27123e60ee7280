//! The forms of a document of sections: what searches and scores are written as.

use std::path::{Path, PathBuf};

use maud::Markup;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::chart::{Chart, Layout, Looks};
use crate::page::Section;
use crate::png::Painter;
use crate::terminal::{self, Paint};
use crate::write::replace;
use crate::{ReportError, escape, html, markdown};

/// A document of sections, each of whose texts is made printable before it is shown.
pub(crate) trait Paper: Serialize + DeserializeOwned {
    /// Stem of its files.
    const NAME: &'static str;

    fn title(&self) -> String;

    fn sections(&self) -> Vec<Section>;

    fn looks(&self) -> Looks;

    fn charts(&self, _layout: Layout) -> Vec<Chart> {
        Vec::new()
    }

    fn as_json(&self) -> Result<String, ReportError> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    fn as_terminal(&self, colored: bool) -> Result<String, ReportError> {
        let paper = escape::printable_copy(self)?;
        Ok(terminal::plain(&paper.title(), &paper.sections(), Paint { colored }))
    }

    fn as_markdown(&self) -> Result<String, ReportError> {
        let paper = escape::printable_copy(self)?;
        let body = markdown::body(&paper.sections(), &paper.charts(Layout::Wide));
        Ok(format!("# {}\n\n{body}", paper.title()))
    }

    fn as_html(&self) -> Result<String, ReportError> {
        let paper = escape::printable_copy(self)?;
        let charts = [Layout::Wide, Layout::Narrow].map(|layout| paper.charts(layout));
        Ok(html::with_charts(&paper.title(), &paper.sections(), &paper.looks(), charts))
    }

    /// The sections as they are in the page.
    fn as_markup(&self) -> Result<Markup, ReportError> {
        let paper = escape::printable_copy(self)?;
        let charts = [Layout::Wide, Layout::Narrow].map(|layout| paper.charts(layout));
        Ok(html::sections_with_charts(&paper.sections(), &paper.looks(), charts))
    }

    /// Writes the JSON alone into `folder`, which has to be there.
    fn write_json_into(&self, folder: &Path) -> Result<(), ReportError> {
        replace(&folder.join(format!("{}.json", Self::NAME)), self.as_json()?.as_bytes())
    }

    /// Writes page, Markdown, JSON and `charts/` into `folder`, creating it where it is missing; gives the first three.
    fn write_into(&self, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
        std::fs::create_dir_all(folder).map_err(ReportError::write(folder))?;
        let drawn = escape::printable_copy(self)?.charts(Layout::Wide);
        if !drawn.is_empty() {
            let charts = folder.join("charts");
            std::fs::create_dir_all(&charts).map_err(ReportError::write(&charts))?;
            for chart in &drawn {
                replace(&charts.join(format!("{}.svg", chart.name)), chart.file().as_bytes())?;
                replace(&charts.join(format!("{}.png", chart.name)), &Painter::new().paint(chart)?)?;
            }
        }
        let forms = [("html", self.as_html()?), ("md", self.as_markdown()?), ("json", self.as_json()?)];
        let written = forms.into_iter().map(|(ending, content)| {
            let path = folder.join(format!("{}.{ending}", Self::NAME));
            replace(&path, content.as_bytes())?;
            Ok(path)
        });
        written.collect()
    }
}
