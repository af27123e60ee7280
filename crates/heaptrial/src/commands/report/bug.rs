//! `heaptrial report --bug SPEC`: a folder for the maintainers of an allocator.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use heaptrial_allocator::Catalog;
use heaptrial_judgement::{Judgement, Rows};
use heaptrial_model::{AllocatorSpec, TrialKind};
use heaptrial_report::{
    BisectReport, BugFiles, BugParts, BugRun, Bundle, Report, SettingDefault, pseudonymise, write_bug,
};

use super::{ReportOptions, reproduce};
use crate::commands::lab::report_in;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::run_folder::RUNS;
use crate::target::Target;

/// What was read of all runs.
struct Found {
    runs: Vec<BugRun>,
    /// Whether the services are Tor relays.
    tor: bool,
}

/// Writes the bundle and prints where.
pub fn run(
    bad: &AllocatorSpec,
    options: &ReportOptions,
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    let found = read(bad, options, global)?;
    let good = match (&options.good, found.runs.first().and_then(BugRun::good_spec)) {
        (Some(good), _) => good.clone(),
        (None, Some(good)) => Catalog::builtin().without_defaults(&good),
        (None, None) => return Err(Failure::failed("the runs have no arm to compare to")),
    };
    let bisect = bisect_of(bad, options)?;
    let reports: Vec<&Report> = found.runs.iter().map(BugRun::report).collect();
    let parts = BugParts {
        defaults: defaults(&good, bad),
        reproduce: reproduce::commands(&reports, (&good, bad), found.tor),
        bisect,
    };
    let bundle = Bundle::new((&good, bad), &found.runs, parts).map_err(Failure::failed)?;
    let folder =
        global.out.clone().unwrap_or_else(|| Path::new(RUNS).join(format!("bug-{}", folder_name(bad))));
    let files = write_bug(&bundle, &folder)?;
    print(&bundle, &files, global)?;
    Ok(ExitCode::SUCCESS)
}

/// The runs that are asked for; `None` is the last trial of --db, or the newest run.
fn names(options: &ReportOptions) -> Vec<Option<&str>> {
    let mut names: Vec<Option<&str>> = options.trials.iter().map(|name| Some(name.as_str())).collect();
    if names.is_empty() {
        names.push(None);
    }
    names
}

/// The runs that have an arm of `bad`.
fn read(bad: &AllocatorSpec, options: &ReportOptions, global: &GlobalOptions) -> Result<Found, Failure> {
    let without_defaults = |spec: &AllocatorSpec| Catalog::builtin().without_defaults(spec);
    let mut found = Found { runs: Vec::new(), tor: false };
    let mut others = Vec::new();
    let mut good = options.good.clone();
    for name in names(options) {
        let target = Target::find(name, global)?;
        let how = super::how(options, &target)?;
        let mut rows = Rows::read(&target.store, target.trial.id).map_err(Failure::failed)?;
        pseudonymise(&mut rows);
        let judgement = Judgement::from_rows(&target.store, rows, &how).map_err(Failure::failed)?;
        let report = Report::of(&judgement).map_err(Failure::failed)?;
        let arms: Vec<&str> = report.arms.iter().map(|arm| arm.name.as_str()).collect();
        let shown = name.unwrap_or("the newest run");
        if BugRun::arm_of(&report, bad, &without_defaults).is_none() {
            others.push(format!("{shown} has {}", arms.join("; ")));
            continue;
        }
        found.tor |= is_tor(&target)?;
        // What was found to be good in an earlier run need not be in this one.
        let has = |spec: &&AllocatorSpec| BugRun::arm_of(&report, spec, &without_defaults).is_some();
        let compared = good.as_ref().filter(|spec| options.good.is_some() || has(spec));
        let run = BugRun::new(judgement, bad, compared, &without_defaults);
        let Some(run) = run.map_err(Failure::failed)? else {
            return Err(nothing_to_compare(shown, bad, compared, &arms));
        };
        if let Some(arm) = run.unmeasured() {
            others.push(format!("in {shown} no service of {arm} counts"));
            continue;
        }
        good = good.or_else(|| run.good_spec());
        found.runs.push(run);
    }
    if found.runs.is_empty() {
        return Err(no_arm(bad, &others));
    }
    for other in others {
        eprintln!("left out, without figures of {bad}: {other}");
    }
    Ok(found)
}

