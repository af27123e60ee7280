//! The listener, its connections and their limits.

use std::future::Future;
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio_io_timeout::TimeoutStream;

use crate::config::Listen;
use crate::{Config, DashboardError, live, routes};

/// Connections at a time; more wait until one ends.
const CONNECTIONS: usize = 64;
/// A request's head must be there within this time; an idle connection ends after it.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// A reader that takes nothing for this long has gone.
const READER_GONE: Duration = Duration::from_secs(30);
/// Bytes of a request's head.
const HEAD_AT_MOST: usize = 16 * 1024;
/// Threads that read the database and compute: one for each, one to spare.
const BLOCKING_THREADS: usize = 3;
/// After this long an end is not waited for any more.
const END_WITHIN: Duration = Duration::from_secs(2);
/// After a connection could not be taken (no file descriptors left).
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// A dashboard that listens, and answers once it runs.
#[derive(Debug)]
pub struct Dashboard {
    config: Config,
    listener: Listener,
}

#[derive(Debug)]
enum Listener {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

impl Dashboard {
    /// Opens the database, to see that it can be read, and the listener.
    pub fn bind(config: Config) -> Result<Self, DashboardError> {
        config.check()?;
        heaptrial_store::Store::open_to_stay(&config.database)?;
        let refused = |source| DashboardError::Listen { listen: config.listen.to_string(), source };
        let listener = match &config.listen {
            Listen::Tcp(address) => Listener::Tcp(std::net::TcpListener::bind(address).map_err(refused)?),
            Listen::Unix(path) => Listener::Unix(unix_listener(path).map_err(refused)?),
        };
        Ok(Self { config, listener })
    }

    /// Where it listens; with the port that was given where none was asked for.
    pub fn address(&self) -> Listen {
        match &self.listener {
            Listener::Tcp(listener) => {
                listener.local_addr().map_or_else(|_| self.config.listen.clone(), Listen::Tcp)
            }
            Listener::Unix(_) => self.config.listen.clone(),
        }
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
        let listening = |source| DashboardError::Listen { listen: self.config.listen.to_string(), source };
        let shared = routes::Shared::new(&self.config);
        let app = routes::router(Arc::clone(&shared));
        let polling = tokio::spawn(live::poll(Arc::clone(&shared)));
        let connections = Connections::new(app);
        let mut stop = pin!(stop);
        match &self.listener {
            Listener::Tcp(listener) => {
                listener.set_nonblocking(true).map_err(listening)?;
                let own = listener.try_clone().map_err(listening)?;
                let listener = tokio::net::TcpListener::from_std(own).map_err(listening)?;
                let accept = || async { listener.accept().await.map(|(stream, _)| stream) };
                connections.take(accept, &mut stop).await;
            }
            Listener::Unix(listener) => {
                listener.set_nonblocking(true).map_err(listening)?;
                let own = listener.try_clone().map_err(listening)?;
                let listener = tokio::net::UnixListener::from_std(own).map_err(listening)?;
                let accept = || async { listener.accept().await.map(|(stream, _)| stream) };
                connections.take(accept, &mut stop).await;
            }
        }
        shared.live.end();
        polling.abort();
        // What does not end in time is cut off.
        let _ = tokio::time::timeout(END_WITHIN, connections.graceful.shutdown()).await;
        Ok(())
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        if let (Listener::Unix(_), Listen::Unix(path)) = (&self.listener, &self.config.listen) {
            let _ = std::fs::remove_file(path);
        }
    }
}

struct Connections {
    app: Router,
    places: Arc<Semaphore>,
    graceful: GracefulShutdown,
}

impl Connections {
    fn new(app: Router) -> Self {
        Self { app, places: Arc::new(Semaphore::new(CONNECTIONS)), graceful: GracefulShutdown::new() }
    }

    /// Takes connections until `stop` is done.
    async fn take<S, A>(&self, accept: impl Fn() -> A, stop: &mut (impl Future<Output = ()> + Unpin))
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
        A: Future<Output = io::Result<S>>,
    {
        let taking = pin!(async {
            loop {
                // Never closed, so there is always a place sooner or later.
                let Ok(place) = Arc::clone(&self.places).acquire_owned().await else { return };
                match accept().await {
                    Ok(stream) => self.serve(stream, place),
                    Err(_) => tokio::time::sleep(AFTER_FAILURE).await,
                }
            }
        });
        futures_util::future::select(taking, stop).await;
    }

    fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
        place: tokio::sync::OwnedSemaphorePermit,
    ) {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(READER_GONE));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .max_buf_size(HEAD_AT_MOST)
            .serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(self.app.clone()));
        let watched = self.graceful.watch(connection);
        tokio::spawn(async move {
            // A reader that goes away in the middle is no matter.
            let _ = watched.await;
            drop(place);
        });
    }
}

/// A socket that its owner and group may use. A socket that nobody listens on any more is replaced.
fn unix_listener(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    let left_over = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if left_over {
        std::fs::remove_file(path)?;
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(listener)
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
