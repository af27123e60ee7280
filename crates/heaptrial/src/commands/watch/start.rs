//! `heaptrial watch start`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use heaptrial_allocator::Expected;
use heaptrial_analysis::{Fleet, Forecast, Settings};
use heaptrial_host::systemd::Systemd;
use heaptrial_host::{HostRoot, Paths, host_name};
use heaptrial_inspect::named;
use heaptrial_judgement::{Options, read_fleet};
use heaptrial_model::{HumanDuration, ServiceName, ServicePattern, TrialName, units};
use heaptrial_rollout::{Evidence, Stratum, Verdict, Whole, settings_of, strata};
use heaptrial_store::Store;
use heaptrial_watch::{
    Channels, Elsewhere, FailuresBefore, HostContent, Limits, Proposal, Request, Source, begin, check_hook,
    failures_before, look_days, propose, stored_name,
};
use serde_json::json;

use crate::commands::rollout::host_now;
use crate::commands::trial::on_host;
use crate::commands::value::{ValueError, number};
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::target::Target;

/// What is said about ages and memory in a start.
const DAY: f64 = 86_400.0;

/// What is watched, and how alerts are told.
#[derive(Debug, Args)]
pub struct StartOptions {
    /// The trial, rollout or adoption whose services keep a treatment
    #[arg(value_name = "NAME")]
    name: TrialName,
    /// The arm whose services are watched and whose forecast is taken [default: the one that most services run]
    #[arg(long)]
    arm: Option<String>,
    /// Take the forecast from another trial or an import: by name, or a database [default: from NAME's own readings]
    #[arg(long, value_name = "TRIAL|FILE")]
    forecast: Option<String>,
    /// Which arm of it [default: the one called like the arm that is watched]
    #[arg(long, value_name = "ARM", requires = "forecast")]
    forecast_arm: Option<String>,
    /// Take the forecast from what a trial elsewhere found, as `heaptrial trial verdict` wrote it
    #[arg(long, value_name = "FILE", conflicts_with = "forecast")]
    verdict: Option<PathBuf>,
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
    /// Services that belong to the trial, to find new ones [default: the templates of its services]
    #[arg(long = "services", value_name = "PATTERN", num_args = 1..)]
    patterns: Vec<ServicePattern>,
    /// Time between checks, whole minutes
    #[arg(long, value_name = "DURATION", default_value = "15m", value_parser = every)]
    every: u64,
    /// Without a reading for so long a service has no data
    #[arg(long, value_name = "DURATION", default_value = "15m")]
    no_data_after: HumanDuration,
    /// Memory less than this many percent above the forecast is never alerted
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0, value_parser = percent)]
    level_margin: f64,
    /// Growth of less than this many percent a day is never alerted
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5, value_parser = percent)]
    stable_margin: f64,
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

fn percent(text: &str) -> Result<f64, ValueError> {
    number(text.trim_end_matches('%'), 0.0..=100.0, "0 to 100 percent")
}

pub fn run(options: &StartOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let channels = channels(options)?;
    if !options.dry_run {
        on_host::require_root("watch start")?;
    }
    let paths = Paths::default();
    let database = on_host::database(&paths, global);
    let request = Request {
        name: options.name.as_str().to_owned(),
        days: options.days,
        every_minutes: options.every,
        patterns: options.patterns.clone(),
        limits: Limits {
            level_share: options.level_margin / 100.0,
            growth_per_day: options.stable_margin / 100.0,
            no_data_seconds: options.no_data_after.0.as_secs_f64(),
            ..Limits::default()
        },
        channels,
        database: global.db.clone(),
    };
    let systemd = global.systemd()?;
    let store = Store::open(&database)?;
    let source = Source::find(&store, &systemd, &paths, &request.name, options.arm.as_deref())?;
    let elsewhere = elsewhere(options, &source, &systemd, global)?;
    let fleet = read_fleet(&store, source.trial_id(), &Options::default())?;
    if elsewhere.is_none() {
        warn_of_unlike(&fleet, source.arm(), &source);
    }
    let proposal = propose(&request, source, elsewhere, &fleet, &paths)?;
    drop(store);
    let watched = proposal.plan.services.iter().map(|watched| &watched.service);
    let name = &proposal.plan.name;
    on_host::refuse_claimed(&paths, name, name, watched.chain(&proposal.plan.others))?;
    for (service, why) in &proposal.left_out {
        eprintln!("warning: {service} is left out, since it does not run what its arm wants: {why}");
    }
    on_host::warn_of_agent(&systemd);
    let known = proposal.plan.compared_up_to();
    let oldest = oldest(&fleet, proposal.plan.services.iter().map(|watched| watched.service.as_str()));
    if known < oldest + options.days * DAY {
        eprintln!(
            "warning: the trial saw its services up to an age of {}; levels of services older than {} cannot be compared \
             with its forecast{}",
            units::duration(proposal.plan.forecast.last_age()),
            units::duration(known),
            match oldest >= DAY {
                true => format!(", and the oldest is {} old now", units::duration(oldest)),
                false => String::new(),
            }
        );
    }
    if options.dry_run {
        return dry_run(&proposal, options.every, global);
    }
    let what = format!(
        "This watches {} for {} days and installs a timer.",
        units::counted(proposal.plan.services.len(), "service"),
        options.days
    );
    on_host::confirm(&what, options.yes)?;
    let mut store = Store::create(&database).map_err(Failure::failed)?;
    let files = proposal.files.clone();
    let plan = begin(proposal, &mut store, &systemd, &paths).map_err(|error| {
        Failure::from(error).about(format!(
            "the watch was not started; `heaptrial watch stop {}` removes what there is of it",
            options.name.as_str()
        ))
    })?;
    if global.json {
        println!("{:#}", json!({ "schema_version": 1, "plan": plan }));
        return Ok(ExitCode::SUCCESS);
    }
    describe(&plan, options.every);
    for file in &files {
        println!("installed {}", file.path.display());
    }
    println!("`heaptrial watch status {}` tells how it goes", plan.name);
    Ok(ExitCode::SUCCESS)
}

