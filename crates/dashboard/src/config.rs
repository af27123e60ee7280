//! Where the dashboard listens, and for whom.

use std::net::SocketAddr;
use std::path::PathBuf;

use heaptrial_host::listen::Listen;

use crate::DashboardError;

const DEFAULT_PORT: u16 = 8647;

#[derive(Debug, Clone)]
pub struct Config {
    pub database: PathBuf,
    pub listen: Listen,
    /// Whether an address that other machines can reach is meant so.
    pub anywhere: bool,
    /// Further names by which browsers may ask for it, such as that of a proxy before it.
    pub hosts: Vec<String>,
}

impl Config {
    /// Of a database, on the usual address.
    pub fn of(database: PathBuf) -> Self {
        Self { database, listen: Self::usual_address(), anywhere: false, hosts: Vec::new() }
    }

    /// The loopback address, and a port of its own.
    pub fn usual_address() -> Listen {
        Listen::Tcp(SocketAddr::from(([127, 0, 0, 1], DEFAULT_PORT)))
    }

    pub(crate) fn check(&self) -> Result<(), DashboardError> {
        if self.listen.is_local() || self.anywhere {
            return Ok(());
        }
        Err(DashboardError::NotLocal { listen: self.listen.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_this_machine_unless_said_otherwise() {
        let is_refused = |listen: &str, anywhere| {
            let listen = listen.parse().unwrap();
            Config { listen, anywhere, ..Config::of("x".into()) }.check().is_err()
        };
        for near in ["127.0.0.1:1", "127.8.8.8:1", "[::1]:1", "unix:/x", "[::ffff:127.0.0.1]:1"] {
            assert!(!is_refused(near, false), "{near}");
        }
        for far in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[::ffff:192.0.2.1]:1"] {
            assert!(is_refused(far, false) && !is_refused(far, true), "{far}");
        }
    }
}
