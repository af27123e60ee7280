//! An array of tasks on a cluster, by Slurm's own programs: submitted by `sbatch`, watched by `squeue`, cancelled by `scancel`.

use std::fmt;
use std::path::Path;
use std::process::{Command, Output};
use std::str::FromStr;

use crate::LabError;
use crate::program::find_program;

/// Options of sbatch that an array decides itself.
const DECIDED: [&str; 5] = ["array", "chdir", "job-name", "output", "wrap"];

/// An option of `sbatch` in its long form, such as `partition=short` or `exclusive`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubmitOption(String);

impl FromStr for SubmitOption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.split('=').next().unwrap_or_default();
        let is_name = name.len() > 1
            && !name.starts_with('-')
            && name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-');
        if !is_name || text.ends_with('=') || text.contains(char::is_control) {
            return Err(format!(
                "`{text}` is no option of sbatch: NAME=VALUE or NAME in its long form, such as partition=short or exclusive"
            ));
        }
        match DECIDED.contains(&name) {
            true => Err(format!("{name} is decided by the run; leave it out")),
            false => Ok(Self(text.to_owned())),
        }
    }
}

impl fmt::Display for SubmitOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

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

/// The cluster that this host submits to.
#[derive(Debug)]
pub struct Cluster(());

impl Cluster {
    /// Refuses a host without Slurm's programs, or without a controller that answers.
    pub fn find() -> Result<Self, LabError> {
        let is_missing = |program: &&str| find_program(program).is_err();
        if let Some(program) = ["sbatch", "squeue", "scancel"].into_iter().find(is_missing) {
            return Err(LabError::Refused(format!(
                "`{program}` is not in PATH: this host submits nothing to Slurm; run it on a login node of the cluster, or without \
                 --on slurm"
            )));
        }
        let cluster = Self(());
        cluster.tasks("heaptrial")?;
        Ok(cluster)
    }

    /// Submits an array; returns its job id. A task whose node dies is requeued by Slurm.
    pub fn submit(&self, request: &Request<'_>) -> Result<String, LabError> {
        let output = run(Command::new("sbatch").args(request.arguments()).arg(request.script))?;
        if !output.status.success() {
            return Err(LabError::Refused(format!(
                "Slurm did not accept the array: {}; `--slurm OPTION` passes options to sbatch, `sinfo` lists partitions and nodes",
                message(&output)
            )));
        }
        // On a federation the cluster follows after a semicolon.
        let answer = String::from_utf8_lossy(&output.stdout);
        Ok(answer.trim().split(';').next().unwrap_or_default().to_owned())
    }

    /// How many tasks of arrays of that name run, and how many wait.
    pub fn tasks(&self, name: &str) -> Result<(usize, usize), LabError> {
        let name = format!("--name={name}");
        let mut command = Command::new("squeue");
        command.args(["--noheader", "--array", &name, "--format=%T"]).env_remove("SQUEUE_STATES");
        let output = succeeded(&mut command)?;
        let states = String::from_utf8_lossy(&output.stdout);
        let waiting = states.lines().filter(|state| state.trim() == "PENDING").count();
        Ok((states.lines().count() - waiting, waiting))
    }

    /// Cancels all tasks of arrays of that name; tasks that have ended are no error.
    pub fn cancel(&self, name: &str) -> Result<(), LabError> {
        let name = format!("--name={name}");
        succeeded(Command::new("scancel").args(["--quiet", &name])).map(drop)
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

fn run(command: &mut Command) -> Result<Output, LabError> {
    let program = Path::new(command.get_program()).to_owned();
    command.output().map_err(LabError::file(program))
}

fn succeeded(command: &mut Command) -> Result<Output, LabError> {
    let output = run(command)?;
    match output.status.success() {
        true => Ok(output),
        false => Err(LabError::Failed(format!(
            "`{}` failed: {}",
            command.get_program().to_string_lossy(),
            message(&output)
        ))),
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
