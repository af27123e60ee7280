//! `heaptrial agent`: samples the services of running trials, as a service of this host.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use heaptrial_agent::{Agent, Config, MetricsAddress, UnitOptions, unit_file};
use heaptrial_model::{HumanDuration, ServicePattern};

use crate::answer::Answer;
use crate::commands::host::Host;
use crate::exit::Failure;
use crate::options::GlobalOptions;

const INTERVAL: &str = "1m";
const KEEP: &str = "14d";
/// Where its unit lets it make sockets.
const RUNTIME: &str = "/run/heaptrial";

#[derive(Debug, Args)]
pub struct AgentOptions {
    /// Time between two samples of a service
    #[arg(long, value_name = "DURATION", default_value = INTERVAL)]
    interval: HumanDuration,
    /// Sample services of this host too while they are in no trial, by patterns of unit names such as 'tor@*'; what
    /// they used forms the blocks of a later trial. Several patterns may be given
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    services: Vec<ServicePattern>,
    /// Serve Prometheus metrics at unix:/PATH, 127.0.0.1:PORT or [::1]:PORT
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<MetricsAddress>,
    /// Keep each sample for this long, then medians and maxima of 15 minutes
    #[arg(long, value_name = "DURATION", default_value = KEEP)]
    keep: HumanDuration,
    /// Print the unit file that runs it with these options, for a program at this path
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, default_missing_value = "/usr/bin/heaptrial")]
    print_unit: Option<PathBuf>,
}

/// Runs until a signal stops it.
pub fn run(options: &AgentOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    if !(Duration::from_millis(100)..=Duration::from_secs(86_400)).contains(&options.interval.0) {
        return Err(Failure::usage("--interval must be at least 100ms and at most 1d"));
    }
    if options.keep.0 < Duration::from_secs(3600) {
        return Err(Failure::usage("--keep must be at least 1h"));
    }
    if let Some(program) = &options.print_unit {
        return print_unit(program, options, global);
    }
    let host = Host::of(global)?;
    let config = Config {
        scope: global.scope(),
        journals: host.paths.trials(),
        database: host.database,
        interval: options.interval.0,
        host_patterns: options.services.clone(),
        metrics: options.metrics.clone(),
        keep_raw: options.keep.0,
    };
    // A signal makes the other end readable, which ends the agent's waiting at once.
    let (stop, on_signal) = UnixStream::pair().map_err(Failure::failed)?;
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        let writer = on_signal.try_clone().map_err(Failure::failed)?;
        signal_hook::low_level::pipe::register(signal, writer).map_err(Failure::failed)?;
    }
    Agent::new(config)?.run(stop.as_fd())?;
    Ok(Answer::verbatim(""))
}

fn print_unit(program: &Path, options: &AgentOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let unit = unit_options(options, global)?;
    let text = unit_file(program, &global.paths()?, &unit).ok_or_else(|| {
        Failure::usage(format!(
            "{} cannot be written into a unit file: give an absolute path of letters, digits and / - _ . + @, and options without \
             control characters",
            program.display()
        ))
    })?;
    Ok(Answer::verbatim(text))
}

/// What the unit has the agent do as this command would.
fn unit_options(options: &AgentOptions, global: &GlobalOptions) -> Result<UnitOptions, Failure> {
    let mut unit = UnitOptions::default();
    if let Some(database) = &global.db {
        // The unit is started in another folder.
        let database = std::path::absolute(database).map_err(Failure::failed)?;
        let text = database.to_str().ok_or_else(|| Failure::usage("--db: the path is no UTF-8"))?;
        unit.arguments.extend(["--db".to_owned(), text.to_owned()]);
        unit.writes_to.extend(database.parent().map(Path::to_owned));
    }
    let mut add = |name: &str, value: String| unit.arguments.extend([name.to_owned(), value]);
    for (name, value, usual) in [("--interval", options.interval, INTERVAL), ("--keep", options.keep, KEEP)] {
        if value != usual.parse().map_err(Failure::failed)? {
            add(name, value.to_string());
        }
    }
    if let Some(address) = &options.metrics {
        add("--metrics", address.to_string());
        let socket = address.to_string().strip_prefix("unix:").map(PathBuf::from);
        let folder = socket.as_deref().and_then(Path::parent).filter(|folder| *folder != Path::new(RUNTIME));
        unit.writes_to.extend(folder.map(Path::to_owned));
    }
    if !options.services.is_empty() {
        unit.arguments.push("--services".to_owned());
        unit.arguments.extend(options.services.iter().map(|pattern| pattern.as_str().to_owned()));
    }
    Ok(unit)
}
