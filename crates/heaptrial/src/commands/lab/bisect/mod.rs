//! `heaptrial lab bisect`: which release or commit changed the memory.

mod block;
mod record;
mod subject;
mod told;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use heaptrial_bisect::{Next, Rules, Search};
use heaptrial_lab::Arrangement;
use heaptrial_model::{AllocatorSpec, ErrorClass, HumanDuration};
use heaptrial_report::{BisectReport, Document as _};

use self::block::{Measure, Measured};
use self::record::{Kept, Record, Step};
use self::subject::Subject;
use super::search::{
    Bench, Load, Started, TRIES, UNDER_WAY, asked_again, built_otherwise, command_of, ended_by, tell,
    write_plan,
};
use super::{LabCommand, accounting, check, heeding_signals, userland};
use crate::commands::Command;
use crate::commands::value::{ValueError, number};
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;
use crate::run_folder;

const WHAT: &str = "the builds";

/// Options of `lab bisect`.
#[derive(Debug, Args)]
pub struct BisectOptions {
    /// The allocator that is as it should be, such as mimalloc@2.1.7. Settings hold for every build, and are the same in
    /// --bad
    #[arg(long, value_name = "SPEC")]
    good: Option<AllocatorSpec>,
    /// The one that is not; it may be older than --good
    #[arg(long, value_name = "SPEC")]
    bad: Option<AllocatorSpec>,
    /// Search upstream's commits, in a git repository on this machine, bare or not (or a folder that holds it by name), and
    /// build every one from it; without it the releases of the catalog are searched
    #[arg(long, value_name = "DIR")]
    mirror: Option<PathBuf>,
    /// The commit that is good (a revision of --mirror), in place of the one of its release
    #[arg(long, value_name = "REV", requires = "mirror")]
    good_commit: Option<String>,
    /// The commit that is bad
    #[arg(long, value_name = "REV", requires = "mirror")]
    bad_commit: Option<String>,
    /// How sure the answer has to be
    #[arg(long, default_value_t = 0.95, value_name = "P", value_parser = confidence)]
    confidence: f64,
    /// Most blocks, each of which runs the older end and one build [default: 6 for each halving of the history]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(4..=10_000))]
    blocks: Option<u32>,
    /// Go on with a search that ended early, as it was asked for; --blocks gives it more
    #[arg(long = "continue", value_name = "FOLDER",
          conflicts_with_all = ["good", "bad", "mirror", "good_commit", "bad_commit", "confidence"])]
    goes_on: Option<PathBuf>,
    #[command(subcommand)]
    load: Option<Load>,
}

fn confidence(text: &str) -> Result<f64, ValueError> {
    number(text, 0.5..=0.9999, "a probability from 0.5 to 0.9999, such as 0.95")
}

/// Searches, or goes on with it.
pub fn run(options: &BisectOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let Some(folder) = &options.goes_on else { return start(options, global) };
    if options.load.is_some() {
        return Err(Failure::usage(
            "--continue takes everything as it was asked for; leave run or tor and its options out",
        ));
    }
    let kept = Kept::read(folder)?;
    let here = std::env::current_dir().map_err(Failure::failed)?;
    let (command, folder) = asked_again(folder, &kept.started)?;
    let Command::Lab(LabCommand::Bisect(asked)) = command else {
        return Err(Failure::refused(format!("{} holds no search", folder.display())));
    };
    kept.started.enter(asked.load()?.lab(WHAT)?, global, &folder, &here)?;
    let record = Record::open(&folder, record::STEPS)?;
    let blocks = options.blocks.or(asked.blocks);
    search(&asked, &kept, record, blocks, global)
}

fn start(options: &BisectOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let lab = options.load()?.lab(WHAT)?;
    userland::enter(lab, global, options.mirror.as_deref())?;
    if global.db.is_some() {
        return Err(Failure::usage("a search has a database for each block, in its folder; leave --db out"));
    }
    let started = Started::here()?;
    let subject = Subject::find(options)?;
    let (workload, duration) = options.load()?.workload(&subject.plan())?;
    check(lab, &subject.plan(), workload.as_ref(), duration)?;
    run_folder::check(global.out.as_deref())?;
    let in_turn = if workload.arrangement() == Arrangement::OneByOne { 2 } else { 1 };
    let block = duration.map(|duration| HumanDuration(duration.0 * in_turn));
    let rules = rules(options, options.blocks, subject.positions.len());
    if lab.dry_run {
        return told::plan(&subject, rules, block, global);
    }
    lab.place.reach()?;
    eprintln!("{}", told::plan_line(&subject, rules, block));
    // What cannot be had is told before anything is written.
    let of_end = |end: usize| -> Result<String, Failure> {
        let obtained = subject.obtain(end, lab)?;
        obtained.map(|obtained| obtained.sha256).map_err(|why| {
            Failure::refused(format!("{} cannot be measured: {why}", subject.positions[end].name))
        })
    };
    let (older, newer) = (of_end(0)?, of_end(subject.last())?);
    if older == newer {
        return Err(Failure::refused(format!(
            "{} and {} build the same library, byte for byte (SHA-256 {older}): there is nothing to search for between them",
            subject.positions[0].name,
            subject.positions[subject.last()].name
        )));
    }
    let kept = Kept {
        schema_version: record::SCHEMA_VERSION,
        started,
        seed: lab.seed.unwrap_or_else(rand::random),
        older_is_good: subject.older_is_good,
        positions: subject.positions.clone(),
        left_out: subject.left_out,
        forks: subject.forks,
        merged_at: subject.merged_at.clone(),
        older_sha256: older,
    };
    let folder = run_folder::create(global.out.as_deref(), "bisect")?;
    write_plan(&folder, BisectReport::NAME, &kept)?;
    let record = Record::open(&folder, record::STEPS)?;
    eprintln!("seed {}; the search's folder is {}", kept.seed, folder.display());
    search(options, &kept, record, options.blocks, global)
}

