//! `heaptrial watch start`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use heaptrial_fleet::watch::{
    Channels, Proposal, Request, Source, WatchPlan, begin, check_hook, look_days, propose, stored_name,
};
use heaptrial_host::Paths;
use heaptrial_host::systemd::Systemd;
use heaptrial_inspect::discover;
use heaptrial_model::{HumanDuration, ServicePattern, TrialName, units};
use heaptrial_store::Store;
use serde_json::json;

use crate::commands::trial::on_host;
use crate::commands::value::{ValueError, number};
use crate::exit::Failure;
use crate::options::GlobalOptions;

const DAY: f64 = 86_400.0;
/// The name of a watch over services that no trial names.
const DEFAULT_NAME: &str = "services";

/// What is watched, and where alerts go.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  heaptrial watch start five-way-rollout     what a rollout brought, held to what its trial measured
  heaptrial watch start 'tor@*' --name relays  services as they are, held to what they use now")]
pub struct StartOptions {
    /// A trial or rollout whose services keep a treatment, or patterns of services that are watched as they are, such as 'tor@*'
    #[arg(value_name = "TRIAL|PATTERN", required = true)]
    what: Vec<String>,
    /// The watch's name [default: that of the trial, or `services`]
    #[arg(long, value_name = "NAME")]
    name: Option<TrialName>,
    /// The arm of the trial whose services are watched [default: the one that most services run]
    #[arg(long)]
    arm: Option<String>,
    /// How long
    #[arg(long, value_name = "N", default_value_t = 30.0, value_parser = days)]
    days: f64,
    /// Run this for each alert: an absolute path and words as a shell splits them; no shell is used. It gets the alert
    /// as JSON on its standard input
    #[arg(long, value_name = "COMMAND")]
    hook: Option<String>,
    /// Write alerts that stand as OpenMetrics text, as into the folder of node_exporter's textfile collector (*.prom)
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// Services that belong to the watch, to find new ones [default: the templates of the trial's services]
    #[arg(long = "services", value_name = "PATTERN", num_args = 1..)]
    patterns: Vec<ServicePattern>,
    /// Time between checks, whole minutes
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = every)]
    every: u64,
    /// Without a reading for so long a service has no data
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    no_data_after: HumanDuration,
    /// Start without asking
    #[arg(long)]
    yes: bool,
    /// Show what would be watched and installed, and change nothing
    #[arg(long)]
    dry_run: bool,
}

fn days(text: &str) -> Result<f64, ValueError> {
    number(text.trim_end_matches('d'), 1.0..=365.0, "1 to 365 days")
}

fn every(text: &str) -> Result<u64, ValueError> {
    let seconds = text.parse::<HumanDuration>()?.0.as_secs();
    let minutes = Some(seconds / 60).filter(|minutes| seconds % 60 == 0 && (1..=1440).contains(minutes));
    minutes.ok_or(ValueError::Expected("whole minutes, 1m to 24h"))
}

pub fn run(options: &StartOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let channels = channels(options)?;
    if !options.dry_run {
        on_host::require_root("watch start")?;
    }
    let paths = Paths::default();
    let database = on_host::database(&paths, global);
    let systemd = global.systemd()?;
    let source = source(options, &database, &systemd, &paths)?;
    let name = match (&options.name, &options.what[..]) {
        (Some(name), _) => name.as_str(),
        (None, [trial]) if source.is_of_trial() => trial.as_str(),
        (None, _) => DEFAULT_NAME,
    };
    let request = Request {
        name: name.to_owned(),
        days: options.days,
        every_minutes: options.every,
        patterns: options.patterns.clone(),
        no_data_seconds: options.no_data_after.0.as_secs_f64(),
        channels,
        database: global.db.clone(),
    };
    for (service, why) in &source.left_out {
        eprintln!("warning: {service} is not watched: {why}");
    }
    let proposal = propose(&request, source, &paths)?;
    let plan = &proposal.plan;
    let watched = plan.services.iter().map(|watched| &watched.service);
    let of_trial = options.what.first().map_or(name, String::as_str);
    on_host::refuse_claimed(&paths, of_trial, name, watched.chain(&plan.others))?;
    on_host::warn_of_agent(&systemd);
    if options.dry_run {
        return dry_run(&proposal, options.every, global);
    }
    let what = format!(
        "This watches {} for {} days and installs a timer.",
        units::counted(plan.services.len(), "service"),
        options.days
    );
    on_host::confirm(&what, options.yes)?;
    let mut store = Store::create(&database).map_err(Failure::failed)?;
    let plan = begin(proposal, &mut store, &systemd, &paths).map_err(|error| {
        Failure::from(error).about(format!(
            "the watch was not started; `heaptrial watch stop {name}` removes what there is of it"
        ))
    })?;
    if global.json {
        println!("{:#}", json!({ "schema_version": 1, "plan": plan }));
        return Ok(ExitCode::SUCCESS);
    }
    describe(&plan, options.every);
    for file in &plan.installed {
        println!("installed {}", file.path.display());
    }
    println!("`heaptrial watch status {}` shows how it goes", plan.name);
    Ok(ExitCode::SUCCESS)
}

