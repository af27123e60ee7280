//! The dashboard as a server.

use std::future::Future;

use heaptrial_host::listen::{Listen, Listener};
use tokio::signal::unix::{SignalKind, signal};

use crate::{Config, DashboardError, routes};

/// Threads that read the database and compute: one for each, one to spare.
const BLOCKING_THREADS: usize = 3;

/// A dashboard that listens, and answers once it runs.
#[derive(Debug)]
pub struct Dashboard {
    config: Config,
    listener: Listener,
}

impl Dashboard {
    /// Opens what is shown, to see that it can be read, and the listener.
    pub fn bind(config: Config) -> Result<Self, DashboardError> {
        config.check()?;
        drop(heaptrial_store::Store::open_to_stay(&config.database)?);
        let listener = Listener::bind(&config.listen)
            .map_err(|source| DashboardError::Listen { listen: config.listen.to_string(), source })?;
        Ok(Self { config, listener })
    }

    /// Where it listens; with the port that was given where none was asked for.
    pub fn address(&self) -> Listen {
        self.listener.address()
    }

    /// Answers until `stop` is done. What is being answered or computed then is of no use to anybody.
    pub fn run(self, stop: impl Future<Output = ()>) -> Result<(), DashboardError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .build()
            .map_err(|source| DashboardError::System { doing: "starting the dashboard", source })?;
        let served =
            runtime.block_on(async { self.listener.serve(routes::router(&self.config), stop).await });
        runtime.shutdown_background();
        served.map_err(|source| DashboardError::Listen { listen: self.config.listen.to_string(), source })
    }
}

/// Done when the process is asked to end: Ctrl-C or SIGTERM.
pub async fn asked_to_end() {
    let signals = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
    let [Ok(mut interrupt), Ok(mut terminate)] = signals else { return std::future::pending().await };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
}
