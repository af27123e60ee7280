//! `heaptrial serve`: the read-only dashboard.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use heaptrial_dashboard::{Config, Dashboard, Listen, asked_to_end};

use crate::commands::trial::on_host;
use crate::exit::Failure;
use crate::options::GlobalOptions;

const DATABASE: &str = "heaptrial.db";

/// What to show, and where.
#[derive(Debug, Args)]
pub struct ServeOptions {
    /// A run's folder or a database [default: the host's database, /var/lib/heaptrial/heaptrial.db]
    #[arg(value_name = "RUN|FILE")]
    run: Option<PathBuf>,
    /// Where to listen: IP:PORT, or unix:PATH
    #[arg(long, value_name = "ADDRESS", default_value_t = Config::usual_address())]
    listen: Listen,
    /// Allow an address that other machines can reach. Whoever reaches it sees everything: the dashboard asks nobody
    /// who he is
    #[arg(long)]
    listen_anywhere: bool,
    /// Answer to this name, too, such as that of a proxy in front; repeatable
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
}

/// Serves until Ctrl-C or SIGTERM.
pub fn run(options: ServeOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
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
        eprintln!(
            "Warning: whoever reaches {listen} sees what is shown; the dashboard asks nobody who he is."
        );
    }
    let url = match &listen {
        Listen::Tcp(address) => format!("http://{address}/"),
        Listen::Unix(_) => listen.to_string(),
    };
    if global.json {
        println!("{:#}", serde_json::json!({ "schema_version": 1, "url": url, "database": database }));
    } else {
        println!("{url}");
        eprintln!("Showing {}, read-only. Ctrl-C ends it.", database.display());
    }
    dashboard.run(asked_to_end())?;
    Ok(ExitCode::SUCCESS)
}

/// What is named, `--db`, or the host's database.
fn database(named: Option<&Path>, global: &GlobalOptions) -> Result<PathBuf, Failure> {
    let given = named.or(global.db.as_deref());
    let paths = global.paths()?;
    if given.is_none() {
        on_host::require_readable(&paths, global)?;
    }
    let usual = on_host::database(&paths, global);
    let path = given.unwrap_or(&usual);
    let path = if path.is_dir() { path.join(DATABASE) } else { path.to_owned() };
    if path.is_file() {
        return Ok(path);
    }
    let next = if given.is_some() {
        "name a run's folder or a database"
    } else {
        "the agent makes it (`heaptrial agent`, or a trial that is started); to see a lab run or an import, name its folder"
    };
    Err(Failure::refused(format!("there is no database {}; {next}", path.display())))
}
