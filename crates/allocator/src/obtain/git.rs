//! Upstream's repository at a pinned commit.

use std::path::Path;

use super::crate_source::recipe_of;
use super::{Delivery, Obtainer, SourceError, compile};
use crate::cache::Staging;
use crate::catalog::Commit;
use crate::licence;
use crate::provenance::Provenance;
use crate::resolve::Resolved;
use crate::tool::Tool;

impl Obtainer {
    pub(super) fn build_commit(
        &self,
        resolved: &Resolved,
        upstream: &str,
        commit: &Commit,
        staging: &Staging<'_>,
    ) -> Result<Delivery, SourceError> {
        let recipe = recipe_of(resolved)?;
        let url =
            self.options.mirror.as_ref().map_or(upstream.to_owned(), |mirror| mirrored(upstream, mirror));
        if self.options.offline && !Path::new(&url).exists() {
            return Err(SourceError::NotThere("repositories are not cloned offline".to_owned()));
        }
        let tree = staging.work_folder("source")?;
        let git = || Tool::new("git").env("GIT_TERMINAL_PROMPT", "0").arg("-C").arg(&tree);
        git().args(["init", "--quiet"]).run()?;
        let reference = format!("refs/tags/{}", commit.tag);
        git().args(["fetch", "--quiet", "--depth", "1", &url, &reference]).run()?;
        let found = git().args(["rev-parse", "FETCH_HEAD^{commit}"]).run()?.trim().to_owned();
        if found != commit.id {
            return Err(SourceError::NotThere(format!(
                "the tag {} of {url} is commit {found}, pinned is {}; it is not used",
                commit.tag, commit.id
            )));
        }
        git().args(["checkout", "--quiet", "--detach", &commit.id]).run()?;
        self.say(&format!("compiling {}", resolved.spec));
        let (main, build) = compile::build(recipe, &resolved.variants, &tree, &staging.files())?;
        let provenance = Provenance::Git { url, commit: commit.id.clone(), build };
        Ok(Delivery { main, loader: None, provenance, licences: licence::of_source(&tree) })
    }
}

/// The repository of the same name below a mirror.
fn mirrored(upstream: &str, mirror: &str) -> String {
    let name = upstream.rsplit('/').next().unwrap_or(upstream);
    let mirror = mirror.trim_end_matches('/');
    let bare = name.strip_suffix(".git").unwrap_or(name);
    // A local mirror may hold the repository with its working files.
    if Path::new(mirror).join(bare).is_dir() {
        format!("{mirror}/{bare}")
    } else {
        format!("{mirror}/{name}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_holds_repositories_by_name() {
        let url = "https://example.org/a/mimalloc.git";
        assert_eq!(mirrored(url, "https://mirror.example/git/"), "https://mirror.example/git/mimalloc.git");
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("mimalloc")).unwrap();
        let mirror = folder.path().display().to_string();
        assert_eq!(mirrored(url, &mirror), format!("{mirror}/mimalloc"));
    }
}
