//! `heaptrial trial look`: an analysis of a running trial at a time fixed in advance.

use clap::Args;
use heaptrial_allocator::memory_split;
use heaptrial_change::{read_prepared, read_state};
use heaptrial_evaluate::analysis::{Decision, FindingKind};
use heaptrial_evaluate::judgement::look::{self, Gaps, LookState};
use heaptrial_evaluate::judgement::{Options, Rows};
use heaptrial_host::{HostRoot, Instant, Process, ServiceProcesses};
use heaptrial_model::{ErrorClass, MemorySplit, TrialKind, units};
use heaptrial_report::{Document, LookReport};
use heaptrial_store::{LifeRecord, Store, TrialRecord};

use crate::answer::Answer;
use crate::commands::explain::announce;
use crate::commands::host::{Host, NameOptions};
use crate::exit::Failure;
use crate::options::{GlobalOptions, command};
use crate::output::some;

/// Analyse a running trial at a look that its plan fixed in advance
///
/// Takes every planned look that is due and was not taken yet, on the data up to its planned time, and records it. It
/// also reads where the memory is of one running service of each arm on this host, as `heaptrial explain` does. Without
/// a look that is due it prints the last one again. Looks count from when the last service had its treatment.
///
/// An arm differs from the control where its p-value, adjusted for the number of arms (Holm), is at most the error
/// that this look may make; the errors of all looks add up to 5% (Lan and DeMets).
///
/// Exit codes: 0 decided: some arm is shown to differ from the control, at this look or an earlier one, or at the last
/// look all are shown to be within 10% of it. 4 inconclusive: neither. 3 refused: no look is due yet, services have not
/// had their treatment, the readings end long before its time, or the trial ended before it; then nothing is recorded.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct LookOptions {
    #[command(flatten)]
    trial: NameOptions,
    /// Show levels of memory now, without anything that decides: no ratios, intervals, tests or verdicts
    #[arg(long)]
    peek: bool,
    /// Take a look though the last reading is long before its time, the trial ended before it, or services have not had
    /// their treatment; the look says what is missing
    #[arg(long, conflicts_with = "peek")]
    accept_gap: bool,
}

pub fn run(options: &LookOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let host = Host::readable(global)?;
    let name = options.trial.name.as_str();
    // Of a trial of other hosts there is no folder here.
    if let (Ok(prepared), Ok(state)) = (read_prepared(&host.paths, name), read_state(&host.paths, name)) {
        host.require_recorded(&prepared, &state)?;
    }
    let store = Store::open(&host.database)?;
    let trial = find(&store, name)?;
    let now_us = Instant::now().wall_us;
    if options.peek {
        let peek = look::peek(&store, trial.id, now_us, &Options::default())?;
        return Answer::of_report(&LookReport::of_peek(&peek, now_us)?, "", global);
    }
    require_all_hosts(&store, &trial, options)?;
    let gaps = if options.accept_gap { Gaps::Accepted } else { Gaps::Refused };
    match look::state(&store, trial.id, now_us, gaps)? {
        LookState::Taken { last, next_seconds, ended_before } => {
            let next = match (next_seconds, ended_before) {
                (_, Some(number)) => {
                    format!("the trial ended before look {number}, which --accept-gap takes")
                }
                (Some(seconds), None) => format!("the next one is planned in {}", units::duration(seconds)),
                (None, None) => "it was the last one".to_owned(),
            };
            eprintln!("this look was taken before; {next}");
            answer(&[LookReport::stored(&last)?], global)
        }
        LookState::Due(numbers) => {
            drop(store);
            let mut store = Store::open_for_writing(&host.database)?;
            read_splits(&mut store, &trial)?;
            let take = |number: &u32| take(&mut store, &trial, *number, now_us, gaps);
            answer(&numbers.iter().map(take).collect::<Result<Vec<_>, _>>()?, global)
        }
        refused => Err(Failure::refused(why_not(name, refused))),
    }
}

/// Why no look is taken now.
fn why_not(name: &str, state: LookState) -> String {
    match state {
        LookState::NoLooks => format!("the plan of trial `{name}` has no looks; --peek shows what there is"),
        LookState::NotDue { number, at, seconds } => format!(
            "look {number} of trial `{name}` is planned in {}, at {at}; --peek shows levels now and decides nothing",
            units::duration(seconds)
        ),
        LookState::Ended { number, at } => format!(
            "trial `{name}` ended at {at}, before its look {number}; --peek shows levels at its end, and --accept-gap takes its \
             looks on the data until then"
        ),
        LookState::Open(services) => format!(
            "no look of trial `{name}` is taken before all services have their treatment, which {} still lack: {} continues the \
             start, {} excludes a service, and --accept-gap takes the look without them",
            some(services),
            command(format_args!("trial resume {name}")),
            command(format_args!("trial drop {name} SERVICE"))
        ),
        LookState::Taken { .. } | LookState::Due(_) => String::new(),
    }
}

