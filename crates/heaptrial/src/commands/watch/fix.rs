//! `heaptrial watch fix`.

use std::process::ExitCode;

use clap::Args;
use heaptrial_host::Paths;
use heaptrial_model::TrialName;
use heaptrial_watch::{Alert, Folder};
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

/// Prints what mends each alert, and changes nothing.
pub fn run(options: &FixOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    on_host::require_root("watch fix")?;
    let paths = Paths::default();
    let folder = Folder::open(&paths.state, options.name.as_str())?;
    let (plan, state) = (folder.plan()?, folder.state()?);
    let alerts: Vec<&Alert> = state.standing.values().map(|standing| &standing.alert).collect();
    if global.json {
        let list: Vec<_> = alerts
            .iter()
            .map(|alert| json!({ "key": alert.key, "text": alert.text, "advice": alert.advice }))
            .collect();
        println!("{:#}", json!({ "schema_version": 1, "watch": plan.name, "alerts": list }));
        return Ok(ExitCode::SUCCESS);
    }
    if alerts.is_empty() {
        println!("{}: nothing to mend", plan.name);
    }
    for alert in alerts {
        println!("{}\n  {}", alert.text, alert.advice);
    }
    Ok(ExitCode::SUCCESS)
}
