//! `heaptrial watch stop`.

use std::process::ExitCode;

use clap::Args;
use heaptrial_fleet::watch::{Folder, end, stored_name};
use heaptrial_host::Paths;
use heaptrial_model::TrialName;
use heaptrial_store::Store;
use serde_json::json;

use crate::commands::trial::on_host;
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Which watch.
#[derive(Debug, Args)]
pub struct StopOptions {
    /// Its name
    #[arg(value_name = "NAME")]
    name: TrialName,
    /// End it without asking
    #[arg(long)]
    yes: bool,
    /// Show what would be removed, and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub fn run(options: &StopOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    on_host::require_root("watch stop")?;
    let (paths, name) = (Paths::default(), options.name.as_str());
    let plan = Folder::open(&paths.state, name).and_then(|folder| folder.plan())?;
    if options.dry_run {
        let files = plan.installed.iter().map(|file| &file.path).chain(&plan.channels.metrics);
        if global.json {
            let files: Vec<_> = files.collect();
            println!(
                "{:#}",
                json!({ "schema_version": 1, "watch": name, "dry_run": true, "removed": files })
            );
        } else {
            files.for_each(|path| println!("would remove {}", path.display()));
            println!("nothing was changed");
        }
        return Ok(ExitCode::SUCCESS);
    }
    on_host::confirm(&format!("This ends the watch `{name}`."), options.yes)?;
    let systemd = global.systemd()?;
    let database = plan.database.clone().unwrap_or_else(|| on_host::database(&paths, global));
    let mut store = Store::open_for_writing(&database).map_err(Failure::failed)?;
    let plan = end(name, &mut store, &systemd, &paths)?;
    if global.json {
        let removed: Vec<_> = plan.installed.iter().map(|file| &file.path).collect();
        println!("{:#}", json!({ "schema_version": 1, "watch": name, "removed": removed }));
    } else {
        println!(
            "watch {name} has ended and all that it brought is removed; `heaptrial report '{}'` reads what it \
             sampled",
            stored_name(name)
        );
    }
    Ok(ExitCode::SUCCESS)
}
