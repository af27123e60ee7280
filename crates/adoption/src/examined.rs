//! Whether a service runs what its next start will run: only then it can be said what it is under.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use heaptrial_allocator::{Catalog, Examiner, Expected, identify_started_with, prove};
use heaptrial_change::{PRELOAD, expected_of};
use heaptrial_host::systemd::Unit;
use heaptrial_host::trusted::resolve;
use heaptrial_host::{HostRoot, Instant, Process, ProcessTree};
use heaptrial_inspect::{MainProcess, NextStart, Service, host_preloads};
use heaptrial_model::{Identity, Linkage};
use serde::Serialize;

use crate::found::digest;

/// Why it cannot be said of a service what it is under.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(tag = "why", content = "what", rename_all = "snake_case")]
pub enum LeftOut {
    #[error("it does not run ({0})")]
    NotRunning(String),
    /// Its allocator cannot be told.
    #[error("what it runs cannot be told: {0}")]
    Unidentified(String),
    /// It is told by its main process, and most of its memory is another's that runs something else.
    #[error(
        "its main process runs {main}, and most of its memory is of process {pid}, which does not: {other}"
    )]
    OtherProcess {
        /// What the main process runs.
        main: String,
        /// The process with most memory.
        pid: i32,
        /// What is known of that, in words.
        other: String,
    },
    /// Its next start preloads what its process was not started with.
    #[error(
        "its next start preloads {library} and its process, which runs {runs}, was started without it: restart it first"
    )]
    NotRestarted { library: String, runs: String },
    /// Its process was started with a preload that its next start will not have.
    #[error(
        "its process was started with {library} preloaded, and neither its unit nor a file of variables nor /etc/ld.so.preload sets that any more: restart it first"
    )]
    NotSetAnyMore {
        /// What the process has preloaded.
        library: String,
    },
    /// Its next start has other settings of its allocator.
    #[error(
        "{variable} is {found} in its process, and will be {next} after its next start: restart it first"
    )]
    OtherSetting {
        variable: String,
        /// Its value in the process, or that it is not set.
        found: String,
        /// Its value after the next start, or that it will not be set.
        next: String,
    },
    /// What its process was started with cannot be seen, and a file that decides it was changed since.
    #[error(
        "{path} was changed after its process was started, whose environment cannot tell what that means ({why}): restart it first"
    )]
    ChangedSince {
        path: PathBuf,
        /// Why it cannot be seen.
        why: String,
    },
    /// The loader did not take what it was to preload.
    #[error(
        "{library} is preloaded and not loaded: it runs {runs}. `heaptrial preflight` tells what keeps it out"
    )]
    NotLoaded { library: String, runs: String },
    /// The next start would run another file.
    #[error(
        "{path} is gone or another file since its process was started, and the next start would run that: restart it first"
    )]
    Replaced { path: PathBuf },
    /// systemd has not read its files.
    #[error(
        "its unit's files were changed and systemd has not read them ({file}): `systemctl daemon-reload` first"
    )]
    NotReloaded {
        /// Which, where it is known.
        file: String,
    },
    /// Something of Heaptrial has it already.
    #[error("it belongs to {0}")]
    Taken(String),
}

/// What a service runs, if its next start will run the same. Nothing is changed.
pub fn examined(root: &HostRoot, service: &Service) -> Result<Expected, LeftOut> {
    let status = &service.unit.status;
    let Some(process) = &service.process else {
        return Err(LeftOut::NotRunning(format!("{}, {}", status.active_state, status.sub_state)));
    };
    let identity = match (&process.identity, &process.unidentified) {
        (Some(identity), None) => identity,
        (_, why) => return Err(LeftOut::Unidentified(why.clone().unwrap_or_default())),
    };
    if let Some(file) = unread_drop_in(root, &service.unit) {
        return Err(LeftOut::NotReloaded { file: file.display().to_string() });
    }
    if service.unit.needs_reload {
        return Err(LeftOut::NotReloaded { file: "by systemd's own account".to_owned() });
    }
    let next = NextStart::of(root, &service.unit);
    if let Some(why) = hidden(root, service, process) {
        if let Some(path) = changed_since(root, service, process) {
            return Err(LeftOut::ChangedSince { path, why: why.to_owned() });
        }
    }
    let by_wrapper = |variable: &str| names_variable(root, &service.unit, variable);
    preloads(process, identity, &next, &by_wrapper)?;
    host_wide(root, process, identity, &by_wrapper)?;
    settings(identity, &next, &by_wrapper)?;
    let own = identity.path.as_ref().filter(|_| identity.linkage != Linkage::Libc);
    if let (Some(path), Some(sha256)) = (own, &identity.sha256) {
        if digest(root, path).as_ref() != Some(sha256) {
            return Err(LeftOut::Replaced { path: path.clone() });
        }
    }
    let expected = expected_of(identity);
    largest(root, (process, &next), identity, &expected)?;
    Ok(expected)
}

