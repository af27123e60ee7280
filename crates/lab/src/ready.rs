//! When a service can be used.

use std::fmt;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, Instant};

use heaptrial_relay::http;
use regex::bytes::{Regex, RegexBuilder};

use crate::placeholders::Placeholders;

/// How often a service is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long one look may take.
const LOOK_PATIENCE: Duration = Duration::from_secs(2);

/// What shows that a service can be used; placeholders are filled in for each service.
#[derive(Debug, Clone)]
pub enum Ready {
    /// `tcp:PORT` or `tcp:HOST:PORT`: something accepts connections.
    Tcp(String),
    /// `http:URL`: it answers with a status from 200 to 399.
    Http(String),
    /// `path:FILE`: the file (or socket) is there.
    Path(String),
    /// `log:REGEX`: it wrote a line like that to its standard output or error.
    Log(Regex),
}

impl FromStr for Ready {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown =
            || format!("`{text}` is no ready check; expected tcp:PORT, http:URL, path:FILE or log:REGEX");
        let (kind, what) = text.split_once(':').filter(|(_, what)| !what.is_empty()).ok_or_else(unknown)?;
        match kind {
            "tcp" => {
                let port = what.rsplit(':').next().unwrap_or(what);
                let is_port = port.contains('{') || port.parse::<u16>().is_ok_and(|port| port > 0);
                is_port.then(|| Self::Tcp(what.to_owned())).ok_or_else(|| {
                    format!(
                        "`{port}` is no port to connect to; expected a number from 1 to 65535, or {{port}}"
                    )
                })
            }
            "http" => Ok(Self::Http(http::url(what))),
            "path" => Ok(Self::Path(what.to_owned())),
            "log" => {
                // `^` and `$` mean lines.
                let pattern = RegexBuilder::new(what).multi_line(true).unicode(false).build();
                pattern.map(Self::Log).map_err(|error| format!("log: {error}"))
            }
            _ => Err(unknown()),
        }
    }
}

impl fmt::Display for Ready {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "tcp:{address}"),
            Self::Http(url) => write!(f, "http:{url}"),
            Self::Path(path) => write!(f, "path:{path}"),
            Self::Log(pattern) => write!(f, "log:{pattern}"),
        }
    }
}

impl Ready {
    /// The check of one service.
    pub(crate) fn fill(&self, placeholders: &Placeholders) -> Self {
        match self {
            Self::Tcp(address) => Self::Tcp(placeholders.fill(address)),
            Self::Http(url) => Self::Http(placeholders.fill(url)),
            Self::Path(path) => Self::Path(placeholders.fill(path)),
            Self::Log(pattern) => Self::Log(pattern.clone()),
        }
    }

    /// Waits until the service is ready, or `patience` ends, or `goes_on` says that waiting is of no use. `logs` are the
    /// files that it writes to. The error has what was seen last.
    pub(crate) fn wait(
        &self,
        patience: Duration,
        logs: &[PathBuf],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), String> {
        let started = Instant::now();
        loop {
            let Err(seen) = self.look(logs) else { return Ok(()) };
            if !goes_on() {
                return Err(format!("was not ready before it ended ({self}: {seen})"));
            }
            if started.elapsed() >= patience {
                return Err(format!("was not ready within {:.0} s ({self}: {seen})", patience.as_secs_f64()));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    fn look(&self, logs: &[PathBuf]) -> Result<(), String> {
        match self {
            Self::Tcp(address) => connect(address),
            Self::Http(url) => match http::get(url, LOOK_PATIENCE)? {
                (200..=399, _) => Ok(()),
                (status, _) => Err(format!("it answers with status {status}")),
            },
            Self::Path(path) if Path::new(path).exists() => Ok(()),
            Self::Path(_) => Err("there is no such file".to_owned()),
            Self::Log(pattern) => {
                let wrote = |log: &PathBuf| std::fs::read(log).is_ok_and(|text| pattern.is_match(&text));
                if logs.iter().any(wrote) { Ok(()) } else { Err("it wrote nothing like that".to_owned()) }
            }
        }
    }
}

fn connect(address: &str) -> Result<(), String> {
    let full = if address.contains(':') { address.to_owned() } else { format!("127.0.0.1:{address}") };
    let found: Vec<SocketAddr> =
        full.to_socket_addrs().map_err(|error| format!("{full}: {error}"))?.collect();
    let mut last = "it has no address".to_owned();
    for address in found {
        match TcpStream::connect_timeout(&address, LOOK_PATIENCE) {
            Ok(_) => return Ok(()),
            Err(error) => last = error.to_string(),
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_read_and_written_the_same() {
        for text in ["tcp:5432", "tcp:{port}", "tcp:localhost:80", "tcp:[::1]:80", "http:http://a/b"] {
            assert_eq!(text.parse::<Ready>().unwrap().to_string(), text);
        }
        for text in ["5432", "tcp:", "tcp:0", "tcp:99999", "tcp:localhost", "udp:1", "log:("] {
            assert!(text.parse::<Ready>().is_err(), "{text}");
        }
    }
}