/// Reads where the memory is of the service with the median of each arm that runs here, and records it.
fn read_splits(store: &mut Store, trial: &TrialRecord) -> Result<(), Failure> {
    let root = HostRoot::default();
    let rows = Rows::read(store, trial.id)?;
    let latest = store.latest(trial.id)?;
    for arm in &rows.arms {
        let mut running: Vec<(u64, &LifeRecord)> = rows
            .services
            .iter()
            .filter(|service| service.arm_id == arm.id)
            .filter_map(|service| {
                let latest = latest.iter().find(|latest| latest.service_id == service.id)?;
                let life = rows.lives.iter().find(|life| life.id == latest.life_id)?;
                let key = life.key.as_ref()?;
                let runs = Process::new(&root, key.pid).life_key().is_ok_and(|found| found == *key);
                (runs && life.counts()).then_some((latest.rss_bytes?, life))
            })
            .collect();
        running.sort_by_key(|(bytes, _)| *bytes);
        let Some((bytes, life)) = running.get(running.len() / 2) else { continue };
        let Some(key) = &life.key else { continue };
        announce(key.pid, *bytes);
        if let Some(split) = memory_split(&root, ServiceProcesses::below(key.pid), &[]) {
            let named = MemorySplit::OBSERVATIONS.into_iter().zip(split.parts().map(|bytes| bytes as f64));
            store.observe(life.id, &named.collect::<Vec<_>>())?;
        }
    }
    Ok(())
}

/// A look on a part of the hosts spends the error of one on all.
fn require_all_hosts(store: &Store, trial: &TrialRecord, options: &LookOptions) -> Result<(), Failure> {
    let missing = Rows::read(store, trial.id)?.missing_hosts();
    if missing.is_empty() || options.accept_gap {
        return Ok(());
    }
    Err(Failure::refused(format!(
        "a look is taken once, over all hosts of trial `{}`, and {} has no data of {}. Gather them with `heaptrial export \
         --format heaptrial` there and `heaptrial import heaptrial` here; --accept-gap takes the look without them",
        options.trial.name,
        store.path().display(),
        some(missing.iter().map(|(host, _)| host))
    )))
}

/// Takes a look and records what it shows.
fn take(
    store: &mut Store,
    trial: &TrialRecord,
    number: u32,
    now_us: i64,
    gaps: Gaps,
) -> Result<LookReport, Failure> {
    let accept = "is heaptrial-agent.service active? --accept-gap takes the look on the data that there are, and says so in it";
    let taken = look::take(store, trial.id, number, now_us, gaps, &Options::default())
        .map_err(|error| Failure::from(error).hint(accept))?;
    let findings = &taken.judgement.analysis.findings;
    let missing = findings.iter().find(|finding| finding.kind == FindingKind::DataMissing);
    if let (Gaps::Refused, Some(missing)) = (gaps, missing) {
        return Err(Failure::refused(format!(
            "{}. A look is taken once, over all services: gather these hosts again, or take it without them with --accept-gap",
            missing.evidence
        )));
    }
    let report = LookReport::of(&taken)?;
    taken.record(store, report.record()?)?;
    Ok(report)
}

/// The last trial of this name on services.
fn find(store: &Store, name: &str) -> Result<TrialRecord, Failure> {
    let mut trials = store.trials()?;
    trials.retain(|trial| trial.plan.kind == TrialKind::Field);
    if let Some(index) = trials.iter().rposition(|trial| trial.plan.name == name) {
        return Ok(trials.swap_remove(index));
    }
    let known = some(trials.iter().map(|trial| &trial.plan.name));
    let known = if known.is_empty() { "none" } else { &known };
    let database = store.path().display();
    Err(Failure::refused(format!("{database} has no field trial `{name}`; it has {known}")))
}

/// All looks on a terminal; as JSON the last one, which knows what was shown before.
fn answer(looks: &[LookReport], global: &GlobalOptions) -> Result<Answer, Failure> {
    let Some((last, earlier)) = looks.split_last() else { return Ok(Answer::verbatim("")) };
    let text: String = earlier.iter().map(|look| format!("{}\n", look.terminal(global.screen()))).collect();
    let answer = Answer::of_report(last, "", global)?.after(&text);
    Ok(match last.decision {
        Some(Decision::Inconclusive) => answer.ending(ErrorClass::Inconclusive),
        _ => answer,
    })
}
