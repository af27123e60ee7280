//! Trials and rollouts of which something is on this host, and not their folder: it was lost, or moved away.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use heaptrial_change::{ChangeError, Ledger, trials};
use heaptrial_host::Paths;
use heaptrial_store::Store;
use serde::Serialize;

use super::on_host;
use crate::options::GlobalOptions;

#[derive(Debug, Clone, Serialize)]
pub struct Unfound {
    name: String,
    /// Where its folder would be.
    folder: PathBuf,
    /// Files of it that are on this host.
    files: Vec<PathBuf>,
    /// The database in which it runs on.
    database: Option<PathBuf>,
}

impl Unfound {
    pub fn all(paths: &Paths, global: &GlobalOptions) -> Result<Vec<Self>, ChangeError> {
        let mut found: BTreeMap<String, Self> = BTreeMap::new();
        let of = |name: &str| Self {
            name: name.to_owned(),
            folder: paths.trial(name),
            files: Vec::new(),
            database: None,
        };
        for stray in Ledger::of_this_host(paths)?.strays()? {
            found.entry(stray.name.clone()).or_insert_with(|| of(&stray.name)).files.push(stray.path);
        }
        let known = trials(paths)?;
        let database = on_host::database(paths, global);
        for name in running(&database).into_iter().filter(|name| !known.contains(name)) {
            found.entry(name.clone()).or_insert_with(|| of(&name)).database = Some(database.clone());
        }
        Ok(found.into_values().collect())
    }

    pub fn named(name: &str, paths: &Paths, global: &GlobalOptions) -> Result<Option<Self>, ChangeError> {
        Ok(Self::all(paths, global)?.into_iter().find(|found| found.name == name))
    }

    /// Whether nothing of it is in force, so that there is nothing to put back.
    pub fn is_only_recorded(&self) -> bool {
        self.files.is_empty()
    }
}

impl fmt::Display for Unfound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 3;
        write!(f, "{}: {} is gone, and ", self.name, self.folder.display())?;
        if let Some(database) = &self.database {
            write!(f, "{} has it as running", database.display())?;
        }
        if self.is_only_recorded() {
            return write!(
                f,
                "; put the folder back, or, where nothing of it is left, `heaptrial trial stop {}` ends it there",
                self.name
            );
        }
        let files: Vec<String> =
            self.files.iter().take(SHOWN).map(|path| path.display().to_string()).collect();
        let and = if self.database.is_some() { " and " } else { "" };
        let more = match self.files.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        write!(
            f,
            "{and}files of it are there: {}{more}; put the folder back, or take them out by hand (docs/rollback-by-hand.md)",
            files.join(", ")
        )
    }
}

/// What a database has as running; none where it cannot be read, which others report.
fn running(database: &Path) -> Vec<String> {
    let found = Store::open(database).and_then(|store| store.running_trials()).unwrap_or_default();
    let treats = found.into_iter().filter(|record| record.plan.kind.treats_services());
    treats.map(|record| record.plan.name).collect()
}
