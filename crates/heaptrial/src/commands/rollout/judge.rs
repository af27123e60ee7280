//! `heaptrial rollout judge`: what a gate would say now, of this host or of several together.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use heaptrial_change::edges::ThisHost;
use heaptrial_change::{read_prepared, read_state};
use heaptrial_fleet::rollout::{Gate, Judged, Outcome, Progress, judge_now, paused, pool, read_plan};
use heaptrial_host::{HostRoot, Instant, Paths, host_name};
use heaptrial_model::{ErrorClass, TrialName};
use serde_json::{Value, json};

use super::observe::Watcher;
use super::status::course;
use crate::commands::trial::on_host;
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;

/// A file of this name is standard input.
const STANDARD_INPUT: &str = "-";

/// Which rollout, or what which hosts see.
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

/// Tells what a gate would say. Nothing is changed, and no rollout goes on or stops for it.
pub fn run(options: &JudgeOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let gate = match &options.rollout {
        Some(name) => {
            let judged = of_this_host(name.as_str(), global)?;
            if global.json {
                let mut told = serde_json::to_value(&judged).map_err(Failure::failed)?;
                told["schema_version"] = json!(1);
                println!("{told:#}");
            }
            judged.gate
        }
        None => {
            let mut hosts = Vec::new();
            for file in &options.hosts {
                hosts.extend(read(file)?);
            }
            let gate = pool(&hosts, Instant::now().wall_us)?;
            if global.json {
                let names: Vec<&str> = hosts.iter().map(|host| host.host.as_str()).collect();
                println!("{:#}", json!({ "schema_version": 1, "hosts": names, "gate": gate }));
            }
            gate
        }
    };
    if !global.json {
        print!("{}", text(&gate));
    }
    Ok(match gate.outcome {
        Outcome::Go => ExitCode::SUCCESS,
        Outcome::Stop => code(ErrorClass::Failed),
        Outcome::NotEnough => code(ErrorClass::Inconclusive),
    })
}

fn of_this_host(name: &str, global: &GlobalOptions) -> Result<Judged, Failure> {
    on_host::require_root("rollout judge")?;
    let paths = Paths::default();
    let prepared = read_prepared(&paths, name)?;
    let plan = read_plan(&prepared).map_err(Failure::refused)?;
    let database = on_host::database(&paths, global);
    let mut watcher = Watcher::new(database, &prepared, &plan.strata);
    let this = ThisHost::new(global.systemd()?);
    let (services, gate) = judge_now((&plan, &prepared), (this.host(), &paths), &mut watcher)?;
    let state = read_state(&paths, name)?;
    let progress = Progress::of(&state, plan.waves.len())?;
    let standing = course(&state, &progress, on_host::is_at_work(&paths, name), paused(&paths, name));
    Ok(Judged {
        host: host_name(&HostRoot::default()).map_err(Failure::failed)?,
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
    let mut text = String::new();
    let read = match file.as_os_str() == STANDARD_INPUT {
        true => std::io::stdin().read_to_string(&mut text).map(drop),
        false => std::fs::read_to_string(file).map(|found| text = found),
    };
    read.map_err(|error| Failure::refused(format!("cannot read {}: {error}", file.display())))?;
    let told = serde_json::from_str(&text).and_then(|told: Value| match told {
        Value::Array(_) => serde_json::from_value(told),
        one => serde_json::from_value(one).map(|judged| vec![judged]),
    });
    told.map_err(|error| {
        Failure::refused(format!(
            "{} is not what `heaptrial rollout judge NAME --json` tells: {error}",
            file.display()
        ))
    })
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
