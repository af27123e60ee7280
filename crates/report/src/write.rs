//! The files of a report.

use std::fs;
use std::path::{Path, PathBuf};

use crate::chart;
use crate::{Comparison, Report, ReportError, Trajectories, escape, html, markdown};

/// Where the files of a report are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub html: PathBuf,
    pub markdown: PathBuf,
    pub json: PathBuf,
    pub charts: Vec<PathBuf>,
}

impl Report {
    /// The report as JSON: what `report.json` holds.
    pub fn json(&self) -> Result<String, ReportError> {
        let mut text = serde_json::to_string_pretty(self)?;
        text.push('\n');
        Ok(text)
    }

    /// The report as a self-contained page: what `report.html` holds.
    pub fn html(&self, trajectories: &Trajectories) -> Result<String, ReportError> {
        Ok(html::page(&escape::printable_report(self)?, trajectories))
    }

    /// The report as Markdown that refers to `charts/*.svg`: what `report.md` holds.
    pub fn markdown(&self, trajectories: &Trajectories) -> Result<String, ReportError> {
        let report = escape::printable_report(self)?;
        Ok(markdown::page(&report, &chart::all(&report, trajectories)))
    }

    /// The charts, laid out for files.
    pub fn charts(&self, trajectories: &Trajectories) -> Result<Vec<chart::Chart>, ReportError> {
        Ok(chart::all(&escape::printable_report(self)?, trajectories))
    }
}

/// Writes `report.html`, `report.md`, `report.json` and `charts/` into `folder`, creating it where it is
/// missing. Each file appears whole or not at all, and takes the place of an older one.
pub fn write(report: &Report, trajectories: &Trajectories, folder: &Path) -> Result<Written, ReportError> {
    let charts_folder = folder.join("charts");
    fs::create_dir_all(&charts_folder).map_err(ReportError::write(&charts_folder))?;
    let printable = escape::printable_report(report)?;
    let charts = chart::all(&printable, trajectories);
    let mut written = Written {
        html: folder.join("report.html"),
        markdown: folder.join("report.md"),
        json: folder.join("report.json"),
        charts: Vec::with_capacity(charts.len()),
    };
    for chart in &charts {
        let svg = charts_folder.join(format!("{}.svg", chart.name));
        replace(&svg, chart.file().as_bytes())?;
        written.charts.push(svg);
    }
    replace(&written.json, report.json()?.as_bytes())?;
    replace(&written.markdown, markdown::page(&printable, &charts).as_bytes())?;
    replace(&written.html, html::page(&printable, trajectories).as_bytes())?;
    Ok(written)
}

/// Writes `comparison.html`, `comparison.md` and `comparison.json` into `folder`, creating it where it is missing.
pub fn write_comparison(comparison: &Comparison, folder: &Path) -> Result<Vec<PathBuf>, ReportError> {
    fs::create_dir_all(folder).map_err(ReportError::write(folder))?;
    let forms = [
        ("comparison.html", comparison.html()?),
        ("comparison.md", comparison.markdown()?),
        ("comparison.json", comparison.json()?),
    ];
    forms
        .into_iter()
        .map(|(name, content)| {
            let path = folder.join(name);
            replace(&path, content.as_bytes())?;
            Ok(path)
        })
        .collect()
}

pub(crate) fn replace(path: &Path, content: &[u8]) -> Result<(), ReportError> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let beside = PathBuf::from(beside);
    fs::write(&beside, content).and_then(|()| fs::rename(&beside, path)).map_err(|error| {
        let _ = fs::remove_file(&beside);
        ReportError::write(path)(error)
    })
}
