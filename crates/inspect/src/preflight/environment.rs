//! What else sets the environment that a treatment sets.

use std::collections::BTreeSet;
use std::path::Path;

use heaptrial_allocator::Catalog;

use crate::environment_file;
use crate::preflight::finding::{Check, Findings};
use crate::services::host_preloads;
use heaptrial_host::{DROP_IN, is_drop_in};

use crate::preflight::planned::PlannedPreload;
use crate::preflight::subject::Subject;
use crate::preflight::unit_text::{variables, words};
use heaptrial_host::trusted::resolve;

const PRELOAD: &str = "LD_PRELOAD";

/// A variable that is set, and by what.
struct Present {
    name: String,
    value: String,
    /// Such as `/etc/default/tor line 3`.
    place: String,
    source: Source,
}

#[derive(PartialEq, Eq, Clone, Copy)]
enum Source {
    /// `Environment=` of a file that applies before ours: ours wins.
    Before,
    /// An environment file, or a drop-in that applies after ours: it wins.
    After,
    /// Only in the running process: a wrapper, or the manager's own environment.
    Process,
}

pub(crate) fn check(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    let present = present(subject);
    overridden(preload, &present, findings);
    undone(subject, preload, findings);
    present_preload(preload, &present, findings);
    unset_preload(subject, preload, &present, findings);
    host_preload(subject, preload, findings);
    foreign_settings(subject, preload, &present, findings);
    other_parts(preload, &present, findings);
}

fn present(subject: &Subject<'_>) -> Vec<Present> {
    let mut present = Vec::new();
    for assignment in subject.text.collected("Service", "Environment") {
        if is_drop_in(&assignment.file) {
            continue;
        }
        let source = if is_later(&assignment.file) { Source::After } else { Source::Before };
        let place = format!("{} line {}", assignment.file.display(), assignment.line);
        for (name, value) in variables(&assignment.value) {
            present.push(Present { name, value, place: place.clone(), source });
        }
    }
    for variable in environment_file::read(subject.root, &subject.unit().environment_files) {
        let place = format!("{} line {}", variable.file.display(), variable.line);
        present.push(Present { name: variable.name, value: variable.value, place, source: Source::After });
    }
    let environ = subject.process.as_ref().and_then(|process| process.environ().ok()).unwrap_or_default();
    for (name, value) in environ {
        let by_unit = subject.unit().environment.iter().any(|(known, _)| *known == name);
        if !by_unit && !present.iter().any(|known| known.name == name) {
            let place = "the environment of the running process".to_owned();
            present.push(Present { name, value, place, source: Source::Process });
        }
    }
    present
}

/// Drop-ins apply in the order of their file names, whatever folder they are in; the unit file comes first.
fn is_later(file: &Path) -> bool {
    let in_drop_in_folder = file.parent().and_then(Path::extension).is_some_and(|extension| extension == "d");
    in_drop_in_folder && file.file_name().is_some_and(|name| name.as_encoded_bytes() > DROP_IN.as_bytes())
}

fn overridden(preload: &PlannedPreload, present: &[Present], findings: &mut Findings) {
    for (name, wanted) in preload.environment() {
        let later = present.iter().filter(|found| found.source == Source::After);
        for found in later.filter(|found| found.name == name && found.value != wanted) {
            findings.refuse(
                Check::Environment,
                format!("{name} is set to `{}` by {}", found.value, found.place),
                format!("that comes after the drop-in {DROP_IN} and wins over it, so the treatment would not take hold; an EnvironmentFile wins over any Environment="),
                "take the variable out there",
            );
        }
    }
}

fn undone(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    let environment = preload.environment();
    for unset in &subject.unit().unset_environment {
        let hit =
            environment.iter().find(|(name, value)| unset == name || *unset == format!("{name}={value}"));
        if let Some((name, _)) = hit {
            let all = subject.text.collected("Service", "UnsetEnvironment");
            let named = all.iter().find(|found| words(&found.value).iter().any(|word| word == unset));
            let place = named
                .map_or(String::new(), |found| format!(" by {} line {}", found.file.display(), found.line));
            findings.refuse(
                Check::Environment,
                format!("{name} is removed{place} (UnsetEnvironment)"),
                "variables are removed last, whatever sets them, so the treatment would not take hold",
                "take it out of UnsetEnvironment=",
            );
        }
    }
    let all = subject.text.all("Service", "Environment");
    let reset = all.iter().find(|found| found.value.is_empty() && is_later(&found.file));
    if let Some(found) = reset.filter(|_| !environment.is_empty()) {
        findings.refuse(
            Check::Environment,
            format!("an empty Environment= in {} line {}", found.file.display(), found.line),
            format!(
                "it comes after {DROP_IN} and forgets all variables set before it, those of the treatment too"
            ),
            format!("rename the file so that it sorts before {DROP_IN}, or take the line out"),
        );
    }
}

fn present_preload(preload: &PlannedPreload, present: &[Present], findings: &mut Findings) {
    let named = present.iter().filter(|found| found.name == PRELOAD && !found.value.is_empty());
    for found in named.filter(|_| !preload.unsets(PRELOAD)) {
        let what = format!("{PRELOAD} is set to `{}` by {}", found.value, found.place);
        match (&preload.library, found.source) {
            (None, _) => findings.refuse(
                Check::PresentPreload,
                what,
                format!("{} means the service's own C library, and this preload stays in force", preload.spec),
                "take it out there, or have the treatment remove it with UnsetEnvironment=",
            ),
            // Already refused as an override.
            (Some(library), Source::After) if Path::new(&found.value) != library => {}
            (Some(_), Source::Process) => findings.warn(
                Check::PresentPreload,
                what,
                "no file of the unit sets it: a wrapper does, or systemd's own DefaultEnvironment=; a wrapper wins over the treatment. The identity proof after the restart decides",
                "find out who sets it, and take it out",
            ),
            (Some(library), _) if Path::new(&found.value) != library => findings.warn(
                Check::PresentPreload,
                what,
                "the treatment replaces it: what is preloaded today will not be loaded",
                "make sure that the service can do without it",
            ),
            _ => {}
        }
    }
}

