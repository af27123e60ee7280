//! `heaptrial rollout judge`: what a gate would say now, of this host or of several together.

use std::path::{Path, PathBuf};

use clap::Args;
use heaptrial_change::edges::ThisHost;
use heaptrial_change::{read_prepared, read_state};
use heaptrial_fleet::rollout::{Gate, Judged, Outcome, Progress, judge_now, paused, pool, read_plan};
use heaptrial_host::Instant;
use heaptrial_model::{ErrorClass, TrialName};
use serde_json::{Value, json};

use super::observe::Watcher;
use super::status::course;
use crate::answer::Answer;
use crate::commands::host::Host;
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// A file of this name is standard input.
const STANDARD_INPUT: &str = "-";

#[derive(Debug, Args)]
pub struct JudgeOptions {
    /// The rollout's name on this host
    #[arg(value_name = "NAME", required_unless_present = "hosts")]
    rollout: Option<TrialName>,
    /// Judge hosts together by what `heaptrial rollout judge NAME --json` printed on each of them: a file of each, or one with a
    /// list of them; `-` for standard input
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with = "rollout")]
    hosts: Vec<PathBuf>,
}

/// Nothing is changed, and no rollout is continued or stopped by it.
pub fn run(options: &JudgeOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let (document, gate) = match &options.rollout {
        Some(name) => {
            let judged = of_this_host(name.as_str(), &Host::of(global)?)?;
            (json!(judged), judged.gate)
        }
        None => {
            let mut hosts = Vec::new();
            for file in &options.hosts {
                hosts.extend(read(file)?);
            }
            let gate = pool(&hosts, Instant::now().wall_us)?;
            let names: Vec<&str> = hosts.iter().map(|host| host.host.as_str()).collect();
            (json!({ "hosts": names, "gate": gate }), gate)
        }
    };
    let answer = Answer::new(document, text(&gate));
    Ok(match gate.outcome {
        Outcome::Go => answer,
        Outcome::Stop => answer.ending(ErrorClass::Failed),
        Outcome::NotEnough => answer.ending(ErrorClass::Inconclusive),
    })
}

fn of_this_host(name: &str, host: &Host<'_>) -> Result<Judged, Failure> {
    host.require_owner("rollout judge")?;
    let paths = &host.paths;
    let prepared = read_prepared(paths, name)?;
    let plan = read_plan(&prepared)?;
    let mut watcher = Watcher::new(host.database.clone(), &prepared, &plan.strata);
    let this = ThisHost::new(host.systemd()?);
    let (services, gate) = judge_now((&plan, &prepared), (this.host(), paths), &mut watcher)?;
    let state = read_state(paths, name)?;
    let progress = Progress::of(&state, plan.waves.len())?;
    let standing = course(&state, &progress, host.is_at_work(name), paused(paths, name));
    Ok(Judged {
        host: host.name()?,
        rollout: name.to_owned(),
        arm: plan.arm,
        verdict: plan.verdict,
        wall_us: Instant::now().wall_us,
        standing,
        services: services.len(),
        reasons: progress.reasons,
        gate,
    })
}

fn read(file: &Path) -> Result<Vec<Judged>, Failure> {
    let about = |error: &dyn std::fmt::Display| {
        let file = file.display();
        Failure::refused(format!("{file} is not what `heaptrial rollout judge NAME --json` prints: {error}"))
    };
    let text = match file.as_os_str() == STANDARD_INPUT {
        true => std::io::read_to_string(std::io::stdin()),
        false => std::fs::read_to_string(file),
    };
    let value: Value =
        serde_json::from_str(&text.map_err(|error| about(&error))?).map_err(|error| about(&error))?;
    let list = if value.is_array() { value } else { json!([value]) };
    serde_json::from_value(list).map_err(|error| about(&error))
}

fn text(gate: &Gate) -> String {
    let outcome = match gate.outcome {
        Outcome::Go => "go",
        Outcome::Stop => "stop",
        Outcome::NotEnough => "not enough data",
    };
    let mut text = format!("{outcome}\n");
    for reason in &gate.reasons {
        text += &format!("  {reason}\n");
    }
    for line in &gate.evidence {
        text += &format!("    {line}\n");
    }
    text
}