/// Why the environment of a process does not tell what its unit gave it; `None` where it does.
fn hidden(root: &HostRoot, service: &Service, process: &MainProcess) -> Option<&'static str> {
    if Process::new(root, process.life.pid).environ_is_overwritten().unwrap_or(true) {
        return Some("the program wrote over it");
    }
    let started =
        service.unit.exec_start.last().and_then(|command| resolve(root, Path::new(command.first()?)));
    // So is a program called that was replaced on disk.
    let program = process.program.to_string_lossy();
    let program = Path::new(program.strip_suffix(" (deleted)").unwrap_or(&program));
    (started.as_deref() != Some(program)).then_some("a wrapper starts it")
}

/// Whether what starts a service speaks of a variable, in its arguments or as a script: that may set it again.
fn names_variable(root: &HostRoot, unit: &Unit, variable: &str) -> bool {
    let speaks = |text: &[u8]| text.windows(variable.len()).any(|part| part == variable.as_bytes());
    unit.exec_start.iter().any(|command| {
        let is_script = |bytes: &Vec<u8>| bytes.starts_with(b"#!") && speaks(bytes);
        let script = command.first().and_then(|program| fs::read(root.path(program)).ok());
        command.iter().any(|word| speaks(word.as_bytes())) || script.as_ref().is_some_and(is_script)
    })
}

/// A file that decides what a service is started with, and that is newer than its process.
fn changed_since(root: &HostRoot, service: &Service, process: &MainProcess) -> Option<PathBuf> {
    // Its age was read a while ago, longer than it takes to change a file.
    let now = Instant::now();
    let started = now.wall_us as f64 / 1e6 - now.age_seconds(process.life.start_ticks);
    let unit = &service.unit;
    let programs = unit.exec_start.iter().filter_map(|command| command.first().map(PathBuf::from));
    let files = unit.unit_file.iter().chain(&unit.drop_ins).chain(&unit.environment_files);
    let mut paths = files.cloned().chain(programs).chain(folders_of(unit));
    let is_newer = |own: fs::Metadata| own.ctime() as f64 + own.ctime_nsec() as f64 / 1e9 > started;
    paths.find(|path| {
        let path = root.path(path);
        // A link may be made anew, or what it leads to.
        fs::symlink_metadata(&path).is_ok_and(is_newer) || fs::metadata(&path).is_ok_and(is_newer)
    })
}

/// What is preloaded by the environment, now and after the next start. A wrapper may add to what its unit sets.
fn preloads(
    process: &MainProcess,
    identity: &Identity,
    next: &NextStart,
    by_wrapper: &dyn Fn(&str) -> bool,
) -> Result<(), LeftOut> {
    let wrapped = by_wrapper(PRELOAD);
    let has = |library: &&str| process.preloads.iter().any(|preload| preload.library == **library);
    let wanted = next.preloads();
    if let Some(library) = wanted.iter().find(|library| !has(library)) {
        return Err(LeftOut::NotRestarted { library: (*library).to_owned(), runs: identity.label() });
    }
    let kept = |library: &str| wanted.contains(&library);
    if let Some(gone) = process.preloads.iter().find(|preload| !wrapped && !kept(&preload.library)) {
        return Err(LeftOut::NotSetAnyMore { library: gone.library.clone() });
    }
    let in_order = process.preloads.iter().map(|preload| preload.library.as_str());
    if let (false, Some((first, _))) = (wrapped, wanted.iter().zip(in_order).find(|(next, now)| *next != now))
    {
        // The first of several decides.
        return Err(LeftOut::NotRestarted { library: (*first).to_owned(), runs: identity.label() });
    }
    match process.preloads.iter().find(|preload| preload.loaded == Some(false)) {
        Some(preload) => Err(LeftOut::NotLoaded { library: preload.library.clone(), runs: identity.label() }),
        None => Ok(()),
    }
}

/// What `/etc/ld.so.preload` names today, and what the process has that nothing else explains.
fn host_wide(
    root: &HostRoot,
    process: &MainProcess,
    identity: &Identity,
    by_wrapper: &dyn Fn(&str) -> bool,
) -> Result<(), LeftOut> {
    let named: Vec<PathBuf> = host_preloads(root).iter().filter_map(|path| resolve(root, path)).collect();
    let own = identity.path.as_ref();
    // Neither a preload of its environment nor needed by its program.
    if let (Linkage::Unknown, Some(path)) = (identity.linkage, own) {
        let by_environment = process.preloads.iter().any(|preload| preload.loaded == Some(true));
        if !by_wrapper(PRELOAD) && !by_environment && !named.contains(path) {
            return Err(LeftOut::NotSetAnyMore { library: path.display().to_string() });
        }
    }
    let examiner = Examiner::default();
    let has_malloc =
        |path: &PathBuf| examiner.examine(&root.path(path)).is_ok_and(|facts| facts.exports_malloc);
    let mapped = Process::new(root, process.life.pid).mappings().unwrap_or_default();
    let is_mapped = |path: &PathBuf| mapped.iter().any(|mapping| Path::new(&mapping.name) == path);
    match named.iter().find(|path| !is_mapped(path) && has_malloc(path)) {
        Some(path) => Err(LeftOut::NotRestarted {
            library: format!("{} (/etc/ld.so.preload)", path.display()),
            runs: identity.label(),
        }),
        None => Ok(()),
    }
}

