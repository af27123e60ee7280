//! The texts in a package: control file, changelog, copyright.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::{DEBIAN_ARCHITECTURE, Family, Obtained, Provenance};
use jiff::Timestamp;

use crate::package::TOOL_VERSION;
use crate::package::archive::Entry;

/// Whom a package names as its maintainer. There is no address: whoever made it answers for it.
pub(crate) const MAINTAINER: &str = "The Heaptrial developers <nobody@heaptrial.invalid>";
/// Columns of a description's lines.
const WIDTH: usize = 76;

#[derive(Debug, Clone)]
pub(crate) struct Facts {
    pub(crate) name: String,
    pub(crate) version: String,
    /// What it is in a few words.
    pub(crate) label: String,
    /// Without settings: they are no part of a library.
    pub(crate) spec: String,
    pub(crate) depends: String,
    pub(crate) library: PathBuf,
    pub(crate) library_bytes: u64,
    pub(crate) time: Duration,
}

impl Facts {
    pub(crate) fn documents_folder(&self) -> String {
        format!("/usr/share/doc/{}", self.name)
    }

    pub(crate) fn control(&self, obtained: &Obtained, family: &Family, data: &[Entry]) -> String {
        let size: u64 = data.iter().map(Entry::kibibytes).sum();
        let Self { name, version, depends, label, .. } = self;
        let depends = if depends.is_empty() { String::new() } else { format!("Depends: {depends}\n") };
        format!(
            "Package: {name}\nVersion: {version}\nArchitecture: {DEBIAN_ARCHITECTURE}\n\
             Maintainer: {MAINTAINER}\nInstalled-Size: {size}\n{depends}Suggests: heaptrial\n\
             Section: libs\nPriority: optional\nDescription: {label} to preload, one proved build\n{}",
            self.description(obtained, family),
        )
    }

    fn description(&self, obtained: &Obtained, family: &Family) -> String {
        let paragraphs = [
            format!("{}: {}.", family.name, family.summary),
            format!(
                "This package has the library that `heaptrial allocators get {}` obtained and proved in a process of its own; SHA-256 {}. Made from: {}.",
                self.spec,
                obtained.sha256,
                source_line(&obtained.provenance),
            ),
            "Installing it changes no service. Heaptrial applies it by a trial or a rollout and finds it here; it is not removed while a unit names it or a process maps it.".to_owned(),
        ];
        let wrapped: Vec<String> = paragraphs.iter().map(|text| wrapped(text)).collect();
        wrapped.join(" .\n")
    }

    pub(crate) fn changelog(&self) -> String {
        let time = Timestamp::from_second(self.time.as_secs() as i64).unwrap_or_default();
        format!(
            "{} ({}) unstable; urgency=medium\n\n  * Package {} as Heaptrial {TOOL_VERSION} obtained it.\n\n -- {MAINTAINER}  {}\n",
            self.name,
            self.version,
            self.spec,
            time.strftime("%a, %d %b %Y %H:%M:%S +0000"),
        )
    }

    pub(crate) fn copyright(&self, obtained: &Obtained, family: &Family) -> String {
        let licence = family.licence.as_deref().unwrap_or("not known to Heaptrial");
        let mut text = format!(
            "This package was made by Heaptrial {TOOL_VERSION} from {}.\nUpstream: {}\n\n\
             Files: {}\nLicence: {licence}\n\n\
             Files: the maintainer script and the files beside this one\nCopyright: 2026 The Heaptrial developers\n\
             Licence: MIT OR Apache-2.0 (/usr/share/common-licenses/Apache-2.0)\n",
            source_line(&obtained.provenance),
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
pub(crate) fn public(provenance: &Provenance, family: &Family) -> Provenance {
    match provenance {
        Provenance::Local { path, build } => {
            let name = path.file_name().unwrap_or_default().into();
            Provenance::Local { path: name, build: build.clone() }
        }
        // A mirror has the same commit as upstream.
        Provenance::Git { url, commit, build } => {
            let url = family.git.as_ref().unwrap_or(url).clone();
            Provenance::Git { url, commit: commit.clone(), build: build.clone() }
        }
        other => other.clone(),
    }
}

/// Where it came from, with its digest.
pub(crate) fn source_line(provenance: &Provenance) -> String {
    match provenance {
        Provenance::Host { path, package, .. } => {
            let package = package.as_ref().map_or(String::new(), |package| format!(" of {package}"));
            format!("the installed {}{package}", path.display())
        }
        Provenance::DebianPackage { suite, package, version, sha256 } => {
            format!("the Debian package {package} {version} of {suite}, SHA-256 {sha256}")
        }
        Provenance::Crate { name, version, sha256, build } => {
            format!("the source in crate {name} {version}, SHA-256 {sha256}, with {}", build.compiler)
        }
        Provenance::Git { url, commit, build } => format!("{url} at {commit}, with {}", build.compiler),
        Provenance::Local { path, build: None } => format!("a given library {}", path.display()),
        Provenance::Local { path, build: Some(build) } => {
            format!("given source {}, with {}", path.display(), build.compiler)
        }
    }
}

/// Lines of a control field's continuation.
fn wrapped(text: &str) -> String {
    let options = textwrap::Options::new(WIDTH)
        .break_words(false)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .wrap_algorithm(textwrap::WrapAlgorithm::FirstFit);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    textwrap::wrap(&text, options).iter().map(|line| format!(" {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use crate::{Build, Catalog};

    use super::*;

    #[test]
    fn long_texts_are_wrapped_and_long_words_are_kept() {
        let word = "0123456789".repeat(9);
        let text = wrapped(&format!("a b {word} {}", "c ".repeat(60)));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], [" a b".to_owned(), format!(" {word}")]);
        assert!(lines[2..].iter().all(|line| line.starts_with(" c") && line.len() <= WIDTH + 1), "{text}");
    }

    #[test]
    fn a_path_of_the_builder_is_not_told() {
        let family = Catalog::builtin().family("mimalloc").unwrap();
        let given = Provenance::Local { path: "/home/somebody/libx.so".into(), build: None };
        assert_eq!(source_line(&public(&given, family)), "a given library libx.so");
        let build = Build { compiler: "cc 12".to_owned(), environment: Vec::new(), commands: Vec::new() };
        let mirror =
            Provenance::Git { url: "/home/somebody/mimalloc".to_owned(), commit: "0".to_owned(), build };
        let shown = source_line(&public(&mirror, family));
        assert_eq!(shown, "https://github.com/microsoft/mimalloc.git at 0, with cc 12");
    }
}
