//! A server for one page: HTTP/1.1, one connection at a time, with little patience. Scrapers come once a minute.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::text::render;
use super::{MetricsAddress, Snapshot};

/// For the whole of a request, and for each write of the answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Where the address is taken, or its folder not there yet.
const LISTEN_AGAIN_AFTER: Duration = Duration::from_secs(30);
const MAX_REQUEST_BYTES: usize = 8192;
const HELP: &str = "metrics are at /metrics, by the name localhost, 127.0.0.1 or [::1]\n";
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

trait Stream: Read + Write {
    /// Whether a browser can be made to ask here, by a name that is made to resolve to this machine (DNS rebinding).
    const FOR_BROWSERS: bool;

    fn limit(&self, patience: Duration) -> io::Result<()>;
}

impl Stream for TcpStream {
    const FOR_BROWSERS: bool = true;

    fn limit(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))?;
        self.set_write_timeout(Some(PATIENCE))
    }
}

impl Stream for UnixStream {
    const FOR_BROWSERS: bool = false;

    fn limit(&self, patience: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(patience))?;
        self.set_write_timeout(Some(PATIENCE))
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn bind(address: &MetricsAddress) -> io::Result<Self> {
        match address {
            MetricsAddress::Unix(path) => listen(path).map(Self::Unix),
            MetricsAddress::Tcp(address) => TcpListener::bind(address).map(Self::Tcp),
        }
    }

    /// Tries until it can listen.
    fn bind_in_time(address: &MetricsAddress, again_after: Duration) -> Self {
        loop {
            std::thread::sleep(again_after);
            if let Ok(listener) = Self::bind(address) {
                eprintln!("metrics are served at {address} now");
                return listener;
            }
        }
    }

    fn serve(&self, shown: &Mutex<Snapshot>) {
        match self {
            Self::Tcp(listener) => listener.incoming().for_each(|stream| answer(stream, shown)),
            Self::Unix(listener) => listener.incoming().for_each(|stream| answer(stream, shown)),
        }
    }
}

/// Listens, and answers from a thread; where the address is taken, once it is free. Fails only where there can be no
/// thread.
pub(super) fn start(address: &MetricsAddress, shown: Arc<Mutex<Snapshot>>) -> io::Result<()> {
    start_trying(address, shown, LISTEN_AGAIN_AFTER)
}

fn start_trying(
    address: &MetricsAddress,
    shown: Arc<Mutex<Snapshot>>,
    again_after: Duration,
) -> io::Result<()> {
    let address = address.clone();
    let listener = Listener::bind(&address).map_err(|error| {
        eprintln!("cannot serve metrics at {address}: {error}; services are sampled, and it is tried again");
    });
    let serve = move || {
        let listener = listener.unwrap_or_else(|()| Listener::bind_in_time(&address, again_after));
        listener.serve(&shown);
    };
    std::thread::Builder::new().name("metrics".into()).spawn(serve).map(drop)
}

/// A socket that an agent left behind when it was killed is replaced; anything else in its place is an error.
fn listen(path: &Path) -> io::Result<UnixListener> {
    // Connecting to a plain file is refused as well.
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).is_err_and(refused) {
        std::fs::remove_file(path)?;
    }
    let listener = UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o660))?;
    Ok(listener)
}

/// A client that fails is its own affair.
fn answer(stream: io::Result<impl Stream>, shown: &Mutex<Snapshot>) {
    match stream {
        Ok(mut stream) => {
            let _ = converse(&mut stream, shown);
        }
        // Out of file descriptors, say: not again at once.
        Err(_) => std::thread::sleep(Duration::from_millis(100)),
    }
}

