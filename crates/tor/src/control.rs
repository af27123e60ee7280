//! A relay's control port (control-spec).

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use crate::TorError;

/// An authenticated control connection.
#[derive(Debug)]
pub struct Control {
    stream: BufReader<TcpStream>,
    address: SocketAddr,
}

impl Control {
    /// Connects to the control port named in `port_file` (torrc `ControlPortWriteToFile`) with the
    /// cookie in `cookie_file`. Fails while the relay has not written them yet. No answer takes
    /// longer than `timeout`.
    pub fn connect(port_file: &Path, cookie_file: &Path, timeout: Duration) -> Result<Self, TorError> {
        let text = std::fs::read_to_string(port_file).map_err(TorError::file(port_file))?;
        let address: SocketAddr =
            text.trim().strip_prefix("PORT=").and_then(|address| address.parse().ok()).ok_or_else(|| {
                TorError::Content {
                    path: port_file.to_owned(),
                    problem: format!("expected PORT=ADDRESS:PORT, found `{}`", text.trim()),
                }
            })?;
        let cookie = std::fs::read(cookie_file).map_err(TorError::file(cookie_file))?;
        let socket = |source| TorError::Socket { address, source };
        let stream = TcpStream::connect_timeout(&address, timeout).map_err(socket)?;
        stream.set_read_timeout(Some(timeout)).map_err(socket)?;
        stream.set_write_timeout(Some(timeout)).map_err(socket)?;
        let mut control = Self { stream: BufReader::new(stream), address };
        control.ask(&format!("AUTHENTICATE {}", hex::encode(cookie)))?;
        Ok(control)
    }

    /// The value of one `GETINFO` key, on one line.
    pub fn info(&mut self, key: &str) -> Result<String, TorError> {
        let lines = self.ask(&format!("GETINFO {key}"))?;
        let prefix = format!("{key}=");
        lines
            .iter()
            .find_map(|line| line.strip_prefix(&prefix))
            .map(str::to_owned)
            .ok_or_else(|| self.unexpected(format!("gave no {key} but {lines:?}")))
    }

    /// The address of the relay's ORPort, once it listens.
    pub fn or_address(&mut self) -> Result<SocketAddr, TorError> {
        let listeners = self.info("net/listeners/or")?;
        let first = listeners.split(' ').next().unwrap_or("").trim_matches('"');
        first.parse().map_err(|_| self.unexpected(format!("listens at `{listeners}`")))
    }

    /// When the consensus that the relay uses became valid, in seconds since 1970; `None` before it has one.
    pub fn consensus_valid_after(&mut self) -> Result<Option<i64>, TorError> {
        let text = match self.info("consensus/valid-after") {
            Ok(text) => text,
            // 551: "No current consensus".
            Err(TorError::Protocol { problem, .. }) if problem.contains("551") => return Ok(None),
            Err(error) => return Err(error),
        };
        let text = text.trim_matches('"');
        if text.is_empty() {
            return Ok(None);
        }
        let time: jiff::civil::DateTime =
            text.parse().map_err(|_| self.unexpected(format!("has a consensus valid after `{text}`")))?;
        let zoned = time.to_zoned(jiff::tz::TimeZone::UTC);
        Ok(zoned.ok().map(|zoned| zoned.timestamp().as_second()))
    }

    fn ask(&mut self, request: &str) -> Result<Vec<String>, TorError> {
        let address = self.address;
        let socket = |source| TorError::Socket { address, source };
        self.stream.get_mut().write_all(format!("{request}\r\n").as_bytes()).map_err(socket)?;
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            if self.stream.read_line(&mut line).map_err(socket)? == 0 {
                return Err(self.unexpected("closed its control port".to_owned()));
            }
            let line = line.trim_end();
            match (line.get(..3), line.get(3..4)) {
                (Some("250"), Some(" ")) => return Ok(lines),
                (Some("250"), Some(_)) => lines.push(line[4..].to_owned()),
                _ => return Err(self.unexpected(format!("answered `{line}`"))),
            }
        }
    }

    fn unexpected(&self, problem: String) -> TorError {
        TorError::Protocol { address: self.address, problem }
    }
}
