//! `--like`: what a service that runs has becomes options of the lab.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{heaptrial, run, stderr, stdout, wait_for};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A relay without a network, with three worker threads.
fn relay(folder: &Path) -> Running {
    let none = "F".repeat(40);
    let at = |name: &str| folder.join(name).display().to_string();
    let torrc = format!(
        "TestingTorNetwork 1\nDirAuthority lab orport=1 no-v2 v3ident={none} 127.0.0.1:9 {none}\nNickname like\n\
         ORPort 127.0.0.1:auto\nAddress 127.0.0.1\nAssumeReachable 1\nSocksPort 0\nNumCPUs 3\nMaxMemInQueues 300 MB\n\
         ContactInfo lab@example.invalid\nExitRelay 0\nCookieAuthentication 1\nShutdownWaitLength 0\n\
         DataDirectory {}\nControlSocket {}\nLog notice file {}\n",
        at("data"),
        at("control"),
        at("log")
    );
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).unwrap();
    std::fs::write(folder.join("torrc"), torrc).unwrap();
    let child = Command::new("/usr/bin/tor").args(["-f", &at("torrc")]).stdout(Stdio::null()).spawn();
    let running = Running(child.expect("this test needs the Debian package `tor`"));
    wait_for("the relay's control socket", Duration::from_secs(60), || {
        folder.join("control").exists().then_some(())
    });
    running
}

#[test]
#[ignore = "needs Tor"]
fn the_lab_takes_over_what_a_running_relay_has() {
    let folder = tempfile::tempdir().unwrap();
    let running = relay(folder.path());
    let options = format!("lab tor --like {} --dry-run -a glibc -a mimalloc@2.0.9 --seed 1", running.0.id());
    let output = run(folder.path(), &options);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let processors = std::thread::available_parallelism().unwrap();
    let (said, command) = (stderr(&output), stdout(&output));
    for word in [
        &format!("--processors {processors}"),
        "--torrc 'NumCPUs=3'",
        "--torrc 'MaxMemInQueues=300 MB'",
        "--connections 0",
        "--consensuses 2",
    ] {
        assert!(command.contains(word), "{word}: {command}{said}");
    }
    assert!(said.contains("threads: ") && said.contains("version of Tor: 0."), "{said}");
    // What is given goes before it.
    let output = run(folder.path(), &format!("{options} --processors 7 --torrc numcpus=9"));
    let command = stdout(&output);
    assert!(command.contains("--processors 7") && command.contains("--torrc 'numcpus=9'"), "{command}");
    assert!(!command.contains("NumCPUs=3"), "{command}");
}

#[test]
fn the_lab_takes_over_on_how_many_processors_a_program_may_run() {
    let folder = tempfile::tempdir().unwrap();
    let sleeps = Running(Command::new("taskset").args(["-c", "0", "sleep", "600"]).spawn().unwrap());
    let options = format!("lab run --like {} --dry-run -a glibc -a jemalloc@5.3.0 -- true", sleeps.0.id());
    let output = wait_for("one processor", Duration::from_secs(10), || {
        let output = run(folder.path(), &options);
        stdout(&output).contains("--processors 1 ").then_some(output)
    });
    assert!(stderr(&output).contains("processors: 1 (its affinity)"), "{}", stderr(&output));
}

#[test]
fn what_is_no_relay_or_does_not_run_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let own = std::process::id().to_string();
    for (like, code, why) in [
        (own.as_str(), 3, "no Tor relay"),
        ("4194303", 3, "4194303"),
        ("not a unit!", 2, "expected the PID of a process, or a unit"),
    ] {
        let command = ["lab", "tor", "--like", like, "-a", "glibc", "-a", "mimalloc@2.0.9", "--out", "run"];
        let output = heaptrial(folder.path()).args(command).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains(why), "{}", stderr(&output));
    }
    assert!(!folder.path().join("run").exists());
}
