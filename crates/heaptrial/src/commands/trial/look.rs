//! `heaptrial trial look`: an analysis of a running trial at a time fixed in advance.

use std::process::ExitCode;

use clap::Args;
use heaptrial_change::{read_prepared, read_state};
use heaptrial_evaluate::analysis::{Decision, FindingKind};
use heaptrial_evaluate::judgement::look::{self, Gaps, LookState};
use heaptrial_evaluate::judgement::{Options, Rows};
use heaptrial_host::Instant;
use heaptrial_model::{ErrorClass, TrialKind, TrialName, units};
use heaptrial_report::{Document, LookReport};
use heaptrial_store::{Store, TrialRecord};

use super::{in_database, on_host};
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;

/// Services that a refusal names.
const NAMED: usize = 5;

/// Which trial.
///
/// Takes every planned look that is due and was not taken yet, on the data up to its planned time, and records it.
/// Without one that is due it prints the last one that was taken again. Looks count from when the last service had its
/// treatment.
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
    /// The trial's name
    #[arg(value_name = "NAME")]
    trial: TrialName,
    /// Show levels of memory now, without anything that decides: no ratios, intervals, tests or verdicts
    #[arg(long)]
    peek: bool,
    /// Take a look though the last reading is long before its time, the trial ended before it, or services have not had
    /// their treatment; the look says what is missing
    #[arg(long, conflicts_with = "peek")]
    accept_gap: bool,
}

/// Takes the looks that are due, or prints what there is.
pub fn run(options: &LookOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let paths = global.paths()?;
    on_host::require_readable(&paths, global)?;
    let database = on_host::database(&paths, global);
    // Of a trial of other hosts there is no folder here.
    let name = options.trial.as_str();
    if let (Ok(prepared), Ok(state)) = (read_prepared(&paths, name), read_state(&paths, name)) {
        in_database::refuse_unrecorded(&database, &prepared, &state)?;
    }
    let store = Store::open(&database)?;
    let trial = find(&store, options.trial.as_str())?;
    let now_us = Instant::now().wall_us;
    if options.peek {
        let peek = look::peek(&store, trial.id, now_us, &Options::default()).map_err(Failure::failed)?;
        print(&LookReport::of_peek(&peek, now_us).map_err(Failure::failed)?, global)?;
        return Ok(ExitCode::SUCCESS);
    }
    refuse_missing(&store, trial.id, options)?;
    match look::state(&store, trial.id, now_us, gaps(options)).map_err(Failure::failed)? {
        LookState::NoLooks => Err(Failure::refused(format!(
            "the plan of trial `{}` has no looks; --peek shows what there is",
            options.trial
        ))),
        LookState::NotDue { number, at, seconds } => Err(Failure::refused(format!(
            "look {number} of trial `{}` is planned in {}, at {at}; --peek shows levels now and decides nothing",
            options.trial,
            units::duration(seconds)
        ))),
        LookState::Open(services) => Err(still_open(&options.trial, &services)),
        LookState::Ended { number, at } => Err(Failure::refused(format!(
            "trial `{}` ended at {at}, before its look {number}; --peek shows levels at its end, and --accept-gap takes \
             its looks on the data until then",
            options.trial
        ))),
        LookState::Taken { last, next_seconds, ended_before } => {
            let last = LookReport::stored(&last).map_err(Failure::failed)?;
            print(&last, global)?;
            match (next_seconds, ended_before) {
                (_, Some(number)) => eprintln!(
                    "this look was taken before; the trial ended before look {number}, which --accept-gap takes on the \
                     data until its end"
                ),
                (Some(seconds), None) => {
                    eprintln!(
                        "this look was taken before; the next one is planned in {}",
                        units::duration(seconds)
                    );
                }
                (None, None) => eprintln!("this look was taken before; it was the last one"),
            }
            Ok(exit_code(&last))
        }
        LookState::Due(numbers) => {
            drop(store);
            let mut store = Store::open_for_writing(&database).map_err(Failure::failed)?;
            let mut code = ExitCode::SUCCESS;
            for (index, number) in numbers.iter().enumerate() {
                let taken = take(&mut store, &trial, *number, now_us, options)?;
                // As JSON a single document is printed: the last one, which knows what was shown before.
                if !global.json || index + 1 == numbers.len() {
                    print(&taken, global)?;
                }
                if !global.json && index + 1 < numbers.len() {
                    println!();
                }
                code = exit_code(&taken);
            }
            Ok(code)
        }
    }
}