/// The service's own C library is had by unsetting a preload, whatever it is for.
fn unset_preload(
    subject: &Subject<'_>,
    preload: &PlannedPreload,
    present: &[Present],
    findings: &mut Findings,
) {
    if preload.library.is_some() || !preload.unsets(PRELOAD) {
        return;
    }
    for found in present.iter().filter(|found| found.name == PRELOAD) {
        for word in found.value.split([' ', ':']).filter(|word| !word.is_empty()) {
            if has_malloc(subject, Path::new(word)) {
                continue;
            }
            findings.warn(
                Check::PresentPreload,
                format!("{PRELOAD} names {word}, which is not known to be an allocator, by {}", found.place),
                format!("the treatment unsets {PRELOAD}: {word} will not be loaded"),
                "make sure that the service can do without what it does, such as hiding or redirecting",
            );
        }
    }
}

/// Whether a library is an allocator, as far as its file can be found.
fn has_malloc(subject: &Subject<'_>, library: &Path) -> bool {
    let file = resolve(subject.root, library).map(|path| subject.root.path(path));
    file.is_some_and(|file| subject.examiner.examine(&file).is_ok_and(|found| found.exports_malloc))
}

/// `/etc/ld.so.preload` is read by every program, after `LD_PRELOAD` (ld.so(8)).
fn host_preload(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    for path in host_preloads(subject.root) {
        if !has_malloc(subject, &path) {
            continue;
        }
        let what = format!("/etc/ld.so.preload names {}, which has a `malloc`", path.display());
        let fix = "take it out of /etc/ld.so.preload for the time of the trial";
        match preload.library {
            None => findings.refuse(
                Check::PresentPreload,
                what,
                format!("every program gets it, and {} means the service's own C library", preload.spec),
                fix,
            ),
            Some(_) => findings.warn(
                Check::PresentPreload,
                what,
                "LD_PRELOAD comes before it and wins, but both are loaded, and what the treatment's library does not define comes from there",
                fix,
            ),
        }
    }
}

/// The proof after the restart refuses a process with settings of its allocator that are no part of the treatment.
fn foreign_settings(
    subject: &Subject<'_>,
    preload: &PlannedPreload,
    present: &[Present],
    findings: &mut Findings,
) {
    let Some(family) = Catalog::builtin().family(&preload.spec.family) else { return };
    let link = family.environment.linked(|link| subject.root.path(subject.in_root_directory(link)));
    if let Some((link, target)) = link {
        findings.refuse(
            Check::ForeignSetting,
            format!("{} is a link to `{target}`", link.display()),
            format!("{} reads it as settings, and it is no part of the treatment, so the service would run something else than the arm says", family.name),
            "take the link out",
        );
    }
    for found in present.iter().filter(|found| family.reads_variable(&found.name)) {
        let planned = preload.settings.iter().any(|(name, _)| *name == found.name);
        if planned || (preload.unsets(&found.name) && found.source != Source::Process) {
            continue;
        }
        if preload.unsets(&found.name) {
            findings.warn(
                Check::ForeignSetting,
                format!("{}={} is set by {}", found.name, found.value, found.place),
                "no file of the unit sets it: the treatment removes it from what systemd gives, but a wrapper may set it again; the identity proof after the restart decides",
                "find out who sets it, and take it out",
            );
            continue;
        }
        findings.refuse(
            Check::ForeignSetting,
            format!("{}={} is set by {}", found.name, found.value, found.place),
            format!("{} reads it and it is no part of the treatment, so the service would run something else than the arm says", family.name),
            format!("take it out there, or make it part of the arm's spec (`heaptrial allocators list {}`)", family.name),
        );
    }
}

/// A variable of several settings is set or removed as a whole, with those of it that are no allocator's.
fn other_parts(preload: &PlannedPreload, present: &[Present], findings: &mut Findings) {
    for family in Catalog::builtin().families() {
        let Some(combined) = &family.environment.combined else { continue };
        // Such as `glibc.malloc`; a variable without has the allocator's settings alone.
        let keys = family.settings.iter().filter_map(|setting| setting.key.as_deref());
        let spaces: BTreeSet<&str> = keys.map(space).collect();
        let planned = preload.settings.iter().any(|(name, _)| *name == combined.variable);
        if spaces.is_empty() || (!planned && !preload.unsets(&combined.variable)) {
            continue;
        }
        for found in present.iter().filter(|found| found.name == combined.variable) {
            let is_setting =
                |part: &&str| spaces.contains(space(part.split(combined.assign).next().unwrap_or(part)));
            for part in
                found.value.split(combined.separator).filter(|part| !part.is_empty() && !is_setting(part))
            {
                findings.warn(
                    Check::ForeignSetting,
                    format!(
                        "{} has {part}, which is not known to be of {}, by {}",
                        found.name, family.name, found.place
                    ),
                    format!(
                        "the treatment sets or removes {} as a whole: {part} will not be in force",
                        found.name
                    ),
                    "make sure that the service can do without it",
                );
            }
        }
    }
}

/// Of a setting's name what stands before its last part.
fn space(key: &str) -> &str {
    key.rsplit_once('.').map_or("", |(space, _)| space)
}
