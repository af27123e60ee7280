//! `heaptrial serve` and what it answers.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use super::heaptrial;

/// An answer that takes longer than this does not come.
const LIMIT: Duration = Duration::from_secs(60);

/// A dashboard; it is ended when this is dropped.
pub struct Served {
    child: Child,
    authority: String,
}

impl Served {
    /// Of what is in `folder`.
    pub fn of(folder: &Path) -> Self {
        let mut command = heaptrial(folder);
        command.args(["serve", "--listen", "127.0.0.1:0", "."]);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let authority = url.trim().strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
        Self { child, authority }
    }

    fn ask(&self, path: &str) -> TcpStream {
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.authority)
            .unwrap();
        stream
    }

    /// The whole answer, with its status and headers.
    pub fn get(&self, path: &str) -> String {
        let mut answer = String::new();
        self.ask(path).read_to_string(&mut answer).unwrap();
        answer
    }

    /// Ends it by a signal.
    pub fn end(&mut self, signal: Signal) -> ExitStatus {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
