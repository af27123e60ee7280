//! What the folder of a run on a cluster holds: what each task needs, what was submitted, and what came back.
//!
//! ```text
//! slurm/run.json          what is carried out, for tasks and for whoever goes on watching
//! slurm/submitted.json    arrays with their tasks
//! slurm/token-TOKEN       seen by a task whose node shares the folder
//! slurm/heaptrial, block.sh, allocators/
//! slurm/log/NNNN.log      what a task told
//! slurm/failed/NNNN.json  why a task could not carry out its block
//! blocks/NNNN/            what came of a block; there all at once, or not at all
//! ```

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use heaptrial_allocator::Obtained;
use heaptrial_host::HostFacts;
use heaptrial_model::{Arm, HumanDuration, Metric};
use heaptrial_slurm::{Resources, SubmitOption};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;

/// The form that this version writes.
pub(super) const SCHEMA_VERSION: u32 = 1;

/// A run whose blocks are tasks.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct KeptRun {
    pub(super) schema_version: u32,
    /// Names the run: in the queue, on nodes, in its database.
    pub(super) token: String,
    pub(super) name: String,
    /// The command that repeats the run: options and workload are read from it.
    pub(super) command: String,
    pub(super) directory: PathBuf,
    pub(super) arms: Vec<Arm>,
    pub(super) duration: Option<HumanDuration>,
    pub(super) metric: Metric,
    /// Of the arms, with files below the run's folder.
    pub(super) builds: Vec<Obtained>,
    pub(super) repeats: u32,
    pub(super) seed: u64,
    pub(super) blocks: Vec<u32>,
    pub(super) database: PathBuf,
    /// Options that are passed on to `sbatch`.
    pub(super) options: Vec<SubmitOption>,
}

/// An array that was submitted, or is just about to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Submission {
    /// By which it is found again where its job id was not written down.
    pub(super) name: String,
    pub(super) blocks: Vec<u32>,
    pub(super) asked: Option<Resources>,
    pub(super) job: Option<u64>,
}

/// What a task tells of its block.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct BlockReport {
    pub(super) schema_version: u32,
    pub(super) block: u32,
    pub(super) node: String,
    pub(super) facts: HostFacts,
    pub(super) used: Used,
    /// How often Slurm started it again.
    pub(super) restarts: u32,
    pub(super) failed_services: usize,
    /// Measures of work that were asked for, and whether some service of it told anything of each.
    #[serde(default)]
    pub(super) work_read: BTreeMap<String, bool>,
}

/// What carrying out a block took, all of its processes together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Used {
    /// The most resident memory at once.
    pub(super) memory_bytes: u64,
    /// Processors that were busy, on average.
    pub(super) processors: f64,
    pub(super) seconds: f64,
}

/// Why a task could not carry out its block.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct BlockFailure {
    pub(super) node: String,
    pub(super) why: String,
}

/// The folder of a run on a cluster.
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

    pub(super) fn logs(&self) -> PathBuf {
        self.own().join("log")
    }

    pub(super) fn log(&self, block: u32) -> PathBuf {
        self.logs().join(format!("{}.log", block_name(block)))
    }

    pub(super) fn lock(&self) -> PathBuf {
        self.own().join("lock")
    }

    pub(super) fn token(&self, token: &str) -> PathBuf {
        self.own().join(format!("token-{token}"))
    }

    pub(super) fn blocks(&self) -> PathBuf {
        self.0.join("blocks")
    }

    pub(super) fn block(&self, block: u32) -> PathBuf {
        self.blocks().join(block_name(block))
    }

    fn failure_file(&self, block: u32) -> PathBuf {
        self.own().join("failed").join(format!("{}.json", block_name(block)))
    }

    /// Makes all of its folders.
    pub(super) fn create(&self) -> Result<(), Failure> {
        for folder in [self.allocators(), self.logs(), self.own().join("failed"), self.blocks()] {
            fs::create_dir_all(&folder).map_err(|error| at(&folder, error))?;
        }
        Ok(())
    }

    pub(super) fn write_run(&self, run: &KeptRun) -> Result<(), Failure> {
        write(&self.own().join("run.json"), run)
    }

    /// What is carried out here; refuses a folder of anything else.
    pub(super) fn read_run(&self) -> Result<KeptRun, Failure> {
        let path = self.own().join("run.json");
        if !path.is_file() {
            return Err(Failure::refused(format!(
                "{} holds no run on a cluster: {} is not there",
                self.0.display(),
                path.display()
            )));
        }
        let run: KeptRun = read(&path)?;
        match run.schema_version {
            SCHEMA_VERSION => Ok(run),
            _ => Err(Failure::refused(format!("{} is of another version of Heaptrial", path.display()))),
        }
    }

    pub(super) fn write_submitted(&self, submitted: &[Submission]) -> Result<(), Failure> {
        write(&self.own().join("submitted.json"), &submitted)
    }

    pub(super) fn read_submitted(&self) -> Result<Vec<Submission>, Failure> {
        let path = self.own().join("submitted.json");
        if path.is_file() { read(&path) } else { Ok(Vec::new()) }
    }

    /// Blocks of which results are there. The folder is listed, which has a network file system look anew.
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

    pub(super) fn read_failure(&self, block: u32) -> Option<BlockFailure> {
        read(&self.failure_file(block)).ok()
    }

    pub(super) fn write_failure(&self, block: u32, failure: &BlockFailure) -> Result<(), Failure> {
        write(&self.failure_file(block), failure)
    }

    /// Forgets that a block failed: it is carried out again.
    pub(super) fn forget_failure(&self, block: u32) {
        // Where there is none, nothing has to be forgotten.
        let _ = fs::remove_file(self.failure_file(block));
    }
}

/// Counted from 1, as blocks are told.
pub(super) fn block_name(block: u32) -> String {
    format!("{:04}", block + 1)
}

pub(super) fn at(path: &Path, error: std::io::Error) -> Failure {
    Failure::failed(format!("{}: {error}", path.display()))
}

/// Writes a file anew: afterwards it has all of it, or what it had before.
pub(super) fn write(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value).map_err(Failure::failed)? + "\n";
    let beside = path.with_extension("new");
    let written = File::create(&beside)
        .and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()))
        .and_then(|()| fs::rename(&beside, path));
    written.map_err(|error| at(path, error))
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, Failure> {
    let text = fs::read_to_string(path).map_err(|error| at(path, error))?;
    serde_json::from_str(&text).map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}
