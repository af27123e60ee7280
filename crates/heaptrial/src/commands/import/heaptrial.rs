//! `heaptrial import heaptrial`: parts of a trial over several hosts.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use heaptrial_exchange::{GatherError, GatheredPart, PartFile, gather};
use heaptrial_host::Instant;
use heaptrial_model::{TrialName, units};
use heaptrial_store::{PartTick, Store};

use super::{database_of, make_folder, remove_empty};
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// The files.
#[derive(Debug, Args)]
pub struct HeaptrialOptions {
    /// What hosts wrote, or copies of their databases; what is here already stays as it is
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Which trial, where a file has several
    #[arg(long, value_name = "NAME")]
    trial: Option<TrialName>,
}

pub fn run(options: &HeaptrialOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let named = options.trial.as_ref().map(TrialName::as_str);
    let refused = |error: GatherError| Failure::from(error);
    let first = PartFile::open(&options.files[0]).map_err(refused)?;
    let name = first.trial(named).map_err(refused)?.plan.name;
    // It comes from another machine, and names a folder here.
    name.parse::<TrialName>()
        .map_err(|error| Failure::refused(error).about(options.files[0].display().to_string()))?;
    let database = database_of(&name, global);
    let missing_folder = make_folder(&database)?;
    let existed = database.exists();
    let mut store = Store::create(&database).map_err(Failure::refused)?;
    let mut parts = Vec::new();
    let rest = options.files[1..].iter().map(|file| PartFile::open(file));
    for file in std::iter::once(Ok(first)).chain(rest) {
        match file.and_then(|file| gather(&mut store, file, named, Instant::now().wall_us)) {
            Ok(part) => parts.push(part),
            Err(error) => {
                drop(store);
                if !existed && parts.is_empty() {
                    remove_empty(&database, missing_folder.as_deref());
                }
                let told: Vec<&str> = parts.iter().map(|part: &GatheredPart| part.host.as_str()).collect();
                let failure = Failure::from(error);
                return Err(match told.as_slice() {
                    [] => failure,
                    told => failure.about(format!("{} taken in", told.join(", "))),
                });
            }
        }
    }
    drop(store);
    for part in parts.iter().filter(|part| part.ahead_seconds.is_some()) {
        eprintln!(
            "warning: {} wrote readings of a time {} from now: the clocks differ, and ages hold, but times of the calendar do not",
            part.host,
            units::duration(part.ahead_seconds.unwrap_or_default())
        );
    }
    for part in parts.iter().filter(|part| part.new.anew) {
        eprintln!(
            "warning: {} has recorded the trial anew: its database was lost, or it was installed again; what was gathered \
             before stays",
            part.host
        );
    }
    let told = |tick: PartTick| format!("{}@{}", tick.sequence, tick.wall_us);
    if global.json {
        let parts_told = parts.iter().map(|part| {
            serde_json::json!({
                "trial": part.trial, "host": part.host, "new_samples": part.new.samples, "new_lives": part.new.lives,
                "new_events": part.new.events, "changed": part.new.changed, "anew": part.new.anew, "since": part.last.map(told),
                "ahead_seconds": part.ahead_seconds,
            })
        });
        let missing = parts.last().map_or(&[][..], |part| part.missing.as_slice());
        let json = serde_json::json!({
            "schema_version": 1, "database": database, "parts": parts_told.collect::<Vec<_>>(), "missing_hosts": missing,
        });
        println!("{json:#}");
        return Ok(ExitCode::SUCCESS);
    }
    for part in &parts {
        let new = match (part.new.changed, part.new.samples + part.new.events + part.new.lives) {
            (false, _) => "nothing new".to_owned(),
            (true, 0) => "no new samples; what is told of the trial or of lives there is another".to_owned(),
            (true, _) => format!("{} new samples", units::count(part.new.samples)),
        };
        let next = part.last.map_or_else(String::new, |last| format!("; next with --since {}", told(last)));
        println!("{} of {}: {new}{next}", part.trial, part.host);
    }
    if let Some(part) = parts.last().filter(|part| !part.missing.is_empty()) {
        println!("Not here yet: {}", part.missing.join(", "));
    }
    println!("\n{}", database.display());
    println!("Next: heaptrial report {}", shell_words::quote(&database.display().to_string()));
    Ok(ExitCode::SUCCESS)
}