/// Age of the oldest of these services now, in seconds; 0 where none was read.
fn oldest<'a>(fleet: &Fleet, services: impl Iterator<Item = &'a str>) -> f64 {
    let now = heaptrial_host::Instant::now().wall_us as f64 / 1e6;
    let names: BTreeSet<&str> = services.collect();
    let own = fleet.services.iter().filter(|service| names.contains(service.name.as_str()));
    own.filter_map(|service| Some(now - service.current()?.started_at)).fold(0.0, f64::max)
}

/// The forecast that was asked for from elsewhere.
fn elsewhere(
    options: &StartOptions,
    source: &Source,
    systemd: &Systemd,
    global: &GlobalOptions,
) -> Result<Option<Elsewhere>, Failure> {
    if let Some(named) = &options.forecast {
        let arm = options.forecast_arm.as_deref().unwrap_or(source.arm());
        return of_trial(named, arm, source, global).map(Some);
    }
    options.verdict.as_ref().map(|file| of_verdict(file, source, systemd)).transpose()
}

fn of_trial(named: &str, arm: &str, source: &Source, global: &GlobalOptions) -> Result<Elsewhere, Failure> {
    let Target { store, trial, .. } = Target::find(Some(named), global)?;
    let fleet = read_fleet(&store, trial.id, &Options::default())?;
    let forecast = Forecast::of_arm(&fleet, &Settings::default(), arm).map_err(|error| {
        let known: Vec<&str> = fleet.arms.iter().map(|arm| arm.name.as_str()).collect();
        Failure::refused(format!(
            "`{}` gives no forecast of arm `{arm}`: {error}. Its arms are {}; --forecast-arm names one",
            trial.plan.name,
            known.join(", ")
        ))
    })?;
    warn_of_unlike(&fleet, arm, source);
    let from = format!("arm {arm} of {}", trial.plan.name);
    let measured = store.arms(trial.id)?.into_iter().find(|record| record.arm.name == arm);
    let measured = measured.and_then(|record| serde_json::from_value::<Expected>(record.obtained?).ok());
    if let (Some(runs), Some(measured)) = (source.expected(), measured) {
        for difference in whole(&runs).differences(&whole(&measured)) {
            eprintln!("warning: the forecast of {from} is of something else: {difference}");
        }
    }
    // Others than Heaptrial record no failures.
    let failures = match trial.plan.kind.is_import() {
        true => FailuresBefore::default(),
        false => failures_before(&fleet, arm),
    };
    Ok(Elsewhere { forecast, metric: trial.plan.metric, from, failures })
}

/// A watch has one forecast, whose spread over services that are unlike is their difference.
fn warn_of_unlike(fleet: &Fleet, arm: &str, source: &Source) {
    let (names, relays) = names(source);
    let is_relay = |name: &str| relays.contains(name);
    let strata = strata(fleet, arm, &names, &is_relay);
    if let Some(warning) = unlike(&strata) {
        eprintln!("warning: {warning}");
    }
}

/// What is to be said of services of several kinds.
fn unlike(strata: &[Stratum]) -> Option<String> {
    let of = |stratum: &Stratum| format!("{}: {}", stratum.name, stratum.services.len());
    let kinds: Vec<String> = strata.iter().map(of).collect();
    (kinds.len() > 1).then(|| {
        format!(
            "the watched services are of several kinds ({}), and a watch has one forecast of all: where they use unlike memory, even \
             twice as much may not be alerted as a level; growth, failures and all else are",
            kinds.join(", ")
        )
    })
}

