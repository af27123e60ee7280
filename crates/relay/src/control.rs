//! A relay's control port (control-spec).

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::endpoint::TimedReader;
use crate::{Endpoint, Relay, TorError};

/// One answer, with `orconn-status` of tens of thousands of connections.
const MAX_ANSWER_BYTES: u64 = 16 << 20;
const COOKIE_BYTES: usize = 32;

#[derive(Debug)]
pub struct Control {
    reader: BufReader<TimedReader>,
    address: Endpoint,
    timeout: Duration,
}

impl Control {
    /// Connects to a relay's control socket, or to its control port where it has no socket, and authenticates by
    /// its cookie. Neither connecting nor an answer takes longer than `timeout`.
    pub fn of(relay: &Relay, timeout: Duration) -> Result<Self, TorError> {
        let socket = relay.control_socket.clone().map(Endpoint::Unix);
        let address = socket.or(relay.control_port.map(Endpoint::Tcp)).ok_or_else(|| TorError::Content {
            path: relay.torrc.clone(),
            problem: "has no ControlSocket or ControlPort".to_owned(),
        })?;
        Self::open(address, relay.cookie_file.as_deref(), timeout)
    }

    /// Connects to `address` and authenticates: without anything where the relay asks for nothing, else by
    /// SAFECOOKIE, which proves to each side that the other can read the cookie without showing it. The cookie is
    /// in `cookie_file`, or where the relay says. Neither connecting nor an answer takes longer than `timeout`.
    fn open(address: Endpoint, cookie_file: Option<&Path>, timeout: Duration) -> Result<Self, TorError> {
        let fail = |source| TorError::Socket { address: address.clone(), source };
        let socket = address.connect(timeout).map_err(fail)?;
        socket.set_write_timeout(Some(timeout)).map_err(fail)?;
        let reader = BufReader::new(TimedReader { socket, until: Instant::now() + timeout });
        let mut control = Self { reader, address, timeout };
        control.authenticate(cookie_file)?;
        Ok(control)
    }

    /// The value of one `GETINFO` key; one that has several lines ends without a line break.
    pub fn info(&mut self, key: &str) -> Result<String, TorError> {
        let lines = self.ask(&format!("GETINFO {key}"))?;
        let prefix = format!("{key}=");
        lines
            .iter()
            .find_map(|line| line.strip_prefix(&prefix))
            .map(|value| value.strip_prefix('\n').unwrap_or(value).to_owned())
            .ok_or_else(|| self.unexpected(format!("gave no {key} but {lines:?}")))
    }

    /// The values of a configuration option that are in force (`GETCONF`), in tor's own writing: of one that may be
    /// given once one value, also where it is the default; none of an option that is not set and has no default.
    pub fn conf(&mut self, option: &str) -> Result<Vec<String>, TorError> {
        let lines = self.ask(&format!("GETCONF {option}"))?;
        // `Option` alone stands for an option at its default of nothing.
        Ok(lines.iter().filter_map(|line| Some(line.split_once('=')?.1.to_owned())).collect())
    }

