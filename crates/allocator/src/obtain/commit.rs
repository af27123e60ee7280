//! Any commit of a repository on this machine, built as a release is.

use super::crate_source::recipe_of;
use super::{Attempt, Delivery, ObtainError, Obtainer, SourceError, compile, key as plain_key};
use crate::cache::Staging;
use crate::digest;
use crate::history::Repository;
use crate::licence;
use crate::manifest::Manifest;
use crate::obtained::Obtained;
use crate::provenance::Provenance;
use crate::resolve::Resolved;

impl Obtainer {
    /// Builds and asks a commit (full id) of `repository`, or takes that from the cache. `resolved` is without a version: the
    /// library reports which it is. One build for a commit, variant, recipe and compiler.
    pub fn obtain_commit(
        &self,
        resolved: &Resolved,
        repository: &Repository,
        id: &str,
    ) -> Result<Obtained, ObtainError> {
        let made = match self.commit_key(resolved, id) {
            Ok(key) => {
                self.entry(&key, |_| true, |staging| self.build_id(resolved, repository, id, staging))?
            }
            Err(why) => Err(why),
        };
        match made {
            Ok(entry) => self.finish(resolved, entry, Vec::new()),
            Err(why) => Err(ObtainError::NoSource {
                spec: resolved.spec.to_string(),
                attempts: vec![Attempt { source: format!("commit {}", id.get(..12).unwrap_or(id)), why }],
                next: "leave this commit out".to_owned(),
            }),
        }
    }

    fn commit_key(&self, resolved: &Resolved, id: &str) -> Result<String, SourceError> {
        let how = format!("{:?}", compile::how(recipe_of(resolved)?, &resolved.variants)?);
        Ok(format!("{}-commit-{id}-{}", plain_key(resolved, None), &digest::of_bytes(how.as_bytes())[..16]))
    }

    fn build_id(
        &self,
        resolved: &Resolved,
        repository: &Repository,
        id: &str,
        staging: &Staging<'_>,
    ) -> Result<Manifest, SourceError> {
        let recipe = recipe_of(resolved)?;
        let tree = staging.work_folder("source")?;
        let index = staging.work_folder("index")?.join("index");
        repository.check_out(id, &tree, &index)?;
        self.say(&format!("compiling {} at {}", resolved.spec, id.get(..12).unwrap_or(id)));
        let (main, build) = compile::build(recipe, &resolved.variants, &tree, &staging.files())?;
        let url = repository.git_folder().display().to_string();
        let provenance = Provenance::Git { url, commit: id.to_owned(), build };
        let licences = licence::of_source(&tree);
        self.accept(resolved, None, Delivery { main, loader: None, provenance, licences }, staging)
    }
}
