//! The package archive that this host uses, as apt reports it.

use std::fs;

use crate::c_library::DEBIAN_ARCHITECTURE;
use crate::tool::{Tool, ToolError};

/// An archive with the keys by which it is signed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Archive {
    uri: String,
    /// Key ring files or an embedded key, as the host's configuration has them.
    signed_by: Option<String>,
}

impl Archive {
    /// The archive that holds a suite of a distribution: among those that list the suite with its
    /// `main` component, one whose address ends in the distribution's name comes first. `apt` is `apt-get`.
    pub(super) fn of_suite(apt: Tool, distribution: &str, suite: &str) -> Result<Option<Self>, ToolError> {
        let format = "$(RELEASE) $(COMPONENT) $(SOURCESENTRY) $(REPO_URI)";
        let targets = apt.args(["indextargets", "--no-release-info", "--format", format]);
        let text = targets.arg("Created-By: Packages").run()?;
        // A host may name its suite by its role.
        let names = [suite, "stable", "oldstable", "testing", "unstable"];
        let fields = text.lines().filter_map(|line| {
            let mut words = line.splitn(4, ' ');
            let (release, component) = (words.next()?, words.next()?);
            let (entry, uri) = (words.next()?, words.next()?);
            let is_ours = names.contains(&release) && component == "main" && !uri.starts_with("cdrom:");
            is_ours.then_some((entry, uri.trim_end_matches('/')))
        });
        let first = fields.min_by_key(|(_, uri)| !uri.ends_with(&format!("/{distribution}")));
        Ok(first.map(|(entry, uri)| Self { uri: uri.to_owned(), signed_by: signed_by(entry) }))
    }

    /// A deb822 source for another suite of the same archive. `Trusted` is never carried over, so
    /// that apt checks signatures.
    pub(super) fn stanza(&self, suite: &str) -> String {
        let keys = self.signed_by.as_ref().map_or(String::new(), |keys| format!("Signed-By: {keys}\n"));
        format!(
            "Types: deb\nURIs: {}\nSuites: {suite}\nComponents: main\nArchitectures: {DEBIAN_ARCHITECTURE}\n{keys}",
            self.uri
        )
    }
}

/// The keys of an entry of apt's configuration, `FILE:NUMBER`, which apt does not report.
fn signed_by(entry: &str) -> Option<String> {
    let (path, number) = entry.rsplit_once(':')?;
    let index = number.parse::<usize>().ok()?.checked_sub(1)?;
    let text = fs::read_to_string(path).ok()?;
    if !path.ends_with(".sources") {
        // deb [signed-by=KEYS arch=A] URI SUITE COMPONENT...
        let options = text.lines().nth(index)?.split_once('[')?.1.split_once(']')?.0;
        let keys = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="))?;
        return Some(keys.replace(',', " "));
    }
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let mut stanzas = lines.split(|line| line.trim().is_empty()).filter(|stanza| !stanza.is_empty());
    let mut lines = stanzas.nth(index)?.iter();
    let first = lines.find(|line| line.to_ascii_lowercase().starts_with("signed-by:"))?;
    let further = lines.take_while(|line| line.starts_with([' ', '\t']));
    let first = first.split_once(':')?.1.trim().to_owned();
    Some(further.fold(first, |keys, line| format!("{keys}\n{line}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With these files as the whole of apt's configuration.
    fn archive(list: &str, sources: &str) -> Archive {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir(path("parts")).unwrap();
        fs::write(path("sources.list"), list).unwrap();
        fs::write(path("parts/debian.sources"), sources).unwrap();
        let option = |name: &str, value: &str| format!("{name}={}", path(value).display());
        let list = option("Dir::Etc::SourceList", "sources.list");
        let apt = Tool::new("apt-get").args(["-o", &list, "-o", &option("Dir::Etc::SourceParts", "parts")]);
        Archive::of_suite(apt, "debian", "bookworm").unwrap().unwrap()
    }

    #[test]
    fn one_line_entries_are_read() {
        let archive = archive(
            "# deb http://old.example/debian bookworm main\n\
             deb-src http://mirror.example/debian bookworm main\n\
             deb [signed-by=/k/a.gpg,/k/b.gpg] http://mirror.example/debian/ bookworm main contrib # home\n",
            "",
        );
        assert_eq!(
            archive.stanza("trixie"),
            format!(
                "Types: deb\nURIs: http://mirror.example/debian\nSuites: trixie\nComponents: main\n\
                 Architectures: {DEBIAN_ARCHITECTURE}\nSigned-By: /k/a.gpg /k/b.gpg\n"
            )
        );
    }

    #[test]
    fn stanzas_are_read_and_other_archives_come_later() {
        let archive = archive(
            "deb http://apt.vendor.example bookworm main\n",
            "Types: deb deb-src\nURIs: http://off.example/debian\nSuites: bookworm\nComponents: main\nEnabled: no\n\n\
             # the security archive does not hold the suite\nTypes: deb\nURIs: http://mirror.example/debian-security\nSuites: bookworm-security\nComponents: main\n\n\
             Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n key\n",
        );
        assert_eq!(archive.uri, "http://mirror.example/debian");
        assert!(archive.stanza("trixie").ends_with("PUBLIC KEY BLOCK-----\n .\n key\n"));
    }

    #[test]
    fn a_trusted_mark_is_not_carried_over() {
        let archive = archive("deb [trusted=yes] file:/srv/debian stable main\n", "");
        assert!(!archive.stanza("trixie").to_lowercase().contains("trusted"));
    }
}
