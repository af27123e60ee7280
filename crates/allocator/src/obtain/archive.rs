//! The package archive that this host uses, as apt reports it.

use crate::c_library::DEBIAN_ARCHITECTURE;
use crate::tool::{Tool, ToolError};

/// A deb822 source for the suite `wanted` of the archive that holds a distribution's suite `own`: among those that list `own`
/// with its `main` component, one whose address ends in the distribution's name comes first. Mirrors have the
/// distribution's signatures; `Trusted` is never carried over, so that apt checks them. `apt` is `apt-get`.
pub(super) fn source_of(
    apt: Tool,
    distribution: &str,
    own: &str,
    wanted: &str,
) -> Result<Option<String>, ToolError> {
    let format = "$(RELEASE) $(COMPONENT) $(REPO_URI)";
    let targets = apt.args(["indextargets", "--no-release-info", "--format", format]);
    let text = targets.arg("Created-By: Packages").run()?;
    // A host may name its suite by its role.
    let names = [own, "stable", "oldstable", "testing", "unstable"];
    let uris = text.lines().filter_map(|line| {
        let mut words = line.splitn(3, ' ');
        let (release, component, uri) = (words.next()?, words.next()?, words.next()?);
        let is_ours = names.contains(&release) && component == "main" && !uri.starts_with("cdrom:");
        is_ours.then_some(uri.trim_end_matches('/'))
    });
    let first = uris.min_by_key(|uri| !uri.ends_with(&format!("/{distribution}")));
    Ok(first.map(|uri| {
        format!(
            "Types: deb\nURIs: {uri}\nSuites: {wanted}\nComponents: main\nArchitectures: {DEBIAN_ARCHITECTURE}\n\
             Signed-By: /usr/share/keyrings/{distribution}-archive-keyring.gpg\n"
        )
    }))
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
        assert_eq!(
            source_of(apt, "debian", "bookworm", "trixie").unwrap().unwrap(),
            format!(
                "Types: deb\nURIs: http://mirror.example/debian\nSuites: trixie\nComponents: main\n\
                 Architectures: {DEBIAN_ARCHITECTURE}\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n"
            )
        );
    }
}
