//! `heaptrial trial plan`: draws who gets what, shows it, and writes it to a file. Nothing on the host is changed.

pub(super) mod check;
pub mod family;
pub(super) mod fleet;
mod print;
pub mod undrawn;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use heaptrial_change::{ServiceTreatment, preflight, prepare};
use heaptrial_inspect::preflight::Finding;
use heaptrial_model::{BuildOfHosts, DrawnPlan, ServicePattern, TrialName, TrialPlan, builds_of_hosts};
use heaptrial_plan::{DrawRequest, MAX_SEED, balance, draw, restart_cost};
use serde_json::{Value, json};

use super::new::as_word;
use super::survey;
use crate::answer::Answer;
use crate::commands::allocators::SourceOptions;
use crate::commands::host::obtain::{Allocators, builds, obtain, resolve};
use crate::commands::host::{Host, findings};
use crate::exit::Failure;
use crate::options::{GlobalOptions, command};
use crate::output::write_whole;

use fleet::Fleet;
use print::Shown;

#[derive(Debug, Args)]
pub struct PlanOptions {
    /// The trial's description in TOML, as `trial new` writes it
    #[arg(value_name = "FILE")]
    description: PathBuf,
    /// Seed of everything random [default: drawn, and kept in the plan]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=MAX_SEED))]
    seed: Option<u64>,
    /// Draw over several hosts, from what `trial survey` wrote on each, a file (*.json) in this folder
    #[arg(long, value_name = "FOLDER")]
    survey: Option<PathBuf>,
    /// Show a plan without obtaining allocators, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Overwrite a plan that is there
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    sources: SourceOptions,
}

pub fn run(options: &PlanOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let (trial, patterns) = read(&options.description)?;
    let file = plan_file(&options.description, &trial.name, global);
    if !options.dry_run && !options.force && file.exists() {
        return Err(Failure::refused(format!(
            "{} exists, and drawing again makes another trial. Start that plan, name another file with --out, or overwrite it \
             with --force",
            file.display()
        )));
    }
    resolve(&trial.arms)?;
    let host = Host::of(global)?;
    let surveys = match &options.survey {
        Some(folder) => survey::read_all(folder, &trial, &patterns)?,
        None => Vec::new(),
    };
    let fleet = match surveys.as_slice() {
        [] => Fleet::discover(&host, &patterns)?,
        surveys => survey::fleet(surveys),
    };
    check::check_identities(&trial.arms, &fleet.services)?;
    check::check_torrc(&trial.arms, &fleet.services)?;
    if surveys.is_empty() {
        require_free(&host, &trial.name, &fleet)?;
    }
    let seed = options.seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
    let draw_with = |builds: &BTreeMap<String, Vec<BuildOfHosts>>| {
        let (candidates, tool_version) = (&fleet.candidates, env!("CARGO_PKG_VERSION"));
        draw(&DrawRequest { trial: &trial, candidates, builds, seed, tool_version })
    };
    // Obtaining may take minutes: what cannot be drawn is refused before.
    let undecided = draw_with(&BTreeMap::new())?;
    let (plan, further) = match surveys.as_slice() {
        [] if options.dry_run => (undecided, Section::default()),
        [] => {
            let allocators = obtain(&trial.arms, &options.sources, global)?;
            let plan = draw_with(&builds_of_hosts([(host.name()?.as_str(), &builds(&allocators))]))?;
            let found = of_host(&host, &plan, &fleet, &allocators)?;
            (plan, found)
        }
        surveys => {
            let plan = draw_with(&survey::builds(surveys))?;
            let found = survey::section(surveys, &plan);
            (plan, found)
        }
    };
    let shown = Shown {
        plan: &plan,
        balance: balance(&plan, &fleet.candidates),
        cost: restart_cost(&plan, &fleet.candidates),
        relays: fleet.services.iter().any(|service| service.relay.is_some()),
        left_out: &fleet.left_out,
        now: jiff::Timestamp::now(),
    };
    let (mut document, mut text) = (shown.json(), shown.text() + &further.text);
    for (key, value) in further.members {
        document[key] = value;
    }
    if options.dry_run {
        text += &format!("\nNothing was written; without --dry-run the plan goes to {}.\n", file.display());
        return Ok(Answer::new(document, text));
    }
    write_whole(&file, plan.to_toml().as_bytes())?;
    document["file"] = json!(file);
    text += &format!("\nThe plan is in {}. Nothing on this host was changed.\n", file.display());
    let next = if surveys.is_empty() { "starts it" } else { "on each of its hosts starts that host's part" };
    eprintln!("{} {next}", command(format_args!("trial start {}", as_word(&file))));
    Ok(Answer::new(document, text))
}

