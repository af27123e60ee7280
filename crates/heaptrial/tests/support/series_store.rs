//! A real Prometheus, a real VictoriaMetrics.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::{stderr, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);

/// A server of the test, ended with it.
pub struct Server {
    child: Child,
    pub address: SocketAddr,
}

impl Server {
    /// Started in `folder`; `ADDRESS` among the arguments is where it listens. Waits until `ready` answers, if that is a path.
    pub fn start(program: &str, folder: &Path, arguments: &[&str], ready: &str) -> Self {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
        let arguments = arguments.iter().map(|argument| argument.replace("ADDRESS", &address.to_string()));
        let log = fs::File::create(folder.join(format!("{program}.log"))).unwrap();
        let child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self { child, address };
        if !ready.is_empty() {
            wait_for(program, PATIENCE, || {
                let answer = server.ask("GET", ready, "").ok()?;
                answer.starts_with("HTTP/1.1 200").then_some(())
            });
        }
        server
    }

    pub fn prometheus(folder: &Path, configuration: &str, more: &[&str]) -> Self {
        fs::write(folder.join("prometheus.yml"), configuration).unwrap();
        let arguments = [
            "--config.file=prometheus.yml",
            "--storage.tsdb.path=data",
            "--storage.tsdb.retention.time=100y",
            "--web.listen-address=ADDRESS",
        ];
        let ready = if more.is_empty() { "/-/ready" } else { "" };
        Self::start("prometheus", folder, &[&arguments[..], more].concat(), ready)
    }

    /// One that has taken in series in its own form, one a line.
    pub fn victoria(folder: &Path, json_lines: &str) -> Self {
        let server = Self::start(
            "victoria-metrics",
            folder,
            &["-storageDataPath=victoria", "-httpListenAddr=ADDRESS", "-retentionPeriod=100y"],
            "/health",
        );
        let put = server.ask("POST", "/api/v1/import", json_lines).unwrap();
        assert!(put.starts_with("HTTP/1.1 204"), "{put}");
        server.ask("GET", "/internal/force_flush", "").unwrap();
        server
    }

    /// One that has blocks of what OpenMetrics tells.
    pub fn prometheus_with(folder: &Path, openmetrics: &str) -> Self {
        fs::write(folder.join("history.om"), openmetrics).unwrap();
        let blocks = Command::new("promtool")
            .args(["tsdb", "create-blocks-from", "openmetrics", "history.om", "data"])
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(blocks.status.success(), "{}", stderr(&blocks));
        Self::prometheus(folder, "global: {}\n", &[])
    }

    pub fn ask(&self, method: &str, path: &str, body: &str) -> std::io::Result<String> {
        ask(self.address, method, path, body)
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

pub fn installed(programs: &[&str]) -> bool {
    let missing: Vec<&str> = programs
        .iter()
        .filter(|program| !Command::new("which").arg(program).output().unwrap().status.success())
        .copied()
        .collect();
    if !missing.is_empty() {
        heaptrial_testbed::skip(&format!("{} is not installed", missing.join(", ")));
    }
    missing.is_empty()
}
