//! The real server on a loopback port, and a client that sends what it is given, byte for byte.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use heaptrial_dashboard::{Config, Dashboard, Listen};
use tokio::sync::oneshot;

pub const PATIENCE: Duration = Duration::from_secs(60);

/// A dashboard that runs until it is dropped.
pub struct Server {
    pub address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    pub fn of(database: &Path) -> Self {
        Self::with(Config { listen: "127.0.0.1:0".parse().unwrap(), ..Config::of(database.to_owned()) })
    }

    pub fn with(config: Config) -> Self {
        let dashboard = Dashboard::bind(config).unwrap();
        let Listen::Tcp(address) = dashboard.address() else { panic!("listens on TCP") };
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let stopped = async move {
                let _ = stopped.await;
            };
            dashboard.run(stopped).unwrap();
        });
        Self { address, stop: Some(stop), thread: Some(thread) }
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// The answer to a request that is sent as it is.
    pub fn raw(&self, request: &str) -> Answer {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = Vec::new();
        stream.read_to_end(&mut text).unwrap();
        Answer::parse(&String::from_utf8_lossy(&text))
    }

    pub fn request(&self, method: &str, path: &str) -> Answer {
        self.raw(&format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address))
    }

    pub fn get(&self, path: &str) -> Answer {
        self.request("GET", path)
    }

    /// A page once it has what takes time to compute.
    pub fn get_computed(&self, path: &str) -> Answer {
        let begun = Instant::now();
        loop {
            let answer = self.get(path);
            if !answer.body.contains("is being computed") {
                return answer;
            }
            assert!(begun.elapsed() < PATIENCE, "{path} is computed in time");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends it and waits for that.
    pub fn end(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// An answer to a request.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Self { status, head: head.to_owned(), body: body.to_owned() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1);
        let mut pairs = lines.filter_map(|line| line.split_once(": "));
        pairs.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}
