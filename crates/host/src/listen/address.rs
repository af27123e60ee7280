//! Where to listen.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            let expected = "expected IP:PORT such as 127.0.0.1:8647, or unix:/PATH";
            format!("`{text}` is not an address to listen on; {expected}")
        };
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_printed() {
        for text in ["127.0.0.1:8647", "[::1]:80", "0.0.0.0:8647", "unix:/run/heaptrial/dashboard.sock"] {
            assert_eq!(text.parse::<Listen>().unwrap().to_string(), text);
        }
        assert_eq!("localhost:8647".parse::<Listen>().unwrap().to_string(), "127.0.0.1:8647");
        for bad in ["", "unix:", "8647", "127.0.0.1", "example.org:80", "127.0.0.1:99999"] {
            assert!(bad.parse::<Listen>().unwrap_err().contains("IP:PORT"), "{bad}");
        }
    }
}
