//! The forms of a document: terminal, Markdown, a page, JSON, and the files of all of them.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::chart::{ArmStyles, Chart};
use crate::page::Section;
use crate::table::Detail;
use crate::terminal::{self, Screen};
use crate::{ReportError, html, markdown};

/// A document of sections. Whoever implements it says what there is to say; the forms only lay it out.
pub trait Document: Serialize {
    /// Stem of its files: `report` of `report.html`, `report.md` and `report.json`.
    const NAME: &'static str;

    fn title(&self) -> String;

    /// What it is about in a line, below the title.
    fn lead(&self) -> String {
        String::new()
    }

    fn sections(&self, detail: Detail) -> Vec<Section>;

    /// How the arms look that tables and charts name by position.
    fn styles(&self) -> ArmStyles {
        ArmStyles::default()
    }

    fn charts(&self) -> Vec<Chart> {
        Vec::new()
    }

    /// As JSON, indented, with a line end: what its JSON file holds.
    fn json(&self) -> Result<String, ReportError> {
        Ok(format!("{}\n", serde_json::to_string_pretty(self)?))
    }

    fn terminal(&self, screen: Screen) -> String {
        terminal::lines(&Content::of(self, Detail::Brief), screen)
    }

    /// As Markdown that refers to its charts in `charts/`.
    fn markdown(&self) -> String {
        markdown::page(&Content::of(self, Detail::Full))
    }

    fn html(&self) -> String {
        html::page(&Content::of(self, Detail::Full))
    }

    /// Writes page, Markdown, JSON and `charts/` into `folder`, creating it where it is missing. Each file appears whole or
    /// not at all, and replaces an older one.
    fn write(&self, folder: &Path) -> Result<Written, ReportError> {
        fs::create_dir_all(folder).map_err(ReportError::write(folder))?;
        let content = Content::of(self, Detail::Full);
        let file = |ending: &str, text: String| {
            let path = folder.join(format!("{}.{ending}", Self::NAME));
            replace(&path, text.as_bytes())?;
            Ok::<_, ReportError>(path)
        };
        let charts_folder = folder.join("charts");
        if !content.charts.is_empty() {
            fs::create_dir_all(&charts_folder).map_err(ReportError::write(&charts_folder))?;
        }
        let mut charts = Vec::with_capacity(content.charts.len());
        for chart in &content.charts {
            let path = charts_folder.join(format!("{}.svg", chart.name));
            replace(&path, chart.file().as_bytes())?;
            charts.push(path);
        }
        Ok(Written {
            json: file("json", self.json()?)?,
            markdown: file("md", markdown::page(&content))?,
            html: file("html", html::page(&content))?,
            charts,
        })
    }
}

/// Where the files of a document are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub html: PathBuf,
    pub markdown: PathBuf,
    pub json: PathBuf,
    pub charts: Vec<PathBuf>,
}

/// What forms lay out. Each makes texts harmless for where they go.
pub(crate) struct Content {
    pub(crate) title: String,
    pub(crate) lead: String,
    pub(crate) sections: Vec<Section>,
    pub(crate) styles: ArmStyles,
    /// Only of a form that shows them.
    pub(crate) charts: Vec<Chart>,
}

impl Content {
    pub(crate) fn of<D: Document + ?Sized>(document: &D, detail: Detail) -> Self {
        Self {
            title: document.title(),
            lead: document.lead(),
            sections: document.sections(detail),
            styles: document.styles(),
            charts: if detail == Detail::Full { document.charts() } else { Vec::new() },
        }
    }
}

fn replace(path: &Path, content: &[u8]) -> Result<(), ReportError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    fs::write(&beside, content).and_then(|()| fs::rename(&beside, path)).map_err(|error| {
        let _ = fs::remove_file(&beside);
        ReportError::write(path)(error)
    })
}
