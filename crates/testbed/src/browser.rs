//! A headless Chromium for tests of pages, driven over the Chrome DevTools Protocol. Whatever goes wrong ends the test.

use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::{Message, WebSocket};

const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one page.
#[derive(Debug)]
pub struct Chromium {
    process: Child,
    socket: WebSocket<TcpStream>,
    session: String,
    /// Whether pages may run scripts.
    scripts: bool,
    next_id: u64,
    /// What the page said and asked for since it was loaded.
    events: Vec<Value>,
    _profile: tempfile::TempDir,
}

/// Where Debian's package `chromium` puts it, or whatever comes first in the search path.
pub fn find() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = std::env::split_paths(&std::env::var_os("PATH")?).collect();
    let candidates = ["chromium", "chromium-browser"];
    candidates
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| path.is_file())
}

/// The browser; `None`, after [skipping](crate::skip) the test, where there is none.
pub fn browser() -> Option<Chromium> {
    if let Some(program) = find() {
        return Some(Chromium::start(&program));
    }
    crate::skip("no chromium in the search path; install the package `chromium`");
    None
}

impl Chromium {
    /// Starts `program` with a profile of its own.
    pub fn start(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut process = Command::new(program)
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-sync"])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-dev-shm-usage",
            ])
            .args(["--remote-debugging-port=0", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = process.stderr.take().unwrap();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                if let Some(address) = line.strip_prefix("DevTools listening on ") {
                    let _ = sender.send(address.to_owned());
                }
            }
        });
        let address = receiver.recv_timeout(PATIENCE).expect("Chromium prints the address of its DevTools");
        let authority = address.strip_prefix("ws://").unwrap().split('/').next().unwrap();
        let stream = TcpStream::connect(authority).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let (socket, _) = tungstenite::client(address.as_str(), stream).unwrap();
        let mut browser = Self {
            process,
            socket,
            session: String::new(),
            scripts: true,
            next_id: 0,
            events: Vec::new(),
            _profile: profile,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached =
            browser.call("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Opens a file and waits until it is loaded and has settled.
    pub fn open(&mut self, file: &Path, dark: bool, width: u32, height: u32) {
        self.open_address(&format!("file://{}", file.display()), dark, width, height);
    }

    /// Opens an address and waits until it is loaded and has settled.
    pub fn open_address(&mut self, address: &str, dark: bool, width: u32, height: u32) {
        let scheme = if dark { "dark" } else { "light" };
        self.call(
            "Emulation.setEmulatedMedia",
            json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
        let phone = width < 640;
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": if phone { 2 } else { 1 }, "mobile": phone}),
        );
        self.events.clear();
        self.call("Page.navigate", json!({"url": address}));
        while !self.events.iter().any(|event| event["method"] == "Page.loadEventFired") {
            self.receive();
        }
        if self.scripts {
            // Two frames: layout is done, and what it asked for has been asked for.
            self.evaluate(
                "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))",
            );
        }
    }

    /// The value of an expression in the page.
    pub fn evaluate(&mut self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true}),
        );
        assert!(answer.get("exceptionDetails").is_none(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    /// Whether pages may run scripts from now on.
    pub fn allow_scripts(&mut self, allow: bool) {
        self.call("Emulation.setScriptExecutionDisabled", json!({"value": !allow}));
        self.scripts = allow;
    }

    /// Presses a key that has no text, such as `Tab` or `Enter`.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            _ => 0,
        };
        for kind in ["rawKeyDown", "keyUp"] {
            let event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code});
            self.call("Input.dispatchKeyEvent", event);
        }
        if key == "Enter" {
            self.call("Input.dispatchKeyEvent", json!({"type": "char", "text": "\r"}));
        }
    }

    /// Waits until an expression in the page is true.
    pub fn wait_for(&mut self, expression: &str) {
        let begun = std::time::Instant::now();
        while self.evaluate(expression) != json!(true) {
            assert!(begun.elapsed() < PATIENCE, "still not: {expression}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Errors, warnings, violations of the policy and exceptions that the page caused.
    pub fn complaints(&self) -> Vec<String> {
        let methods = [
            "Log.entryAdded",
            "Runtime.consoleAPICalled",
            "Runtime.exceptionThrown",
            "Network.loadingFailed",
        ];
        self.events
            .iter()
            .filter(|event| methods.iter().any(|method| event["method"] == *method))
            .map(ToString::to_string)
            .collect()
    }

    /// Addresses that the page asked for.
    pub fn requests(&self) -> Vec<String> {
        let asked = self.events.iter().filter(|event| event["method"] == "Network.requestWillBeSent");
        asked.map(|event| event["params"]["request"]["url"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// A picture of the whole page as PNG.
    pub fn screenshot(&mut self) -> Vec<u8> {
        use base64::Engine;
        let answer = self.call("Page.captureScreenshot", json!({"captureBeyondViewport": true}));
        base64::engine::general_purpose::STANDARD.decode(answer["data"].as_str().unwrap()).unwrap()
    }

    fn call(&mut self, method: &str, parameters: Value) -> Value {
        self.next_id += 1;
        let id = self.next_id;
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        self.socket.send(Message::text(message.to_string())).unwrap();
        loop {
            let answer = self.receive();
            if answer["id"] == id {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
        }
    }

    fn receive(&mut self) -> Value {
        loop {
            if let Message::Text(text) = self.socket.read().expect("Chromium answers in time") {
                let message: Value = serde_json::from_str(&text).unwrap();
                if message.get("method").is_some() {
                    self.events.push(message.clone());
                }
                return message;
            }
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
