//! `heaptrial watch status`.

use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use heaptrial_fleet::watch::{Folder, WatchPlan, WatchState, advice, look_days, names, timer_faults};
use heaptrial_host::systemd::Systemd;
use heaptrial_host::{Instant, Paths, Scope};
use heaptrial_model::{ErrorClass, TrialName, units};
use serde_json::json;

use super::check::{document, summary};
use crate::commands::trial::on_host;
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;

const DAY: f64 = 86_400.0;
const SYSTEMD_LIMIT: Duration = Duration::from_secs(5);

/// Which watch.
#[derive(Debug, Args)]
pub struct StatusOptions {
    /// Its name; without it all watches of this host in a line each
    #[arg(value_name = "NAME")]
    name: Option<TrialName>,
}

pub fn run(options: &StatusOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let paths = Paths::default();
    on_host::require_readable(&paths, global)?;
    let wanted = match &options.name {
        Some(name) => vec![name.as_str().to_owned()],
        None => names(&paths.state),
    };
    let mut documents = Vec::new();
    let mut well = true;
    for name in &wanted {
        let folder = Folder::open(&paths.state, name)?;
        let (plan, state) = (folder.plan()?, folder.state()?);
        let faults = unattended(&plan);
        well &= faults.is_empty();
        if global.json {
            let mut document = document(&plan, &state, &[]);
            document["timer_faults"] = json!(faults);
            documents.push(document);
        } else if options.name.is_none() {
            println!("{}", summary(&plan, &state));
        } else {
            print(&plan, &state);
        }
        for fault in faults.iter().filter(|_| !global.json) {
            println!("{name}: no check comes by itself: {fault}");
        }
    }
    if global.json {
        match documents.as_slice() {
            [document] if options.name.is_some() => println!("{document:#}"),
            documents => println!("{:#}", json!({ "schema_version": 1, "watches": documents })),
        }
    } else if wanted.is_empty() {
        println!("no watch on this host; `heaptrial watch start NAME` begins one");
    }
    Ok(if well { ExitCode::SUCCESS } else { code(ErrorClass::Failed) })
}

/// Why no check of a watch comes by itself; nothing where that is over, or where systemd cannot be asked.
fn unattended(plan: &WatchPlan) -> Vec<String> {
    let is_over = Instant::now().wall_us as f64 / 1e6 >= plan.ends_at();
    let systemd = Systemd::connect_with_limit(Scope::System, SYSTEMD_LIMIT);
    let Some(systemd) = systemd.ok().filter(|_| !is_over) else { return Vec::new() };
    timer_faults(plan, &systemd).unwrap_or_else(|error| vec![error.to_string()])
}

fn print(plan: &WatchPlan, state: &WatchState) {
    let now = Instant::now().wall_us as f64 / 1e6;
    println!("{}", summary(plan, state));
    let services = units::counted(plan.services.len(), "service");
    let elapsed = units::duration(now - plan.started_at);
    println!("  {}, {services}, {elapsed} of {} days", plan.arms.join(", "), plan.days);
    match state.checked_at {
        Some(at) => println!("  last check {} ago", units::duration(now - at)),
        None => println!("  no check yet"),
    }
    let next = look_days(plan.days).into_iter().find(|day| plan.started_at + day * DAY > now);
    match next {
        Some(day) => println!("  next look in {}", units::duration(plan.started_at + day * DAY - now)),
        None => println!("  it is over; `heaptrial watch stop {}` ends it", plan.name),
    }
    for look in &state.looks {
        let level = look
            .level_ratio
            .map_or("no level".to_owned(), |ratio| format!("level {ratio:.2} of what is expected"));
        let growth = look.growth_per_day.iter().map(|(arm, growth)| {
            let interval = growth.interval().map(|(low, high)| (units::share(low), units::share(high)));
            let interval = interval.map(|(low, high)| format!(" ({low} to {high})")).unwrap_or_default();
            format!(", {arm} grows by {} a day{interval}", units::share(growth.value))
        });
        let growth: String = growth.collect();
        println!(
            "  look of day {}: {} of {} services, {level}{growth}",
            look.day, look.levels, look.services
        );
        look.untested.iter().for_each(|what| println!("    not tested: {what}"));
    }
    for standing in state.standing.values() {
        let alert = &standing.alert;
        println!(
            "{}, for {}: {}\n    {}",
            alert.kind.as_str(),
            units::duration(now - standing.since),
            alert.text(),
            advice(plan, alert)
        );
    }
}
