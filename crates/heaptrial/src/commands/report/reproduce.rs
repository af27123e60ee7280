//! The commands that show a bug again, without paths and names of whoever measured it.

use heaptrial_allocator::Catalog;
use heaptrial_model::{AllocatorSpec, Setting};
use heaptrial_report::{Arm, Report, Reproduction, Secrets};

use crate::commands::lab::shell;

/// What an option's value of the stored command becomes.
const PLAN: &str = "arms.toml";
/// Options whose values are words of the house, as those of the program are.
const OF_THE_HOUSE: [&str; 8] =
    ["--prepare", "--ready", "--load", "--conclude", "--work", "--count", "--slurm", "--userland"];

/// The commands of lab runs, and a proposal: of versions, what tells them from their default settings; else of what
/// no lab run showed.
pub fn commands(
    reports: &[&Report],
    (good, bad): (&AllocatorSpec, &AllocatorSpec),
    tor: bool,
    secrets: &Secrets,
) -> Vec<Reproduction> {
    let runs: Vec<&&Report> = reports.iter().filter(|report| report.kind().is_lab()).collect();
    let mut commands: Vec<Reproduction> =
        runs.iter().enumerate().map(|(index, report)| of_run(report, index, secrets)).collect();
    let mut arms = vec![good.clone(), bad.clone()];
    arms.extend(with_earlier_defaults(good, bad));
    let ran = |spec: &AllocatorSpec| {
        let text = spec.to_string();
        runs.iter().any(|report| report.arms.iter().any(|arm| arm.allocator == text))
    };
    if commands.is_empty() || arms.get(2).is_some_and(|third| !ran(third)) {
        commands.push(proposal(&arms, tor));
    }
    commands
}

/// Whether a module of Python comes next: what follows its first `-m`, before which are options alone.
fn is_module(before: &[&String]) -> bool {
    let [rest @ .., option] = before else { return false };
    let program = rest.iter().rev().find(|word| !word.starts_with('-'));
    option.as_str() == "-m"
        && program
            .and_then(|program| program.rsplit('/').next()?.strip_prefix("python"))
            .is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || c == '.'))
}

/// The stored command with files beside `bug.md` in place of paths.
fn of_run(report: &Report, index: usize, secrets: &Secrets) -> Reproduction {
    let mut notes = Vec::new();
    let mut file = None;
    let mut words = Vec::new();
    let stored = shell::split(&report.command).unwrap_or_default();
    // A word that is no text is told as far as it is one.
    let stored = apart(stored.iter().map(|word| word.to_string_lossy().into_owned()));
    let mut replaced = false;
    let mut clean = |word: &String| {
        let clean = secrets.clean_command(word);
        replaced |= clean != *word;
        clean
    };
    let mut rest = stored.iter();
    while let Some(word) = rest.next() {
        let value = match word.as_str() {
            "--arms" => {
                let name = if index == 0 { PLAN.to_owned() } else { format!("arms-{}.toml", index + 1) };
                file = Some((name.clone(), arms_toml(report)));
                rest.next().map(|_| name)
            }
            "--from" => {
                notes
                    .push("The library of --from is none of the catalog's: it has to be at hand.".to_owned());
                rest.next().map(|value| without_folder(value))
            }
            "--mirror" | "--name" => {
                rest.next();
                continue;
            }
            "--" => {
                words.push(word.clone());
                let own: Vec<&String> = rest.by_ref().collect();
                let modules = (0..own.len()).map(|at| is_module(&own[..at]));
                // `http.server` is a module there, and no host.
                let told = own.iter().zip(modules).map(|(word, is_module)| match is_module {
                    true => secrets.clean(word),
                    false => clean(word),
                });
                words.extend(told);
                continue;
            }
            option if OF_THE_HOUSE.contains(&option) => rest.next().map(&mut clean),
            _ => None,
        };
        words.push(word.clone());
        words.extend(value);
    }
    if replaced {
        notes.push("Names and folders in the command's words were replaced.".to_owned());
    }
    let left_out = |arm: &Arm| {
        let (torrc, environment) = (arm.treatment.torrc.values(), arm.treatment.environment.values());
        torrc.chain(environment).chain(&arm.treatment.command).any(|value| value == "…")
    };
    if report.arms.iter().any(left_out) {
        notes.push(
            "Values of torrc options and variables that are no numbers, and words of arms' own commands, were left out: they stand as … in \
             the plan, and have to be filled in."
                .to_owned(),
        );
    }
    Reproduction { command: shell_words::join(words), measured: true, notes, file }
}

