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
    /// What hosts wrote, or copies of their databases; what follows the last reading that is here is added
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Which trial, where a file has several
    #[arg(long, value_name = "NAME")]
    trial: Option<TrialName>,
    /// Remove what is here of a host before its file is taken in: where its database was lost, or it was installed again
    #[arg(long)]
    replace: bool,
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
        match file.and_then(|file| gather(&mut store, file, named, options.replace, Instant::now().wall_us)) {
            Ok(part) => parts.push(part),
            Err(error) => {
                drop(store);
                if !existed && parts.is_empty() {
                    remove_empty(&database, missing_folder.as_deref());
                }
                let taken: Vec<&str> = parts.iter().map(|part: &GatheredPart| part.host.as_str()).collect();
                let failure = Failure::from(error);
                return Err(match taken.as_slice() {
                    [] => failure,
                    taken => failure.about(format!("{} taken in", taken.join(", "))),
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
    let as_option = |tick: PartTick| format!("{}@{}", tick.sequence, tick.wall_us);
    if global.json {
        let parts_json = parts.iter().map(|part| {
            serde_json::json!({
                "trial": part.trial, "host": part.host, "new_samples": part.new.samples, "new_lives": part.new.lives,
                "new_events": part.new.events, "changed": part.new.changed, "since": part.last.map(as_option),
                "ahead_seconds": part.ahead_seconds,
            })
        });
        let missing = parts.last().map_or(&[][..], |part| part.missing.as_slice());
        let json = serde_json::json!({
            "schema_version": 1, "database": database, "parts": parts_json.collect::<Vec<_>>(), "missing_hosts": missing,
        });
        println!("{json:#}");
        return Ok(ExitCode::SUCCESS);
    }
    for part in &parts {
        let new = match (part.new.changed, part.new.samples + part.new.events + part.new.lives) {
            (false, _) => "nothing new".to_owned(),
            (true, 0) => "no new samples, but the trial or lives are described otherwise there".to_owned(),
            (true, _) => format!("{} new samples", units::count(part.new.samples)),
        };
        let next =
            part.last.map_or_else(String::new, |last| format!("; next with --since {}", as_option(last)));
        println!("{} of {}: {new}{next}", part.trial, part.host);
    }
    if let Some(part) = parts.last().filter(|part| !part.missing.is_empty()) {
        println!("Not here yet: {}", part.missing.join(", "));
    }
    println!("\n{}", database.display());
    println!("Next: heaptrial report {}", shell_words::quote(&database.display().to_string()));
    Ok(ExitCode::SUCCESS)
}
