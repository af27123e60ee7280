//! The package archive that this host uses, from its apt configuration in both formats.

use std::fs;
use std::path::Path;

/// An archive as the host's configuration names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Archive {
    pub(crate) uris: Vec<String>,
    /// Suites that the host takes from it.
    pub(crate) suites: Vec<String>,
    /// Components that the host takes from it.
    pub(crate) components: Vec<String>,
    /// Key ring files or an embedded key, as written there.
    pub(crate) signed_by: Option<String>,
}

impl Archive {
    /// The archive that holds a suite of a distribution: among those that list the suite with its
    /// `main` component, one whose address ends in the distribution's name comes first.
    pub(crate) fn of_suite(apt_folder: &Path, distribution: &str, suite: &str) -> Option<Self> {
        let is_distribution = |archive: &Self| {
            archive.uris.iter().any(|uri| uri.trim_end_matches('/').ends_with(&format!("/{distribution}")))
        };
        // A host may name its suite by its role.
        let names = [suite, "stable", "oldstable", "testing", "unstable"];
        let mut archives = read(apt_folder);
        archives.retain(|archive| {
            archive.suites.iter().any(|name| names.contains(&name.as_str()))
                && archive.components.iter().any(|component| component == "main")
                && archive.uris.iter().any(|uri| !uri.starts_with("cdrom:"))
        });
        archives.sort_by_key(|archive| !is_distribution(archive));
        archives.into_iter().next()
    }

    /// A deb822 source for another suite of the same archive. `Trusted` is never carried over, so
    /// that apt checks signatures.
    pub(crate) fn stanza(&self, suite: &str, architecture: &str) -> String {
        let mut text = format!(
            "Types: deb\nURIs: {}\nSuites: {suite}\nComponents: main\nArchitectures: {architecture}\n",
            self.uris.join(" ")
        );
        if let Some(keys) = &self.signed_by {
            text.push_str(&format!("Signed-By: {keys}\n"));
        }
        text
    }
}

fn read(apt_folder: &Path) -> Vec<Archive> {
    let mut files = vec![apt_folder.join("sources.list")];
    let parts = fs::read_dir(apt_folder.join("sources.list.d")).into_iter().flatten().flatten();
    let mut parts: Vec<_> = parts.map(|entry| entry.path()).collect();
    parts.sort();
    files.extend(parts);
    files
        .iter()
        .flat_map(|path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("list") => text.lines().filter_map(one_line).collect(),
                Some("sources") => stanzas(&text),
                _ => Vec::new(),
            }
        })
        .collect()
}

/// `deb [signed-by=KEYS arch=A] URI SUITE COMPONENT...`
fn one_line(line: &str) -> Option<Archive> {
    let rest = line.split('#').next()?.trim().strip_prefix("deb")?;
    let rest = rest.strip_prefix([' ', '\t'])?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace().map(str::to_owned);
    let (uri, suite) = (words.next()?, words.next()?);
    let signed_by = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
    Some(Archive {
        uris: vec![uri],
        suites: vec![suite],
        components: words.collect(),
        signed_by: signed_by.map(|keys| keys.replace(',', " ")),
    })
}

/// deb822: stanzas of fields, whose values go on in indented lines.
fn stanzas(text: &str) -> Vec<Archive> {
    let mut stanzas: Vec<Vec<(String, String)>> = vec![Vec::new()];
    for line in text.lines() {
        let continues = line.starts_with([' ', '\t']);
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            stanzas.push(Vec::new());
        } else if let Some(fields) = stanzas.last_mut() {
            match (continues, fields.last_mut(), line.split_once(':')) {
                (true, Some((_, value)), _) => {
                    value.push('\n');
                    value.push_str(line);
                }
                (false, _, Some((name, value))) => {
                    fields.push((name.trim().to_lowercase(), value.trim().to_owned()));
                }
                _ => {}
            }
        }
    }
    stanzas.iter().filter_map(|fields| archive_of(fields)).collect()
}

fn archive_of(fields: &[(String, String)]) -> Option<Archive> {
    let field = |name: &str| fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str());
    let words =
        |name: &str| field(name).unwrap_or("").split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let enabled = !matches!(field("enabled").map(str::to_lowercase).as_deref(), Some("no" | "false" | "0"));
    (enabled && words("types").iter().any(|kind| kind == "deb") && !words("uris").is_empty()).then(|| {
        Archive {
            uris: words("uris"),
            suites: words("suites"),
            components: words("components"),
            signed_by: field("signed-by").map(str::to_owned),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apt_folder(files: &[(&str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("sources.list.d")).unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        folder
    }

    #[test]
    fn one_line_entries_are_read() {
        let folder = apt_folder(&[(
            "sources.list",
            "# deb http://old.example/debian bookworm main\n\
             deb-src http://mirror.example/debian bookworm main\n\
             deb [arch=amd64 signed-by=/k/a.gpg,/k/b.gpg] http://mirror.example/debian/ bookworm main contrib # home\n",
        )]);
        let archive = Archive::of_suite(folder.path(), "debian", "bookworm").unwrap();
        assert_eq!(archive.uris, ["http://mirror.example/debian/"]);
        assert_eq!(archive.signed_by.as_deref(), Some("/k/a.gpg /k/b.gpg"));
        assert_eq!(
            archive.stanza("trixie", "amd64"),
            "Types: deb\nURIs: http://mirror.example/debian/\nSuites: trixie\nComponents: main\nArchitectures: amd64\nSigned-By: /k/a.gpg /k/b.gpg\n"
        );
    }

    #[test]
    fn stanzas_are_read_and_other_archives_come_later() {
        let folder = apt_folder(&[
            ("sources.list", "deb http://apt.vendor.example bookworm main\n"),
            (
                "sources.list.d/debian.sources",
                "Types: deb deb-src\nURIs: http://off.example/debian\nSuites: bookworm\nComponents: main\nEnabled: no\n\n\
                 # the security archive does not hold the suite\nTypes: deb\nURIs: http://mirror.example/debian-security\nSuites: bookworm-security\nComponents: main\n\n\
                 Types: deb\nURIs: http://mirror.example/debian\nSuites: bookworm bookworm-updates\nComponents: main\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n key\n",
            ),
        ]);
        let archive = Archive::of_suite(folder.path(), "debian", "bookworm").unwrap();
        assert_eq!(archive.uris, ["http://mirror.example/debian"]);
        assert!(archive.stanza("trixie", "amd64").ends_with("PUBLIC KEY BLOCK-----\n .\n key\n"));
    }

    #[test]
    fn a_trusted_mark_is_not_carried_over() {
        let folder = apt_folder(&[("sources.list", "deb [trusted=yes] file:/srv/debian stable main\n")]);
        let archive = Archive::of_suite(folder.path(), "debian", "bookworm").unwrap();
        assert!(!archive.stanza("trixie", "amd64").to_lowercase().contains("trusted"));
    }
}