/// A look on a part of the hosts spends the error of one on all.
fn refuse_missing(store: &Store, trial_id: i64, options: &LookOptions) -> Result<(), Failure> {
    let missing = Rows::read(store, trial_id).map_err(Failure::failed)?.missing_hosts();
    if missing.is_empty() || options.accept_gap {
        return Ok(());
    }
    let hosts: Vec<&str> = missing.iter().map(|(host, _)| host.as_str()).collect();
    Err(Failure::refused(format!(
        "{} has nothing of {}, which are hosts of trial `{}`: a look is taken once, over all of them. Gather them with \
         `heaptrial export --format heaptrial` there and `heaptrial import heaptrial` here, or take it without them with --accept-gap",
        store.path().display(),
        hosts.join(", "),
        options.trial
    )))
}

fn still_open(trial: &TrialName, services: &[String]) -> Failure {
    let told = services.iter().take(NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = services.len().saturating_sub(NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Failure::refused(format!(
        "looks of trial `{trial}` count from when the last of its services has its treatment, and {} not had it yet: {told}{more}. \
         `heaptrial trial resume {trial}` goes on with a start that stopped, `heaptrial trial drop {trial} SERVICE` takes a service out, \
         and --accept-gap takes looks without them",
        if services.len() == 1 { "one has".to_owned() } else { format!("{} have", services.len()) }
    ))
}

fn gaps(options: &LookOptions) -> Gaps {
    if options.accept_gap { Gaps::Accepted } else { Gaps::Refused }
}

/// Takes a look and records what it shows.
fn take(
    store: &mut Store,
    trial: &TrialRecord,
    number: u32,
    now_us: i64,
    options: &LookOptions,
) -> Result<LookReport, Failure> {
    let taken = look::take(store, trial.id, number, now_us, gaps(options), &Options::default())?;
    let findings = &taken.judgement.analysis.findings;
    let missing = findings.iter().find(|finding| finding.kind == FindingKind::ReadingsMissing);
    if let Some(missing) = missing.filter(|_| !options.accept_gap) {
        return Err(Failure::refused(format!(
            "{}. A look is taken once, over all services: gather these hosts again, or take it without them with --accept-gap",
            missing.evidence
        )));
    }
    let report = LookReport::of(&taken).map_err(Failure::failed)?;
    taken.record(store, report.record().map_err(Failure::failed)?).map_err(Failure::failed)?;
    Ok(report)
}

/// The running trial of this name; of several that have ended, the last one.
fn find(store: &Store, name: &str) -> Result<TrialRecord, Failure> {
    let mut trials = store.trials().map_err(Failure::failed)?;
    trials.retain(|trial| trial.plan.kind == TrialKind::Field);
    let named = |trial: &TrialRecord| trial.plan.name == name;
    let running = trials.iter().rposition(|trial| named(trial) && trial.ended_wall_us.is_none());
    match running.or_else(|| trials.iter().rposition(named)) {
        Some(index) => Ok(trials.swap_remove(index)),
        None => {
            let known: Vec<&str> = trials.iter().map(|trial| trial.plan.name.as_str()).collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            Err(Failure::refused(format!(
                "{} has no field trial `{name}`; it has {known}",
                store.path().display()
            )))
        }
    }
}

fn exit_code(look: &LookReport) -> ExitCode {
    match look.decision {
        Some(Decision::Inconclusive) => code(ErrorClass::Inconclusive),
        _ => ExitCode::SUCCESS,
    }
}

fn print(look: &LookReport, global: &GlobalOptions) -> Result<(), Failure> {
    match global.json {
        true => print!("{}", look.json().map_err(Failure::failed)?),
        false => print!("{}", look.terminal(global.colored_stdout())),
    }
    Ok(())
}
