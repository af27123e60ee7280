//! `heaptrial serve`, as a user types it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use heaptrial_store::Store;

fn heaptrial(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heaptrial")).args(arguments).output().unwrap()
}

#[test]
fn it_prints_its_address_answers_and_ends_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::create(&folder.path().join("heaptrial.db")).unwrap());
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_heaptrial"))
            .args(["serve", "--listen", "127.0.0.1:0"])
            .arg(folder.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut url).unwrap();
        let authority = url.trim().strip_prefix("http://").unwrap().trim_end_matches('/').to_owned();
        let mut stream = TcpStream::connect(&authority).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET / HTTP/1.1\r\nHost: {authority}\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("holds no trial yet"), "{answer}");
        let pid = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(pid, signal).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(0), "{signal:?}");
    }
}

#[test]
fn what_cannot_be_shown_is_refused_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let database = folder.path().join("heaptrial.db");
    let named = database.to_str().unwrap();
    let missing = heaptrial(&["serve", named]);
    let told = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(missing.status.code() == Some(3) && told.contains(named), "{told}");
    let search = folder.path().join("search");
    std::fs::create_dir(&search).unwrap();
    std::fs::write(search.join("bisect-plan.json"), "{}").unwrap();
    let begun = heaptrial(&["serve", search.to_str().unwrap()]);
    let told = String::from_utf8_lossy(&begun.stderr).into_owned();
    assert!(begun.status.code() == Some(3) && told.contains("measured nothing"), "{told}");
    drop(Store::create(&database).unwrap());
    let anywhere = heaptrial(&["serve", named, "--listen", "0.0.0.0:0"]);
    let told = String::from_utf8_lossy(&anywhere.stderr).into_owned();
    assert!(anywhere.status.code() == Some(2) && told.contains("--listen-anywhere"), "{told}");
    assert_eq!(heaptrial(&["serve", named, "--listen", "example.org:80"]).status.code(), Some(2));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let in_use = heaptrial(&["serve", named, "--listen", &address]);
    let told = String::from_utf8_lossy(&in_use.stderr).into_owned();
    assert!(in_use.status.code() == Some(3) && told.contains(&address), "{told}");
}
