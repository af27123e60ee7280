//! `heaptrial import heaptrial`: parts of a trial over several hosts.

use std::path::PathBuf;

use clap::Args;
use heaptrial_exchange::{GatheredPart, PartFile, gather};
use heaptrial_host::Instant;
use heaptrial_model::{TrialName, units};
use heaptrial_store::PartTick;
use serde_json::json;

use super::{database_of, into};
use crate::answer::Answer;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::some;

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

pub fn run(options: &HeaptrialOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let named = options.trial.as_ref().map(TrialName::as_str);
    let name = PartFile::open(&options.files[0])?.trial(named)?.plan.name;
    // It comes from another machine, and names a folder here.
    name.parse::<TrialName>().map_err(|error| Failure::refused(error).about(options.files[0].display()))?;
    let database = database_of(&name, global);
    let mut parts = Vec::new();
    into(&database, |store| {
        for file in &options.files {
            let part = PartFile::open(file)
                .and_then(|file| gather(store, file, named, options.replace, Instant::now().wall_us));
            match part {
                Ok(part) => parts.push(part),
                // What was taken in before stays.
                Err(error) if parts.is_empty() => return Err(Failure::from(error)),
                Err(error) => {
                    let taken = some(parts.iter().map(|part: &GatheredPart| &part.host));
                    return Ok(Err(Failure::from(error).about(format!("{taken} taken in"))));
                }
            }
        }
        Ok(Ok(()))
    })??;
    let as_option = |tick: PartTick| format!("{}@{}", tick.sequence, tick.wall_us);
    let (mut documents, mut text) = (Vec::new(), String::new());
    for part in &parts {
        if let Some(ahead) = part.ahead_seconds {
            eprintln!(
                "warning: {} wrote readings of a time {} from now: the clocks differ, and times of the calendar do not hold",
                part.host,
                units::duration(ahead)
            );
        }
        let since = part.last.map(as_option);
        documents.push(json!({
            "trial": part.trial, "host": part.host, "new_samples": part.new.samples, "new_lives": part.new.lives,
            "new_events": part.new.events, "changed": part.new.changed, "since": since,
            "ahead_seconds": part.ahead_seconds,
        }));
        let new = if part.new.changed { units::count(part.new.samples) } else { "no".to_owned() };
        let next = since.map_or(String::new(), |since| format!("; next with --since {since}"));
        text += &format!("{} of {}: {new} new samples{next}\n", part.trial, part.host);
    }
    let missing = parts.last().map_or(&[][..], |part| part.missing.as_slice());
    if !missing.is_empty() {
        text += &format!("Not here yet: {}\n", missing.join(", "));
    }
    let path = database.display().to_string();
    text += &format!("\n{path}\nNext: heaptrial report {}\n", shell_words::quote(&path));
    let document = json!({ "database": database, "parts": documents, "missing_hosts": missing });
    Ok(Answer::new(document, text))
}
