//! `heaptrial trial plan`: draws who gets what, shows it, and writes it to a file. Nothing on the host is changed.

pub(super) mod arms;
pub mod family;
pub(super) mod fleet;
mod print;
mod treatments;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use heaptrial_change::Ledger;
use heaptrial_host::{HostRoot, host_name};
use heaptrial_model::{BuildOfHosts, DrawnPlan, ServicePattern, TrialName, TrialPlan, builds_of_hosts};
use heaptrial_plan::{DrawRequest, MAX_SEED, balance, draw, restart_cost};

use super::new::as_word;
use super::{on_host, survey};
use crate::commands::allocators::SourceOptions;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::file_beside;

pub(super) use arms::Allocators;
use fleet::Fleet;
use print::Shown;

/// Which trial, and how it is drawn.
#[derive(Debug, Args)]
pub struct PlanOptions {
    /// The trial's description in TOML, as `trial new` writes it
    #[arg(value_name = "FILE")]
    description: PathBuf,
    /// Seed of everything random [default: drawn, and kept in the plan]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=MAX_SEED))]
    seed: Option<u64>,
    /// Draw over several hosts, from what `trial survey` wrote on each: files, or a folder of them
    #[arg(long, value_name = "PATH", num_args = 1..)]
    survey: Vec<PathBuf>,
    /// Show a plan without obtaining allocators, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Overwrite a plan that is there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    sources: SourceOptions,
}

/// Draws, shows and writes a plan.
pub fn run(options: &PlanOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let (trial, patterns) = read(&options.description)?;
    let file = plan_file(&options.description, &trial.name, global);
    if !options.dry_run && !options.force && file.exists() {
        return Err(exists(&file));
    }
    let resolved = arms::resolve(&trial.arms)?;
    let surveys = survey::read_all(&options.survey, &trial, &patterns)?;
    let fleet = match surveys.as_slice() {
        [] => Fleet::discover(&patterns, global)?,
        surveys => survey::fleet(surveys),
    };
    arms::check_identities(&trial.arms, &fleet.services)?;
    arms::check_torrc(&trial.arms, &fleet.services)?;
    let seed = options.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let draw_with = |builds: &BTreeMap<String, Vec<BuildOfHosts>>| -> Result<DrawnPlan, Failure> {
        let (candidates, tool_version) = (&fleet.candidates, env!("CARGO_PKG_VERSION"));
        draw(&DrawRequest { trial: &trial, candidates, builds, seed, tool_version }).map_err(Failure::refused)
    };
    let paths = global.paths()?;
    match on_host::require_readable(&paths, global) {
        // Each host told of its own.
        _ if !surveys.is_empty() => {}
        Ok(()) => {
            let services = fleet.candidates.iter().map(|candidate| &candidate.service);
            on_host::refuse_claimed(&paths, &trial.name, &trial.name, services.clone())?;
            Ledger::of_this_host(&paths)?.refuse_strays(services)?;
        }
        Err(failure) => {
            eprintln!("warning: {failure}; whether services are in another trial is checked at the start")
        }
    }
    // Obtaining may take minutes: what cannot be drawn is refused before.
    let undecided = draw_with(&BTreeMap::new())?;
    let (plan, allocators) = if !surveys.is_empty() {
        (draw_with(&survey::builds(&surveys))?, Allocators::default())
    } else if options.dry_run {
        (undecided, Allocators::default())
    } else {
        let allocators = arms::obtain(resolved, &options.sources, global)?;
        let host = host_name(&HostRoot::default()).map_err(Failure::failed)?;
        (draw_with(&builds_of_hosts([(host.as_str(), &allocators.builds)]))?, allocators)
    };
    let further = match surveys.as_slice() {
        // No allocator was obtained.
        [] if options.dry_run => Vec::new(),
        [] => treatments::sections(&global.systemd()?, &plan, &fleet.services, &allocators, &paths)?,
        surveys => treatments::of_surveys(surveys, &plan),
    };
    let shown = Shown {
        plan: &plan,
        balance: balance(&plan, &fleet.candidates),
        cost: restart_cost(&plan, &fleet.candidates),
        relays: fleet.services.iter().any(|service| service.relay.is_some()),
        left_out: &fleet.left_out,
        further,
        now: jiff::Timestamp::now(),
    };
    if !options.dry_run {
        write(&file, &plan.to_toml(), options.force)?;
    }
    let written = (!options.dry_run).then_some(file.as_path());
    if global.json {
        println!("{:#}", shown.json(written));
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", global.told(&shown.text()));
    match written {
        Some(file) => {
            println!("\nThe plan is in {}. Nothing on this host was changed.", file.display());
            let where_to =
                if surveys.is_empty() { "starts it" } else { "on each of its hosts starts that host's part" };
            eprintln!("{}", global.told(&format!("`heaptrial trial start {}` {where_to}", as_word(file))));
        }
        None => println!("\nNothing was written; without --dry-run the plan goes to {}.", file.display()),
    }
    Ok(ExitCode::SUCCESS)
}

/// Reads a description, and its patterns of services.
pub(super) fn read(path: &Path) -> Result<(TrialPlan, Vec<ServicePattern>), Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| {
        Failure::usage(format!(
            "cannot read the trial from {}: {error}; `heaptrial trial new` writes one",
            path.display()
        ))
    })?;
    let trial = TrialPlan::from_toml(&text).map_err(|error| usage(&error))?;
    trial.name.parse::<TrialName>().map_err(|error| usage(&error))?;
    for arm in &trial.arms {
        if let Some(key) = arm.treatment.of_lab_run_only() {
            let text = format!(
                "arm `{}` has `{key}`, which only `heaptrial lab run` can give: a trial leaves how services are started",
                arm.name
            );
            return Err(usage(&text));
        }
    }
    let patterns = trial.service_patterns().map_err(|error| usage(&error))?;
    if patterns.is_empty() {
        return Err(usage(&"the trial names no services; add them, such as services = \"tor@*\""));
    }
    Ok((trial, patterns))
}

/// Beside the description, in the folder of `--out`, or the file of that name.
fn plan_file(description: &Path, name: &str, global: &GlobalOptions) -> PathBuf {
    let file = format!("{name}.plan.toml");
    match &global.out {
        Some(folder) if folder.is_dir() => folder.join(file),
        Some(path) => path.clone(),
        None => description.with_file_name(file),
    }
}

fn exists(file: &Path) -> Failure {
    Failure::refused(format!(
        "{} exists; another drawing would be another trial: start that one, name another file with --out, or \
         overwrite it with --force",
        file.display()
    ))
}

/// Whole or not at all: written into a file next to it, which then takes its place.
fn write(file: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::failed(format!("cannot write the plan to {}: {error}", file.display()))
    };
    let put = || {
        let mut beside = file_beside(file)?;
        beside.write_all(text.as_bytes())?;
        beside.as_file().sync_all()?;
        let put = if force { beside.persist(file) } else { beside.persist_noclobber(file) };
        put.map(drop).map_err(|error| error.error)
    };
    match put() {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists(file)),
        done => done.map_err(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use heaptrial_model::ErrorClass;

    #[test]
    fn a_plan_is_written_whole_and_overwritten_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("t.plan.toml");
        write(&file, "first", false).unwrap();
        assert_eq!(write(&file, "second", false).unwrap_err().class, ErrorClass::Refused);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "first");
        write(&file, "third", true).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "third");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let nowhere = folder.path().join("no such folder/t.plan.toml");
        assert_eq!(write(&nowhere, "x", false).unwrap_err().class, ErrorClass::Failed);
    }
}
