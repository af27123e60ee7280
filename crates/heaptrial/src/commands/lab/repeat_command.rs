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
        let at = words.windows(2).position(|pair| pair[0] == "lab" && pair[1] == kind);
        if let (true, Some(at)) = (values(&words[..own], "--seed").is_empty(), at) {
            words.splice(at + 2..at + 2, ["--seed".to_owned(), seed.to_string()]);
        }
        Self(words)
    }

    /// With these options, where it does not give them itself, in place of `--like`. Of options of a torrc each counts by itself.
    pub(super) fn without_like(self, options: &[(&'static str, String)]) -> Self {
        let mut words = without(&self.0, &["--like"], &[]);
        let own = own_words(&words);
        let name = |value: &str| value.split('=').next().unwrap_or_default().to_ascii_lowercase();
        let missing = options.iter().filter(|(option, value)| {
            let given = values(&words[..own], option);
            !given.iter().any(|given| *option != "--torrc" || name(given) == name(value))
        });
        let missing: Vec<String> =
            missing.flat_map(|(option, value)| [(*option).to_owned(), value.clone()]).collect();
        words.splice(own..own, missing);
        Self(words)
    }

    pub(super) fn words(&self) -> &[String] {
        &self.0
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

/// The values of an option, behind it or joined to it by `=`.
fn values<'w>(words: &'w [String], option: &str) -> Vec<&'w str> {
    let value = |(at, word): (usize, &'w String)| match word.strip_prefix(option)? {
        "" => Some(words.get(at + 1).map_or("", String::as_str)),
        joined => joined.strip_prefix('='),
    };
    words.iter().enumerate().filter_map(value).collect()
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
    fn options_of_a_service_come_behind_those_that_are_given() {
        let options = [("--processors", "3"), ("--torrc", "NumCPUs=2"), ("--torrc", "DirCache=0")]
            .map(|(option, value)| (option, value.to_owned()));
        let like = |line: &str| command(line).without_like(&options).words().join(" ");
        assert_eq!(
            like("lab tor --torrc numcpus=4 --like tor.service --processors=8 -a glibc"),
            "lab tor --torrc numcpus=4 --processors=8 -a glibc --torrc DirCache=0"
        );
        assert_eq!(
            like("lab run --like=12 --torrc=DirCache=1 -- run --like x"),
            "lab run --torrc=DirCache=1 --processors 3 --torrc NumCPUs=2 -- run --like x"
        );
    }

    #[test]
    fn what_is_asked_of_a_cluster_makes_no_other_run() {
        let first = command("lab run --on slurm --slurm mem=1G -a glibc -- sleep 5");
        assert!(first.runs_as(&command("lab run --on slurm -a glibc --slurm=mem=4G -- sleep 5")));
        assert!(!first.runs_as(&command("lab run --on slurm -a glibc -- sleep 6")));
    }
}
