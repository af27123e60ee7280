//! `heaptrial watch status`: looks, alerts and what to do.

use std::time::Duration;

use heaptrial_evaluate::analysis::Estimate;
use heaptrial_fleet::watch::{
    Folder, LookResult, WatchPlan, WatchState, advice, look_days, names, timer_faults,
};
use heaptrial_host::systemd::Systemd;
use heaptrial_host::{Instant, Scope};
use heaptrial_model::units;
use serde_json::json;

use super::check::{document, summary};
use crate::answer::Answer;
use crate::commands::host::standing::{Problem, Status};
use crate::commands::host::{Host, StatusOptions};
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::interval;

const DAY: f64 = 86_400.0;
const SYSTEMD_LIMIT: Duration = Duration::from_secs(5);

pub fn run(options: &StatusOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let host = Host::readable(global)?;
    if let Some(name) = &options.name {
        return Ok(status(&host, name.as_str())?.answer());
    }
    let all =
        names(&host.paths.state).iter().map(|name| status(&host, name)).collect::<Result<Vec<_>, _>>()?;
    let none = "no watch on this host; `heaptrial watch start NAME` begins one";
    Ok(Status::list("watches", &all, &[], none))
}

fn status(host: &Host<'_>, name: &str) -> Result<Status, Failure> {
    let folder = Folder::open(&host.paths.state, name)?;
    let (plan, state) = (folder.plan()?, folder.state()?);
    let now = Instant::now().wall_us as f64 / 1e6;
    let faults = if now < plan.ends_at() { faults(&plan) } else { Vec::new() };
    let mut document = document(&plan, &state);
    document["timer_faults"] = json!(faults);
    let fault = |what| Problem::grave("timer", None, what);
    let alert = |standing: &heaptrial_fleet::watch::Standing| {
        let (alert, since) = (&standing.alert, units::duration(now - standing.since));
        let what = format!("for {since}: {}; {}", alert.text(), advice(&plan, alert));
        Problem::note(alert.kind.as_str(), None, what)
    };
    Ok(Status {
        headline: summary(&plan, &state),
        detail: detail(&plan, &state, now),
        document,
        problems: faults.into_iter().map(fault).chain(state.standing.values().map(alert)).collect(),
    })
}

/// Why no check of a watch comes by itself; nothing where systemd cannot be asked.
fn faults(plan: &WatchPlan) -> Vec<String> {
    let Ok(systemd) = Systemd::connect_with_limit(Scope::System, SYSTEMD_LIMIT) else { return Vec::new() };
    timer_faults(plan, &systemd).unwrap_or_else(|error| vec![error.to_string()])
}

fn detail(plan: &WatchPlan, state: &WatchState, now: f64) -> String {
    let services = units::counted(plan.services.len(), "service");
    let elapsed = units::duration(now - plan.started_at);
    let checked = state
        .checked_at
        .map_or("no check yet".to_owned(), |at| format!("last check {} ago", units::duration(now - at)));
    let next = look_days(plan.days).into_iter().map(|day| plan.started_at + day * DAY).find(|at| *at > now);
    let next = next.map_or_else(
        || format!("it is over; `heaptrial watch stop {}` ends it", plan.name),
        |at| format!("next look in {}", units::duration(at - now)),
    );
    let arms = plan.arms.join(", ");
    let mut text = format!("  {arms}, {services}, {elapsed} of {} days\n  {checked}\n  {next}\n", plan.days);
    state.looks.iter().for_each(|look| text += &look_lines(look));
    text
}

fn look_lines(look: &LookResult) -> String {
    let level = look
        .level_ratio
        .map_or("no level".to_owned(), |ratio| format!("level {ratio:.2} of what is expected"));
    let growth = |(arm, growth): (&String, &Estimate)| {
        let interval = interval(growth.interval(), units::share);
        format!(", {arm} grows by {} a day{interval}", units::share(growth.value))
    };
    let growth: String = look.growth_per_day.iter().map(growth).collect();
    let untested: String = look.untested.iter().map(|what| format!("    not tested: {what}\n")).collect();
    let (day, levels, services) = (look.day, look.levels, look.services);
    format!("  look of day {day}: {levels} of {services} services, {level}{growth}\n{untested}")
}
