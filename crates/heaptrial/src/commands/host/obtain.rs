//! The allocators of arms, obtained and verified on this host.

use std::collections::BTreeMap;

use heaptrial_allocator::{Catalog, Obtained, Resolved, host_glibc};
use heaptrial_model::{Arm, Build};

use crate::commands::allocators::SourceOptions;
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Allocators by the name of their arm; an arm that names none has none.
pub type Allocators = BTreeMap<String, Obtained>;

/// What of them goes into a plan; arms on the services' own C library have no build.
pub fn builds(allocators: &Allocators) -> BTreeMap<String, Build> {
    let build = |(arm, obtained): (&String, &Obtained)| {
        let file = obtained.library.as_ref()?.file_name()?.to_string_lossy().into_owned();
        let version = obtained.version.as_ref().map(ToString::to_string);
        Some((arm.clone(), Build { sha256: obtained.sha256.clone(), version, file }))
    };
    allocators.iter().filter_map(build).collect()
}

/// Looks every arm's spec up before anything is fetched.
pub fn resolve(arms: &[Arm]) -> Result<Vec<(&Arm, Resolved)>, Failure> {
    let mut resolved = Vec::new();
    for arm in arms {
        let Some(spec) = &arm.treatment.allocator else { continue };
        let about = |error| Failure::from(error).about(format!("arm `{}`", arm.name));
        let found = Catalog::builtin().resolve(spec).map_err(about)?;
        let other = spec.version.as_ref().filter(|version| **version != host_glibc());
        if let (true, Some(version)) = (found.family.is_c_library, other) {
            return Err(Failure::refused(format!(
                "arm `{}`: glibc {version} is not the C library of this host ({}); it runs only under a loader of its own, which \
                 a unit of systemd cannot be given from outside. Compare C libraries with `heaptrial lab run`",
                arm.name,
                host_glibc()
            )));
        }
        resolved.push((arm, found));
    }
    Ok(resolved)
}

/// Obtains and verifies the allocator of every arm.
pub fn obtain(arms: &[Arm], sources: &SourceOptions, global: &GlobalOptions) -> Result<Allocators, Failure> {
    let mut allocators = Allocators::default();
    for (arm, resolved) in resolve(arms)? {
        let about = |error| Failure::from(error).about(format!("arm `{}`", arm.name));
        let obtained = sources.obtainer(None)?.obtain(&resolved).map_err(about)?;
        if global.verbose > 0 {
            eprintln!("{}: {}; {}", arm.name, obtained.provenance, obtained.verification);
        }
        allocators.insert(arm.name.clone(), obtained);
    }
    Ok(allocators)
}