/// What the allocator reads of the environment, now and after the next start.
fn settings(identity: &Identity, next: &NextStart, by_wrapper: &dyn Fn(&str) -> bool) -> Result<(), LeftOut> {
    let Some(family) = Catalog::builtin().family(&identity.family) else { return Ok(()) };
    let variables = next.variables();
    let read = variables.iter().filter(|(name, _)| name != PRELOAD && family.reads_variable(name));
    let gone = identity.settings.iter().filter(|(name, _)| next.value(name).is_none() && !by_wrapper(name));
    let told = |value: Option<&str>| value.map_or("not set".to_owned(), |value| format!("`{value}`"));
    for (name, _) in read.map(|(name, value)| (name, value)).chain(gone) {
        let (found, wanted) = (identity.settings.get(name).map(String::as_str), next.value(name));
        if found != wanted {
            let variable = name.clone();
            return Err(LeftOut::OtherSetting { variable, found: told(found), next: told(wanted) });
        }
    }
    Ok(())
}

/// A trial samples all processes of a service: what most of its memory is under must be what its main process runs.
fn largest(
    root: &HostRoot,
    (process, next): (&MainProcess, &NextStart),
    identity: &Identity,
    expected: &Expected,
) -> Result<(), LeftOut> {
    let main = process.life.pid;
    let family = ProcessTree::scan(root).map(|tree| tree.family(main)).unwrap_or_default();
    let pages = |pid: &i32| -> u64 {
        let text = fs::read_to_string(root.process_dir(*pid).join("statm")).unwrap_or_default();
        text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or_default()
    };
    let Some(pid) = family.into_iter().max_by_key(pages).filter(|pid| *pid != main) else { return Ok(()) };
    let other = match identify_started_with(&Process::new(root, pid), &next.variables()) {
        Ok(other) => match prove(expected, &other) {
            Ok(()) => return Ok(()),
            Err(why) => why.to_string(),
        },
        Err(why) => why.to_string(),
    };
    Err(LeftOut::OtherProcess { main: identity.label(), pid, other })
}

/// Folders of drop-ins, the first of which wins over the others (systemd.unit(5)).
const FOLDERS: [&str; 12] = [
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.attached",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/run/systemd/generator.late",
];

/// A drop-in that systemd does not know: of a new folder it does not tell that it has to be read. Of several of one name the first
/// one counts.
fn unread_drop_in(root: &HostRoot, unit: &Unit) -> Option<PathBuf> {
    let mut names: Vec<OsString> = Vec::new();
    for folder in folders_of(unit) {
        let entries = fs::read_dir(root.path(&folder)).into_iter().flatten().flatten();
        let own = entries.map(|entry| entry.file_name()).filter(|name| is_drop_in(name));
        for name in own {
            if names.contains(&name) {
                continue;
            }
            let path = folder.join(&name);
            let known = unit.drop_ins.iter().any(|known| is_same(root, known, &path));
            // What says nothing, such as a link to /dev/null, is not told by all versions of systemd.
            let says = fs::read(root.path(&path)).is_ok_and(|text| !text.is_empty());
            if says && !known {
                return Some(path);
            }
            names.push(name);
        }
    }
    None
}

fn folders_of(unit: &Unit) -> Vec<PathBuf> {
    let own = unit.name.as_str();
    let template = unit.template.as_ref().map(|(template, _)| template.as_str());
    let stem = own.trim_end_matches(".service");
    // `a-b-c.service` has those of `a-b-.service` and `a-.service` as well.
    let dashes = stem.match_indices('-').map(|(at, _)| format!("{}.service", &stem[..=at])).rev();
    let names: Vec<String> = [own].into_iter().chain(template).map(str::to_owned).chain(dashes).collect();
    let of_name = |name: &str| FOLDERS.map(|folder| Path::new(folder).join(format!("{name}.d")));
    let by_folder = FOLDERS
        .iter()
        .flat_map(|folder| names.iter().map(move |name| Path::new(folder).join(format!("{name}.d"))));
    by_folder.chain(of_name("service")).collect()
}

fn is_drop_in(name: &OsStr) -> bool {
    Path::new(name).extension() == Some(OsStr::new("conf")) && !name.as_encoded_bytes().starts_with(b".")
}

/// The same file by another path, as where a folder is a link.
fn is_same(root: &HostRoot, known: &Path, path: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(root.path(path)).ok();
    known == path || real(known).is_some_and(|known| real(path) == Some(known))
}
