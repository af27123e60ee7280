//! Slurm's programs.

use std::path::Path;
use std::process::{Command, Output};

use heaptrial_model::{Classified, ErrorClass};

use crate::slurm::SubmitOption;

/// Number, state, node and reason of a task (squeue(1)).
const TASK_FORMAT: &str = "%K|%T|%N|%r";

/// An array of tasks that run the same script, each with its number in `SLURM_ARRAY_TASK_ID`.
#[derive(Debug)]
pub struct Request<'a> {
    /// By which the array is found in the queue.
    pub name: &'a str,
    /// Numbers of the tasks, ascending.
    pub tasks: &'a [u32],
    pub script: &'a Path,
    /// Folder of the tasks' logs, each `NUMBER.log`.
    pub logs: &'a Path,
    pub options: &'a [SubmitOption],
}

/// A task that waits or runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    pub number: u32,
    /// In Slurm's words, such as `PENDING`.
    pub state: String,
    /// Empty while it waits.
    pub node: String,
    /// Why it is in that state, such as `Resources`.
    pub reason: String,
}

/// Why Slurm could not be used.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    #[error(
        "`{0}` is not in PATH: this host submits nothing to Slurm; run it on a login node of the cluster, or without --on slurm"
    )]
    Missing(&'static str),
    #[error(
        "Slurm did not accept the array: {0}; `--slurm OPTION` passes options to sbatch, `sinfo` lists partitions and nodes"
    )]
    Refused(String),
    #[error("`{command}` failed: {problem}")]
    Failed { command: &'static str, problem: String },
}

impl Classified for SlurmError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Missing(_) | Self::Refused(_) => ErrorClass::Refused,
            Self::Failed { .. } => ErrorClass::Failed,
        }
    }
}

/// The cluster that this host submits to.
#[derive(Debug)]
pub struct Cluster(());

impl Cluster {
    /// Refuses a host without Slurm's programs, or without a controller that answers.
    pub fn find() -> Result<Self, SlurmError> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let has = |program: &str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
        if let Some(program) = ["sbatch", "squeue", "scancel"].into_iter().find(|program| !has(program)) {
            return Err(SlurmError::Missing(program));
        }
        let cluster = Self(());
        cluster.tasks("heaptrial")?;
        Ok(cluster)
    }

    /// Submits an array; returns its job id. A task whose node dies is requeued by Slurm.
    pub fn submit(&self, request: &Request<'_>) -> Result<String, SlurmError> {
        let output = run("sbatch", Command::new("sbatch").args(request.arguments()).arg(request.script))?;
        if !output.status.success() {
            return Err(SlurmError::Refused(message(&output)));
        }
        // On a federation the cluster follows after a semicolon.
        let answer = String::from_utf8_lossy(&output.stdout);
        Ok(answer.trim().split(';').next().unwrap_or_default().to_owned())
    }

    /// Tasks of arrays of that name that wait or run.
    pub fn tasks(&self, name: &str) -> Result<Vec<Task>, SlurmError> {
        let format = format!("--format={TASK_FORMAT}");
        let name = format!("--name={name}");
        let mut command = Command::new("squeue");
        command.args(["--noheader", "--array", &name, &format]).env_remove("SQUEUE_STATES");
        let output = succeeded("squeue", &mut command)?;
        Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(Task::parse).collect())
    }

    /// Cancels all tasks of arrays of that name; tasks that have ended are no error.
    pub fn cancel(&self, name: &str) -> Result<(), SlurmError> {
        let name = format!("--name={name}");
        succeeded("scancel", Command::new("scancel").args(["--quiet", &name])).map(drop)
    }
}

impl Request<'_> {
    fn arguments(&self) -> Vec<String> {
        let numbers: Vec<String> = self.tasks.iter().map(u32::to_string).collect();
        let mut arguments: Vec<String> =
            ["--parsable", "--requeue", "--open-mode=append", "--chdir=/"].map(str::to_owned).into();
        arguments.push(format!("--job-name={}", self.name));
        arguments.push(format!("--array={}", numbers.join(",")));
        arguments.push(format!("--output={}/%a.log", self.logs.display()));
        arguments.extend(self.options.iter().map(|option| format!("--{option}")));
        arguments
    }
}

impl Task {
    fn parse(line: &str) -> Option<Self> {
        let mut fields = line.trim().splitn(4, '|').map(|field| field.trim().to_owned());
        let number = fields.next()?.parse().ok()?;
        Some(Self { number, state: fields.next()?, node: fields.next()?, reason: fields.next()? })
    }
}

fn run(program: &'static str, command: &mut Command) -> Result<Output, SlurmError> {
    command.output().map_err(|error| SlurmError::Failed { command: program, problem: error.to_string() })
}

fn succeeded(program: &'static str, command: &mut Command) -> Result<Output, SlurmError> {
    let output = run(program, command)?;
    match output.status.success() {
        true => Ok(output),
        false => Err(SlurmError::Failed { command: program, problem: message(&output) }),
    }
}

/// What a program wrote to standard error, as one line without its own name.
fn message(output: &Output) -> String {
    let written = String::from_utf8_lossy(&output.stderr);
    let lines =
        written.lines().map(|line| line.rsplit_once("error: ").map_or(line, |(_, after)| after).trim());
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    if lines.is_empty() { output.status.to_string() } else { lines.join("; ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_are_read_as_squeue_prints_them() {
        let running =
            Task { number: 3, state: "RUNNING".to_owned(), node: "n1".to_owned(), reason: "None".to_owned() };
        assert_eq!(Task::parse("3|RUNNING|n1|None"), Some(running));
        let waiting = Task::parse("12|PENDING||Nodes required for job are DOWN, DRAINED|x").unwrap();
        assert_eq!((waiting.number, waiting.node.as_str()), (12, ""));
        // A job that is no array.
        assert_eq!(Task::parse("N/A|RUNNING|n1|None"), None);
        assert_eq!(Task::parse(""), None);
    }

    #[test]
    fn options_of_the_user_follow_those_of_the_run() {
        let options = ["mem=1G", "exclusive"].map(|text| text.parse().unwrap());
        let request = Request {
            name: "x",
            tasks: &[1, 2, 7],
            script: Path::new("/shared/x"),
            logs: Path::new("/shared/log"),
            options: &options,
        };
        let arguments = request.arguments().join(" ");
        assert!(
            arguments.ends_with("--array=1,2,7 --output=/shared/log/%a.log --mem=1G --exclusive"),
            "{arguments}"
        );
    }
}
