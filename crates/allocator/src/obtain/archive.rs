//! The package archive that this host uses, as apt reports it.

use std::path::PathBuf;

use crate::c_library::DEBIAN_ARCHITECTURE;
use crate::tool::{Tool, ToolError};

/// An archive of a distribution, and its mirrors: all have the distribution's signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Archive {
    uri: String,
    keys: PathBuf,
}

impl Archive {
    /// The archive that holds a suite of a distribution: among those that list the suite with its
    /// `main` component, one whose address ends in the distribution's name comes first. `apt` is `apt-get`.
    pub(super) fn of_suite(apt: Tool, distribution: &str, suite: &str) -> Result<Option<Self>, ToolError> {
        let targets = apt.args([
            "indextargets",
            "--no-release-info",
            "--format",
            "$(RELEASE) $(COMPONENT) $(REPO_URI)",
        ]);
        let text = targets.arg("Created-By: Packages").run()?;
        // A host may name its suite by its role.
        let names = [suite, "stable", "oldstable", "testing", "unstable"];
        let uris = text.lines().filter_map(|line| {
            let mut words = line.splitn(3, ' ');
            let (release, component, uri) = (words.next()?, words.next()?, words.next()?);
            let is_ours = names.contains(&release) && component == "main" && !uri.starts_with("cdrom:");
            is_ours.then_some(uri.trim_end_matches('/'))
        });
        let first = uris.min_by_key(|uri| !uri.ends_with(&format!("/{distribution}")));
        let keys = PathBuf::from(format!("/usr/share/keyrings/{distribution}-archive-keyring.gpg"));
        Ok(first.map(|uri| Self { uri: uri.to_owned(), keys }))
    }

    /// A deb822 source for another suite of the same archive. `Trusted` is never carried over, so
    /// that apt checks signatures.
    pub(super) fn stanza(&self, suite: &str) -> String {
        format!(
            "Types: deb\nURIs: {}\nSuites: {suite}\nComponents: main\nArchitectures: {DEBIAN_ARCHITECTURE}\nSigned-By: {}\n",
            self.uri,
            self.keys.display()
        )
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_archive_of_the_distribution_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("parts")).unwrap();
        let list = "deb http://apt.vendor.example bookworm main\n\
            deb [trusted=yes] http://mirror.example/debian/ bookworm main contrib # home\n";
        fs::write(path("sources.list"), list).unwrap();
        let option = |name: &str, value: &str| format!("{name}={}", path(value).display());
        let list = option("Dir::Etc::SourceList", "sources.list");
        let apt = Tool::new("apt-get").args(["-o", &list, "-o", &option("Dir::Etc::SourceParts", "parts")]);
        let archive = Archive::of_suite(apt, "debian", "bookworm").unwrap().unwrap();
        assert_eq!(
            archive.stanza("trixie"),
            format!(
                "Types: deb\nURIs: http://mirror.example/debian\nSuites: trixie\nComponents: main\n\
                 Architectures: {DEBIAN_ARCHITECTURE}\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
            )
        );
    }
}