/// The watched services, and which are relays.
fn names(source: &Source) -> (Vec<ServiceName>, BTreeSet<String>) {
    let names = source.services().map(|(name, _)| name.clone()).collect();
    let relays = source.services().filter(|(_, relay)| *relay).map(|(name, _)| name.to_string()).collect();
    (names, relays)
}

/// A treatment as far as what processes run tells it.
fn whole(expected: &Expected) -> Whole {
    Whole {
        library: expected.object.as_ref().map(|_| expected.sha256.clone()),
        settings: settings_of(&expected.settings),
        ..Whole::default()
    }
}

fn of_verdict(file: &Path, source: &Source, systemd: &Systemd) -> Result<Elsewhere, Failure> {
    let (verdict, _) = Verdict::read(file, None)?;
    // Options of Tor and restarts are of the service, and not seen in what its process runs.
    let proved = |proved: &Whole| Whole {
        library: proved.library.clone(),
        settings: proved.settings.clone(),
        ..Whole::default()
    };
    let watched: Vec<ServiceName> = source.services().map(|(name, _)| name.clone()).collect();
    let here = host_now(&named(systemd, &watched).map_err(Failure::failed)?)?;
    let measured: Vec<Whole> = verdict.proved_like(&here).into_iter().map(proved).collect();
    let runs = source.expected().as_ref().map(whole);
    let of = || format!("arm `{}` of trial `{}`", verdict.arm.name, verdict.trial);
    if let Some(runs) = runs {
        if let Evidence::Other { differences, .. } = runs.evidence(measured.iter().map(|own| (of(), own))) {
            return Err(Failure::refused(format!(
                "{} says what {} needs, and the services run something else: {}",
                file.display(),
                of(),
                differences.join("; ")
            )));
        }
    }
    for difference in verdict.differences(&here) {
        eprintln!("warning: the forecast is of hosts unlike this one: {difference}");
    }
    let (names, relays) = names(source);
    let host = host_name(&HostRoot::default()).map_err(Failure::failed)?;
    let strata = verdict.strata(&host, &names, &|name| relays.contains(name));
    let mut with = strata.iter().filter(|stratum| !stratum.services.is_empty());
    match (with.next(), with.next()) {
        (Some(Stratum { forecast: Some(forecast), .. }), None) => Ok(Elsewhere {
            forecast: forecast.clone(),
            metric: verdict.metric,
            from: format!("arm {} of {}", verdict.arm.name, verdict.trial),
            // A verdict tells of none.
            failures: FailuresBefore::default(),
        }),
        _ => {
            let why = |stratum: &Stratum| {
                let why = stratum.why_not.as_deref().unwrap_or("it has a forecast of its own");
                format!("{}: {why}", stratum.name)
            };
            Err(Failure::refused(format!(
                "{} has no one forecast for these services ({}); a watch has one: watch services of one kind, or take --forecast",
                file.display(),
                strata.iter().map(why).collect::<Vec<_>>().join("; ")
            )))
        }
    }
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
    for file in &proposal.files {
        println!("would install {}", file.path.display());
        if let HostContent::Text(text) = &file.content {
            text.lines().filter(|line| !line.is_empty()).for_each(|line| println!("    {line}"));
        }
    }
    println!("nothing was changed");
    Ok(ExitCode::SUCCESS)
}

fn describe(plan: &heaptrial_watch::WatchPlan, every_minutes: u64) {
    let forecast = &plan.forecast;
    println!(
        "watch of {} after {}: arm {}, {} days, a check every {every_minutes} minutes",
        units::counted(plan.services.len(), "service"),
        plan.name,
        plan.arm,
        plan.days
    );
    println!(
        "  forecast from {}{}, observed up to an age of {}",
        units::counted(forecast.services() as usize, "service"),
        plan.forecast_from.as_ref().map(|from| format!(" of {from}")).unwrap_or_default(),
        units::duration(forecast.last_age())
    );
    if let Some(level) = forecast.at(forecast.last_age(), 0.95) {
        println!(
            "  at that age a service uses {} ({} to {}, 95%)",
            units::memory(level.median_bytes),
            units::memory(level.low_bytes),
            units::memory(level.high_bytes)
        );
    }
    let looks: Vec<String> = look_days(plan.days).iter().map(|day| units::duration(day * DAY)).collect();
    println!("  looks after {}", looks.join(", "));
    println!("  readings are stored as trial {}", stored_name(&plan.name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_of_several_kinds_are_warned_of() {
        let stratum = |name: &str| Stratum {
            name: name.to_owned(),
            services: vec!["web@a.service".parse().unwrap()],
            forecast: None,
            why_not: None,
        };
        let (small, large) = (stratum("web@* of about 378 MiB"), stratum("web@* of about 3.0 GiB"));
        assert_eq!(unlike(std::slice::from_ref(&small)), None);
        let told = unlike(&[small, large]).unwrap();
        assert!(told.contains("(web@* of about 378 MiB: 1, web@* of about 3.0 GiB: 1)"), "{told}");
    }
}
