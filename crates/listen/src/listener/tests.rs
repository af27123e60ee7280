//! Slow and idle connections, on real sockets. Nothing here is measured in seconds: an answer comes while the slow
//! ones are still open, or it does not.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::JoinHandle;

use axum::routing::get;
use tokio::sync::oneshot;

use super::*;

/// Slow connections, fewer than there are places for.
const SLOW: usize = 200;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";

/// A server that ends when this is dropped.
struct Served {
    address: Listen,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(listen: &str) -> Served {
    let mut listener = Listener::bind(&listen.parse().unwrap()).unwrap();
    // On a machine that is too busy the slow ones would come to their end by this.
    listener.head_within = Duration::from_secs(3600);
    let address = listener.address();
    let (stop, stopped) = oneshot::channel();
    let thread = std::thread::spawn(move || {
        let app = Router::new().route("/", get(async || "answered"));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let ended = async {
            let _ = stopped.await;
        };
        runtime.block_on(listener.serve(app, ended)).unwrap();
    });
    Served { address, stop: Some(stop), thread: Some(thread) }
}

impl Served {
    fn port(&self) -> SocketAddr {
        match self.address {
            Listen::Tcp(address) => address,
            Listen::Unix(_) => panic!("it listens on TCP"),
        }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(self.port()).unwrap()
    }
}

fn answer(mut stream: impl Read + Write) -> String {
    stream.write_all(REQUEST).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// Whether the server has not ended it.
fn is_open(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    stream.read(&mut [0]).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn others_are_answered_while_every_slow_connection_is_open() {
    let served = serve("127.0.0.1:0");
    let mut slow: Vec<TcpStream> = (0..SLOW).map(|_| served.connect()).collect();
    for half in slow.iter_mut().step_by(2) {
        half.write_all(b"GET / HTTP/1.1\r\nHost: local").unwrap();
    }
    for _ in 0..20 {
        assert!(answer(served.connect()).ends_with("answered"));
    }
    assert!(slow.iter_mut().all(is_open));
}

#[test]
fn a_unix_socket_is_for_its_owner_and_group_and_goes_with_its_listener() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    // Left over from one that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let served = serve(&format!("unix:{}", path.display()));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    assert!(Listener::bind(&served.address).is_err(), "one that is used is not replaced");
    let idle: Vec<UnixStream> = (0..SLOW).map(|_| UnixStream::connect(&path).unwrap()).collect();
    assert!(answer(UnixStream::connect(&path).unwrap()).ends_with("answered"));
    drop(served);
    drop(idle);
    assert!(!path.exists());
    let file = folder.path().join("notes");
    std::fs::write(&file, "notes").unwrap();
    assert!(Listener::bind(&Listen::Unix(file.clone())).is_err());
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "notes");
}
