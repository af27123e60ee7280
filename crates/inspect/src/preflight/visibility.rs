//! Whether the service sees the library's path, and may run code from it.

use std::path::{Path, PathBuf};

use heaptrial_host::trusted::followed;

use crate::preflight::finding::{Check, Findings};
use crate::preflight::mounts::mount_of;
use crate::preflight::subject::Subject;

const NOT_SEEN: &str = "the loader does not find the library and goes on without it: the unit would be active on its old allocator";
const NOT_RUN: &str = "the loader may not map code from there and goes on without the library; what it tried to map stays in /proc/PID/maps, so that its name there proves nothing";

pub(crate) fn check(subject: &Subject<'_>, library: &Path, findings: &mut Findings) {
    if other_root(subject, library, findings) {
        return;
    }
    // A folder above it may be a link, and what is behind it hidden; where code may run goes by what it leads to.
    let linked = followed(subject.root, library).unwrap_or_else(|| library.to_owned());
    let is_link = linked != library;
    let is_hidden = hidden(subject, library, findings) || is_link && hidden(subject, &linked, findings);
    // What hides a path is often a file system without the right to run code.
    if !is_hidden {
        no_exec(subject, &linked, findings);
    }
}

fn other_root(subject: &Subject<'_>, library: &Path, findings: &mut Findings) -> bool {
    let sandbox = &subject.unit().sandbox;
    let (setting, path) = match (subject.root_directory(), &sandbox.root_image) {
        (Some(folder), _) => ("RootDirectory", folder),
        (None, Some(image)) => ("RootImage", image.as_path()),
        (None, None) => return false,
    };
    if bound(subject, library, Path::new("/")) {
        return false;
    }
    findings.refuse(
        Check::HiddenPath,
        format!("{setting}={} is the service's root, and {} is not in it", path.display(), library.display()),
        NOT_SEEN,
        format!("add BindReadOnlyPaths=-{} to the unit", folder_of(library).display()),
    );
    true
}

/// A path that a unit hides from its service.
struct Hiding {
    /// The setting that does it.
    setting: &'static str,
    path: PathBuf,
    /// What is put over it so that something below can be put back. Below what is inaccessible systemd mounts nothing.
    instead: Option<&'static str>,
}

fn hiding(subject: &Subject<'_>) -> Vec<Hiding> {
    let sandbox = &subject.unit().sandbox;
    let mut hiding: Vec<Hiding> = Vec::new();
    let mut add = |setting, path: &Path| {
        let instead = match setting {
            "InaccessiblePaths" => {
                Some("hide the path by TemporaryFileSystem= and not by InaccessiblePaths=")
            }
            "ProtectHome" if sandbox.protect_home == "yes" => Some("set ProtectHome=tmpfs"),
            _ => None,
        };
        hiding.push(Hiding { setting, path: meant(subject, path), instead });
    };
    for path in &sandbox.inaccessible_paths {
        add("InaccessiblePaths", path);
    }
    for path in &sandbox.temporary_file_systems {
        add("TemporaryFileSystem", path);
    }
    if sandbox.private_tmp {
        add("PrivateTmp", Path::new("/tmp"));
        add("PrivateTmp", Path::new("/var/tmp"));
    }
    if ["yes", "tmpfs"].contains(&sandbox.protect_home.as_str()) {
        for path in ["/home", "/root", "/run/user"] {
            add("ProtectHome", Path::new(path));
        }
    }
    hiding
}

fn hidden(subject: &Subject<'_>, library: &Path, findings: &mut Findings) -> bool {
    let hides = |hiding: &Hiding| {
        library.starts_with(&hiding.path)
            && (hiding.instead.is_some() || !bound(subject, library, &hiding.path))
    };
    let Some(Hiding { setting, path, instead }) = hiding(subject).into_iter().find(hides) else {
        return false;
    };
    let bind = format!("add BindReadOnlyPaths=-{} to the unit", folder_of(library).display());
    findings.refuse(
        Check::HiddenPath,
        format!("{setting} hides {}, and with it {}", path.display(), library.display()),
        NOT_SEEN,
        instead.map_or_else(|| bind.clone(), |instead| format!("{instead}, and {bind}")),
    );
    true
}

/// Whether BindPaths or BindReadOnlyPaths puts the library's folder back over what hides it: systemd mounts what is deeper last.
fn bound(subject: &Subject<'_>, library: &Path, hiding: &Path) -> bool {
    ["BindPaths", "BindReadOnlyPaths"].iter().any(|key| {
        subject.text.collected("Service", key).iter().any(|found| {
            found.value.split_whitespace().any(|word| {
                let word = word.trim_start_matches('-');
                let mut parts = word.split(':');
                let source = parts.next().unwrap_or_default();
                let target = parts.next().filter(|target| !target.is_empty()).unwrap_or(source);
                // systemd follows links on the way to both.
                let covers = |target: &Path| library.starts_with(target) && target.starts_with(hiding);
                source == target
                    && (covers(Path::new(target))
                        || followed(subject.root, Path::new(target)).is_some_and(|target| covers(&target)))
            })
        })
    })
}

fn no_exec(subject: &Subject<'_>, library: &Path, findings: &mut Findings) {
    let sandbox = &subject.unit().sandbox;
    let deepest = |paths: &[PathBuf]| {
        let covering = paths.iter().map(|path| meant(subject, path)).filter(|path| library.starts_with(path));
        covering.max_by_key(|path| path.components().count())
    };
    let (denied, allowed) = (deepest(&sandbox.no_exec_paths), deepest(&sandbox.exec_paths));
    let depth = |path: &Option<PathBuf>| path.as_ref().map_or(0, |path| path.components().count());
    if let Some(path) = denied.as_ref().filter(|_| depth(&denied) > depth(&allowed)) {
        findings.refuse(
            Check::NoExec,
            format!("NoExecPaths={} covers {}", path.display(), library.display()),
            NOT_RUN,
            format!("add ExecPaths=-{} to the unit", folder_of(library).display()),
        );
        return;
    }
    if let Some(mount) = mount_of(subject, library).filter(|mount| mount.has("noexec") && allowed.is_none()) {
        findings.refuse(
            Check::NoExec,
            format!(
                "{} is on a file system that is mounted noexec ({})",
                library.display(),
                mount.point.display()
            ),
            NOT_RUN,
            "install libraries on a file system without noexec",
        );
    }
}

/// What a path of a setting leads to: systemd follows links.
fn meant(subject: &Subject<'_>, path: &Path) -> PathBuf {
    let path = bare(path);
    followed(subject.root, &path).unwrap_or(path)
}

/// A path without the marks that systemd allows before it.
fn bare(path: &Path) -> PathBuf {
    let text = path.to_string_lossy();
    let path = text.trim_start_matches(['-', '+']);
    // TemporaryFileSystem= has mount options after the path.
    PathBuf::from(path.split(':').next().unwrap_or(path))
}

/// The folder of all libraries, as the folder of one changes with its build.
fn folder_of(library: &Path) -> &Path {
    let folder = library.parent().unwrap_or(library);
    let all = folder.parent().filter(|all| all.ends_with("heaptrial/allocators"));
    all.unwrap_or(folder)
}
