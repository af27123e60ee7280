//! HTTP on this machine: of the dashboard, and of the agent's metrics.
//!
//! Only names of this machine are answered, and nothing but GET and HEAD.

mod address;
mod names;

use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;

use axum::Router;

pub use address::Listen;
pub use names::{Names, refuse_others};

/// It listens, and answers once it serves. A Unix socket is removed with it.
#[derive(Debug)]
pub struct Listener {
    socket: Socket,
    address: Listen,
}

#[derive(Debug)]
enum Socket {
    Tcp(std::net::TcpListener),
    Unix(std::os::unix::net::UnixListener),
}

impl Listener {
    /// Listens. A Unix socket that nobody listens on any more is replaced; anything else in its place is an error.
    pub fn bind(listen: &Listen) -> io::Result<Self> {
        Ok(match listen {
            Listen::Tcp(address) => {
                let listener = std::net::TcpListener::bind(address)?;
                Self { address: Listen::Tcp(listener.local_addr()?), socket: Socket::Tcp(listener) }
            }
            Listen::Unix(path) => {
                Self { address: listen.clone(), socket: Socket::Unix(unix_listener(path)?) }
            }
        })
    }

    /// Where it listens; with the port that was given where none was asked for.
    pub fn address(&self) -> Listen {
        self.address.clone()
    }

    /// Answers until `stop` is done, on tokio's runtime. What is being answered then ends with the runtime.
    pub async fn serve(&self, app: Router, stop: impl Future<Output = ()>) -> io::Result<()> {
        match &self.socket {
            Socket::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::TcpListener::from_std(listener.try_clone()?)?;
                until(stop, axum::serve(listener, app)).await
            }
            Socket::Unix(listener) => {
                listener.set_nonblocking(true)?;
                let listener = tokio::net::UnixListener::from_std(listener.try_clone()?)?;
                until(stop, axum::serve(listener, app)).await
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Listen::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

async fn until(
    stop: impl Future<Output = ()>,
    serve: impl IntoFuture<Output = io::Result<()>>,
) -> io::Result<()> {
    tokio::select! {
        () = stop => Ok(()),
        ended = serve.into_future() => ended,
    }
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
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use axum::routing::get;

    use super::*;

    #[test]
    fn a_unix_socket_is_for_its_owner_and_group_and_goes_with_its_listener() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        // Left over from one that was killed.
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        let listener = Listener::bind(&Listen::Unix(path.clone())).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
        assert!(Listener::bind(&Listen::Unix(path.clone())).is_err(), "one that is used is not replaced");
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let stop = async {
                let _ = stopped.await;
            };
            let app = Router::new().route("/", get(async || "answered"));
            runtime.block_on(listener.serve(app, stop)).unwrap();
        });
        let _idle = UnixStream::connect(&path).unwrap();
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.ends_with("answered"));
        drop(stop);
        thread.join().unwrap();
        assert!(!path.exists());
    }
}
