//! Upstream's history in a repository on this machine: a line of commits from an older to a newer one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use heaptrial_model::{Classified, ErrorClass};
use serde::{Deserialize, Serialize};

use crate::catalog::{Family, Recipe};
use crate::tool::{Tool, ToolError};

/// Between the fields of a line that git writes.
const FIELD: char = '\u{1f}';

/// A git repository on this machine, bare or not. It is only read.
#[derive(Debug, Clone)]
pub struct Repository {
    git_folder: PathBuf,
}

/// A line of commits, each with the next as its child.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    /// Oldest first. The first is the older end; the others change what is compiled, and the last builds what the newer end
    /// builds.
    pub commits: Vec<HistoryCommit>,
    /// Whether the older end is not on the line of first parents of the newer one. Then the second commit is where that line
    /// leaves what they share, and no child of the first.
    pub forks: bool,
    pub left_out: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryCommit {
    pub id: String,
    pub day: String,
    pub subject: String,
    /// Tags on it, or on commits after it that build the same.
    pub tags: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Git(#[from] ToolError),
}

impl Classified for HistoryError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Git(_) => ErrorClass::Failed,
            _ => ErrorClass::Refused,
        }
    }
}

impl Repository {
    /// A repository in a folder, or that of the family's name below it.
    pub fn open(path: &Path, family: &Family) -> Result<Self, HistoryError> {
        let name = family.git.as_deref().and_then(|url| url.rsplit('/').next()).unwrap_or(&family.name);
        let below = [path.join(name), path.join(name.trim_end_matches(".git"))];
        let folder = below.iter().find(|folder| folder.is_dir()).map_or(path, |folder| folder.as_path());
        let found = Tool::new("git").arg("-C").arg(folder).args(["rev-parse", "--absolute-git-dir"]).run();
        let found = found.map_err(|source| {
            HistoryError::Refused(format!(
                "{} is no git repository that can be read: {source}",
                folder.display()
            ))
        })?;
        Ok(Self { git_folder: PathBuf::from(found.trim()) })
    }

    pub fn git_folder(&self) -> &Path {
        &self.git_folder
    }

    /// Nothing of the repository's own configuration is run.
    pub(crate) fn git(&self) -> Tool {
        let mut at = std::ffi::OsString::from("--git-dir=");
        at.push(&self.git_folder);
        Tool::new("git").env("GIT_TERMINAL_PROMPT", "0").args(["-c", "core.hooksPath=/dev/null"]).arg(at)
    }

