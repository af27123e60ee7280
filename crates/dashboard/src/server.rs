//! The dashboard as a server.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;

use heaptrial_listen::{Listen, Listener};

use crate::{Config, DashboardError, live, routes};

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

    /// Answers until `stop` is done.
    pub fn run(self, stop: impl Future<Output = ()>) -> Result<(), DashboardError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .max_blocking_threads(BLOCKING_THREADS)
            .build()
            .map_err(|source| DashboardError::System { doing: "starting the dashboard", source })?;
        let ended = runtime.block_on(self.answer(stop));
        // A report that is being computed is of no use to anybody now.
        runtime.shutdown_background();
        ended
    }

    async fn answer(self, stop: impl Future<Output = ()>) -> Result<(), DashboardError> {
        let shared = routes::Shared::new(&self.config);
        let live = Arc::clone(&shared.live);
        let asked = Arc::clone(&shared);
        let polling = tokio::spawn(live::poll(Arc::clone(&live), move || Arc::clone(&asked).ask()));
        let stop = async {
            stop.await;
            live.end();
        };
        let served = self.listener.serve(routes::router(shared), stop).await;
        polling.abort();
        served.map_err(|source| DashboardError::Listen { listen: self.config.listen.to_string(), source })
    }
}

/// Done when the process is asked to end: Ctrl-C or SIGTERM.
pub async fn asked_to_end() {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) =
        (signal(SignalKind::interrupt()), signal(SignalKind::terminate()))
    else {
        return std::future::pending().await;
    };
    futures_util::future::select(pin!(interrupt.recv()), pin!(terminate.recv())).await;
}
