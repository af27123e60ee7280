//! The command line that repeats a run: its own words and its seed.

use std::ffi::OsString;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::commands::Command;
use crate::exit::Failure;

/// Options that name a place, each with its value.
const PLACES: [&str; 2] = ["--out", "--db"];
/// Options of how a run is shown, or whether it is.
const FORMS: [&str; 2] = ["--json", "--dry-run"];

/// Words of a command line after the program's name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct RepeatCommand(Vec<String>);

impl RepeatCommand {
    pub(super) fn own() -> Result<Self, Failure> {
        let words = std::env::args_os().skip(1).map(|word| OsString::into_string(word).ok());
        words.collect::<Option<_>>().map(Self).ok_or_else(|| {
            Failure::usage("the command of a run is kept as text: all of its words must be UTF-8")
        })
    }

    /// With a seed where it has none, and without the places that it writes to.
    pub(super) fn of_run(self, kind: &str, seed: u64) -> Self {
        let mut words = without(&self.0, &PLACES, &FORMS);
        let own = own_words(&words);
        let has_seed = words[..own].iter().any(|word| word == "--seed" || word.starts_with("--seed="));
        let at = words.windows(2).position(|pair| pair[0] == "lab" && pair[1] == kind);
        if let (false, Some(at)) = (has_seed, at) {
            words.splice(at + 2..at + 2, ["--seed".to_owned(), seed.to_string()]);
        }
        Self(words)
    }

    /// Whether both run the same, whatever they ask of a cluster.
    pub(super) fn runs_as(&self, other: &Self) -> bool {
        let words = |command: &Self| without(&command.0, &["--slurm"], &[]);
        words(self) == words(other)
    }

    /// As this program reads it.
    pub(super) fn parse(&self) -> Result<Command, Failure> {
        let words = std::iter::once("heaptrial").chain(self.0.iter().map(String::as_str));
        crate::parse(words.map(str::to_owned)).map(|(_, command)| command).map_err(Failure::failed)
    }
}

/// As it can be typed in a shell.
impl fmt::Display for RepeatCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "heaptrial {}", shell_words::join(&self.0))
    }
}

/// How many words precede those of the program that is run.
fn own_words(words: &[String]) -> usize {
    words.iter().position(|word| word == "--").unwrap_or(words.len())
}

fn without(words: &[String], with_value: &[&str], flags: &[&str]) -> Vec<String> {
    let (own, program) = words.split_at(own_words(words));
    let mut kept = Vec::new();
    let mut rest = own.iter();
    while let Some(word) = rest.next() {
        let (name, value) =
            word.split_once('=').map_or((word.as_str(), None), |(name, value)| (name, Some(value)));
        if with_value.contains(&name) {
            if value.is_none() {
                rest.next();
            }
        } else if !flags.contains(&word.as_str()) {
            kept.push(word.clone());
        }
    }
    kept.extend_from_slice(program);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(line: &str) -> RepeatCommand {
        RepeatCommand(shell_words::split(line).unwrap())
    }

    #[test]
    fn a_run_is_repeated_with_its_seed_and_elsewhere() {
        let asked = command("--json lab run --out=there -a glibc --db all.db -- sleep --out 5");
        assert_eq!(
            asked.of_run("run", 7).to_string(),
            "heaptrial lab run --seed 7 -a glibc -- sleep --out 5"
        );
        let seeded = command("lab tor --seed 3 --torrc 'MaxMemInQueues=2 GB'");
        assert_eq!(
            seeded.of_run("tor", 3).to_string(),
            "heaptrial lab tor --seed 3 --torrc 'MaxMemInQueues=2 GB'"
        );
    }

    #[test]
    fn what_is_asked_of_a_cluster_makes_no_other_run() {
        let first = command("lab run --on slurm --slurm mem=1G -a glibc -- sleep 5");
        assert!(first.runs_as(&command("lab run --on slurm -a glibc --slurm=mem=4G -- sleep 5")));
        assert!(!first.runs_as(&command("lab run --on slurm -a glibc -- sleep 6")));
    }
}
