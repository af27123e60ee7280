//! Slurm's programs.

use std::process::{Command, Output};

use crate::{Queue, Request, SlurmError};

/// A cluster, by the programs in PATH.
#[derive(Debug)]
pub struct Cluster(());

/// Has lists of numbers of tasks told whole (squeue(1)).
const WHOLE_LISTS: (&str, &str) = ("SLURM_BITSTR_LEN", "0");

impl Cluster {
    /// The cluster of this host; an error where it submits to none, or where its answers cannot be read.
    pub fn find() -> Result<Self, SlurmError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let has = |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
        if let Some(program) = ["sbatch", "squeue", "scancel"].into_iter().find(|program| !has(program)) {
            return Err(SlurmError::Missing { program });
        }
        let cluster = Self(());
        cluster.queue()?;
        Ok(cluster)
    }

    /// Submits an array; gives its job id.
    pub fn submit(&self, request: &Request) -> Result<u64, SlurmError> {
        let arguments = request.arguments();
        let output = run("sbatch", Command::new("sbatch").args(&arguments).arg(&request.script))?;
        let said = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            let said = failure(&output);
            let arguments = arguments.join(" ");
            return Err(SlurmError::NotTaken { advice: advice(&said), arguments, said });
        }
        // `--parsable` gives the id, and on a federation the cluster after a semicolon.
        said.trim().split(';').next().and_then(|id| id.parse().ok()).ok_or_else(|| SlurmError::Answer {
            command: "sbatch --parsable".to_owned(),
            problem: format!("it is `{}`", said.trim()),
        })
    }

    /// All tasks that the controller knows: those under way, and for some minutes (`MinJobAge`) those that ended.
    pub fn queue(&self) -> Result<Queue, SlurmError> {
        read("squeue", Command::new("squeue").arg("--json").env(WHOLE_LISTS.0, WHOLE_LISTS.1))
    }

    /// What is in the accounts of an array, also long after it ended; `None` where the cluster keeps none.
    pub fn accounts(&self, array: u64) -> Option<Queue> {
        read("sacct", Command::new("sacct").args(["--json", "--jobs", &array.to_string()])).ok()
    }

    /// Cancels all arrays of that name, and no other one that may have their job id by now; what ended meanwhile is no error.
    pub fn cancel(&self, name: &str) -> Result<(), SlurmError> {
        let named = format!("--name={name}");
        let output = run("scancel", Command::new("scancel").args(["--quiet", &named]))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(SlurmError::Failed { command: format!("scancel {named}"), said: failure(&output) }),
        }
    }
}

fn run(program: &'static str, command: &mut Command) -> Result<Output, SlurmError> {
    command.output().map_err(|source| SlurmError::Start { program, source })
}

fn read(program: &'static str, command: &mut Command) -> Result<Queue, SlurmError> {
    let output = run(program, command)?;
    let told = format!("{program} --json");
    if !output.status.success() {
        return Err(SlurmError::Failed { command: told, said: failure(&output) });
    }
    Queue::parse(&String::from_utf8_lossy(&output.stdout))
        .map_err(|problem| SlurmError::Answer { command: told, problem })
}

/// What a program said, in one line and without its own name.
fn failure(output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said
        .lines()
        .map(|line| line.rsplit_once("error: ").map_or(line, |(_, after)| after).trim())
        .filter(|line| !line.is_empty())
        .collect();
    if lines.is_empty() { output.status.to_string() } else { lines.join("; ") }
}

/// What to do about what `sbatch` said.
fn advice(said: &str) -> &'static str {
    let has = |words: &str| said.to_ascii_lowercase().contains(words);
    if has("partition") {
        "; `sinfo` lists the partitions, --slurm partition=NAME names one"
    } else if has("node configuration") || has("memory specification") {
        "; no node has what is asked for: `sinfo --Node --long` tells what they have, --slurm mem=..., cpus-per-task=... asks for less"
    } else if has("array") {
        "; the cluster takes no arrays that large (MaxArraySize): fewer repeats"
    } else if has("account") {
        "; --slurm account=NAME names an account"
    } else if has("unable to contact") || has("connect") {
        "; is slurmctld up? `scontrol ping` tells"
    } else {
        ""
    }
}
