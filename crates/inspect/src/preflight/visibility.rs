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
    // A folder above it may be a link to a place that is hidden.
    let linked = followed(subject.root, library).filter(|path| path != library);
    for path in [library].into_iter().chain(linked.as_deref()) {
        // What hides a path is often a file system without the right to run code.
        if hidden(subject, path, findings) || no_exec(subject, path, findings) {
            return;
        }
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

/// Paths that the unit hides from the service, with the settings that do it.
fn hiding(subject: &Subject<'_>) -> Vec<(String, PathBuf)> {
    let sandbox = &subject.unit().sandbox;
    let mut hiding: Vec<(String, PathBuf)> = Vec::new();
    let mut add = |setting: &str, path: &Path| hiding.push((setting.to_owned(), bare(path)));
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
    let hides = |(_, path): &(String, PathBuf)| library.starts_with(path) && !bound(subject, library, path);
    let Some((setting, path)) = hiding(subject).into_iter().find(hides) else { return false };
    findings.refuse(
        Check::HiddenPath,
        format!("{setting} hides {}, and with it {}", path.display(), library.display()),
        NOT_SEEN,
        format!("add BindReadOnlyPaths=-{} to the unit", folder_of(library).display()),
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

fn no_exec(subject: &Subject<'_>, library: &Path, findings: &mut Findings) -> bool {
    let sandbox = &subject.unit().sandbox;
    let deepest = |paths: &[PathBuf]| {
        let covering = paths.iter().map(|path| bare(path)).filter(|path| library.starts_with(path));
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
        return true;
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
        return true;
    }
    false
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