impl BisectOptions {
    pub(super) fn load(&self) -> Result<&Load, Failure> {
        Load::asked(self.load.as_ref())
    }
}

fn rules(options: &BisectOptions, blocks: Option<u32>, positions: usize) -> Rules {
    let usual = Rules { confidence: options.confidence, ..Rules::for_history(positions.saturating_sub(1)) };
    Rules { most_blocks: blocks.map_or(usual.most_blocks, |blocks| blocks as usize), ..usual }
}

/// Measures until it is found, and reports what there is.
fn search(
    options: &BisectOptions,
    kept: &Kept,
    mut record: Record,
    blocks: Option<u32>,
    global: &GlobalOptions,
) -> Result<ExitCode, Failure> {
    let lab = options.load()?.lab(WHAT)?;
    let subject = Subject::kept(options, kept)?;
    let (workload, duration) = options.load()?.workload(&subject.plan())?;
    let metric = check(lab, &subject.plan(), workload.as_ref(), duration)?;
    let rules = rules(options, blocks, subject.positions.len());
    let mut search = Search::new(subject.last(), subject.releases(), rules);
    record.steps.iter().for_each(|step| step.apply(&mut search));
    let older = match subject.obtain(0, lab)? {
        Ok(obtained) => obtained,
        Err(why) => {
            return Err(Failure::refused(format!("{} cannot be had: {why}", subject.positions[0].name)));
        }
    };
    if kept.older_sha256 != older.sha256 {
        return Err(built_otherwise(&subject.positions[0].name));
    }
    let measure = Measure {
        bench: Bench {
            options: lab,
            workload: workload.as_ref(),
            duration: duration.map(|duration| duration.0),
            metric,
            accounting: accounting(lab, metric)?,
            place: lab.place.place(record.folder.clone())?,
            interrupt: heeding_signals(lab.place.on)?,
            command: command_of(&kept.started.arguments),
        },
        seed: kept.seed,
        subject: &subject,
    };
    let tell_so_far = |search: &Search, record: &Record| {
        let stopped = Some(UNDER_WAY.to_owned());
        let so_far = search.so_far();
        let report = told::report(&subject, search, so_far, &measure, record, options.confidence, stopped)?;
        report.write(&record.folder).map(drop).map_err(Failure::failed)
    };
    let mut stopped = None;
    let mut failed = None;
    let answer = loop {
        tell_so_far(&search, &record)?;
        let position = match search.next() {
            Next::Done(answer) => break *answer,
            Next::Measure(position) => position,
        };
        let obtained = subject.obtain(position, lab)?;
        // Ctrl-C ends a compiler too: that tells nothing of the commit.
        if measure.bench.interrupt.requested() {
            stopped = Some("It was interrupted".to_owned());
            break search.so_far();
        }
        let obtained = match obtained {
            Ok(obtained) => obtained,
            Err(why) => {
                eprintln!(
                    "{} is left out: {}",
                    subject.positions[position].name,
                    why.lines().next().unwrap_or("")
                );
                record.enter(Step::Skipped { position, why })?.apply(&mut search);
                continue;
            }
        };
        if record.builds().any(|(at, sha256)| at == position && sha256 != obtained.sha256) {
            failed = Some(built_otherwise(&subject.positions[position].name));
            break search.so_far();
        }
        let known = [(0, older.sha256.clone())].into_iter().chain(record.builds());
        if let Some(with) = told::same_build(known, position, &obtained.sha256) {
            record.enter(Step::Same { position, with })?.apply(&mut search);
            continue;
        }
        let measured = match measure.measure(&record, position, &older, &obtained) {
            Ok(measured) => measured,
            Err(failure) => {
                stopped = Some(failure.to_string());
                failed = Some(failure);
                break search.so_far();
            }
        };
        match measured {
            Measured::Ratio(block) => {
                let step = Step::Measured { block, position, sha256: obtained.sha256.clone() };
                record.enter(step)?.apply(&mut search);
                eprintln!("{}", told::progress(&subject, &search, block, position));
            }
            Measured::Failed(block, why) => {
                eprintln!("block {block}: {} failed: {why}", subject.positions[position].name);
                record.enter(Step::Failed { block, position, why: why.clone() })?.apply(&mut search);
                if record.is_given_up(position, &why) {
                    record.enter(Step::Skipped { position, why })?.apply(&mut search);
                }
            }
            Measured::OlderFailed(block, why) => {
                eprintln!("block {block}: {} failed: {why}", subject.positions[0].name);
                record.enter(Step::Failed { block, position: 0, why: why.clone() })?.apply(&mut search);
                if record.failures_in_a_row() >= TRIES {
                    stopped = Some(format!("{} failed: {why}", subject.positions[0].name));
                }
            }
            Measured::Interrupted => stopped = Some("It was interrupted".to_owned()),
        }
        if stopped.is_some() {
            match search.next() {
                Next::Done(answer) => break *answer,
                Next::Measure(_) => break search.so_far(),
            }
        }
    };
    let report =
        told::report(&subject, &search, answer, &measure, &record, options.confidence, stopped.clone())?;
    let told = tell(&report, &record.folder, global);
    if let Some(failure) = failed {
        return Err(ended_by(failure, "bisect", &record.folder));
    }
    told?;
    match stopped {
        Some(why) => Err(Failure::failed(format!(
            "{why}; `heaptrial lab bisect --continue {}` goes on",
            record.folder.display()
        ))),
        None if report.answer.found => Ok(ExitCode::SUCCESS),
        None => Ok(code(ErrorClass::Inconclusive)),
    }
}
