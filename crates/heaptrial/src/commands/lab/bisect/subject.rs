//! What is searched: positions of a history, and how each of them is had.

use heaptrial_allocator::{Catalog, Family, HistoryCommit, Obtained, Repository};
use heaptrial_model::{AllocatorSpec, TrialPlan, Version};
use serde::{Deserialize, Serialize};

use super::BisectOptions;
use crate::commands::lab::LabOptions;
use crate::commands::lab::search::{arm, obtain, or_why, plan_of};
use crate::exit::Failure;

/// A position of a history.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Position {
    /// What it is called: its tag, its version, or the first digits of its commit.
    pub(super) name: String,
    /// Of a release of the catalog.
    pub(super) version: Option<Version>,
    pub(super) commit: Option<HistoryCommit>,
}

/// A history, as it was when the search began.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct History {
    pub(super) older_is_good: bool,
    pub(super) positions: Vec<Position>,
    /// Commits that build nothing new.
    pub(super) left_out: usize,
    /// Whether the older end is not on the line to the newer one: position 1 is where that forks off.
    pub(super) forks: bool,
}

/// A history between good and bad.
pub(super) struct Subject {
    pub(super) good: AllocatorSpec,
    pub(super) bad: AllocatorSpec,
    pub(super) history: History,
    pub(super) repository: Option<Repository>,
}

impl Subject {
    /// Looks for the history; refuses what has none.
    pub(super) fn find(options: &BisectOptions) -> Result<Self, Failure> {
        let (good, bad) = ends(options)?;
        match &options.mirror {
            None => Self::of_releases(good, bad),
            Some(_) => Self::of_commits(options, good, bad),
        }
    }

    /// The history that was found when the search began.
    pub(super) fn kept(options: &BisectOptions, history: History) -> Result<Self, Failure> {
        let (good, bad) = ends(options)?;
        let family = Catalog::builtin().resolve_local(&bad)?.family;
        let repository = match &options.mirror {
            Some(path) => Some(Repository::open(path, &family)?),
            None => None,
        };
        Ok(Self { good, bad, history, repository })
    }

    fn of_releases(good: AllocatorSpec, bad: AllocatorSpec) -> Result<Self, Failure> {
        let catalog = Catalog::builtin();
        let family = catalog.resolve(&good)?.family;
        catalog.resolve(&bad)?;
        let version = |spec: &AllocatorSpec, option: &str| {
            spec.version.clone().ok_or_else(|| {
                Failure::usage(format!("{option} {spec}: name a version, such as {}", an_example(&family)))
            })
        };
        let (of_good, of_bad) = (version(&good, "--good")?, version(&bad, "--bad")?);
        if of_good == of_bad {
            return Err(Failure::usage(format!("--good and --bad are the same version, {of_good}")));
        }
        let older_is_good = of_good < of_bad;
        let (from, to) = if older_is_good { (&of_good, &of_bad) } else { (&of_bad, &of_good) };
        let mut versions: Vec<&Version> = family
            .versions
            .iter()
            .map(|release| &release.version)
            .filter(|v| *v >= from && *v <= to)
            .collect();
        versions.sort();
        versions.dedup();
        if versions.len() < 3 {
            return Err(Failure::refused(format!(
                "the catalog has no release of {} between {from} and {to}; search upstream's commits with --mirror DIR",
                family.name
            )));
        }
        let positions = versions.into_iter().map(|version| Position {
            name: version.to_string(),
            version: Some(version.clone()),
            commit: None,
        });
        let history = History { older_is_good, positions: positions.collect(), left_out: 0, forks: false };
        Ok(Self { good, bad, history, repository: None })
    }

    fn of_commits(options: &BisectOptions, good: AllocatorSpec, bad: AllocatorSpec) -> Result<Self, Failure> {
        let family = Catalog::builtin().resolve_local(&good)?.family;
        let Some(recipe) = &family.build else {
            return Err(Failure::refused(format!(
                "the catalog has no recipe to build {} from source",
                family.name
            )));
        };
        let path = options.mirror.as_deref().unwrap_or(std::path::Path::new("."));
        let repository = Repository::open(path, &family)?;
        let of_good = end_of(&repository, &family, &good, options.good_commit.as_deref(), "--good")?;
        let of_bad = end_of(&repository, &family, &bad, options.bad_commit.as_deref(), "--bad")?;
        if of_good == of_bad {
            return Err(Failure::usage(format!("--good and --bad are the same commit, {of_good}")));
        }
        let older_is_good = !repository.comes_from(&of_good, &of_bad)?;
        let (older, newer) = if older_is_good { (&of_good, &of_bad) } else { (&of_bad, &of_good) };
        let line = repository.line(older, newer, recipe)?;
        match line.commits.as_slice() {
            [] | [_] => {
                return Err(Failure::refused(format!(
                    "no commit between {older} and {newer} changes what is compiled: they are the same library"
                )));
            }
            [_, only] if !line.forks => {
                return Err(Failure::refused(format!(
                    "only one commit between good and bad changes what is compiled: {} {}",
                    only.id, only.subject
                )));
            }
            _ => {}
        }
        let positions = line.commits.into_iter().map(|commit| Position {
            name: name_of(&commit),
            version: None,
            commit: Some(commit),
        });
        let history = History {
            older_is_good,
            positions: positions.collect(),
            left_out: line.left_out,
            forks: line.forks,
        };
        Ok(Self { good, bad, history, repository: Some(repository) })
    }

