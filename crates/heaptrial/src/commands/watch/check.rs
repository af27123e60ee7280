//! `heaptrial watch check`: looks once, and sends what is new.

use clap::Args;
use heaptrial_evaluate::judgement::{Options, read_fleet};
use heaptrial_fleet::watch::{
    AlertKind, Folder, WatchPlan, WatchState, alert_document, deliver, see, write_metrics,
};
use heaptrial_host::Instant;
use heaptrial_host::systemd::Systemd;
use heaptrial_model::{ErrorClass, units};
use heaptrial_store::Store;
use serde_json::json;

use crate::answer::Answer;
use crate::commands::host::{Host, NameOptions};
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Set where standard output goes to systemd's journal (systemd.exec(5)).
const JOURNAL: &str = "JOURNAL_STREAM";

/// Look once, and report what is new; the timer runs this
///
/// Looks once: at facts (what runs, files, new services, failures, missing readings), and where a look is due at levels
/// and growth. What is new, changed or over is reported once; what stands is counted.
///
/// Exit codes: 0 quiet; 5 alerts stand; 4 the only alerts are that there are no data; 1 it could not be done, or an
/// alert could not be sent to a channel (which is tried again at the next check); 3 there is no such watch.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct CheckOptions {
    #[command(flatten)]
    watch: NameOptions,
}

pub fn run(options: &CheckOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let host = Host::of(global)?;
    host.require_owner("watch check")?;
    let folder = Folder::open(&host.paths.state, options.watch.name.as_str())?;
    let plan = folder.plan()?;
    let mut state = folder.state()?;
    let database = plan.database.as_ref().unwrap_or(&host.database);
    let (store, systemd) = (Store::open(database), Systemd::connect(global.scope()));
    let at = Instant::now().wall_us as f64 / 1e6;
    let mut seen = see(&plan, systemd.as_ref(), store.as_ref(), at);
    let fleet = match (&store, state.due(&plan, at).is_empty()) {
        (Ok(store), false) => read_fleet(store, plan.trial_id, &Options::default())
            .inspect_err(|error| seen.unreadable.push(format!("the look that is due is not taken: {error}")))
            .ok(),
        _ => None,
    };
    state.check(&plan, &seen, fleet.as_ref());
    // On disk before it is sent: a process that is killed in between sends it again, and never forgets it.
    folder.write_state(&state)?;
    // Before anything is sent: a command may take long.
    let unwritten = write_metrics(&plan, &state).err().map(|error| error.to_string());
    let in_journal = std::env::var_os(JOURNAL).is_some();
    // With `--json` the lines would stand between the document's.
    let mut print = |line: &str| if global.json { eprintln!("{line}") } else { println!("{line}") };
    let write = |state: &WatchState| folder.write_state(state);
    let mut failed = deliver(&plan, &mut state, &mut print, in_journal, &write);
    failed.extend(unwritten);
    failed.iter().for_each(|why| eprintln!("warning: {why}"));
    let mut document = document(&plan, &state);
    document["not_sent"] = json!(failed);
    let answer = Answer::new(document, format!("{}\n", summary(&plan, &state)));
    let kinds = || state.standing.values().map(|standing| standing.alert.kind);
    Ok(match () {
        () if !failed.is_empty() => answer.ending(ErrorClass::Failed),
        () if kinds().any(|kind| kind != AlertKind::NoData) => answer.ending(ErrorClass::Alerts),
        () if kinds().next().is_some() => answer.ending(ErrorClass::Inconclusive),
        () => answer,
    })
}

/// `five-way: 2 alerts stand, 3 of 11 looks were taken`.
pub(super) fn summary(plan: &WatchPlan, state: &WatchState) -> String {
    let planned = heaptrial_fleet::watch::look_days(plan.days).len();
    let alerts = match state.standing.len() {
        0 => "quiet".to_owned(),
        1 => "1 alert stands".to_owned(),
        many => format!("{many} alerts stand"),
    };
    format!("{}: {alerts}, {} of {} taken", plan.name, state.looks.len(), units::counted(planned, "look"))
}

pub(super) fn document(plan: &WatchPlan, state: &WatchState) -> serde_json::Value {
    let alerts = state.standing.values().map(|standing| {
        let mut alert = alert_document(plan, &standing.alert);
        alert["since"] = json!(standing.since);
        alert
    });
    let alerts: Vec<_> = alerts.collect();
    json!({
        "watch": plan.name,
        "trial": plan.trial,
        "arms": plan.arms,
        "services": plan.services.iter().map(|own| &own.service).collect::<Vec<_>>(),
        "started_at": plan.started_at,
        "ends_at": plan.ends_at(),
        "checked_at": state.checked_at,
        "looks": state.looks,
        "looks_planned_days": heaptrial_fleet::watch::look_days(plan.days),
        "alerts": alerts,
    })
}