    /// When the consensus that the relay uses became valid, in seconds since 1970; `None` before it has one.
    pub fn consensus_valid_after(&mut self) -> Result<Option<i64>, TorError> {
        let text = match self.info("consensus/valid-after") {
            Ok(text) => text,
            // 551: "No current consensus".
            Err(TorError::Refused { answer, .. }) if answer.starts_with("551") => return Ok(None),
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

    fn authenticate(&mut self, cookie_file: Option<&Path>) -> Result<(), TorError> {
        let lines = self.ask("PROTOCOLINFO 1")?;
        let offer = lines.iter().find_map(|line| line.strip_prefix("AUTH METHODS=")).unwrap_or("");
        let methods: Vec<&str> = offer.split(' ').next().unwrap_or("").split(',').collect();
        if methods.contains(&"NULL") {
            return self.ask("AUTHENTICATE").map(drop);
        }
        if !methods.contains(&"SAFECOOKIE") {
            return Err(self.unexpected(format!(
                "wants one of {methods:?} and offers no cookie; set CookieAuthentication 1 in its torrc"
            )));
        }
        let named = offer.split_once("COOKIEFILE=").and_then(|(_, file)| quoted(file));
        let file = match (cookie_file, named) {
            (Some(file), _) => file.to_owned(),
            (None, Some(file)) => file.into(),
            (None, None) => return Err(self.unexpected("does not say where its cookie is".to_owned())),
        };
        let cookie = read_cookie(&file)?;

        let mut client_nonce = [0; 32];
        rustix::rand::getrandom(&mut client_nonce, rustix::rand::GetRandomFlags::empty())
            .map_err(|error| TorError::Socket { address: self.address.clone(), source: error.into() })?;
        let lines = self.ask(&format!("AUTHCHALLENGE SAFECOOKIE {}", hex::encode(client_nonce)))?;
        let answer = lines.first().map(String::as_str).unwrap_or("");
        let bytes = |name: &str| {
            let value = answer.split(' ').find_map(|word| word.strip_prefix(name))?;
            hex::decode(value).ok()
        };
        let (Some(server_hash), Some(server_nonce)) = (bytes("SERVERHASH="), bytes("SERVERNONCE=")) else {
            return Err(self.unexpected(format!("answered a challenge with `{answer}`")));
        };
        let hash = |key: &[u8]| {
            // HMAC takes keys of any length.
            let mut hash = Hmac::<Sha256>::new_from_slice(key).unwrap_or_else(|_| unreachable!());
            hash.update(&cookie);
            hash.update(&client_nonce);
            hash.update(&server_nonce);
            hash
        };
        hash(b"Tor safe cookie authentication server-to-controller hash")
            .verify_slice(&server_hash)
            .map_err(|_| self.unexpected(format!("does not know the cookie in {}", file.display())))?;
        let proof = hash(b"Tor safe cookie authentication controller-to-server hash").finalize().into_bytes();
        self.ask(&format!("AUTHENTICATE {}", hex::encode(proof))).map(drop)
    }

    /// Sends a request and gives the lines of the answer but the last, where that is no more than `OK`. Data of
    /// several lines follow the line that they belong to, each after a line break.
    fn ask(&mut self, request: &str) -> Result<Vec<String>, TorError> {
        if request.contains(|character: char| character.is_control()) {
            return Err(self.unexpected(format!("cannot be asked {request:?}")));
        }
        let address = self.address.clone();
        let fail = |source| TorError::Socket { address: address.clone(), source };
        let timed = self.reader.get_mut();
        timed.until = Instant::now() + self.timeout;
        timed.socket.write_all(format!("{request}\r\n").as_bytes()).map_err(fail)?;
        let mut lines = Vec::new();
        let mut budget = MAX_ANSWER_BYTES;
        loop {
            let line = self.line(&mut budget)?;
            match (line.get(..3), line.get(3..4)) {
                (Some("250"), Some(" ")) => {
                    lines.extend(line.get(4..).filter(|last| *last != "OK").map(str::to_owned));
                    return Ok(lines);
                }
                (Some("250"), Some("+")) => {
                    let mut text = line[4..].to_owned();
                    loop {
                        let data = self.line(&mut budget)?;
                        if data == "." {
                            break;
                        }
                        text.push('\n');
                        text.push_str(data.strip_prefix('.').unwrap_or(&data));
                    }
                    lines.push(text);
                }
                (Some("250"), Some("-")) => lines.push(line[4..].to_owned()),
                _ => return Err(TorError::Refused { address: self.address.clone(), answer: line }),
            }
        }
    }

    fn line(&mut self, budget: &mut u64) -> Result<String, TorError> {
        let mut bytes = Vec::new();
        let read = (&mut self.reader).take(*budget).read_until(b'\n', &mut bytes);
        let read = read.map_err(|source| TorError::Socket { address: self.address.clone(), source })?;
        *budget -= read as u64;
        if !bytes.ends_with(b"\n") {
            let problem = if *budget == 0 { "answers without end" } else { "closed its control port" };
            return Err(self.unexpected(problem.to_owned()));
        }
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches(['\r', '\n']).to_owned())
    }

    pub(crate) fn unexpected(&self, problem: String) -> TorError {
        TorError::Protocol { address: self.address.clone(), problem }
    }
}

fn read_cookie(file: &Path) -> Result<Vec<u8>, TorError> {
    let cookie = crate::settings::read_small(file, COOKIE_BYTES as u64)?;
    if cookie.len() == COOKIE_BYTES {
        return Ok(cookie);
    }
    // Tor is writing it, or it is another file.
    let source = std::io::Error::new(ErrorKind::InvalidData, format!("{} bytes are no cookie", cookie.len()));
    Err(TorError::File { path: file.to_owned(), source })
}

/// A quoted string at the start of `text`.
fn quoted(text: &str) -> Option<std::ffi::OsString> {
    use std::os::unix::ffi::OsStringExt;
    crate::torrc::unquote(text.as_bytes()).map(|(value, _)| std::ffi::OsString::from_vec(value))
}
