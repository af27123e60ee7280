//! The files of a bundle, each through the net before it is written.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::scrub::{Caught, Scrub};
use super::{Bundle, markdown};
use crate::ReportError;
use crate::png::Painter;
use crate::write::replace;

/// What was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BugFiles {
    /// `bug.md`.
    pub markdown: PathBuf,
    /// `bug.json`.
    pub json: PathBuf,
    /// Charts, and plans that the commands read.
    pub others: Vec<PathBuf>,
    /// What the net replaced: file, kind and how often.
    pub replaced: Vec<String>,
}

/// Writes a bundle into `folder`, creating it where it is missing. What else is in the folder would be sent with it:
/// a folder with other files is refused.
pub fn write_bug(bundle: &Bundle, folder: &Path) -> Result<BugFiles, ReportError> {
    let scrub = &bundle.secrets.0;
    let mut replaced = Vec::new();
    let mut net = |name: &str, text: &str| {
        let (clean, caught) = scrub.net(text);
        replaced.extend(told(name, &caught));
        clean
    };
    let mut files: Vec<(String, Vec<u8>)> = Vec::new();
    let painter = Painter::new();
    for (file, chart) in &bundle.charts {
        let svg = net(&format!("{file}.svg"), &chart.file());
        // The picture is painted from a clean text too.
        let picture = painter.paint_text(chart.name, &scrub.net(&chart.picture()).0)?;
        files.extend([(format!("{file}.svg"), svg.into_bytes()), (format!("{file}.png"), picture)]);
    }
    for (name, text) in bundle.bug.reproduce.iter().filter_map(|found| found.file.as_ref()) {
        files.push((name.clone(), net(name, text).into_bytes()));
    }
    let text = net("bug.md", &markdown::page(&bundle.bug));
    let (mut document, caught) = clean_json(serde_json::to_value(&bundle.bug)?, scrub);
    replaced.extend(told("bug.json", &caught));
    document["replaced"] = replaced.clone().into();
    let document = format!("{:#}\n", document);
    files.extend([("bug.md".to_owned(), text.into_bytes()), ("bug.json".to_owned(), document.into_bytes())]);
    refuse_strangers(folder, &files)?;
    fs::create_dir_all(folder).map_err(ReportError::write(folder))?;
    for (name, content) in &files {
        replace(&folder.join(name), content)?;
    }
    let main = ["bug.md", "bug.json"];
    Ok(BugFiles {
        markdown: folder.join(main[0]),
        json: folder.join(main[1]),
        others: files
            .iter()
            .map(|file| folder.join(&file.0))
            .filter(|path| !main.map(|name| folder.join(name)).contains(path))
            .collect(),
        replaced,
    })
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

/// An earlier bundle is replaced; anything else is not ours to send.
fn refuse_strangers(folder: &Path, files: &[(String, Vec<u8>)]) -> Result<(), ReportError> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    let ours = |name: &str| {
        let chart =
            name.starts_with("memory-over-time") && (name.ends_with(".svg") || name.ends_with(".png"));
        chart || files.iter().any(|file| file.0 == name)
    };
    let names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    let strangers: Vec<String> = names.filter(|name| !ours(name)).collect();
    match strangers.first() {
        None => Ok(()),
        Some(first) => Err(ReportError::NotOurs { folder: folder.to_owned(), file: first.clone() }),
    }
}
