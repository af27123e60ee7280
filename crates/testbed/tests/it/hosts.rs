//! Hosts boot, lose power, boot again, and leave nothing behind.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use heaptrial_testbed::{Container, Options, Snapshot, Testbed, TestbedError};

const SLEEPER: &str =
    "[Service]\nExecStart=sleep 604\nMemoryAccounting=yes\n[Install]\nWantedBy=multi-user.target\n";

/// Mounts, cgroups and processes of this machine that belong to a container.
fn traces(name: &str, folder: &Path) -> Vec<String> {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut found: Vec<String> =
        mounts.lines().filter(|line| line.contains(&format!("/run/{name}/"))).map(str::to_owned).collect();
    let cgroup = format!("heaptrial-testbed-{name}");
    for process in std::fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let read = |name| std::fs::read_to_string(process.path().join(name)).unwrap_or_default();
        // A process that has ended is there until somebody asks how; of orphans that is none of our concern.
        if read("cgroup").contains(&cgroup) && !read("stat").contains(") Z ") {
            found.push(process.path().display().to_string());
        }
    }
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").unwrap().filter_map(Result::ok);
    let cgroups = hierarchies.map(|entry| entry.path().join(&cgroup)).filter(|path| path.exists());
    found.extend(cgroups.map(|path| path.display().to_string()));
    if folder.exists() {
        found.push(folder.display().to_string());
    }
    found
}

/// The folder of a container.
fn folder(base: &heaptrial_testbed::Base, name: &str) -> std::path::PathBuf {
    base.root().parent().unwrap().join("run").join(name)
}

#[test]
#[ignore = "needs root and a container"]
fn a_host_runs_services_and_keeps_its_disk_over_a_power_cut() {
    let Some(base) = Testbed::for_test() else { return };
    let mut host = Container::boot(&base, Options::new()).unwrap();
    assert_eq!(host.ok(&["systemctl", "is-system-running"]), "running\n");
    assert!(host.ok(&["ip", "-brief", "link"]).starts_with("lo "));
    assert_eq!(host.ok(&["ip", "route"]), "");

    host.write("/etc/systemd/system/sleeper.service", SLEEPER, 0o644).unwrap();
    host.ok(&["systemctl", "daemon-reload"]);
    host.ok(&["systemctl", "enable", "--now", "sleeper"]);
    let shown = host.ok(&["systemctl", "show", "--property=MemoryCurrent", "--value", "sleeper"]);
    assert!(shown.trim().parse::<u64>().is_ok_and(|bytes| bytes > 0), "no memory accounting: {shown}");

    let asked = |host: &Container| {
        let ids = ["/etc/machine-id", "/proc/sys/kernel/random/boot_id"];
        ids.map(|path| host.read_text(path).unwrap())
    };
    let [machine, boot] = asked(&host);
    host.write("/var/lib/kept", "over the power cut", 0o600).unwrap();
    host.write("/run/lost", "", 0o600).unwrap();
    host.power_cut().unwrap();
    assert_eq!(host.leader(), None);
    assert!(matches!(host.try_ok(&["true"]), Err(TestbedError::Refused(_))));
    assert_eq!(host.read("/var/lib/kept").unwrap(), b"over the power cut", "readable without a boot");

    host.boot_again().unwrap();
    let [same_machine, other_boot] = asked(&host);
    assert_eq!(machine, same_machine);
    assert_ne!(boot, other_boot);
    assert_eq!(host.ok(&["cat", "/var/lib/kept"]), "over the power cut");
    assert!(host.read("/run/lost").is_err());
    assert_eq!(host.ok(&["systemctl", "is-active", "sleeper"]), "active\n");
}

