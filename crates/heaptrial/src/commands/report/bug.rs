//! `heaptrial report --bug SPEC`: a report for the maintainers of an allocator, without names and addresses.

use std::path::Path;

use heaptrial_allocator::{Catalog, SettingEntry};
use heaptrial_evaluate::judgement::{Judgement, Rows};
use heaptrial_model::{AllocatorSpec, TrialKind};
use heaptrial_report::{Arm, Ratio, Report, Reproduce, SettingDefault, pseudonymise};

use super::ReportOptions;
use crate::answer::Answer;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::run_folder::RUNS;
use crate::target::{Target, plain};

pub fn run(bad: &AllocatorSpec, options: &ReportOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    if options.trials.len() > 1 {
        return Err(Failure::usage("--bug takes one run or trial: write a report of each"));
    }
    let target = Target::find(options.trials.first().map(String::as_str), global)?;
    let how = super::how(options, &target)?;
    let mut rows = Rows::read(&target.store, target.trial.id)?;
    pseudonymise(&mut rows);
    let judgement = Judgement::from_rows(&target.store, rows, &how)?;
    let report = Report::charted(&judgement)?;
    let (bad_arm, good_arm) = arms(&report, bad, options.good.as_ref())?;
    let good = spec_of(&report.arms[good_arm]).ok_or_else(|| {
        Failure::refused("the control has no allocator of its own; name one with --good SPEC")
    })?;
    let reproduce = Reproduce {
        bad: bad.to_string(),
        good: good.to_string(),
        ratio: judgement.ratio_of(bad_arm, good_arm).as_ref().map(Ratio::from),
        defaults: defaults(&good, bad),
        command: command(&report, [&good, bad]),
    };
    let usual = || Path::new(RUNS).join(format!("bug-{}", plain(&bad.to_string(), '-')));
    let folder = global.out.clone().unwrap_or_else(usual);
    refuse_other_files(&folder)?;
    eprintln!(
        "send the whole folder: names are replaced, and texts of events, commands and messages are excluded"
    );
    super::written(&report.for_maintainers(reproduce), &folder, global)
}

/// The arm of the bad allocator, and the one that it is compared to: that of `good`, or the control.
fn arms(
    report: &Report,
    bad: &AllocatorSpec,
    good: Option<&AllocatorSpec>,
) -> Result<(usize, usize), Failure> {
    let of = |spec: &AllocatorSpec| {
        let plain = |arm: &&Arm| arm.treatment.options().is_empty();
        report
            .arms
            .iter()
            .position(|arm| Some(arm).filter(plain).and_then(spec_of).is_some_and(|own| own == *spec))
    };
    let names: Vec<&str> = report.arms.iter().map(|arm| arm.name.as_str()).collect();
    let missing = |spec: &AllocatorSpec| {
        Failure::refused(format!("there is no arm of {spec}; the arms are {}", names.join("; ")))
    };
    let bad_arm = of(bad).ok_or_else(|| missing(bad))?;
    let good_arm = match good {
        Some(good) => of(good).ok_or_else(|| missing(good))?,
        None => {
            report.arms.iter().position(|arm| arm.control).filter(|control| *control != bad_arm).ok_or_else(
                || Failure::refused(format!("{bad} is the control; name another arm with --good SPEC")),
            )?
        }
    };
    for arm in [bad_arm, good_arm].map(|arm| &report.arms[arm]) {
        if arm.typical_bytes().is_none() {
            return Err(Failure::refused(format!(
                "no service of {} counts: there are no figures of it",
                arm.name
            )));
        }
    }
    Ok((bad_arm, good_arm))
}

/// The allocator of an arm; of one that leaves its services as they are, what was proved.
fn spec_of(arm: &Arm) -> Option<AllocatorSpec> {
    if !arm.allocator.is_empty() {
        return arm.allocator.parse().ok();
    }
    let identity = arm.identity.as_ref()?;
    Some(AllocatorSpec { version: identity.version.clone(), ..AllocatorSpec::family(&identity.family) })
}

/// Settings whose defaults the two versions do not share.
fn defaults(good: &AllocatorSpec, bad: &AllocatorSpec) -> Vec<SettingDefault> {
    let family = Catalog::builtin().family(&good.family).filter(|_| good.family == bad.family);
    let (Some(family), Some(good), Some(bad)) = (family, &good.version, &bad.version) else {
        return Vec::new();
    };
    let default = |entry: &SettingEntry, version| entry.range(version)?.default.clone();
    let settings = family.settings.iter().map(|entry| {
        let unit = entry.unit.as_ref().map_or(String::new(), |unit| format!(" ({unit})"));
        SettingDefault {
            name: entry.name.clone(),
            about: format!("{}{unit}", entry.about),
            good: default(entry, good),
            bad: default(entry, bad),
        }
    });
    settings.filter(|setting| setting.good != setting.bad).collect()
}

/// A lab run of both, with the seed and the repeats of the run where it was one.
fn command(report: &Report, arms: [&AllocatorSpec; 2]) -> String {
    let (tor, lab) =
        (matches!(report.kind, TrialKind::LabTor | TrialKind::ImportTorutils), report.kind.is_lab());
    let mut words = ["heaptrial", "lab", if tor { "tor" } else { "run" }].map(str::to_owned).to_vec();
    words.extend(arms.iter().flat_map(|arm| ["-a".to_owned(), arm.to_string()]));
    words.extend(["--repeat".to_owned(), if lab { report.repeats } else { 3 }.to_string()]);
    if lab {
        words.extend(["--seed".to_owned(), report.seed.to_string()]);
    }
    let program = if tor { "" } else { " -- CMD" };
    format!("{}{program}", shell_words::join(words))
}

/// What else is in the folder would be sent with it.
fn refuse_other_files(folder: &Path) -> Result<(), Failure> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Ok(()) };
    let ours = ["report.html", "report.md", "report.json", "charts"];
    let mut names = entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned());
    match names.find(|name| !ours.contains(&name.as_str())) {
        None => Ok(()),
        Some(other) => Err(Failure::refused(format!(
            "{} holds {other}, which would be sent with the report; name an empty or new folder with --out",
            folder.display()
        ))),
    }
}
