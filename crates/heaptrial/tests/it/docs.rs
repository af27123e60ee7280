//! The pages of the documentation hang together: every link leads somewhere, and every page is reached.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Files below a folder with one of these endings; what was built is none of them.
fn files(folder: &Path, endings: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() && !path.is_symlink() && entry.file_name() != "target" {
            found.extend(files(&path, endings));
        } else if path.extension().is_some_and(|end| endings.iter().any(|ending| end == *ending)) {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// The page of commands is made with the book and not kept.
fn is_made(page: &Path) -> bool {
    page.ends_with("docs/commands.md")
}

fn pages() -> BTreeMap<PathBuf, String> {
    let root = root();
    let mut paths = files(&root.join("docs"), &["md"]);
    paths.retain(|page| !is_made(page));
    paths.extend(files(&root.join("notebook"), &["md"]));
    paths.extend(
        ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ansible/README.md"].map(|name| root.join(name)),
    );
    paths.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The lines of a page that are no code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start_matches([' ', '>']).starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

/// Targets of `[text](target)`; a text may go over the end of a line, code in it is left alone.
fn links(page: &str) -> Vec<String> {
    let text = prose(page).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    let mut code = false;
    let mut rest = text.as_str();
    while let Some(place) = rest.find(['`', ']']) {
        let is_code = rest[place..].starts_with('`');
        rest = &rest[place + 1..];
        if is_code {
            code = !code;
        } else if let (false, Some(link)) = (code, rest.strip_prefix('(')) {
            found.push(link.split(')').next().unwrap_or_default().to_owned());
        }
    }
    found
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(page: &str) -> BTreeSet<String> {
    let heading = |line: &str| {
        let text = line.trim_start_matches('#').strip_prefix(' ')?.to_owned();
        line.starts_with('#').then_some(text)
    };
    let anchor = |text: String| -> String {
        let kept = text.trim().to_lowercase();
        let kept = kept.chars().filter(|c| c.is_alphanumeric() || "-_ ".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    prose(page).filter_map(heading).map(anchor).collect()
}

/// A path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(plain.pop()),
            part => plain.push(part),
        }
    }
    plain
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_that_are_there() {
    let pages = pages();
    let mut broken = Vec::new();
    let mut count = 0;
    for (path, text) in &pages {
        for link in links(text).into_iter().filter(|link| !link.contains("://")) {
            count += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target =
                if file.is_empty() { path.clone() } else { plain(&path.parent().unwrap().join(file)) };
            let told = format!("{}: {link}", path.strip_prefix(root()).unwrap().display());
            if !target.exists() && !is_made(&target) {
                broken.push(told);
            } else if !anchor.is_empty()
                && !pages.get(&target).is_some_and(|page| anchors(page).contains(anchor))
            {
                broken.push(format!("{told} (no such heading)"));
            }
        }
    }
    assert!(count > 80, "only {count} links were found: the test does not read them");
    assert_eq!(broken, Vec::<String>::new());
}

#[test]
fn every_page_is_in_the_summary_once() {
    let docs = root().join("docs");
    let summary = docs.join("SUMMARY.md");
    let mut listed: Vec<PathBuf> =
        links(&pages()[&summary]).iter().map(|link| plain(&docs.join(link))).collect();
    listed.retain(|page| !is_made(page));
    listed.sort();
    let pages = files(&docs, &["md"]).into_iter().filter(|page| *page != summary && !is_made(page));
    assert_eq!(listed, pages.collect::<Vec<PathBuf>>());
}

#[test]
fn pages_that_code_speaks_of_are_there() {
    let root = root();
    let mut gone = Vec::new();
    for folder in ["crates", "docs", "scripts", "bench", "packaging"] {
        for path in files(&root.join(folder), &["rs", "toml", "md", "sh", "py", "html"]) {
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            for (place, _) in text.match_indices("docs/") {
                let name: String = text[place..]
                    .chars()
                    .take_while(|c| c.is_ascii_alphanumeric() || "/-_.".contains(*c))
                    .collect();
                let own = !text[..place].ends_with(['/', '.']) || text[..place].ends_with("../");
                let target = root.join(&name);
                if own && name.ends_with(".md") && !target.exists() && !is_made(&target) {
                    gone.push(format!("{}: {name}", path.strip_prefix(&root).unwrap().display()));
                }
            }
        }
    }
    assert_eq!(gone, Vec::<String>::new());
}