/// An option's value as a word of its own: `--load=CMD` as `--load CMD`. What follows `--` stays.
fn apart(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut options = true;
    let mut found = Vec::new();
    for word in words {
        options &= word != "--";
        match word.split_once('=').filter(|(option, _)| options && option.starts_with("--")) {
            Some((option, value)) => found.extend([option.to_owned(), value.to_owned()]),
            None => found.push(word),
        }
    }
    found
}

fn without_folder(value: &str) -> String {
    match value.rsplit_once('/') {
        Some((before, file)) => {
            let spec = before.split_once("=/").map_or(before, |(spec, _)| spec);
            format!("{spec}={file}")
        }
        None => value.to_owned(),
    }
}

/// The arms as a plan that `--arms` reads.
fn arms_toml(report: &Report) -> String {
    // A string of JSON is one of TOML.
    let string = |text: &str| serde_json::Value::from(text).to_string();
    let mut text = "name = \"arms\"\n".to_owned();
    for arm in &report.arms {
        text.push_str(&format!("\n[[arm]]\nname = {}\n", string(&arm.name)));
        if arm.control {
            text.push_str("control = true\n");
        }
        if !arm.allocator.is_empty() {
            text.push_str(&format!("allocator = {}\n", string(&arm.allocator)));
        }
        if !arm.treatment.torrc.is_empty() {
            let pairs =
                arm.treatment.torrc.iter().map(|(option, value)| format!("{option} = {}", string(value)));
            text.push_str(&format!("torrc = {{ {} }}\n", pairs.collect::<Vec<_>>().join(", ")));
        }
        if !arm.treatment.environment.is_empty() {
            let pairs = arm.treatment.environment.iter();
            let pairs = pairs.map(|(name, value)| format!("{} = {}", string(name), string(value)));
            text.push_str(&format!("environment = {{ {} }}\n", pairs.collect::<Vec<_>>().join(", ")));
        }
        if !arm.treatment.command.is_empty() {
            let words: Vec<_> = arm.treatment.command.iter().map(|word| string(word)).collect();
            text.push_str(&format!("command = [{}]\n", words.join(", ")));
        }
        if let Some(every) = arm.treatment.restart_every {
            text.push_str(&format!("restart_every = {}\n", string(&every.to_string())));
        }
    }
    text
}

/// The bad version with the defaults of the good one, where the catalog knows some that differ.
fn with_earlier_defaults(good: &AllocatorSpec, bad: &AllocatorSpec) -> Option<AllocatorSpec> {
    let catalog = Catalog::builtin();
    let bad = bad.without_settings();
    let differences = catalog.default_differences(&good.without_settings(), &bad);
    let settings: Vec<Setting> = differences
        .into_iter()
        .filter(|found| found.bad.is_some())
        .filter_map(|found| Some(Setting { name: found.name, value: found.good? }))
        .collect();
    let spec = AllocatorSpec { settings, ..bad };
    (!spec.settings.is_empty() && catalog.resolve(&spec).is_ok()).then_some(spec)
}

fn proposal(arms: &[AllocatorSpec], tor: bool) -> Reproduction {
    let (kind, end, notes) = if tor {
        ("tor", "", Vec::new())
    } else {
        let note = "CMD is the program whose memory is in question, and what it is to do.".to_owned();
        ("run", " -- CMD", vec![note])
    };
    let arms = arms.iter().flat_map(|arm| ["-a".to_owned(), arm.to_string()]);
    let words = ["heaptrial", "lab", kind].map(str::to_owned).into_iter().chain(arms);
    let words = words.chain(["--repeat", "3"].map(str::to_owned));
    Reproduction { command: format!("{}{end}", shell_words::join(words)), measured: false, notes, file: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_m_is_a_module_for_python_alone() {
        let module = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            is_module(&words.iter().collect::<Vec<_>>())
        };
        assert!(module("/usr/bin/python3.11 -m") && module("env python3 -u -m"));
        assert!(!module("python3 -h") && !module("mysql -m") && !module("python-client -m"));
        assert!(!module("python3 tool.py -m"));
    }
}
