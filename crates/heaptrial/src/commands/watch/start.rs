//! `heaptrial watch start`: what is watched, until when, and where alerts go.

use std::path::{Path, PathBuf};

use clap::Args;
use heaptrial_fleet::watch::{
    Channels, Source, WatchPlan, begin, check_hook, look_days, propose, stored_name,
};
use heaptrial_host::systemd::{Manager as _, Systemd};
use heaptrial_model::{HumanDuration, ServiceName, ServicePattern, TrialName, units};
use heaptrial_store::Store;
use serde_json::json;

use crate::answer::Answer;
use crate::commands::host::admit::indented;
use crate::commands::host::select::select;
use crate::commands::host::{Consent, Host};
use crate::commands::value::{ValueError, number};
use crate::exit::Failure;
use crate::options::GlobalOptions;

const DAY: f64 = 86_400.0;
/// The name of a watch over services that no trial names.
const DEFAULT_NAME: &str = "services";

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
    /// How many days the watch lasts
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
    #[command(flatten)]
    consent: Consent,
}

fn days(text: &str) -> Result<f64, ValueError> {
    number(text.trim_end_matches('d'), 1.0..=365.0, "1 to 365 days")
}

fn every(text: &str) -> Result<u64, ValueError> {
    let seconds = text.parse::<HumanDuration>()?.0.as_secs();
    let minutes = Some(seconds / 60).filter(|minutes| seconds % 60 == 0 && (1..=1440).contains(minutes));
    minutes.ok_or(ValueError::Expected("whole minutes, 1m to 24h"))
}

pub fn run(options: &StartOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let host = Host::of(global)?;
    let channels = channels(options)?;
    if !options.consent.dry_run {
        host.require_owner("watch start")?;
    }
    let systemd = host.systemd()?;
    let source = source(options, &host, &systemd)?;
    let name = match (&options.name, &options.what[..]) {
        (Some(name), _) => name.as_str(),
        (None, [trial]) if source.is_of_trial() => trial.as_str(),
        (None, _) => DEFAULT_NAME,
    };
    for (service, why) in &source.left_out {
        eprintln!("warning: {service} is not watched: {why}");
    }
    let usual = source.plan.clone();
    let plan = WatchPlan {
        name: name.to_owned(),
        days: options.days,
        patterns: if options.patterns.is_empty() { usual.patterns } else { options.patterns.clone() },
        no_data_seconds: options.no_data_after.0.as_secs_f64(),
        channels,
        database: global.db.clone(),
        ..usual
    };
    let plan = propose(plan, options.every, &host.paths)?;
    let watched: Vec<&ServiceName> =
        plan.services.iter().map(|own| &own.service).chain(&plan.others).collect();
    let of_trial = options.what.first().map_or(name, String::as_str);
    host.require_free(of_trial, name, watched.into_iter())?;
    let agent = heaptrial_agent::UNIT_NAME.parse().map_err(Failure::failed)?;
    if !systemd.status(&agent).is_ok_and(|status| status.is_running()) {
        eprintln!("warning: {agent} does not run; until something samples the services there are no data");
    }
    let mut text = describe(&plan, options.every);
    if options.consent.dry_run {
        for file in &plan.installed {
            text += &format!("would install {}\n{}", file.path.display(), indented(&file.text));
        }
        text += "nothing was changed\n";
        return Ok(Answer::new(json!({ "dry_run": true, "plan": plan }), text));
    }
    let count = units::counted(plan.services.len(), "service");
    options.consent.ask(&format!("This watches {count} for {} days and installs a timer.", options.days))?;
    for file in &plan.installed {
        text += &format!("installed {}\n", file.path.display());
    }
    let mut store = Store::create(&host.database)?;
    let plan = begin(plan, source, &mut store, &systemd, &host.paths).map_err(|error| {
        Failure::from(error).hint(format!("`heaptrial watch stop {name}` removes what there is of the watch"))
    })?;
    text += &format!("`heaptrial watch status {name}` shows how it goes\n");
    Ok(Answer::new(json!({ "plan": plan }), text))
}

/// A trial or rollout of that name comes before a service of that name.
fn source(options: &StartOptions, host: &Host<'_>, systemd: &Systemd) -> Result<Source, Failure> {
    // Before anything was recorded there is no database.
    let store = if host.database.exists() { Some(Store::open(&host.database)?) } else { None };
    if let (Some(store), [name]) = (&store, &options.what[..]) {
        let arm = options.arm.as_deref();
        if let Some(source) = Source::of_trial(store, systemd, &host.paths, name, arm)? {
            return Ok(source);
        }
    }
    let what = options.what.join(" ");
    if options.arm.is_some() {
        let text = format!("--arm is of a trial, and there is no trial or rollout `{what}`");
        return Err(Failure::refused(text));
    }
    let patterns =
        options.what.iter().map(|text| text.parse()).collect::<Result<Vec<ServicePattern>, _>>()?;
    let (services, _) = select(systemd, &patterns)
        .map_err(|refused| refused.about(format!("no trial or rollout is called {what}")))?;
    Ok(Source::as_found(store.as_ref(), &services, &patterns)?)
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

fn describe(plan: &WatchPlan, every_minutes: u64) -> String {
    let mut text = format!(
        "watch {} of {} that run {}: {} days, a check every {every_minutes} minutes\n",
        plan.name,
        units::counted(plan.services.len(), "service"),
        plan.arms.join(", "),
        plan.days
    );
    for stratum in &plan.strata {
        let services = units::counted(stratum.services.len(), "service");
        let by =
            stratum.ratio.as_ref().map_or("; how it changes with age is not known".to_owned(), |ratio| {
                let read = units::counted(ratio.services() as usize, "service");
                format!(", by readings of {read} up to an age of {}", units::duration(ratio.last_age()))
            });
        text += &format!("  {services} ({}) are held to what each used before{by}\n", stratum.name);
    }
    let looks: Vec<String> = look_days(plan.days).iter().map(|day| units::duration(day * DAY)).collect();
    text += &format!("  looks after {}\n", looks.join(", "));
    text + &format!("  readings are stored as trial {}\n", stored_name(&plan.name))
}