#[test]
#[ignore = "needs root and a container"]
fn a_snapshot_shows_every_change_and_nothing_else() {
    let Some(base) = Testbed::for_test() else { return };
    let host = Container::boot(&base, Options::new()).unwrap();
    host.write("/srv/data/content", "one", 0o644).unwrap();
    host.write("/srv/data/removed", "x", 0o644).unwrap();
    host.ok(&["ln", "-s", "/srv/data/mode", "/srv/data/link"]);
    let before = Snapshot::of(&host, &["/srv", "/lib/systemd", "/no/such"]).unwrap();
    host.ok(&["touch", "/srv/data/content"]);
    let later = Snapshot::of(&host, &["/srv", "/lib/systemd", "/no/such"]).unwrap();
    assert_eq!(before.difference(&later), Vec::<String>::new(), "times do not count");

    host.write("/srv/data/content", "two", 0o600).unwrap();
    host.ok(&["rm", "/srv/data/removed"]);
    host.ok(&["ln", "-sfn", "/etc/passwd", "/srv/data/link"]);
    host.write("/srv/data/added", "", 0o644).unwrap();
    let later = Snapshot::of(&host, &["/srv"]).unwrap();
    let changes: Vec<String> =
        before.difference(&later).into_iter().filter(|line| line.starts_with("/srv")).collect();
    let [added, content, link, removed] = &changes[..] else { panic!("{changes:?}") };
    assert_eq!((added.as_str(), removed.as_str()), ("/srv/data/added: is new", "/srv/data/removed: is gone"));
    assert!(
        content.starts_with("/srv/data/content: 3 bytes ") && content.ends_with(" 0600 0:0"),
        "{content}"
    );
    assert!(link.contains("link to /srv/data/mode") && link.contains("now link to /etc/passwd"), "{link}");
}

#[test]
#[ignore = "needs root and a container"]
fn two_hosts_at_once_leave_nothing_behind_also_after_a_panic() {
    let Some(base) = Testbed::for_test() else { return };
    let bound = std::env::current_exe().unwrap();
    let options = || Options::new().bind(bound.parent().unwrap(), "/bound").disk_bytes(64 << 20);
    let (first, second) = (
        Container::boot(&base, options()).unwrap(),
        Container::boot(&base, options().name(format!("second-{}", std::process::id()))).unwrap(),
    );
    let taken = Options::new().name(second.name());
    assert!(matches!(Container::boot(&base, taken), Err(TestbedError::Refused(_))));
    first.write("/srv/mine", "1", 0o644).unwrap();
    assert!(second.read("/srv/mine").is_err());
    let inside = Path::new("/bound").join(bound.file_name().unwrap());
    first.ok(&["test".as_ref(), "-x".as_ref(), inside.as_os_str()]);
    assert!(!first.run(&["touch", "/bound/new"]).status.success(), "a bind is read-only");
    let full = first.run(&["dd", "if=/dev/zero", "of=/srv/large", "bs=1M", "count=100"]);
    assert!(String::from_utf8_lossy(&full.stderr).contains("No space left"), "{full:?}");

    let names = [first.name().to_owned(), second.name().to_owned()];
    assert!(names.iter().all(|name| !traces(name, &folder(&base, name)).is_empty()), "traces are seen");
    drop(first);
    let panicked = std::thread::spawn(move || {
        let _host = second;
        panic!("a test fails");
    });
    assert!(panicked.join().is_err());
    for name in names {
        assert_eq!(traces(&name, &folder(&base, &name)), Vec::<String>::new());
    }
}

#[test]
#[ignore = "needs root and a container"]
fn what_a_killed_process_left_behind_is_removed_by_the_next_one() {
    // The child of this test boots a host and waits for its end.
    const NAME: &str = "HEAPTRIAL_TESTBED_LEFT_BEHIND";
    let Some(base) = Testbed::for_test() else { return };
    if let Ok(name) = std::env::var(NAME) {
        let host = Container::boot(&base, Options::new().name(name)).unwrap();
        host.write("/srv/booted", "", 0o644).unwrap();
        loop {
            std::thread::park();
        }
    }
    let name = format!("left-{}", std::process::id());
    let this = "hosts::what_a_killed_process_left_behind_is_removed_by_the_next_one";
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([this, "--exact", "--nocapture", "--include-ignored"])
        .env(NAME, &name)
        .spawn()
        .unwrap();
    let folder = folder(&base, &name);
    let started = Instant::now();
    while !folder.join("root/srv/booted").exists() {
        assert!(started.elapsed() < Duration::from_secs(120), "the child boots no host");
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!traces(&name, &folder).is_empty());
    Testbed::prepare().unwrap();
    assert_eq!(traces(&name, &folder), Vec::<String>::new());
}
