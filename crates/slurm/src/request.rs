//! What is asked of `sbatch`.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::SubmitOption;

/// What each task of an array gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Memory in MiB, Slurm's own unit.
    pub memory_mib: u64,
    pub processors: u32,
    /// After how many minutes it is ended, Slurm's own unit.
    pub minutes: u64,
}

/// An array of tasks that run the same script, each told its number by `SLURM_ARRAY_TASK_ID`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Its name in the queue, by which it is found again.
    pub name: String,
    /// Numbers of its tasks, ascending.
    pub tasks: Vec<u32>,
    /// The script, which Slurm copies to the node.
    pub script: PathBuf,
    /// What is asked for; where there is nothing, what the partition gives. An option of `options` stands above it.
    pub resources: Option<Resources>,
    /// Options that are passed on.
    pub options: Vec<SubmitOption>,
}

/// Options that ask for memory, for processors, and for time, each in every way that `sbatch` has.
const MEMORY: [&str; 3] = ["mem", "mem-per-cpu", "mem-per-gpu"];
const PROCESSORS: [&str; 2] = ["cpus-per-task", "exclusive"];
const TIME: [&str; 1] = ["time"];

impl Resources {
    /// What a block used, with a margin: a quarter more memory and 64 MiB, the processors that it kept busy and a tenth, twice
    /// its time and two minutes.
    pub fn with_margin(memory_bytes: u64, processors: f64, time: Duration) -> Self {
        const MIB: f64 = 1_048_576.0;
        let seconds = time.as_secs_f64() * 2.0 + 120.0;
        Self {
            memory_mib: (memory_bytes as f64 * 1.25 / MIB).ceil() as u64 + 64,
            processors: ((processors * 1.1).ceil() as u32).max(1),
            minutes: (seconds / 60.0).ceil() as u64,
        }
    }
}

impl Request {
    /// Whether options ask for everything that [`Resources`] would.
    pub fn all_asked_for(options: &[SubmitOption]) -> bool {
        [&MEMORY[..], &PROCESSORS, &TIME].iter().all(|names| asks(options, names))
    }

    /// Whether options ask for a number of processors.
    pub fn asks_for_processors(options: &[SubmitOption]) -> bool {
        asks(options, &PROCESSORS)
    }

    /// The arguments of `sbatch`.
    ///
    /// The working folder and the output are some that every node has: where the folder of the script is not shared, the task
    /// itself can then tell.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = ["--parsable", "--requeue", "--chdir=/", "--output=/dev/null"]
            .map(str::to_owned)
            .into_iter()
            .chain([format!("--job-name={}", self.name), format!("--array={}", ranges(&self.tasks))])
            .collect();
        if let Some(resources) = self.resources {
            let asked = [
                (&MEMORY[..], format!("--mem={}M", resources.memory_mib)),
                (&PROCESSORS[..], format!("--cpus-per-task={}", resources.processors)),
                (&TIME[..], format!("--time={}", resources.minutes)),
            ];
            arguments.extend(
                asked
                    .into_iter()
                    .filter(|(names, _)| !asks(&self.options, names))
                    .map(|(_, argument)| argument),
            );
        }
        arguments.extend(self.options.iter().map(SubmitOption::argument));
        arguments
    }
}

fn asks(options: &[SubmitOption], names: &[&str]) -> bool {
    options.iter().any(|option| names.contains(&option.name()))
}

/// Ascending numbers as Slurm writes them: `0-3,7`.
fn ranges(numbers: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let texts: Vec<String> = ranges
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    texts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 7, 9, 10]), "0-3,7,9-10");
        assert_eq!(ranges(&[5]), "5");
    }

    #[test]
    fn an_option_stands_above_what_was_measured() {
        let resources = Resources::with_margin(100 << 20, 1.4, Duration::from_secs(90));
        assert_eq!(resources, Resources { memory_mib: 189, processors: 2, minutes: 5 });
        let request = Request {
            name: "x".into(),
            tasks: vec![1, 2],
            script: "/shared/x".into(),
            resources: Some(resources),
            options: vec!["mem-per-cpu=1G".parse().unwrap(), "partition=short".parse().unwrap()],
        };
        let arguments = request.arguments().join(" ");
        assert!(
            arguments.contains("--array=1-2 --cpus-per-task=2 --time=5 --mem-per-cpu=1G --partition=short"),
            "{arguments}"
        );
        assert!(!arguments.contains("--mem="));
        assert!(!Request::all_asked_for(&request.options));
        assert!(!Request::asks_for_processors(&request.options));
        let all = ["mem=1G", "exclusive", "time=5"].map(|text| text.parse().unwrap());
        assert!(Request::all_asked_for(&all) && Request::asks_for_processors(&all));
    }
}
