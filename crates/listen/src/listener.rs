//! The listener, and its limits of time.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use futures_util::future::select;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_io_timeout::TimeoutStream;

use crate::Listen;

/// A request's head must be there within this time; an idle connection ends after it.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// A reader that takes nothing for this long has gone.
const READER_GONE: Duration = Duration::from_secs(30);
/// Connections at one time; further ones wait.
const CONNECTIONS: usize = 256;
/// Connections that the kernel keeps until they are accepted.
const BACKLOG: i32 = 1024;
/// Bytes of a request's head.
const HEAD_AT_MOST: usize = 16 * 1024;
/// After this long an end is not waited for any more.
const END_WITHIN: Duration = Duration::from_secs(2);
/// After a connection could not be taken (no file descriptors left).
const AFTER_FAILURE: Duration = Duration::from_millis(200);

/// It listens, and answers once it serves. A Unix socket is removed with it.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    listen: Listen,
    head_within: Duration,
}

#[derive(Debug)]
enum Socket {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

impl Listener {
    /// Listens. A Unix socket that nobody listens on any more is replaced; anything else in its place is an error.
    pub fn bind(listen: &Listen) -> io::Result<Self> {
        let socket = match listen {
            Listen::Tcp(address) => Socket::Tcp(tcp_listener(*address)?),
            Listen::Unix(path) => Socket::Unix(unix_listener(path)?),
        };
        Ok(Self { socket, listen: listen.clone(), head_within: HEAD_WITHIN })
    }

    /// Where it listens; with the port that was given where none was asked for.
    pub fn address(&self) -> Listen {
        match &self.socket {
            Socket::Tcp(listener) => listener.local_addr().map_or_else(|_| self.listen.clone(), Listen::Tcp),
            Socket::Unix(_) => self.listen.clone(),
        }
    }

    /// Answers until `stop` is done, on tokio's runtime. What is being answered then has two seconds to end.
    pub async fn serve(&self, app: Router, stop: impl Future<Output = ()>) -> io::Result<()> {
        let server = Server {
            app,
            head_within: self.head_within,
            places: Arc::new(Semaphore::new(CONNECTIONS)),
            graceful: GracefulShutdown::new(),
        };
        match &self.socket {
            Socket::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(listener.try_clone()?)?;
                server.take(async || listener.accept().await.map(|(stream, _)| stream), stop).await;
            }
            Socket::Unix(listener) => {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::UnixListener::from_std(listener.try_clone()?)?;
                server.take(async || listener.accept().await.map(|(stream, _)| stream), stop).await;
            }
        }
        // What does not end in time is cut off.
        let _ = tokio::time::timeout(END_WITHIN, server.graceful.shutdown()).await;
        Ok(())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let (Socket::Unix(_), Listen::Unix(path)) = (&self.socket, &self.listen) {
            let _ = std::fs::remove_file(path);
        }
    }
}

struct Server {
    app: Router,
    head_within: Duration,
    places: Arc<Semaphore>,
    graceful: GracefulShutdown,
}

impl Server {
    /// Takes connections until `stop` is done.
    async fn take<S>(&self, accept: impl AsyncFn() -> io::Result<S>, stop: impl Future<Output = ()>)
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let taking = pin!(async {
            // The semaphore is never closed.
            while let Ok(place) = Arc::clone(&self.places).acquire_owned().await {
                match accept().await {
                    Ok(stream) => self.serve(stream, place),
                    Err(_) => tokio::time::sleep(AFTER_FAILURE).await,
                }
            }
        });
        select(taking, pin!(stop)).await;
    }

    /// Answers on one connection, which has its place until it ends.
    fn serve(&self, stream: impl AsyncRead + AsyncWrite + Send + 'static, place: OwnedSemaphorePermit) {
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(READER_GONE));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(self.head_within)
            .max_buf_size(HEAD_AT_MOST)
            .serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(self.app.clone()));
        let watched = self.graceful.watch(connection);
        tokio::spawn(async move {
            // A reader that goes away in the middle does not matter.
            let _ = watched.await;
            drop(place);
        });
    }
}

/// A socket with a queue of its own length.
fn tcp_listener(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let listener = std::net::TcpListener::bind(address)?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// A socket that its owner and group may use.
fn unix_listener(path: &Path) -> io::Result<std::os::unix::net::UnixListener> {
    // Connecting to a plain file is refused as well.
    let left_over = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
        && UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    if left_over {
        std::fs::remove_file(path)?;
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    rustix::net::listen(&listener, BACKLOG)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

#[cfg(test)]
mod tests;