/// What else is shown of a plan: of its treatments, or of its hosts.
#[derive(Default)]
pub(super) struct Section {
    pub(super) text: String,
    pub(super) members: Vec<(&'static str, Value)>,
}

/// The files that the arms change, by an example of each, and the preflight of all services.
fn of_host(
    host: &Host<'_>,
    plan: &DrawnPlan,
    fleet: &Fleet,
    allocators: &Allocators,
) -> Result<Section, Failure> {
    let systemd = host.systemd()?;
    let prepared = prepare(plan, &host.name()?, &fleet.services, allocators, &host.paths, None)?;
    let found = preflight(&systemd, &host.paths, &prepared, &fleet.services, allocators, true);
    let example = |arm: &heaptrial_model::Arm| {
        prepared.services.iter().find(|treatment: &&ServiceTreatment| treatment.arm == arm.name)
    };
    let examples: Vec<&ServiceTreatment> = plan.arms.iter().filter_map(example).collect();
    let (files, preview) = host.preview(&prepared, &examples);
    let text = format!(
        "\nFILES, by the first service of each arm\n{preview}\nPREFLIGHT\n{}",
        preflight_text(&found)
    );
    Ok(Section { text, members: vec![("files", files), ("preflight", json!(found))] })
}

pub(super) fn preflight_text(found: &[Finding]) -> String {
    match found.iter().any(Finding::refuses) {
        _ if found.is_empty() => "Nothing speaks against the treatments.\n".to_owned(),
        true => findings::text(found, false) + "`trial start` refuses this until it is mended.\n",
        false => findings::text(found, false),
    }
}

/// Refuses services that are in another trial, where that can be read.
fn require_free(host: &Host<'_>, name: &str, fleet: &Fleet) -> Result<(), Failure> {
    match host.require_readable() {
        Ok(()) => host.require_free(name, name, fleet.candidates.iter().map(|candidate| &candidate.service)),
        Err(failure) => {
            eprintln!("warning: {failure}; whether services are in another trial is checked at the start");
            Ok(())
        }
    }
}

/// Reads a description, and its patterns of services.
pub(super) fn read(path: &Path) -> Result<(TrialPlan, Vec<ServicePattern>), Failure> {
    let usage = |error: &dyn std::fmt::Display| Failure::usage(format!("{}: {error}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| {
        let new = command("trial new");
        Failure::usage(format!("cannot read the trial from {}: {error}; {new} writes one", path.display()))
    })?;
    let trial = TrialPlan::from_toml(&text).map_err(|error| usage(&error))?;
    trial.name.parse::<TrialName>().map_err(|error| usage(&error))?;
    for arm in &trial.arms {
        if let Some(key) = arm.treatment.of_lab_run_only() {
            let text = format!(
                "arm `{}` has `{key}`, which only `heaptrial lab run` can give: a trial does not change how services are started",
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

/// Next to the description, in the folder of `--out`, or the file of that name.
fn plan_file(description: &Path, name: &str, global: &GlobalOptions) -> PathBuf {
    let file = format!("{name}.plan.toml");
    match &global.out {
        Some(folder) if folder.is_dir() => folder.join(file),
        Some(path) => path.clone(),
        None => description.with_file_name(file),
    }
}
