//! The commands that show a bug again: by specs, seed and repeats, without any word of whoever measured it.

use heaptrial_allocator::Catalog;
use heaptrial_model::{AllocatorSpec, Setting};
use heaptrial_report::{Kind, Report, Reproduction};

/// The commands of lab runs, and a proposal: of versions, what tells them from their default settings; else of what
/// no lab run showed.
pub fn commands(
    reports: &[&Report],
    (good, bad): (&AllocatorSpec, &AllocatorSpec),
    tor: bool,
) -> Vec<Reproduction> {
    let runs: Vec<&&Report> = reports.iter().filter(|report| report.kind().is_lab()).collect();
    let mut commands: Vec<Reproduction> = runs.iter().map(|report| of_run(report)).collect();
    let mut arms = vec![good.clone(), bad.clone()];
    arms.extend(with_earlier_defaults(good, bad));
    let ran = |spec: &AllocatorSpec| {
        let text = spec.to_string();
        runs.iter().any(|report| report.arms.iter().any(|arm| arm.allocator == text))
    };
    if commands.is_empty() || arms.get(2).is_some_and(|third| !ran(third)) {
        let arms: Vec<String> = arms.iter().map(ToString::to_string).collect();
        commands.push(command(&arms, tor, ["--repeat", "3"].map(str::to_owned).into_iter()));
    }
    commands
}

/// The arms of a run that are an allocator and nothing else, as they were repeated.
fn of_run(report: &Report) -> Reproduction {
    let arms =
        report.arms.iter().filter(|arm| arm.treatment.options().is_empty() && !arm.allocator.is_empty());
    let arms: Vec<String> = arms.map(|arm| arm.allocator.clone()).collect();
    let repeats = ["--repeat".to_owned(), report.repeats().to_string()];
    let seed = ["--seed".to_owned(), report.seed.to_string()];
    let mut found = command(&arms, report.kind() == Kind::LabTor, repeats.into_iter().chain(seed));
    found.notes.push("Further options of the run are left out.".to_owned());
    Reproduction { measured: true, ..found }
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

fn command(arms: &[String], tor: bool, options: impl Iterator<Item = String>) -> Reproduction {
    let kind = if tor { "tor" } else { "run" };
    let arms = arms.iter().flat_map(|arm| ["-a".to_owned(), arm.clone()]);
    let words = ["heaptrial", "lab", kind].map(str::to_owned).into_iter().chain(arms).chain(options);
    let mut command = shell_words::join(words);
    let mut notes = Vec::new();
    if !tor {
        command.push_str(" -- CMD");
        notes.push("CMD is the program whose memory is in question, and what it is to do.".to_owned());
    }
    Reproduction { command, measured: false, notes }
}
