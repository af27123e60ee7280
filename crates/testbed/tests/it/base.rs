//! The root file system is built apart: whoever ends the building process ends all of it, and nothing is ever removed
//! through a mount. What unpacks packages is stood in for by a script that mounts what mmdebstrap mounts.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use heaptrial_testbed::Testbed;

const LIMIT: Duration = Duration::from_secs(60);
/// The child of a test prepares a testbed.
const CHILD: &str = "HEAPTRIAL_TESTBED_PREPARES";
/// Where this file is, the stand-in comes to its end.
const FINISH: &str = "HEAPTRIAL_TESTBED_FINISHES";

/// Mounts folders in the root file system, and waits or comes to its end.
const STAND_IN: &str = r#"#!/bin/sh
set -e
for word; do case "$word" in */base-*) root=$word ;; esac; done
mkdir -p "$root/etc" "$root/proc" "$root/dev/pts"
mount -t tmpfs stand-in "$root/proc"
mount -t tmpfs stand-in "$root/dev/pts"
touch "$root/mounted"
[ -e "$HEAPTRIAL_TESTBED_FINISHES" ] || sleep "$HEAPTRIAL_TESTBED_SLEEPS" | cat
umount "$root/dev/pts" "$root/proc"
"#;

/// A folder for a testbed of this test's own, and the stand-in.
struct Place {
    folder: tempfile::TempDir,
    seconds: String,
}

impl Place {
    /// `None`, after saying so, where mounts cannot be made.
    fn new(number: u32) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            heaptrial_testbed::skip("mounts need root");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let place = Self { folder, seconds: format!("{number}{:07}", std::process::id()) };
        for name in ["bin", "testbed", "precious"] {
            fs::create_dir(place.path(name)).unwrap();
        }
        let stand_in = place.path("bin/mmdebstrap");
        fs::write(&stand_in, STAND_IN).unwrap();
        fs::set_permissions(&stand_in, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(place.path("precious/file"), "of the host").unwrap();
        Some(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// This test again, as a process that prepares the testbed and ends.
    fn prepare(&self, test: &str) -> Child {
        let path = format!("{}:{}", self.path("bin").display(), std::env::var("PATH").unwrap());
        Command::new(std::env::current_exe().unwrap())
            .args([test, "--exact", "--nocapture", "--include-ignored"])
            .env(CHILD, "1")
            .env("HEAPTRIAL_TESTBED_DIR", self.path("testbed"))
            .env("HEAPTRIAL_TESTBED_SLEEPS", &self.seconds)
            .env(FINISH, self.path("finish"))
            .env("PATH", path)
            .spawn()
            .unwrap()
    }

    fn mounts(&self) -> Vec<String> {
        mounts_below(self.folder.path())
    }

    /// Names in the testbed's folder that begin so.
    fn bases(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("testbed")).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name.starts_with("base-")).collect()
    }

    /// Mounts what must not be lost at a new folder.
    fn mount_precious(&self, at: &Path) {
        fs::create_dir_all(at).unwrap();
        let mount = Command::new("mount").arg("--bind").arg(self.path("precious")).arg(at).status();
        assert!(mount.unwrap().success());
    }

    #[track_caller]
    fn assert_precious(&self) {
        assert_eq!(fs::read_to_string(self.path("precious/file")).unwrap(), "of the host");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The folder is removed next, and not through what a test that failed left mounted.
        for mount in self.mounts().iter().rev() {
            let _ = Command::new("umount").args(["--lazy", mount]).status();
        }
    }
}

fn mounts_below(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let places = text.lines().filter_map(|line| line.split(' ').nth(4));
    // Blanks are octal there.
    let places = places.map(|place| place.replace("\\040", " "));
    places.filter(|place| Path::new(place).starts_with(folder)).collect()
}

/// Whether a process has this word in its command line.
fn runs(word: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes
        .filter_map(|process| fs::read(process.path().join("cmdline")).ok())
        .any(|words| words.split(|byte| *byte == 0).any(|own| own == word.as_bytes()))
}

#[track_caller]
fn wait_for(what: &str, mut ready: impl FnMut() -> bool) {
    let started = Instant::now();
    while !ready() {
        assert!(started.elapsed() < LIMIT, "{what} did not happen within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// In the child of a test: prepares, and ends the process.
fn prepare_if_child() {
    if std::env::var_os(CHILD).is_some() {
        let prepared = Testbed::prepare();
        std::process::exit(prepared.map_or_else(
            |why| {
                eprintln!("{why}");
                1
            },
            |_| 0,
        ));
    }
}

#[test]
#[ignore = "needs root"]
fn a_build_that_is_killed_leaves_neither_mounts_nor_processes_and_the_next_one_works() {
    prepare_if_child();
    let Some(place) = Place::new(1) else { return };
    let test = "base::a_build_that_is_killed_leaves_neither_mounts_nor_processes_and_the_next_one_works";
    let mut child = place.prepare(test);
    wait_for("the build is in the middle", || {
        let is_mounted = |name: &String| place.path("testbed").join(name).join("mounted").exists();
        place.bases().iter().any(is_mounted) && runs(&place.seconds)
    });
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(place.mounts(), Vec::<String>::new());
    wait_for("the end of all that it started", || !runs(&place.seconds));

    fs::write(place.path("finish"), "").unwrap();
    assert!(place.prepare(test).wait().unwrap().success());
    let [base] = &place.bases()[..] else { panic!("{:?}", place.bases()) };
    assert!(place.path("testbed").join(base).join("etc/hostname").exists());
    assert_eq!(place.mounts(), Vec::<String>::new());
}

#[test]
#[ignore = "needs root"]
fn cleaning_goes_through_no_mount() {
    let Some(place) = Place::new(3) else { return };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/clean.sh");
    let target = place.path("target");
    let clean = || {
        let output = Command::new(&script)
            .env("CARGO", env!("CARGO"))
            .env("CARGO_TARGET_DIR", &target)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let tag = "Signature: 8a477f597d28d172789f06886806bc55\n";
    let left = target.join("testbed/base-1.unfinished.7");
    place.mount_precious(&left.join("proc"));
    place.mount_precious(&left.join("a name/sys"));
    fs::write(target.join("CACHEDIR.TAG"), tag).unwrap();
    let done = clean();
    assert_eq!(done.0, Some(0), "{done:?}");
    place.assert_precious();
    assert_eq!((place.mounts(), target.exists()), (Vec::new(), false));

    // What somebody else mounted there is theirs.
    place.mount_precious(&target.join("mine"));
    fs::write(target.join("CACHEDIR.TAG"), tag).unwrap();
    let (code, told) = clean();
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains(target.join("mine").to_str().unwrap()), "{told}");
    place.assert_precious();
}
