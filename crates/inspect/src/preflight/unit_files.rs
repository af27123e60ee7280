//! Whether the files that a treatment writes may be written where they belong.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_host::Mark;
use heaptrial_host::trusted::path_is_trustworthy;

use crate::preflight::finding::{Check, Findings};
use crate::preflight::subject::Subject;

pub(crate) fn check(subject: &Subject<'_>, findings: &mut Findings) {
    for path in &subject.planned.unit_files {
        trusted(subject, path, findings);
        let is_drop_ins = |folder: &&Path| folder.extension().is_some_and(|extension| extension == "d");
        if let Some(folder) = path.parent().filter(is_drop_ins) {
            linked(subject, folder, findings);
        }
    }
    if !subject.planned.replaces {
        let all: BTreeSet<&PathBuf> =
            subject.planned.unit_files.iter().chain(&subject.planned.left_overs).collect();
        all.into_iter().for_each(|path| free(subject, path, findings));
    }
}

fn trusted(subject: &Subject<'_>, path: &Path, findings: &mut Findings) {
    let scope = subject.unit().scope;
    let Err(why) = path_is_trustworthy(subject.root, path, scope) else { return };
    let owner = if scope.is_system() { "root" } else { "you or root" };
    findings.refuse(
        Check::UnitFiles,
        why.to_string(),
        "whoever can write there decides what the service runs, and with which rights",
        format!("let {owner} own it, and take the right to write from group and others"),
    );
}

/// A folder of drop-ins that is a link: units may share it, and systemd names what is in it by where it leads to.
fn linked(subject: &Subject<'_>, folder: &Path, findings: &mut Findings) {
    let Ok(target) = fs::read_link(subject.root.path(folder)) else { return };
    findings.refuse(
        Check::UnitFiles,
        format!("{} is a link to {}", folder.display(), target.display()),
        "a drop-in that is written there would be in force for all units that share it, whatever their arms",
        "give the service a folder of its own",
    );
}

fn free(subject: &Subject<'_>, path: &Path, findings: &mut Findings) {
    if fs::symlink_metadata(subject.root.path(path)).is_err() {
        return;
    }
    let bytes = fs::read(subject.root.path(path)).unwrap_or_default();
    let begins =
        String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().chars().take(120).collect();
    let (whose, fix) = match Mark::of(&bytes) {
        Some(Mark { name, .. }) => (
            format!(", written for `{name}`"),
            format!("`heaptrial trial stop {name} --revert` puts that back"),
        ),
        None => (begins_with(begins), "move it away".to_owned()),
    };
    findings.refuse(
        Check::UnitFiles,
        format!("{} is there already{whose}", path.display()),
        "a trial writes there, and does not replace what others wrote",
        fix,
    );
}

fn begins_with(line: String) -> String {
    if line.is_empty() { line } else { format!(", and begins with `{line}`") }
}
