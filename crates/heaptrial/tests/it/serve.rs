//! `heaptrial serve`, as a user types it.

use crate::support;

use std::process::{Command, Output};

use heaptrial_store::Store;
use support::served::Served;

fn heaptrial(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_heaptrial")).args(arguments).output().unwrap()
}

#[test]
fn it_prints_its_address_answers_and_ends_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    drop(Store::create(&folder.path().join("heaptrial.db")).unwrap());
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM] {
        let mut served = Served::of(folder.path());
        let answer = served.get("/");
        assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("holds no trial yet"), "{answer}");
        assert_eq!(served.end(signal).code(), Some(0), "{signal:?}");
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
