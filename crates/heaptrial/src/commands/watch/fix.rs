//! `heaptrial watch fix`.

use std::process::ExitCode;

use clap::Args;
use heaptrial_change::{TrialStage, read_prepared, read_state, trials};
use heaptrial_host::Paths;
use heaptrial_model::TrialName;
use heaptrial_rollout::is_rollout;
use heaptrial_watch::{Folder, remedies};
use serde_json::json;

use crate::commands::trial::on_host;
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Which watch.
#[derive(Debug, Args)]
pub struct FixOptions {
    /// The trial or rollout
    #[arg(value_name = "NAME")]
    name: TrialName,
}

/// Whether there is a trial of this name that has not ended.
fn runs(paths: &Paths, name: &str) -> Result<bool, Failure> {
    if !trials(paths)?.iter().any(|known| known == name) || is_rollout(&read_prepared(paths, name)?) {
        return Ok(false);
    }
    Ok(!matches!(read_state(paths, name)?.stage, TrialStage::Stopped | TrialStage::Reverted))
}

/// Prints commands, and runs none.
pub fn run(options: &FixOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    on_host::require_root("watch fix")?;
    let paths = Paths::default();
    let folder = Folder::open(&paths.state, options.name.as_str())?;
    let (plan, state) = (folder.plan()?, folder.state()?);
    let running = runs(&paths, &plan.name)?;
    let alerts = state.standing.values().map(|standing| &standing.alert);
    let remedies: Vec<_> = alerts.map(|alert| (alert, remedies(&plan, alert, running))).collect();
    if global.json {
        let list: Vec<_> = remedies
            .iter()
            .map(|(alert, commands)| json!({ "key": alert.key, "text": alert.text, "commands": commands }))
            .collect();
        println!("{:#}", json!({ "schema_version": 1, "watch": plan.name, "alerts": list }));
        return Ok(ExitCode::SUCCESS);
    }
    if remedies.is_empty() {
        println!("{}: nothing to mend", plan.name);
    }
    for (alert, commands) in remedies {
        println!("# {}", alert.text);
        commands.iter().for_each(|command| println!("{command}"));
    }
    Ok(ExitCode::SUCCESS)
}