    /// The full id of a commit. `wanted` is for an error: what it was asked for.
    pub fn commit(&self, revision: &str, wanted: Option<&str>) -> Result<String, HistoryError> {
        let found = self
            .git()
            .args(["rev-parse", "--verify", "--quiet", "--end-of-options"])
            .arg(format!("{revision}^{{commit}}"))
            .run();
        match found {
            Ok(id) => Ok(id.trim().to_owned()),
            Err(ToolError::Failed { .. }) => {
                let wanted = wanted.map(|what| format!(" ({what})")).unwrap_or_default();
                let path = self.git_folder.display();
                Err(HistoryError::Refused(format!("{path} has no commit `{revision}`{wanted}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The commit of a release: that of the catalog's tag, which has to be the pinned one; else the tag `v` and version, or
    /// the version.
    pub fn release(&self, family: &Family, version: &str) -> Result<String, HistoryError> {
        let known = family.versions.iter().find(|release| release.version.as_str() == version);
        if let Some(pinned) = known.and_then(|release| release.commit.as_ref()) {
            let found =
                self.commit(&format!("refs/tags/{}", pinned.tag), Some("a release of the catalog"))?;
            if found != pinned.id {
                return Err(HistoryError::Refused(format!(
                    "the tag {} of {} is commit {found}, the catalog's is {}; it is not used",
                    pinned.tag,
                    self.git_folder.display(),
                    pinned.id
                )));
            }
            return Ok(found);
        }
        let wanted = Some("the tag of that version");
        self.commit(&format!("refs/tags/v{version}"), wanted)
            .or_else(|_| self.commit(&format!("refs/tags/{version}"), wanted))
    }

    pub fn comes_from(&self, newer: &str, older: &str) -> Result<bool, HistoryError> {
        Ok(self.base(newer, older)?.as_deref() == Some(older))
    }

    fn base(&self, a: &str, b: &str) -> Result<Option<String>, HistoryError> {
        match self.git().args(["merge-base", a, b]).run() {
            Ok(base) => Ok(Some(base.trim().to_owned())),
            Err(ToolError::Failed { output, .. }) if output.is_empty() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// The line from `older` to `newer` by first parents. Ids are full ones. `recipe` names what is compiled. Where `older` is
    /// not on that line, it starts at the commit at which it leaves what they share: a child of `older` it would not be.
    pub fn line(&self, older: &str, newer: &str, recipe: &Recipe) -> Result<History, HistoryError> {
        let no_line = || {
            HistoryError::Refused(format!(
                "{older} and {newer} share no commit, so there is no line between them"
            ))
        };
        self.base(newer, older)?.ok_or_else(no_line)?;
        let tags = self.tags()?;
        let range = format!("{older}..{newer}");
        let log = |range: &[&str], paths: &[String]| -> Result<Vec<HistoryCommit>, HistoryError> {
            let format = format!("--format=%H{FIELD}%cs{FIELD}%s");
            let mut tool = self.git().args(["log", "--first-parent", "--reverse"]).arg(format).args(range);
            if !paths.is_empty() {
                tool = tool.arg("--").args(paths);
            }
            let text = tool.run()?;
            let parsed = text.lines().filter_map(|line| {
                let mut fields = line.splitn(3, FIELD).map(str::to_owned);
                let (id, day, subject) = (fields.next()?, fields.next()?, fields.next()?);
                let tags = tags.get(&id).cloned().unwrap_or_default();
                Some(HistoryCommit { id, day, subject, tags })
            });
            Ok(parsed.collect())
        };
        let compiled = compiled_paths(recipe);
        let mut commits = log(&["-1", older], &[])?;
        let all = log(&[&range], &[])?;
        let changing: BTreeSet<String> =
            log(&[&range], &compiled)?.into_iter().map(|commit| commit.id).collect();
        let first = all.first().ok_or_else(no_line)?;
        let parent = self.commit(&format!("{}^1", first.id), None)?;
        let forks = parent != older;
        if forks {
            commits.extend(log(&["-1", &parent], &[])?);
        }
        let mut left_out = 0;
        for commit in all {
            match commits.last_mut() {
                Some(same) if same.id == commit.id => {}
                Some(same) if !changing.contains(&commit.id) => {
                    same.tags.extend(commit.tags);
                    left_out += 1;
                }
                _ => commits.push(commit),
            }
        }
        Ok(History { commits, forks, left_out })
    }

    fn tags(&self) -> Result<BTreeMap<String, Vec<String>>, HistoryError> {
        let format = "--format=%(objectname) %(*objectname) %(refname:lstrip=2)";
        let text = self.git().args(["for-each-ref", format, "refs/tags"]).run()?;
        let mut tags: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in text.lines() {
            let mut words = line.splitn(3, ' ');
            if let (Some(object), Some(of_tag), Some(name)) = (words.next(), words.next(), words.next()) {
                let id = if of_tag.is_empty() { object } else { of_tag };
                tags.entry(id.to_owned()).or_default().push(name.to_owned());
            }
        }
        Ok(tags)
    }

    /// Files that a commit changed against its first parent.
    pub fn changes(&self, id: &str) -> Result<Vec<String>, HistoryError> {
        let of_first_parent =
            ["log", "-1", "-m", "--first-parent", "--format=", "--name-only", "--no-renames"];
        let files = self.git().args(of_first_parent).arg(id).run()?;
        Ok(files.lines().map(str::to_owned).collect())
    }

    /// Puts the files of a commit into an empty folder. `index` is a file for git's use.
    pub(crate) fn check_out(&self, id: &str, folder: &Path, index: &Path) -> Result<(), ToolError> {
        let mut at = std::ffi::OsString::from("--work-tree=");
        at.push(folder);
        self.git()
            .arg(at)
            .env("GIT_INDEX_FILE", index)
            .args(["checkout", "--quiet", "--force", id, "--", "."])
            .run()?;
        Ok(())
    }
}

/// Files and folders of a source that its build reads; empty is all of them.
fn compiled_paths(recipe: &Recipe) -> Vec<String> {
    match recipe {
        Recipe::Compile { include, sources, .. } => {
            let folder =
                |source: &String| source.rsplit_once('/').map_or(".", |(folder, _)| folder).to_owned();
            include.iter().cloned().chain(sources.iter().map(folder)).collect()
        }
        Recipe::Configure { .. } => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::Catalog;

    /// A repository in which `files` are written one after the other, a commit each; gives the ids.
    fn repository(folder: &Path, files: &[(&str, &str)]) -> Vec<String> {
        let git = || {
            let tool = Tool::new("git").arg("-C").arg(folder);
            tool.args(["-c", "user.name=Test", "-c", "user.email=test@heaptrial.invalid"])
        };
        Tool::new("git").args(["init", "--quiet"]).arg(folder).run().unwrap();
        let commits = files.iter().map(|(name, content)| {
            fs::create_dir_all(folder.join(name).parent().unwrap()).unwrap();
            fs::write(folder.join(name), content).unwrap();
            git().args(["add", "--all"]).run().unwrap();
            git().args(["commit", "--quiet", "--message", &format!("Write {name}")]).run().unwrap();
            git().args(["rev-parse", "HEAD"]).run().unwrap().trim().to_owned()
        });
        commits.collect()
    }

    #[test]
    fn a_line_has_what_changes_the_build_and_tags_move_to_what_builds_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let files =
            [("src/static.c", "1"), ("src/a.c", "2"), ("readme.md", "3"), ("include/b.h", "4"), ("x", "5")];
        let ids = repository(folder.path(), &files);
        let family = Catalog::builtin().family("mimalloc").unwrap();
        Tool::new("git").arg("-C").arg(folder.path()).args(["tag", "v9", &ids[2]]).run().unwrap();
        let opened = Repository::open(folder.path(), family).unwrap();
        let line = opened.line(&ids[0], &ids[4], family.build.as_ref().unwrap()).unwrap();
        let found: Vec<&str> = line.commits.iter().map(|commit| commit.id.as_str()).collect();
        assert_eq!(found, [&ids[0], &ids[1], &ids[3]]);
        assert_eq!(line.left_out, 2);
        assert_eq!(line.commits[1].tags, ["v9"]);
        assert_eq!(line.commits[2].subject, "Write include/b.h");
        assert_eq!(opened.changes(&ids[3]).unwrap(), ["include/b.h"]);
    }

    #[test]
    fn a_line_that_leaves_the_older_end_starts_where_it_forks() {
        let folder = tempfile::tempdir().unwrap();
        let ids = repository(folder.path(), &[("src/a.c", "1"), ("src/b.c", "2")]);
        let git = || {
            let tool = Tool::new("git").arg("-C").arg(folder.path());
            tool.args(["-c", "user.name=Test", "-c", "user.email=test@heaptrial.invalid"])
        };
        git().args(["checkout", "--quiet", "--detach", &ids[0]]).run().unwrap();
        let others = repository(folder.path(), &[("src/a.c", "3")]);
        git().args(["merge", "--quiet", "--no-edit", "--message", "Merge it", &ids[1]]).run().unwrap();
        let last = repository(folder.path(), &[("src/c.c", "4")]);
        let family = Catalog::builtin().family("mimalloc").unwrap();
        let opened = Repository::open(folder.path(), family).unwrap();
        let line = opened.line(&ids[1], &last[0], family.build.as_ref().unwrap()).unwrap();
        let merge = &line.commits[3];
        assert_eq!(merge.subject, "Merge it");
        assert_eq!(opened.changes(&merge.id).unwrap(), ["src/b.c"]);
        let found: Vec<&str> = line.commits.iter().map(|commit| commit.id.as_str()).collect();
        assert_eq!(found, [&ids[1], &ids[0], &others[0], &merge.id, &last[0]]);
        assert!(line.forks && opened.comes_from(&last[0], &ids[1]).unwrap());
    }
}
