//! `heaptrial serve`: the read-only dashboard.

use std::path::{Path, PathBuf};

use clap::Args;
use heaptrial_dashboard::{Config, Dashboard, Listen, asked_to_end};

use crate::answer::Answer;
use crate::commands::host::Host;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::run_folder;

#[derive(Debug, Args)]
pub struct ServeOptions {
    /// A run's folder or a database [default: the host's database, /var/lib/heaptrial/heaptrial.db]
    #[arg(value_name = "RUN|FILE")]
    run: Option<PathBuf>,
    /// Where to listen: IP:PORT, or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value_t = Config::usual_address())]
    listen: Listen,
    /// Allow an address that other machines can reach: whoever reaches it sees everything, without a password
    #[arg(long)]
    listen_anywhere: bool,
    /// Answer to this name, too, such as that of a proxy in front; repeatable
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
}

/// Serves until Ctrl-C or SIGTERM.
pub fn run(options: ServeOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let database = database(options.run.as_deref(), global)?;
    let config = Config {
        database: database.clone(),
        listen: options.listen,
        anywhere: options.listen_anywhere,
        hosts: options.hosts,
    };
    let dashboard = Dashboard::bind(config)?;
    let listen = dashboard.address();
    if !listen.is_local() {
        eprintln!("warning: everybody who reaches {listen} sees what is shown; no password is asked for");
    }
    let url = match &listen {
        Listen::Tcp(address) => format!("http://{address}/"),
        Listen::Unix(_) => listen.to_string(),
    };
    let text = format!("{url}\n");
    Answer::new(serde_json::json!({ "url": url, "database": database }), text).print(global)?;
    eprintln!("Showing {}, read-only. Ctrl-C ends it.", database.display());
    dashboard.run(asked_to_end())?;
    Ok(Answer::verbatim(""))
}

/// What is named, `--db`, or the host's database.
fn database(named: Option<&Path>, global: &GlobalOptions) -> Result<PathBuf, Failure> {
    let given = named.or(global.db.as_deref());
    let path = match given {
        Some(path) => run_folder::database(Some(path))?,
        None => {
            let host = Host::of(global)?;
            host.require_readable()?;
            host.database
        }
    };
    if path.is_file() {
        return Ok(path);
    }
    let next = match given {
        Some(_) => "name a run's folder or a database",
        None => {
            "the agent makes it (`heaptrial agent`, or a trial that is started); to see a lab run or an import, name its folder"
        }
    };
    Err(Failure::refused(format!("there is no database {}; {next}", path.display())))
}
