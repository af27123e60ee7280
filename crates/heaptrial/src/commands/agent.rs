//! `heaptrial agent`: samples the services of running trials, as a service of this host.

use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use heaptrial_agent::{Agent, Config, MetricsAddress, unit_file};
use heaptrial_host::Paths;
use heaptrial_model::{HumanDuration, ServicePattern};

use crate::commands::trial::{in_database, on_host};
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// How it samples.
#[derive(Debug, Args)]
pub struct AgentOptions {
    /// Time between two samples of a service
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    interval: HumanDuration,
    /// Sample services of this host too while they are in no trial, by patterns of unit names such as 'tor@*'; what
    /// they used tells a later trial how to form its blocks. Several patterns may be given
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    services: Vec<ServicePattern>,
    /// Serve OpenMetrics at unix:/PATH, 127.0.0.1:PORT or [::1]:PORT
    #[arg(long, value_name = "ADDRESS")]
    metrics: Option<MetricsAddress>,
    /// Keep each sample for this long, then medians and maxima of 15 minutes
    #[arg(long, value_name = "DURATION", default_value = "14d")]
    keep: HumanDuration,
    /// Print the unit file that runs it, for a program at this path
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, default_missing_value = "/usr/bin/heaptrial")]
    print_unit: Option<PathBuf>,
}

/// Runs until it is told to stop.
pub fn run(options: &AgentOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    if let Some(program) = &options.print_unit {
        return print_unit(program, &global.paths()?);
    }
    if options.interval.0 < Duration::from_millis(100) {
        return Err(Failure::usage("--interval must be at least 100ms"));
    }
    if options.keep.0 < Duration::from_secs(3600) {
        return Err(Failure::usage("--keep must be at least 1h"));
    }
    let config = Config {
        scope: global.scope(),
        database: on_host::database(&global.paths()?, global),
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
    let database = config.database.clone();
    let agent = Agent::new(config)?;
    if global.db.is_none() {
        in_database::tell_lost(&Paths::default(), &database);
    }
    agent.run(stop.as_fd())?;
    Ok(ExitCode::SUCCESS)
}

fn print_unit(program: &Path, paths: &Paths) -> Result<ExitCode, Failure> {
    let text = unit_file(program, paths).ok_or_else(|| {
        Failure::usage(format!(
            "{} cannot stand in a unit file: give an absolute path of letters, digits and / - _ . + @",
            program.display()
        ))
    })?;
    print!("{text}");
    Ok(ExitCode::SUCCESS)
}