fn converse<S: Stream>(stream: &mut S, shown: &Mutex<Snapshot>) -> io::Result<()> {
    let request = read_request(stream)?;
    let named = if S::FOR_BROWSERS { check_host(&request) } else { Ok(()) };
    let (status, content_type, body) = match named.and_then(|()| route(&request)) {
        Ok(()) => {
            let snapshot = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
            ("200 OK", CONTENT_TYPE, render(&snapshot))
        }
        Err(status) => (status, "text/plain; charset=utf-8", HELP.to_owned()),
    };
    let is_head = request.starts_with(b"HEAD ");
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    if !is_head {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()
}

/// Reads up to the empty line that ends a request's head.
fn read_request(stream: &mut impl Stream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + PATIENCE;
    let mut request = Vec::new();
    let mut buffer = [0_u8; 1024];
    while !request.windows(4).any(|four| four == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() > MAX_REQUEST_BYTES {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.limit(left)?;
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            length => request.extend_from_slice(&buffer[..length]),
        }
    }
    Ok(request)
}

/// A request names this machine, once; one of HTTP/1.0 need not.
fn check_host(request: &[u8]) -> Result<(), &'static str> {
    let head = String::from_utf8_lossy(request);
    let mut lines = head.split("\r\n");
    let first = lines.next().unwrap_or_default();
    let mut hosts = lines
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_once(':'))
        .filter(|(name, _)| name.trim().eq_ignore_ascii_case("host"));
    match (hosts.next(), hosts.next()) {
        (Some((_, host)), None) if is_this_machine(host.trim()) => Ok(()),
        (Some(_), None) => Err("403 Forbidden"),
        (None, _) if first.ends_with("HTTP/1.0") => Ok(()),
        _ => Err("400 Bad Request"),
    }
}

/// Whether it is `localhost` or a loopback address, which cannot be rebound; with any port, because ports are forwarded.
fn is_this_machine(host: &str) -> bool {
    let is_port = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    let name = match host.rsplit_once(':') {
        Some((name, port)) if is_port(port) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

fn route(request: &[u8]) -> Result<(), &'static str> {
    let line = request.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    match (words.next(), words.next().map(|path| path.split('?').next().unwrap_or(path))) {
        (Some("GET" | "HEAD"), Some("/metrics")) => Ok(()),
        (Some("GET" | "HEAD"), Some(_)) => Err("404 Not Found"),
        (Some(_), Some(_)) => Err("405 Method Not Allowed"),
        _ => Err("400 Bad Request"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(path: &Path, request: &str) -> String {
        asked(UnixStream::connect(path).unwrap(), request)
    }

    fn asked(mut stream: impl Stream, request: &str) -> String {
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
        start(&MetricsAddress::Unix(path.clone()), shown).unwrap();
        let answer = get(&path, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(
            answer
                .starts_with("HTTP/1.1 200 OK\r\nContent-Type: application/openmetrics-text; version=1.0.0")
        );
        assert!(
            answer.contains("heaptrial_agent_ticks_total 7\n") && answer.ends_with("# EOF\n"),
            "{answer}"
        );
        assert!(get(&path, "GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(get(&path, "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        assert!(get(&path, "HEAD /metrics HTTP/1.0\r\n\r\n").ends_with("\r\n\r\n"));
        // A second one does not take the place of one that answers.
        assert!(listen(&path).is_err());
        let file = folder.path().join("notes");
        std::fs::write(&file, "notes").unwrap();
        assert!(listen(&file).is_err());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "notes");
    }

    #[test]
    fn a_taken_port_is_served_once_it_is_free() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = taken.local_addr().unwrap();
        let shown = Arc::new(Mutex::new(Snapshot { ticks: 7, ..Snapshot::default() }));
        start_trying(&MetricsAddress::Tcp(address), shown, Duration::from_millis(20)).unwrap();
        drop(taken);
        let begun = Instant::now();
        let stream = loop {
            match TcpStream::connect(address) {
                Ok(stream) => break stream,
                Err(error) => assert!(begun.elapsed() < Duration::from_secs(30), "{error}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let answer = asked(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(answer.contains("heaptrial_agent_ticks_total 7\n"), "{answer}");
    }

    #[test]
    fn names_of_others_are_refused_on_a_port() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        start_trying(&MetricsAddress::Tcp(address), Arc::default(), Duration::from_millis(20)).unwrap();
        let status = |version: &str, headers: &str| {
            let request = format!("GET /metrics HTTP/{version}\r\n{headers}\r\n");
            asked(TcpStream::connect(address).unwrap(), &request)[9..12].to_owned()
        };
        for own in ["localhost", "LOCALHOST:9779", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:9779"] {
            assert_eq!(status("1.1", &format!("Accept: */*\r\nhOST: {own}\r\n")), "200", "{own}");
        }
        for other in [
            "evil.example",
            "evil.example:9779",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "192.0.2.1",
            "localhost:80:x",
            "[::1",
            "",
            "127.0.0.1@evil.example",
        ] {
            assert_eq!(status("1.1", &format!("Host: {other}\r\n")), "403", "{other}");
        }
        assert_eq!(status("1.1", ""), "400");
        assert_eq!(status("1.1", "Host: localhost\r\nHost: evil.example\r\n"), "400");
        assert_eq!(status("1.0", ""), "200");
    }
}
