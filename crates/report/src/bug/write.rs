//! The files of a bundle, each through the net before it is written.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::scrub::{Caught, Scrub};
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
    /// Charts, and plans that the commands read.
    pub others: Vec<PathBuf>,
    /// What the net replaced: file, kind and how often.
    pub replaced: Vec<String>,
}

/// A file's name and content.
type File = (String, Vec<u8>);

/// Writes a bundle into `folder`, creating it where it is missing. An earlier bundle is replaced. What else is in the
/// folder would be sent with it: a folder with other files is refused.
pub fn write_bug(bundle: &Bundle, folder: &Path) -> Result<BugFiles, ReportError> {
    let (files, replaced) = clean_files(bundle)?;
    let earlier = earlier_files(folder)?;
    fs::create_dir_all(folder).map_err(ReportError::write(folder))?;
    for (name, content) in &files {
        replace(&folder.join(name), content)?;
    }
    for name in earlier.iter().filter(|name| files.iter().all(|file| file.0 != **name)) {
        let path = folder.join(name);
        fs::remove_file(&path).map_err(ReportError::write(&path))?;
    }
    let others = files.iter().map(|file| &file.0).filter(|name| ![MARKDOWN, JSON].contains(&name.as_str()));
    Ok(BugFiles {
        markdown: folder.join(MARKDOWN),
        json: folder.join(JSON),
        others: others.map(|name| folder.join(name)).collect(),
        replaced,
    })
}

/// The files after the net, and what it replaced.
fn clean_files(bundle: &Bundle) -> Result<(Vec<File>, Vec<String>), ReportError> {
    let scrub = &bundle.secrets.0;
    let mut replaced = Vec::new();
    let mut net = |name: &str, text: &str| {
        let (clean, caught) = scrub.net(text);
        replaced.extend(told(name, &caught));
        clean.into_bytes()
    };
    let mut files: Vec<File> = Vec::new();
    for (file, chart) in &bundle.charts {
        let name = format!("{file}.svg");
        let svg = net(&name, &chart.file());
        files.push((name, svg));
    }
    for (name, text) in bundle.bug.reproduce.iter().filter_map(|found| found.file.as_ref()) {
        files.push((name.clone(), net(name, text)));
    }
    files.push((MARKDOWN.to_owned(), net(MARKDOWN, &markdown::page(&bundle.bug))));
    let (mut document, caught) = clean_json(serde_json::to_value(&bundle.bug)?, scrub);
    replaced.extend(told(JSON, &caught));
    document["replaced"] = replaced.clone().into();
    files.push((JSON.to_owned(), format!("{document:#}\n").into_bytes()));
    Ok((files, replaced))
}

fn told(name: &str, caught: &Caught) -> Vec<String> {
    caught.iter().map(|(kind, times)| format!("{name}: {times} {kind}")).collect()
}

/// Texts and names of members alike.
fn clean_json(value: Value, scrub: &Scrub) -> (Value, Caught) {
    let mut caught = Caught::new();
    let mut merge =
        |more: Caught| more.into_iter().for_each(|(kind, times)| *caught.entry(kind).or_default() += times);
    let value = match value {
        Value::String(text) => {
            let (clean, found) = scrub.net(&text);
            merge(found);
            Value::String(clean)
        }
        Value::Array(items) => {
            let clean = items.into_iter().map(|item| {
                let (clean, found) = clean_json(item, scrub);
                merge(found);
                clean
            });
            Value::Array(clean.collect())
        }
        Value::Object(members) => {
            let clean = members.into_iter().map(|(name, member)| {
                let (name, found) = scrub.net(&name);
                merge(found);
                let (clean, found) = clean_json(member, scrub);
                merge(found);
                (name, clean)
            });
            Value::Object(clean.collect())
        }
        other => other,
    };
    (value, caught)
}

/// The files of an earlier bundle in `folder`; an error where there is anything else, which is not ours to send.
fn earlier_files(folder: &Path) -> Result<Vec<String>, ReportError> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let ours = |name: &str| {
        let chart =
            (name.starts_with("memory-over-time") || name.starts_with(CHART)) && name.ends_with(".svg");
        let plan = name.starts_with("arms") && name.ends_with(".toml");
        chart || plan || [MARKDOWN, JSON].contains(&name)
    };
    let names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    match names.iter().find(|name| !ours(name)) {
        None => Ok(names),
        Some(first) => Err(ReportError::NotOurs { folder: folder.to_owned(), file: first.clone() }),
    }
}