fn no_arm(bad: &AllocatorSpec, others: &[String]) -> Failure {
    Failure::refused(format!(
        "there is no evidence against {bad}: {}. heaptrial lab tor -a GOOD -a {bad} --repeat 3 makes some, or heaptrial \
         lab run, or a trial on your services",
        others.join(", ")
    ))
}

fn nothing_to_compare(
    run: &str,
    bad: &AllocatorSpec,
    good: Option<&AllocatorSpec>,
    arms: &[&str],
) -> Failure {
    let asked = good.map_or_else(
        || "no arm of its family needs less, and it is the control itself".to_owned(),
        |good| format!("there is no arm of {good}"),
    );
    let good = good.map_or_else(|| "GOOD".to_owned(), ToString::to_string);
    Failure::refused(format!(
        "{run} has nothing to compare {bad} to: {asked}; its arms are {}. Name one with --good SPEC, or make a run that \
         has one with heaptrial lab tor -a {good} -a {bad} --repeat 3, or heaptrial lab run",
        arms.join("; ")
    ))
}

/// What a search found that is named, of the same family.
fn bisect_of(bad: &AllocatorSpec, options: &ReportOptions) -> Result<Option<BisectReport>, Failure> {
    let Some(folder) = &options.bisect else { return Ok(None) };
    let found = report_in::<BisectReport>(folder)?;
    if found.family != bad.family {
        return Err(Failure::refused(format!(
            "the search in {} is of {} and says nothing of {bad}",
            folder.display(),
            found.family
        )));
    }
    Ok(Some(found))
}

fn defaults(good: &AllocatorSpec, bad: &AllocatorSpec) -> Vec<SettingDefault> {
    let found = Catalog::builtin().default_differences(&good.without_settings(), &bad.without_settings());
    let told = found.into_iter().map(|difference| {
        let unit = difference.unit.map_or(String::new(), |unit| format!(" ({unit})"));
        SettingDefault {
            name: difference.name,
            about: format!("{}{unit}", difference.about),
            good: difference.good,
            bad: difference.bad,
        }
    });
    told.collect()
}

fn is_tor(target: &Target) -> Result<bool, Failure> {
    let services = target.store.services(target.trial.id).map_err(Failure::failed)?;
    let kind = target.trial.plan.kind;
    Ok(matches!(kind, TrialKind::LabTor | TrialKind::ImportTorutils)
        || services.iter().any(|service| service.name.starts_with("tor@")))
}

fn folder_name(spec: &AllocatorSpec) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
    spec.to_string().chars().map(safe).collect()
}

fn print(bundle: &Bundle, files: &BugFiles, global: &GlobalOptions) -> Result<(), Failure> {
    let ratio = bundle.bug.evidence.first().and_then(|evidence| evidence.ratio.as_ref());
    if ratio.is_some_and(|ratio| ratio.estimate < 1.0) {
        eprintln!(
            "warning: {} needs less than {}: this is no evidence against it",
            bundle.bug.bad, bundle.bug.good
        );
    }
    if global.json {
        let text = std::fs::read_to_string(&files.json).map_err(Failure::failed)?;
        print!("{text}");
        return Ok(());
    }
    println!("{}", bundle.bug.title);
    let paths: Vec<&PathBuf> = [&files.markdown, &files.json].into_iter().chain(&files.charts).collect();
    paths.iter().for_each(|path| println!("{}", path.display()));
    eprintln!(
        "the folder is all that has to be sent: names are replaced, and texts of events, commands and messages are left out"
    );
    Ok(())
}
