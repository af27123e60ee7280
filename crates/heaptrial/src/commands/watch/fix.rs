//! `heaptrial watch fix`.

use std::process::ExitCode;

use clap::Args;
use heaptrial_host::Paths;
use heaptrial_model::TrialName;
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

/// Prints commands, and runs none.
pub fn run(options: &FixOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    on_host::require_root("watch fix")?;
    let folder = Folder::open(&Paths::default().state, options.name.as_str())?;
    let (plan, state) = (folder.plan()?, folder.state()?);
    let remedies: Vec<_> =
        state.standing.values().map(|standing| (&standing.alert, remedies(&plan, &standing.alert))).collect();
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
