//! Whether the library may be loaded by the service, and can be changed by root alone.

use std::path::Path;

use heaptrial_host::trusted::path_is_trustworthy;

use crate::preflight::finding::{Check, Findings};
use crate::preflight::planned::PlannedPreload;
use crate::preflight::subject::Subject;

pub(crate) fn check(subject: &Subject<'_>, preload: &PlannedPreload, findings: &mut Findings) {
    if let Some(version) = &preload.other_glibc {
        findings.refuse(
            Check::LibraryNeeds,
            format!("{} has to be run under glibc {version}", preload.expected.spec),
            "another C library has a loader of its own, which has to come before the program in ExecStart; a drop-in with an environment cannot do that",
            "give another version, or compare C libraries in the lab (`heaptrial lab run`)",
        );
        return;
    }
    let Some(library) = preload.library() else { return };
    let scope = subject.unit().scope;
    let owner = if scope.is_system() { "root" } else { "root or you" };
    for path in preload.source.as_deref().into_iter().chain([library]) {
        if let Err(why) = path_is_trustworthy(subject.root, path, scope) {
            findings.refuse(
                Check::LibraryPath,
                why.to_string(),
                format!("whoever can change {} runs code in the service", path.display()),
                format!(
                    "let {owner} own it and every folder above it, and take the right to write from group and others"
                ),
            );
        }
    }
    other_root(subject, library, findings);
}

/// A probe cannot be started in another root, where Heaptrial's program is not.
fn other_root(subject: &Subject<'_>, library: &Path, findings: &mut Findings) {
    let sandbox = &subject.unit().sandbox;
    let Some(root) = sandbox.root_directory.as_ref().or(sandbox.root_image.as_ref()) else { return };
    let covers = |bound: &heaptrial_host::systemd::BindPath| {
        bound.source == bound.target && library.starts_with(&bound.target)
    };
    if !sandbox.bind_paths.iter().any(covers) {
        let folder = library.parent().and_then(Path::parent).unwrap_or(library);
        findings.refuse(
            Check::HiddenPath,
            format!("the service's root is {}, and {} is not in it", root.display(), library.display()),
            "the loader goes on without a library that it does not find: the unit would be active on its old allocator",
            format!("add BindReadOnlyPaths=-{} to the unit", folder.display()),
        );
    }
}
