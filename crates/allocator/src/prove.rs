//! Whether a running process really uses the allocator it was started under.

use std::path::PathBuf;

use heaptrial_model::{AllocatorSpec, Identity, Linkage, Version};
use serde::{Deserialize, Serialize};

use crate::identify::{OVERWRITTEN, UNKNOWN};
use crate::obtained::Obtained;

/// What a process must run to be proved: an obtained allocator as far as a running process can show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Expected {
    pub spec: AllocatorSpec,
    pub version: Option<Version>,
    /// The file that holds its `malloc`; `None` for the C library that the service has anyway.
    pub object: Option<PathBuf>,
    pub sha256: String,
    pub build_id: Option<String>,
    pub settings: Vec<(String, String)>,
    /// What the program has beside it, where it is left as it is.
    pub carried: Option<String>,
}

impl Expected {
    /// The service's own C library with these settings.
    pub fn own_c_library(spec: AllocatorSpec, settings: Vec<(String, String)>) -> Self {
        let sha256 = String::new();
        Self { spec, version: None, object: None, sha256, build_id: None, settings, carried: None }
    }

    /// Whatever a program has, with these settings.
    pub fn as_it_is(settings: Vec<(String, String)>) -> Self {
        Self::own_c_library(AllocatorSpec::family(UNKNOWN), settings)
    }
}

impl Obtained {
    pub fn expected(&self) -> Expected {
        Expected {
            spec: self.spec.clone(),
            version: self.version.clone(),
            object: self.object(),
            sha256: self.sha256.clone(),
            build_id: self.build_id.clone(),
            settings: self.settings.clone(),
            carried: None,
        }
    }
}

/// A process that does not run what it was started under.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}, found {found}: {why}{}", loader_said(.loader_message))]
pub struct Mismatch {
    pub expected: String,
    pub found: String,
    pub why: String,
    pub loader_message: Option<String>,
}

fn loader_said(message: &Option<String>) -> String {
    message.as_ref().map_or(String::new(), |message| format!("\n  the dynamic loader said: {message}"))
}

impl Mismatch {
    /// Adds the dynamic loader's own message, if it is in what the process wrote to its standard error.
    #[must_use]
    pub fn with_stderr(mut self, stderr: &str) -> Self {
        let message = stderr.lines().find(|line| {
            line.starts_with("ERROR: ld.so:") || line.contains("error while loading shared libraries")
        });
        self.loader_message = message.map(|line| line.trim().to_owned());
        self
    }
}

