//! Where the dashboard listens, and for whom.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use crate::DashboardError;

/// The port unless another is named.
pub const DEFAULT_PORT: u16 = 8647;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// Why a text is not an address to listen on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not an address to listen on; expected IP:PORT such as 127.0.0.1:8647, or unix:PATH")]
pub struct ListenError(String);

impl Default for Listen {
    fn default() -> Self {
        Self::Tcp(SocketAddr::from(([127, 0, 0, 1], DEFAULT_PORT)))
    }
}

impl FromStr for Listen {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Self, ListenError> {
        let refused = || ListenError(text.to_owned());
        match text.strip_prefix("unix:") {
            Some("") => Err(refused()),
            Some(path) => Ok(Self::Unix(path.into())),
            None => {
                let numeric = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
                numeric.as_deref().unwrap_or(text).parse().map(Self::Tcp).map_err(|_| refused())
            }
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl Listen {
    /// Whether only this machine can reach it.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().to_canonical().is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

/// What to show, and where.
#[derive(Debug, Clone)]
pub struct Config {
    /// The database; it is only read.
    pub database: PathBuf,
    /// Where to listen.
    pub listen: Listen,
    /// Whether an address that other machines can reach is meant so.
    pub anywhere: bool,
    /// Further names by which browsers may ask for it, such as that of a proxy before it.
    pub hosts: Vec<String>,
}

impl Config {
    /// Of a database, on the usual address.
    pub fn of(database: PathBuf) -> Self {
        Self { database, listen: Listen::default(), anywhere: false, hosts: Vec::new() }
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
    fn addresses_are_read_and_told() {
        for text in ["127.0.0.1:8647", "[::1]:80", "0.0.0.0:8647", "unix:/run/heaptrial/dashboard.sock"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        assert_eq!("localhost:8647".parse::<Listen>().unwrap(), Listen::default());
        for bad in ["", "unix:", "8647", "127.0.0.1", "example.org:80", "127.0.0.1:99999"] {
            assert!(bad.parse::<Listen>().unwrap_err().to_string().contains("IP:PORT"), "{bad}");
        }
    }

    #[test]
    fn only_this_machine_unless_said_otherwise() {
        let at = |listen: &str, anywhere| {
            let config = Config { listen: listen.parse().unwrap(), anywhere, ..Config::of("x".into()) };
            config.check()
        };
        assert!(at("127.0.0.1:1", false).is_ok() && at("127.8.8.8:1", false).is_ok());
        assert!(at("[::1]:1", false).is_ok() && at("unix:/x", false).is_ok());
        assert!(at("[::ffff:127.0.0.1]:1", false).is_ok());
        for far in ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "[::ffff:192.0.2.1]:1"] {
            assert!(at(far, false).unwrap_err().to_string().contains("--listen-anywhere"), "{far}");
            assert!(at(far, true).is_ok());
        }
    }
}
