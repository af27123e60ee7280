//! The folder of a run on a cluster.
//!
//! ```text
//! slurm/run.json          what tasks carry out
//! slurm/heaptrial, block.sh, allocators/
//! slurm/log/N.log         what the task of block N wrote
//! slurm/failed/N          why it failed
//! blocks/N/               its results: all at once, or nothing
//! ```

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use heaptrial_allocator::Obtained;
use heaptrial_host::HostFacts;
use heaptrial_model::{Arm, HumanDuration, Metric};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::commands::lab::repeat_command::RepeatCommand;
use crate::exit::Failure;

/// A run whose blocks are tasks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct KeptRun {
    /// Names the run in the queue and in its database.
    pub(super) token: String,
    pub(super) name: String,
    pub(super) command: RepeatCommand,
    /// Where the command was started.
    pub(super) directory: PathBuf,
    pub(super) arms: Vec<Arm>,
    pub(super) duration: Option<HumanDuration>,
    pub(super) metric: Metric,
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
    pub(super) failed_services: usize,
    /// Measures of work, and whether some service gave a figure of each.
    pub(super) work_read: std::collections::BTreeMap<String, bool>,
}

#[derive(Debug, Clone)]
pub(super) struct RunFolder(pub(super) PathBuf);

impl RunFolder {
    fn own(&self) -> PathBuf {
        self.0.join("slurm")
    }

    pub(super) fn allocators(&self) -> PathBuf {
        self.own().join("allocators")
    }

    pub(super) fn script(&self) -> PathBuf {
        self.own().join("block.sh")
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.own().join("lock")
    }

    pub(super) fn task_logs(&self) -> PathBuf {
        self.own().join("log")
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

    fn failure_file(&self, block: u32) -> PathBuf {
        self.own().join("failed").join((block + 1).to_string())
    }

    pub(super) fn create(&self) -> Result<(), Failure> {
        let folders = [
            self.allocators(),
            self.task_logs(),
            self.own().join("failed"),
            self.service_logs(),
            self.blocks(),
        ];
        folders.iter().try_for_each(|folder| fs::create_dir_all(folder).map_err(|error| at(folder, error)))
    }

    pub(super) fn write_run(&self, run: &KeptRun) -> Result<(), Failure> {
        write(&self.own().join("run.json"), run)
    }

    /// The run that the folder holds; `None` where it holds none.
    pub(super) fn read_run(&self) -> Result<Option<KeptRun>, Failure> {
        let path = self.own().join("run.json");
        if path.is_file() { read(&path).map(Some) } else { Ok(None) }
    }

    /// Blocks with results. Listing the folder makes a network file system look again.
    pub(super) fn arrived(&self) -> Result<Vec<u32>, Failure> {
        let folder = self.blocks();
        let entries = fs::read_dir(&folder).map_err(|error| at(&folder, error))?;
        let number = |name: std::ffi::OsString| name.to_str()?.parse::<u32>().ok()?.checked_sub(1);
        let mut found: Vec<u32> = entries.flatten().filter_map(|entry| number(entry.file_name())).collect();
        found.sort_unstable();
        Ok(found)
    }

    pub(super) fn read_block(&self, block: u32) -> Result<BlockReport, Failure> {
        read(&self.block(block).join("block.json"))
    }

    pub(super) fn write_failure(&self, block: u32, why: &str) -> io::Result<()> {
        fs::write(self.failure_file(block), why)
    }

    /// What the task of a block wrote about its failure.
    pub(super) fn failure(&self, block: u32) -> Option<String> {
        fs::read_to_string(self.failure_file(block)).ok()
    }

    pub(super) fn forget_failure(&self, block: u32) {
        // Usually there is none.
        let _ = fs::remove_file(self.failure_file(block));
    }

    /// Why a block has no results, as far as it is known.
    pub(super) fn why_failed(&self, block: u32) -> String {
        let log = self.task_logs().join(format!("{}.log", block + 1));
        let log = if log.is_file() { format!(" (its log: {})", log.display()) } else { String::new() };
        let why = self.failure(block).unwrap_or_else(|| {
            format!(
                "its task left nothing: it was cancelled, ran into its limit of time or memory (--slurm time=MINUTES, mem=SIZE), \
                 or its node does not share {} or cannot write there",
                self.0.display()
            )
        });
        format!("{why}{log}")
    }
}

pub(super) fn at(path: &Path, error: io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}

/// Writes a file as a whole or not at all.
pub(super) fn write(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::failed)? + "\n";
    let new = path.with_extension("new");
    fs::write(&new, text).and_then(|()| fs::rename(&new, path)).map_err(|error| at(path, error))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let text = fs::read_to_string(path).map_err(|error| at(path, error))?;
    serde_json::from_str(&text).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}