/// Compares a process' identity with the allocator that it must run: family, version, the very
/// file, and the settings.
pub fn prove(expected: &Expected, found: &Identity) -> Result<(), Mismatch> {
    let mismatch = |why: String| Mismatch {
        expected: expected.spec.to_string(),
        found: format!("{} ({})", found.label(), found.linkage.as_str()),
        why,
        loader_message: None,
    };
    // What was not known when it was left as it is, and is known now, is no other one for that.
    if found.family != expected.spec.family && expected.spec.family != UNKNOWN {
        let why = match found.linkage {
            Linkage::Libc if found.family == "musl" => {
                "the program runs under musl, which no library and no setting for glibc reaches".to_owned()
            }
            Linkage::Static => "the program is linked statically, so a preload cannot reach it".to_owned(),
            Linkage::Libc if expected.object.as_ref().is_some_and(|object| !object.exists()) => {
                "the library was not loaded: its file is gone".to_owned()
            }
            Linkage::Libc => "the library was not loaded (setuid or file capabilities, a cleared environment, a confinement, or a library that the loader refused)".to_owned(),
            _ => found.evidence.join("; "),
        };
        return Err(mismatch(why));
    }
    let carried = found.carried.as_ref().filter(|_| expected.spec.family != UNKNOWN);
    if let Some(carried) = carried.filter(|carried| expected.carried.as_ref() != Some(carried)) {
        return Err(mismatch(format!(
            "the program carries {carried} of its own, which no treatment reaches ({})",
            found.evidence.join("; ")
        )));
    }
    let same_bytes = found.sha256.as_deref().is_some_and(|sha256| sha256 == expected.sha256);
    if let (Some(wanted), Some(version), false) = (&expected.version, &found.version, same_bytes) {
        if wanted != version {
            return Err(mismatch(format!("the version is {version}")));
        }
    }
    let same_file = match (&expected.object, &found.sha256, &found.build_id, &expected.build_id) {
        // The host's own C library is the one that is there.
        (None, ..) => true,
        (Some(_), Some(sha256), ..) => *sha256 == expected.sha256,
        (Some(_), None, Some(build_id), Some(wanted)) => build_id == wanted,
        (Some(object), ..) => found.path.as_ref() == Some(object),
    };
    if !same_file {
        let path = found.path.as_ref().map_or("another file".to_owned(), |path| path.display().to_string());
        return Err(mismatch(format!("it runs {path}, which is not the file that was verified")));
    }
    let foreign =
        found.settings.iter().find(|(name, _)| expected.settings.iter().all(|(own, _)| own != *name));
    if let Some((name, value)) = foreign {
        return Err(mismatch(format!("{name}={value} is in its environment and no part of the treatment")));
    }
    for (name, value) in &expected.settings {
        match found.settings.get(name) {
            Some(set) if set == value => {}
            Some(set) => {
                return Err(mismatch(format!("{name} is `{set}` in its environment and not `{value}`")));
            }
            None => match found.evidence.iter().find(|line| line.starts_with(OVERWRITTEN)) {
                Some(why) => {
                    return Err(mismatch(format!("{name} can be neither found nor ruled out: {why}")));
                }
                None => return Err(mismatch(format!("{name} is not in its environment"))),
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn expected() -> Expected {
        Expected {
            spec: "mimalloc@3.0.1?purge_delay=0".parse().unwrap(),
            version: Some(Version::new("3.0.1")),
            object: Some(PathBuf::from("/cache/libmimalloc.so")),
            sha256: "aa".to_owned(),
            build_id: Some("bb".to_owned()),
            settings: vec![("MIMALLOC_PURGE_DELAY".to_owned(), "0".to_owned())],
            carried: None,
        }
    }

    fn found() -> Identity {
        Identity {
            family: "mimalloc".to_owned(),
            version: Some(Version::new("3.0.1")),
            version_range: None,
            path: Some(PathBuf::from("/cache/libmimalloc.so")),
            build_id: Some("bb".to_owned()),
            sha256: Some("aa".to_owned()),
            linkage: Linkage::Preloaded,
            settings: BTreeMap::from([("MIMALLOC_PURGE_DELAY".to_owned(), "0".to_owned())]),
            evidence: Vec::new(),
            libraries: Vec::new(),
            carried: None,
        }
    }

    #[test]
    fn every_difference_is_a_mismatch() {
        assert_eq!(prove(&expected(), &found()), Ok(()));
        let libc = Identity { family: "glibc".to_owned(), linkage: Linkage::Libc, ..found() };
        let musl = Identity { family: "musl".to_owned(), ..libc.clone() };
        let other_version = Identity { version: Some(Version::new("3.1.5")), sha256: None, ..found() };
        let other_file = Identity { sha256: Some("cc".to_owned()), ..found() };
        let mut foreign = found();
        foreign.settings.insert("MIMALLOC_VERBOSE".to_owned(), "1".to_owned());
        let carries = Identity { carried: Some("go".to_owned()), ..found() };
        let no_setting = Identity { settings: BTreeMap::new(), ..found() };
        let overwritten = Identity { evidence: vec![format!("{OVERWRITTEN}: so")], ..no_setting.clone() };
        for (identity, why) in [
            (libc, "was not loaded"),
            (musl, "runs under musl"),
            (other_version, "version is 3.1.5"),
            (other_file, "not the file that was verified"),
            (foreign, "MIMALLOC_VERBOSE=1 is in its environment and no part of the treatment"),
            (carries, "carries go of its own"),
            (overwritten, "neither found nor ruled out"),
            (no_setting, "MIMALLOC_PURGE_DELAY is not in its environment"),
        ] {
            let message = prove(&expected(), &identity).unwrap_err().to_string();
            assert!(message.contains(why), "{message}");
        }
    }

    #[test]
    fn the_loaders_message_is_added() {
        let stderr = "hello\nERROR: ld.so: object '/x' from LD_PRELOAD cannot be preloaded (wrong ELF class): ignored.\n";
        let identity = Identity { family: "glibc".to_owned(), linkage: Linkage::Libc, ..found() };
        let message = prove(&expected(), &identity).unwrap_err().with_stderr(stderr).to_string();
        assert!(message.contains("wrong ELF class"), "{message}");
    }
}