/// A trial or rollout of that name comes before a service of that name.
fn source(
    options: &StartOptions,
    database: &Path,
    systemd: &Systemd,
    paths: &Paths,
) -> Result<Source, Failure> {
    // Before anything was recorded there is no database.
    let store = if database.exists() { Some(Store::open(database)?) } else { None };
    if let (Some(store), [name]) = (&store, &options.what[..]) {
        if let Some(source) = Source::of_trial(store, systemd, paths, name, options.arm.as_deref())? {
            return Ok(source);
        }
    }
    if options.arm.is_some() {
        let what = options.what.join(" ");
        return Err(Failure::refused(format!(
            "--arm is of a trial, and there is no trial or rollout `{what}`"
        )));
    }
    let patterns = options.what.iter().map(|text| text.parse()).collect::<Result<Vec<ServicePattern>, _>>();
    let patterns = patterns.map_err(Failure::usage)?;
    let found = discover(systemd, &patterns).map_err(Failure::failed)?;
    if let Some(kept_out) = found.told() {
        eprintln!("{kept_out}");
    }
    let unmatched = patterns.iter().zip(&found.of_pattern).filter(|(_, names)| names.is_empty());
    let unmatched: Vec<&str> = unmatched.map(|(pattern, _)| pattern.as_str()).collect();
    if !unmatched.is_empty() {
        return Err(Failure::refused(format!(
            "no trial, rollout or loaded service is called {}; `heaptrial services` shows what runs",
            unmatched.join(" ")
        )));
    }
    Ok(Source::as_found(store.as_ref(), &found.services, &patterns)?)
}

fn channels(options: &StartOptions) -> Result<Channels, Failure> {
    let hook = match &options.hook {
        Some(text) => {
            let words =
                shell_words::split(text).map_err(|error| Failure::usage(format!("--hook: {error}")))?;
            check_hook(&words)?;
            Some(words)
        }
        None => None,
    };
    if let Some(path) = &options.metrics {
        let folder = path.parent().filter(|_| path.is_absolute());
        if !folder.is_some_and(Path::is_dir) {
            return Err(Failure::usage(format!(
                "--metrics {}: give an absolute path in a folder that is there",
                path.display()
            )));
        }
        if path.exists()
            && std::fs::read(path).is_ok_and(|text| !text.starts_with(b"# HELP heaptrial_watch_"))
        {
            return Err(Failure::refused(format!(
                "{} is there and not of a watch; it would be replaced",
                path.display()
            )));
        }
    }
    Ok(Channels { hook, metrics: options.metrics.clone() })
}

fn dry_run(proposal: &Proposal, every_minutes: u64, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    if global.json {
        println!("{:#}", json!({ "schema_version": 1, "dry_run": true, "plan": proposal.plan }));
        return Ok(ExitCode::SUCCESS);
    }
    describe(&proposal.plan, every_minutes);
    for file in &proposal.plan.installed {
        println!("would install {}", file.path.display());
        file.text.lines().filter(|line| !line.is_empty()).for_each(|line| println!("    {line}"));
    }
    println!("nothing was changed");
    Ok(ExitCode::SUCCESS)
}

fn describe(plan: &WatchPlan, every_minutes: u64) {
    println!(
        "watch {} of {} that run {}: {} days, a check every {every_minutes} minutes",
        plan.name,
        units::counted(plan.services.len(), "service"),
        plan.arms.join(", "),
        plan.days
    );
    for stratum in &plan.strata {
        let services = units::counted(stratum.services.len(), "service");
        match &stratum.ratio {
            Some(ratio) => println!(
                "  {services} ({}) are held to what each used before, by readings of {} up to an age of {}",
                stratum.name,
                units::counted(ratio.services() as usize, "service"),
                units::duration(ratio.last_age())
            ),
            None => println!(
                "  {services} ({}) are held to what each used before; how it goes with age is not known",
                stratum.name
            ),
        }
    }
    let looks: Vec<String> = look_days(plan.days).iter().map(|day| units::duration(day * DAY)).collect();
    println!("  looks after {}", looks.join(", "));
    println!("  readings are stored as trial {}", stored_name(&plan.name));
}
