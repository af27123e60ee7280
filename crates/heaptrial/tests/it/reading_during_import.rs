//! A database into which another process makes its first import holds no trial before that is whole.

use crate::support;

use std::net::{SocketAddr, TcpListener};
use std::process::{Child, Stdio};

use support::series_store::ask;
use support::{heaptrial, run, stderr};

/// A child of the test, killed with it.
struct Process(Child);

impl Process {
    /// Whether it succeeded, and what it said of what went wrong.
    fn end(mut self) -> (bool, String) {
        let mut text = String::new();
        std::io::Read::read_to_string(self.0.stderr.as_mut().unwrap(), &mut text).unwrap();
        (self.0.wait().unwrap().success(), text)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that takes connections and answers nothing, as a store at work does.
fn silent() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

#[test]
fn what_is_being_imported_is_not_there_before_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let (listener, address) = silent();
    let mut import = heaptrial(folder);
    import.args(["--db", "new.db", "import", "prometheus", &format!("http://{address}")]);
    import
        .args(["--exporter", "process", "--from", "1h"])
        .env("NO_PROXY", "127.0.0.1")
        .stderr(Stdio::piped());
    let import = Process(import.spawn().unwrap());
    // It has asked, and waits.
    let asked = listener.accept().unwrap();
    let output = run(folder, "--out report report new.db");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("appears when it has ended"), "{}", stderr(&output));
    let mut serve = heaptrial(folder);
    let mut serve = Process(
        serve
            .args(["serve", "new.db", "--listen", "127.0.0.1:0", "--host", "x"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap(),
    );
    let mut url = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(serve.0.stdout.take().unwrap()), &mut url)
        .unwrap();
    let at: SocketAddr = url.trim().trim_start_matches("http://").trim_end_matches('/').parse().unwrap();
    let page = ask(at, "GET", "/", "").unwrap();
    assert!(page.contains("holds no trial yet"), "{page}");
    drop((asked, listener));
    let output = import.end();
    assert!(!output.0 && output.1.contains("cannot ask"), "{output:?}");
    assert!(!folder.join("new.db").exists(), "an import that failed leaves no empty database");
}
