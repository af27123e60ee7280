//! Serves the last tick, on a thread of its own.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Router, middleware};
use heaptrial_host::listen::{Listen, Listener, Names, refuse_others};
use tokio::runtime::Runtime;

use super::Snapshot;
use super::text::render;

/// Where the address is taken, or its folder not there yet.
const LISTEN_AGAIN_AFTER: Duration = Duration::from_secs(30);
const HELP: &str = "metrics are at /metrics, by the name localhost, 127.0.0.1 or [::1]\n";
const FORMAT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Listens, and answers from a thread; where the address is taken, once it is free. Fails only where there can be no
/// thread.
pub(super) fn start(address: &Listen, shown: Arc<Mutex<Snapshot>>) -> io::Result<()> {
    start_trying(address, shown, LISTEN_AGAIN_AFTER)
}

fn start_trying(address: &Listen, shown: Arc<Mutex<Snapshot>>, again_after: Duration) -> io::Result<()> {
    let runtime = runtime()?;
    let address = address.clone();
    let listener = Listener::bind(&address).map_err(|error| {
        eprintln!("cannot serve metrics at {address}: {error}; services are sampled, and it is tried again");
    });
    let serve = move || {
        let listener = listener.unwrap_or_else(|()| bind_in_time(&address, again_after));
        serve(&runtime, &listener, shown);
    };
    std::thread::Builder::new().name("metrics".into()).spawn(serve).map(drop)
}

fn runtime() -> io::Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()
}

fn serve(runtime: &Runtime, listener: &Listener, shown: Arc<Mutex<Snapshot>>) {
    let app = app(&listener.address(), shown);
    if let Err(error) = runtime.block_on(listener.serve(app, std::future::pending())) {
        eprintln!("metrics are no longer served at {}: {error}", listener.address());
    }
}

/// Tries until it can listen.
fn bind_in_time(address: &Listen, again_after: Duration) -> Listener {
    loop {
        std::thread::sleep(again_after);
        if let Ok(listener) = Listener::bind(address) {
            eprintln!("metrics are served at {address} now");
            return listener;
        }
    }
}

fn app(address: &Listen, shown: Arc<Mutex<Snapshot>>) -> Router {
    let names = match address {
        Listen::Tcp(_) => Names::of(address, &[], HELP),
        Listen::Unix(_) => Names::any(),
    };
    Router::new()
        .route("/metrics", get(metrics))
        .fallback(|| async { (StatusCode::NOT_FOUND, HELP) })
        .layer(middleware::from_fn_with_state(Arc::new(names), refuse_others))
        .with_state(shown)
}

async fn metrics(State(shown): State<Arc<Mutex<Snapshot>>>) -> Response {
    let snapshot = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
    ([(CONTENT_TYPE, FORMAT)], render(&snapshot)).into_response()
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{SocketAddr, TcpStream};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::Path;
    use std::time::Instant;

    use super::*;

    fn get(path: &Path, request: &str) -> String {
        asked(UnixStream::connect(path).unwrap(), request)
    }

    fn asked(mut stream: impl Read + Write, request: &str) -> String {
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn one_page_is_served_and_a_stale_socket_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.sock");
        drop(UnixListener::bind(&path).unwrap());
        let shown = Arc::new(Mutex::new(Snapshot { ticks: 7, ..Snapshot::default() }));
        start(&Listen::Unix(path.clone()), shown).unwrap();
        let answer = get(&path, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains("content-type: text/plain; version=0.0.4"), "{answer}");
        assert!(answer.contains("\nheaptrial_agent_ticks_total 7\n"), "{answer}");
        for (request, status) in [
            ("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\nConnection: close\r\n\r\n", "405"),
        ] {
            assert_eq!(get(&path, request)[9..12], *status, "{request}");
        }
        assert!(get(&path, "HEAD /metrics HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n"));
        // A second one does not take the place of one that answers.
        assert!(Listener::bind(&Listen::Unix(path)).is_err());
        let file = folder.path().join("notes");
        std::fs::write(&file, "notes").unwrap();
        assert!(Listener::bind(&Listen::Unix(file.clone())).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "notes");
    }

    /// At a port that was free; gives it.
    fn at_a_port() -> SocketAddr {
        let listener = Listener::bind(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let Listen::Tcp(address) = listener.address() else { panic!("listens on TCP") };
        std::thread::spawn(move || serve(&runtime().unwrap(), &listener, Arc::default()));
        address
    }

    #[test]
    fn a_taken_address_is_served_once_it_is_free() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.sock");
        let taken = UnixListener::bind(&path).unwrap();
        let shown = Arc::new(Mutex::new(Snapshot { ticks: 7, ..Snapshot::default() }));
        start_trying(&Listen::Unix(path.clone()), shown, Duration::from_millis(20)).unwrap();
        drop(taken);
        let begun = Instant::now();
        let stream = loop {
            match UnixStream::connect(&path) {
                Ok(stream) => break stream,
                Err(error) => assert!(begun.elapsed() < Duration::from_secs(60), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let answer = asked(stream, "GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n");
        assert!(answer.contains("heaptrial_agent_ticks_total 7\n"), "{answer}");
    }

    #[test]
    fn names_of_others_are_refused_on_a_port() {
        let address = at_a_port();
        let status = |version: &str, headers: &str| {
            let request = format!("GET /metrics HTTP/{version}\r\n{headers}Connection: close\r\n\r\n");
            asked(TcpStream::connect(address).unwrap(), &request)[9..12].to_owned()
        };
        for own in ["localhost", "LOCALHOST:9779", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:9779"] {
            assert_eq!(status("1.1", &format!("Accept: */*\r\nhOST: {own}\r\n")), "200", "{own}");
        }
        for other in ["evil.example", "127.0.0.1.evil.example:9779", "192.0.2.1", "localhost:80:x", ""] {
            assert_eq!(status("1.1", &format!("Host: {other}\r\n")), "403", "{other}");
        }
        assert_eq!(status("1.1", ""), "403");
        assert_eq!(status("1.1", "Host: localhost\r\nHost: evil.example\r\n"), "403");
        assert_eq!(status("1.0", ""), "200");
    }

    #[test]
    fn a_scrape_waits_for_no_slow_connection() {
        let address = at_a_port();
        let mut slow: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
        for half in slow.iter_mut().skip(10) {
            half.write_all(b"GET /metrics HTTP/1.1\r\nHost: local").unwrap();
        }
        let request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let answer = asked(TcpStream::connect(address).unwrap(), request);
        assert!(answer.contains("\nheaptrial_agent_lost_ticks_total 0\n"), "{answer}");
        for stream in &mut slow {
            stream.set_nonblocking(true).unwrap();
            let read = stream.read(&mut [0]);
            assert!(read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock), "all are open still");
        }
    }
}
