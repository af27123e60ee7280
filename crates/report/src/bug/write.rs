//! The files of a bundle.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Bundle, markdown};
use crate::ReportError;
use crate::bisect::CHART;
use crate::write::replace;

const MARKDOWN: &str = "bug.md";
const JSON: &str = "bug.json";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BugFiles {
    pub markdown: PathBuf,
    pub json: PathBuf,
    pub charts: Vec<PathBuf>,
}

/// A file's name and content.
type File = (String, Vec<u8>);

/// Writes a bundle into `folder`, creating it where it is missing. An earlier bundle is replaced. What else is in the
/// folder would be sent with it: a folder with other files is refused.
pub fn write_bug(bundle: &Bundle, folder: &Path) -> Result<BugFiles, ReportError> {
    let files = files(bundle)?;
    let earlier = earlier_files(folder)?;
    fs::create_dir_all(folder).map_err(ReportError::write(folder))?;
    for (name, content) in &files {
        replace(&folder.join(name), content)?;
    }
    for name in earlier.iter().filter(|name| files.iter().all(|file| file.0 != **name)) {
        let path = folder.join(name);
        fs::remove_file(&path).map_err(ReportError::write(&path))?;
    }
    let charts = files.iter().map(|file| &file.0).filter(|name| ![MARKDOWN, JSON].contains(&name.as_str()));
    Ok(BugFiles {
        markdown: folder.join(MARKDOWN),
        json: folder.join(JSON),
        charts: charts.map(|name| folder.join(name)).collect(),
    })
}

fn files(bundle: &Bundle) -> Result<Vec<File>, ReportError> {
    let mut files = Vec::new();
    for (file, chart) in &bundle.charts {
        files.push((format!("{file}.svg"), chart.file().into_bytes()));
    }
    files.push((MARKDOWN.to_owned(), markdown::page(&bundle.bug).into_bytes()));
    files.push((JSON.to_owned(), format!("{:#}\n", serde_json::to_value(&bundle.bug)?).into_bytes()));
    Ok(files)
}

/// The files of an earlier bundle in `folder`; an error where there is anything else, which is not ours to send.
fn earlier_files(folder: &Path) -> Result<Vec<String>, ReportError> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let ours = |name: &str| {
        let chart =
            (name.starts_with("memory-over-time") || name.starts_with(CHART)) && name.ends_with(".svg");
        chart || [MARKDOWN, JSON].contains(&name)
    };
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    match names.iter().find(|name| !ours(name)) {
        None => Ok(names),
        Some(first) => Err(ReportError::NotOurs { folder: folder.to_owned(), file: first.clone() }),
    }
}
