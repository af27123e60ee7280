//! A full disk, and no root.

use crate::support;

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{heaptrial, json, processes_with, run, stderr};

/// A small file system of its own, unmounted with the test.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(place: &Path) -> Result<Self, String> {
        std::fs::create_dir(place).unwrap();
        let output = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=700k", "heaptrial-test"])
            .arg(place)
            .output()
            .map_err(|error| format!("mount: {error}"))?;
        match output.status.success() {
            true => Ok(Self(place.to_owned())),
            false => Err(stderr(&output)),
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
#[ignore = "needs root"]
fn a_full_disk_ends_the_run_and_loses_nothing_that_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let disk = match SmallDisk::mount(&folder.path().join("small")) {
        Ok(disk) => disk,
        Err(why) => {
            let why = format!("a small file system cannot be mounted here ({why}); run as root");
            return heaptrial_testbed::skip(&why);
        }
    };
    let long = support::own_seconds(602);
    let output = heaptrial(folder.path())
        .args(
            "lab run --offline --source host --out small/run -a glibc --duration 2m --tick 10ms --"
                .split(' '),
        )
        .args(["sleep", &long])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let told = stderr(&output);
    assert!(told.contains("the disk is full"), "{told}");
    assert_eq!(processes_with(&format!("sleep\u{0}{long}")), Vec::<i32>::new());

    let output = run(folder.path(), "report small/run --out elsewhere --json");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let samples = json(&output)["samples"].as_u64().unwrap();
    // What fits into 700 KB beside schema, logs and plan.
    assert!(samples >= 10, "{samples}");
    drop(disk);
}

#[test]
#[ignore = "needs root"]
fn a_user_without_root_can_run_a_program() {
    let folder = tempfile::tempdir().unwrap();
    // The user must reach the binary and write the run's folder.
    let program = folder.path().join("heaptrial");
    // By a process of its own: what this one holds open for writing, a process that another test starts just then may hold as well, and
    // then it cannot be run.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_heaptrial")).arg(&program).status().unwrap();
    assert!(copied.success());
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new(&program);
    command
        .current_dir(folder.path())
        .env("XDG_CACHE_HOME", folder.path().join("cache"))
        .args("lab run --offline --source host --out run -a glibc -a jemalloc@5.3.0 --duration 1s --tick 100ms --json --".split(' '))
        .args(["sleep", "603"]);
    if rustix::process::geteuid().is_root() {
        const NOBODY: u32 = 65_534;
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&output);
    assert_eq!(support::arm(&report, "jemalloc@5.3.0")["services"], 1);
}
