//! Addresses and unix sockets at which a relay listens.

use std::fmt;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use socket2::{Domain, SockAddr, Socket, Type};

/// A TCP address or a unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    Tcp(SocketAddr),
    /// The path of a unix socket.
    Unix(PathBuf),
}

impl Endpoint {
    pub(crate) fn connect(&self, timeout: Duration) -> io::Result<Socket> {
        let address = match self {
            Self::Tcp(address) => SockAddr::from(*address),
            Self::Unix(path) => SockAddr::unix(path)?,
        };
        let until = Instant::now() + timeout;
        loop {
            let socket = Socket::new(Domain::from(i32::from(address.family())), Type::STREAM, None)?;
            match socket.connect_timeout(&address, timeout) {
                Ok(()) => return Ok(socket),
                // The queue of a unix socket's listener is full; connect(2) does not wait for it here.
                Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Err(error) => return Err(error),
            }
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(formatter),
            Self::Unix(path) => path.display().fmt(formatter),
        }
    }
}

/// Bytes of a connection, each of whose reads has to end before a moment.
#[derive(Debug)]
pub(crate) struct TimedReader {
    pub(crate) socket: Socket,
    pub(crate) until: Instant,
}

impl io::Read for TimedReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        match self.socket.read(buffer) {
            // The time is over.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(ErrorKind::TimedOut.into()),
            read => read,
        }
    }
}
