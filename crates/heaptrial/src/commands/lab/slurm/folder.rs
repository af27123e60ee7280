//! The folder of a run on a cluster.
//!
//! `slurm/run.json` has what tasks carry out, beside the program, `block.sh` and `allocators/`; `slurm/log/N.log` what the task of
//! block N wrote, and `slurm/failed/N` why it failed. `blocks/N/` has its results: all at once, or nothing.

use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_allocator::Obtained;
use heaptrial_host::HostFacts;
use heaptrial_lab::RunOutcome;
use heaptrial_model::TrialPlan;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::commands::lab::repeat_command::RepeatCommand;
use crate::exit::Failure;
use crate::output::write_whole;

/// A run whose blocks are tasks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct KeptRun {
    /// Names the run in the queue and in its database.
    pub(super) token: String,
    pub(super) command: RepeatCommand,
    /// Where the command was started.
    pub(super) directory: PathBuf,
    /// With the duration and the metric of the run.
    pub(super) plan: TrialPlan,
    /// Of the arms, with files below the run's folder.
    pub(super) builds: Vec<Obtained>,
    pub(super) repeats: u32,
    pub(super) seed: u64,
    pub(super) blocks: Vec<u32>,
}

/// What a task adds to the database of its block.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct BlockReport {
    pub(super) node: String,
    pub(super) facts: HostFacts,
    pub(super) outcome: RunOutcome,
}

#[derive(Debug, Clone)]
pub(super) struct RunFolder(pub(super) PathBuf);

impl RunFolder {
    pub(super) fn own(&self, name: &str) -> PathBuf {
        self.0.join("slurm").join(name)
    }

    /// Of the services of all blocks.
    pub(super) fn service_logs(&self) -> PathBuf {
        self.0.join("logs")
    }

    pub(super) fn blocks(&self) -> PathBuf {
        self.0.join("blocks")
    }

    pub(super) fn block(&self, block: u32) -> PathBuf {
        self.blocks().join((block + 1).to_string())
    }

    /// Has why the task of a block failed.
    pub(super) fn failure(&self, block: u32) -> PathBuf {
        self.own("failed").join((block + 1).to_string())
    }

    pub(super) fn create(&self) -> Result<(), Failure> {
        let own = ["allocators", "log", "failed"].map(|name| self.own(name));
        let folders = own.into_iter().chain([self.service_logs(), self.blocks()]);
        folders.into_iter().try_for_each(|folder| fs::create_dir_all(&folder).map_err(Failure::file(&folder)))
    }

    /// The run that the folder holds; `None` where it holds none.
    pub(super) fn read_run(&self) -> Result<Option<KeptRun>, Failure> {
        let path = self.own("run.json");
        if path.is_file() { read(&path).map(Some) } else { Ok(None) }
    }

    /// Whether a block has results. Listing the folder makes a network file system look again.
    pub(super) fn has_arrived(&self, block: u32) -> Result<bool, Failure> {
        let folder = self.blocks();
        let mut entries = fs::read_dir(&folder).map_err(Failure::file(&folder))?.flatten();
        let name = (block + 1).to_string();
        Ok(entries.any(|entry| entry.file_name() == name.as_str()))
    }

    /// Why a block has no results, as far as it is known.
    pub(super) fn why_failed(&self, block: u32) -> String {
        let why = fs::read_to_string(self.failure(block)).unwrap_or_else(|_| {
            format!(
                "its task left nothing: it was cancelled, ran into its limit of time or memory (--slurm time=MINUTES, mem=SIZE), \
                 or its node does not share {} or cannot write there",
                self.0.display()
            )
        });
        format!("{why} (its log: {})", self.own("log").join(format!("{}.log", block + 1)).display())
    }
}

pub(super) fn write(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::failed)? + "\n";
    write_whole(path, text.as_bytes())
}

pub(super) fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let text = fs::read_to_string(path).map_err(Failure::file(path))?;
    serde_json::from_str(&text).map_err(Failure::file(path))
}
