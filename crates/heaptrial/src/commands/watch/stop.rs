//! `heaptrial watch stop`: removes all that a watch brought to this host.

use std::path::PathBuf;

use clap::Args;
use heaptrial_fleet::watch::{Folder, end, stored_name};
use heaptrial_store::Store;
use serde_json::json;

use crate::answer::Answer;
use crate::commands::host::{Consent, Host, NameOptions};
use crate::exit::Failure;
use crate::options::GlobalOptions;

#[derive(Debug, Args)]
pub struct StopOptions {
    #[command(flatten)]
    watch: NameOptions,
    #[command(flatten)]
    consent: Consent,
}

pub fn run(options: &StopOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let host = Host::of(global)?;
    host.require_owner("watch stop")?;
    let name = options.watch.name.as_str();
    let plan = Folder::open(&host.paths.state, name).and_then(|folder| folder.plan())?;
    if options.consent.dry_run {
        let files = plan.installed.iter().map(|file| &file.path).chain(&plan.channels.metrics);
        let files: Vec<&PathBuf> = files.collect();
        let mut text: String =
            files.iter().map(|path| format!("would remove {}\n", path.display())).collect();
        text += "nothing was changed\n";
        return Ok(Answer::new(json!({ "watch": name, "dry_run": true, "removed": files }), text));
    }
    options.consent.ask(&format!("This ends the watch `{name}`."))?;
    let database = plan.database.as_ref().unwrap_or(&host.database);
    let mut store = Store::open_for_writing(database)?;
    let plan = end(name, &mut store, &host.systemd()?, &host.paths)?;
    let removed: Vec<&PathBuf> = plan.installed.iter().map(|file| &file.path).collect();
    let text = format!(
        "watch {name} has ended and all that it brought is removed; `heaptrial report '{}'` reads what it sampled\n",
        stored_name(name)
    );
    Ok(Answer::new(json!({ "watch": name, "removed": removed }), text))
}
