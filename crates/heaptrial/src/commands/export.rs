//! `heaptrial export`: a trial's samples in formats of other tools.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use heaptrial_exchange::{ExportError, export, host_of, pack};
use heaptrial_host::Instant;
use heaptrial_model::units;
use heaptrial_store::PartTick;
use serde_json::json;

use crate::answer::Answer;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::stream_whole;
use crate::target::Target;

#[derive(Debug, Args)]
pub struct ExportOptions {
    /// A run's folder, a database, or a trial of the database; without it the newest
    trial: Option<String>,
    /// The form of the file
    #[arg(long, value_enum)]
    format: Format,
    /// Into this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only what came after this tick, NUMBER@TIME as `heaptrial import heaptrial` prints it; everything, where this
    /// database does not have that tick
    #[arg(long, value_name = "TICK", value_parser = tick)]
    since: Option<PartTick>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// CSV: a row per sample with every reading, in the columns of the Tor operators' scripts and others
    Csv,
    /// A database of its own, for `heaptrial import heaptrial`: a host's part of a trial over several hosts
    Heaptrial,
}

pub fn run(options: &ExportOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let target = Target::find(options.trial.as_deref(), global)?;
    if matches!(options.format, Format::Heaptrial) {
        return part(options, &target);
    }
    if options.since.is_some() {
        return Err(Failure::usage("--since goes with --format heaptrial"));
    }
    if global.json && options.output.is_none() {
        return Err(Failure::usage("--json reports what was written; name the file with --output"));
    }
    warn_of_excluded(&target)?;
    let Some(path) = &options.output else {
        let mut writer = BufWriter::new(io::stdout());
        let written = export(&target.store, target.trial.id, &mut writer).and_then(|_| Ok(writer.flush()?));
        return match written {
            // A reader that closes the pipe early (`heaptrial export ... | head`) is no error.
            Err(ExportError::Write(error)) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Failure::failed(error))
            }
            Err(error @ ExportError::Store(_)) => Err(error.into()),
            _ => Ok(Answer::verbatim("")),
        };
    };
    let samples = stream_whole(path, |file| Ok(export(&target.store, target.trial.id, file)?))?;
    let text = format!("{}: {samples} samples\n", path.display());
    Ok(Answer::new(json!({ "file": path, "samples": samples }), text))
}

/// Means of arms would take these in.
fn warn_of_excluded(target: &Target) -> Result<(), Failure> {
    let lives = target.store.lives(target.trial.id)?;
    let contaminated = lives.iter().filter(|life| life.contamination.is_some()).count();
    let dropped = target.store.dropped_services(target.trial.id)?.len();
    if contaminated + dropped > 0 {
        eprintln!(
            "warning: the file also has what reports exclude: {} without the treatment of their arm, which `contaminated` marks, and \
             readings of {} from after it was taken out of the trial",
            units::counted(contaminated, "process lifetime"),
            units::counted(dropped, "service")
        );
    }
    Ok(())
}

/// A number and microseconds since 1970.
fn tick(text: &str) -> Result<PartTick, String> {
    let parse = || {
        let (sequence, wall_us) = text.split_once('@')?;
        Some(PartTick { sequence: sequence.parse().ok()?, wall_us: wall_us.parse().ok()? })
    };
    parse().ok_or_else(|| "expected NUMBER@TIME, such as 4711@1767225600000000".to_owned())
}

fn part(options: &ExportOptions, target: &Target) -> Result<Answer, Failure> {
    let Some(path) = &options.output else {
        return Err(Failure::usage("a database is no stream; name a file with --output"));
    };
    let failed = |error: io::Error| Failure::failed(format!("cannot write {}: {error}", path.display()));
    let host = host_of(&target.store, target.store.path(), &target.trial)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let beside = tempfile::Builder::new().prefix(".heaptrial").tempdir_in(folder).map_err(failed)?;
    let file = beside.path().join("part.db");
    let now_us = Instant::now().wall_us;
    let known = target.store.write_part(target.trial.id, &host, options.since, &file, now_us)?;
    if !known {
        eprintln!("this database does not have that tick (it may be a new one): everything is written");
    }
    let packed = beside.path().join("packed");
    pack(&file, &packed).map_err(failed)?;
    std::fs::rename(&packed, path).map_err(failed)?;
    let bytes = std::fs::metadata(path).map_err(failed)?.len();
    let trial = &target.trial.plan.name;
    let text = format!("{}: trial {trial} of {host}, {}\n", path.display(), units::memory(bytes as f64));
    let document =
        json!({ "file": path, "trial": trial, "host": host, "bytes": bytes, "since_known": known });
    Ok(Answer::new(document, text))
}