    pub(super) fn last(&self) -> usize {
        self.history.positions.len() - 1
    }

    /// Positions that are releases, which are asked first.
    pub(super) fn releases(&self) -> Vec<usize> {
        let is_release =
            |position: &Position| position.commit.as_ref().is_none_or(|commit| !commit.tags.is_empty());
        (0..self.history.positions.len()).filter(|at| is_release(&self.history.positions[*at])).collect()
    }

    /// What runs at a position: family, variants and settings; a version where the catalog has it.
    pub(super) fn spec(&self, position: usize) -> AllocatorSpec {
        AllocatorSpec { version: self.history.positions[position].version.clone(), ..self.bad.clone() }
    }

    /// The ends as a plan, for what a workload wants to know of its arms.
    pub(super) fn plan(&self) -> TrialPlan {
        let named = |name: &str, spec: &AllocatorSpec, control| arm(name, spec.clone(), control);
        plan_of("bisect", vec![named("good", &self.good, true), named("bad", &self.bad, false)])
    }

    /// Builds or fetches a position. The inner error is why it cannot be measured.
    pub(super) fn obtain(
        &self,
        position: usize,
        lab: &LabOptions,
    ) -> Result<Result<Obtained, String>, Failure> {
        let spec = self.spec(position);
        match (&self.repository, &self.history.positions[position].commit) {
            (Some(repository), Some(commit)) => {
                let resolved = Catalog::builtin().resolve_local(&lab.as_run(&spec))?;
                or_why(lab.sources.obtainer(None)?.obtain_commit(&resolved, repository, &commit.id))
            }
            _ => obtain(&spec, lab),
        }
    }
}

/// Good and bad, of one family and variant, with the same settings.
fn ends(options: &BisectOptions) -> Result<(AllocatorSpec, AllocatorSpec), Failure> {
    let (Some(good), Some(bad)) = (options.good.clone(), options.bad.clone()) else {
        return Err(Failure::usage("name what is good with --good SPEC and what is bad with --bad SPEC"));
    };
    let catalog = Catalog::builtin();
    let family = catalog.resolve_local(&AllocatorSpec::family(&good.family))?.family;
    catalog.resolve_local(&AllocatorSpec::family(&bad.family))?;
    if good.family != bad.family {
        return Err(Failure::usage(format!(
            "{} and {} are different families and have no common history; `lab run -a {good} -a {bad}` compares them",
            good.family, bad.family
        )));
    }
    if good.variants != bad.variants {
        return Err(Failure::usage(format!(
            "{good} and {bad} are different variants; a search is of one of them"
        )));
    }
    if good.settings != bad.settings {
        return Err(Failure::usage(format!(
            "{good} and {bad} have different settings; a search holds them equal. `lab run -a {good} -a {bad}` \
             compares them"
        )));
    }
    if options.mirror.is_some() {
        // Without a version, only that there are such settings and variants.
        catalog.resolve_local(&AllocatorSpec { version: None, ..bad.clone() })?;
    }
    if family.is_c_library && options.mirror.is_some() {
        return Err(Failure::refused("a C library is not built from commits; leave --mirror out"));
    }
    Ok((good, bad))
}

fn end_of(
    repository: &Repository,
    family: &Family,
    spec: &AllocatorSpec,
    commit: Option<&str>,
    option: &str,
) -> Result<String, Failure> {
    match (commit, &spec.version) {
        (Some(revision), _) => Ok(repository.commit(revision, None)?),
        (None, Some(version)) => Ok(repository.release(family, version.as_str())?),
        (None, None) => Err(Failure::usage(format!(
            "{option} {spec}: name a version, or a commit with {option}-commit REV"
        ))),
    }
}

/// A release's tag, or the first digits of the commit.
fn name_of(commit: &HistoryCommit) -> String {
    let of_version = |tag: &&String| tag.trim_start_matches('v').starts_with(|c: char| c.is_ascii_digit());
    let tag = commit.tags.iter().find(of_version);
    tag.cloned().unwrap_or_else(|| commit.id.get(..12).unwrap_or(&commit.id).to_owned())
}

fn an_example(family: &Family) -> String {
    let version = family.versions.last().map_or(String::new(), |release| format!("@{}", release.version));
    format!("{}{version}", family.name)
}
