//! The texts in a package: control file, changelog, copyright, build information.

use std::fmt::Write as _;

use serde_json::json;

use super::archive::Entry;
use super::{Package, TOOL_VERSION};
use crate::DEBIAN_ARCHITECTURE;
use crate::catalog::Family;
use crate::obtained::Obtained;
use crate::provenance::{Origin, Provenance};

/// Whom a package names as its maintainer. There is no address: whoever made it answers for it.
const MAINTAINER: &str = "The Heaptrial developers <nobody@heaptrial.invalid>";

impl Package {
    pub(super) fn control(&self, obtained: &Obtained, family: &Family, data: &[Entry]) -> String {
        let size: u64 = data.iter().map(Entry::kibibytes).sum();
        let Self { name, version, depends, spec, .. } = self;
        let depends = if depends.is_empty() { String::new() } else { format!("Depends: {depends}\n") };
        format!(
            "Package: {name}\nVersion: {version}\nArchitecture: {DEBIAN_ARCHITECTURE}\n\
             Maintainer: {MAINTAINER}\nInstalled-Size: {size}\n{depends}Suggests: heaptrial\n\
             Section: libs\nPriority: optional\nDescription: {spec} to preload, one proved build\n{}",
            self.description(obtained, family),
        )
    }

    /// What is needed to get and check the same build again. A host that has the package installed reads it, and finds the
    /// build by its spec.
    pub(super) fn build_info(&self, obtained: &Obtained, library_bytes: usize) -> String {
        let info = json!({
            "schema_version": 1,
            "package": self.name,
            "package_version": self.version,
            "architecture": DEBIAN_ARCHITECTURE,
            "spec": self.spec,
            "version": obtained.version,
            "library": {
                "path": self.library,
                "bytes": library_bytes,
                "sha256": obtained.sha256,
                "build_id": obtained.build_id,
                "depends": self.depends,
            },
            "source": obtained.provenance,
            "heaptrial": TOOL_VERSION,
        });
        format!("{info:#}\n")
    }

    fn description(&self, obtained: &Obtained, family: &Family) -> String {
        let paragraphs = [
            format!("{}: {}.", family.name, family.summary),
            format!(
                "This package has the library that `heaptrial allocators get {}` obtained and proved in a process of its own; SHA-256 {}. Made from: {}.",
                self.spec,
                obtained.sha256,
                obtained.provenance,
            ),
            "Installing it changes no service. Heaptrial applies it by a trial or a rollout and finds it here; it is not removed while a unit names it or a process maps it.".to_owned(),
        ];
        let lines: Vec<String> = paragraphs.iter().map(|text| format!(" {text}\n")).collect();
        lines.join(" .\n")
    }

    pub(super) fn copyright(&self, obtained: &Obtained, family: &Family) -> String {
        let licence = family.licence.as_deref().unwrap_or("not known to Heaptrial");
        let mut text = format!(
            "This package was made by Heaptrial {TOOL_VERSION} from {}.\nUpstream: {}\n\n\
             Files: {}\nLicence: {licence}\n\n\
             Files: the maintainer script and the files beside this one\nCopyright: 2026 The Heaptrial developers\n\
             Licence: MIT OR Apache-2.0 (/usr/share/common-licenses/Apache-2.0)\n",
            obtained.provenance,
            family.git.as_deref().unwrap_or(&family.name),
            self.library.display(),
        );
        if obtained.licences.is_empty() {
            text += "\nNo licence text came with the library. It is in the source named above.\n";
        }
        for licence in &obtained.licences {
            // Writing to a String does not fail.
            let _ = write!(
                text,
                "\n---- {}, as it came with the source ----\n\n{}\n",
                licence.name,
                licence.text.trim_end()
            );
        }
        text
    }
}

/// Where it came from, without paths of the machine that the package is made on.
pub(super) fn public(provenance: &Provenance, family: &Family) -> Provenance {
    let origin = match &provenance.origin {
        Origin::Local { path } => Origin::Local { path: path.file_name().unwrap_or_default().into() },
        // A mirror has the same commit as upstream.
        Origin::Git { url, commit } => {
            Origin::Git { url: family.git.as_ref().unwrap_or(url).clone(), commit: commit.clone() }
        }
        other => other.clone(),
    };
    Provenance { origin, build: provenance.build.clone() }
}
