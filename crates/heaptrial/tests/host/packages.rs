//! Debian packages: of allocators, the same bytes each time; and with Heaptrial's own on a real host, from installing to
//! purging without a trace. Needs a Debian host with a C compiler, cargo and dpkg-dev.

use crate::support;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use support::bed::{Bed, CHANGED, own_package};
use support::trials::two_arms;
use support::{heaptrial, json, stderr, stdout};

use heaptrial_testbed::{Container, Snapshot, drawn};

/// Made from the source in a crate: no package of any suite has it.
const SPEC: &str = "mimalloc@2.0.9+secure";

/// What the two packages, or a trial, may leave on a host.
fn files_of(container: &Container) -> Snapshot {
    let folders = [CHANGED[0], CHANGED[1], "/var/lib/heaptrial", "/var/cache/heaptrial", "/run/heaptrial"];
    Snapshot::of(container, &folders).unwrap()
}

/// Packages an allocator with this cache; `arguments` are split at spaces.
fn package(cache: &Path, out: &Path, arguments: &str) -> Output {
    let mut command = heaptrial(out);
    command.env("XDG_CACHE_HOME", cache);
    command.args(["allocators", "package"]).args(arguments.split_whitespace()).arg("--out").arg(out);
    command.output().unwrap()
}

/// What `dpkg-deb` says of a package file.
fn ask(deb: &Path, option: &str) -> String {
    let output = Command::new("dpkg-deb").arg(option).arg(deb).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

/// A package file with what the command told of it.
struct Made {
    deb: PathBuf,
    told: Value,
}

impl Made {
    fn with_cache(cache: &Path, out: &Path) -> Self {
        let output = package(cache, out, &format!("{SPEC} --source crate --json"));
        assert!(output.status.success(), "{}", stderr(&output));
        let told = json(&output);
        Self { deb: PathBuf::from(told["file"].as_str().unwrap()), told }
    }

    fn name(&self) -> &str {
        self.told["package"].as_str().unwrap()
    }

    fn library(&self) -> &str {
        self.told["library"]["path"].as_str().unwrap()
    }
}

#[test]
#[ignore = "needs the sources of allocators"]
fn the_same_source_gives_the_same_package_to_the_byte() {
    let Some(()) = drawn(5, 6) else { return };
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for name in ["out1", "out2", "other"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    // Two caches with paths of different length: each obtains and compiles for itself.
    let made = Made::with_cache(&at("cache"), &at("out1"));
    let again = Made::with_cache(&at("another/cache/further/down"), &at("out2"));
    assert_eq!(made.told["schema_version"], 1);
    assert_eq!(made.told["sha256"], again.told["sha256"]);
    assert_eq!(std::fs::read(&made.deb).unwrap(), std::fs::read(&again.deb).unwrap());

    let got = heaptrial(folder.path())
        .env("XDG_CACHE_HOME", at("cache"))
        .args(["allocators", "get", SPEC, "--offline", "--json"])
        .output()
        .unwrap();
    let got = json(&got);
    assert_eq!(got["sha256"], made.told["library"]["sha256"]);
    let digest = got["sha256"].as_str().unwrap();
    assert_eq!(made.name(), format!("heaptrial-mimalloc-2.0.9-secure-{}", &digest[..12]));
    assert_eq!(
        made.library(),
        format!("/usr/lib/heaptrial/allocators/mimalloc-2.0.9+secure-{}/libmimalloc.so", &digest[..12])
    );

    let fields = ask(&made.deb, "--field");
    assert!(fields.contains("\nDepends: libc6 (>= 2."), "{fields}");
    assert!(fields.contains(SPEC) && fields.contains(digest), "{fields}");
    let unpacked = at("other");
    let done = Command::new("dpkg-deb").arg("--extract").arg(&made.deb).arg(&unpacked).status().unwrap();
    assert!(done.success());
    let file = |path: &str| std::fs::read(unpacked.join(path.trim_start_matches('/'))).unwrap();
    assert_eq!(file(made.library()), std::fs::read(got["library"].as_str().unwrap()).unwrap());
    let documents = format!("/usr/share/doc/{}", made.name());
    let copyright = String::from_utf8(file(&format!("{documents}/copyright"))).unwrap();
    assert!(copyright.contains("Licence: MIT\n") && copyright.contains("Daan Leijen"), "{copyright}");
    let info: Value = serde_json::from_slice(&file(&format!("{documents}/buildinfo.json"))).unwrap();
    assert_eq!((&info["spec"], &info["library"]["sha256"]), (&Value::from(SPEC), &Value::from(digest)));
    assert_eq!(info["source"]["kind"], "crate");
    let command = info["source"]["build"]["commands"][0].to_string();
    assert!(
        command.contains("-DMI_SECURE=4") && !command.contains(folder.path().to_str().unwrap()),
        "{command}"
    );
}

/// jemalloc's own `configure` and `make`: paths could come in by other ways than in one call of the compiler.
#[test]
#[ignore = "needs the sources of allocators"]
fn a_source_with_a_configure_script_gives_the_same_package_too() {
    let Some(()) = drawn(1, 4) else { return };
    let folder = tempfile::tempdir().unwrap();
    let made = |cache: &str| {
        let (cache, out) = (folder.path().join(cache), folder.path().join(cache).join("out"));
        std::fs::create_dir_all(&out).unwrap();
        let output = package(&cache, &out, "jemalloc@5.2.1 --source crate --json");
        assert!(output.status.success(), "{}", stderr(&output));
        json(&output)
    };
    let (one, other) = std::thread::scope(|scope| {
        let other = scope.spawn(|| made("another/further/down"));
        (made("cache"), other.join().unwrap())
    });
    assert_eq!(one["library"], other["library"]);
    assert_eq!(one["sha256"], other["sha256"]);
}

#[test]
#[ignore = "needs the sources of allocators"]
fn what_cannot_be_packaged_is_refused_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (cache, out) = (folder.path().join("cache"), folder.path().join("out"));
    std::fs::create_dir(&out).unwrap();
    let output = package(&cache, &out, "glibc");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("glibc cannot be packaged: it is the C library itself"),
        "{}",
        stderr(&output)
    );
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 0);
}

/// A host with churn services and the two packages installed.
struct Host {
    bed: Bed,
    units: Vec<String>,
    allocator: Made,
    _folder: tempfile::TempDir,
}

fn trial(spec: &str) -> String {
    two_arms("packaged", "churn@*", "").replace("jemalloc@5.3.0", spec).replace("\"jemalloc\"", "\"secure\"")
}

/// A cache that outlives the test run, so that crates are fetched once.
fn kept_cache() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("allocators")
}

impl Host {
    /// Boots one; `before` sees it before anything is installed.
    fn boot(before: impl FnOnce(&Bed)) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let (bed, units) = Bed::with_churn(2)?;
        before(&bed);
        let allocator = Made::with_cache(&kept_cache(), folder.path());
        let own = own_package(folder.path());
        for (name, deb) in [("allocator", &allocator.deb), ("heaptrial", &own)] {
            bed.container.write(format!("/root/{name}.deb"), std::fs::read(deb).unwrap(), 0o644).unwrap();
        }
        Some(Self { bed, units, allocator, _folder: folder })
    }

    /// Runs dpkg, which in a minimal root file system leaves out documents unless told otherwise.
    fn dpkg(&self, arguments: &str) -> Output {
        let mut words = vec!["dpkg", "--path-include=/usr/share/doc/*", "--path-include=/usr/share/man/*"];
        words.extend(arguments.split_whitespace());
        self.bed.container.run(&words)
    }

    #[track_caller]
    fn dpkg_succeeds(&self, arguments: &str) -> String {
        let output = self.dpkg(arguments);
        assert!(output.status.success(), "dpkg {arguments}\n{}\n{}", stdout(&output), stderr(&output));
        stdout(&output)
    }

    /// Runs dpkg, which must be refused by a package's script, and gives what that said.
    #[track_caller]
    fn dpkg_is_refused(&self, arguments: &str) -> String {
        let output = self.dpkg(arguments);
        assert!(!output.status.success(), "dpkg {arguments}\n{}", stdout(&output));
        stderr(&output)
    }

    /// Runs the installed program in `/root`; `arguments` are split at spaces.
    #[track_caller]
    fn heaptrial(&self, arguments: &str) -> Output {
        let mut words = vec!["env", "-C", "/root", "heaptrial"];
        words.extend(arguments.split_whitespace());
        let output = self.bed.container.run(&words);
        assert!(output.status.success(), "{arguments}\n{}\n{}", stdout(&output), stderr(&output));
        output
    }

    /// Starts the trial; gives the service that runs the packaged allocator.
    fn start_trial(&self) -> &str {
        self.bed.write_trial("packaged", &trial(SPEC));
        self.heaptrial("trial plan packaged.toml --seed 1");
        self.heaptrial("trial start packaged --yes");
        let status = json(&self.heaptrial("trial status packaged --json"));
        let treated = self.units.iter().find(|unit| status["services"][unit]["arm"] == "secure").unwrap();
        assert!(self.bed.maps(treated).contains(self.allocator.library()), "{treated}");
        treated
    }

    /// Fails unless all services run, and none of them with a preload.
    #[track_caller]
    fn assert_untreated(&self) {
        self.bed.assert_active(&self.units);
        for unit in &self.units {
            assert!(!self.bed.maps(unit).contains("/usr/lib/heaptrial"), "{unit}");
            let pid = self.bed.property(unit, "MainPID");
            let environment = self.bed.container.read(format!("/proc/{pid}/environ")).unwrap();
            assert!(!String::from_utf8_lossy(&environment).contains("LD_PRELOAD"), "{unit}");
        }
    }
}

#[test]
#[ignore = "needs root and a container"]
fn both_packages_stay_while_services_need_them_and_go_without_a_trace() {
    let Some(()) = drawn(1, 6) else { return };
    let mut before = None;
    let Some(host) = Host::boot(|bed| before = Some(files_of(&bed.container))) else { return };
    let (container, package) = (&host.bed.container, host.allocator.name());
    let said = host.dpkg_succeeds("--install /root/heaptrial.deb /root/allocator.deb");
    assert!(said.contains("systemctl enable --now heaptrial-agent"), "{said}");
    assert_eq!(host.bed.property("heaptrial-agent.service", "UnitFileState"), "disabled");
    assert_eq!(host.bed.property("heaptrial-agent.service", "ActiveState"), "inactive");
    container.ok(&["systemctl", "enable", "--now", "heaptrial-agent"]);
    for file in ["man/man1/heaptrial-trial-start.1.gz", "bash-completion/completions/heaptrial"] {
        assert!(!container.read(format!("/usr/share/{file}")).unwrap().is_empty());
    }

    let services = json(&host.heaptrial("services churn@* --json"));
    assert_eq!(services["services"].as_array().unwrap().len(), 2, "{services:#}");
    // Neither compiler nor network: the installed package is where this build comes from.
    let got = json(&host.heaptrial(&format!("allocators get {SPEC} --json")));
    assert_eq!(got["library"], host.allocator.library());
    assert_eq!(got["provenance"]["kind"], "crate");
    let treated = host.start_trial();

    let why = host.dpkg_is_refused(&format!("--remove {package}"));
    assert!(
        why.contains(&format!("{treated}: named in /etc/systemd/system/{treated}.d/zz-heaptrial.conf")),
        "{why}"
    );
    assert!(
        why.contains(&format!("process {} (churn_service", host.bed.property(treated, "MainPID"))),
        "{why}"
    );
    assert!(why.contains("  heaptrial trial stop packaged --revert\n"), "{why}");
    let why = host.dpkg_is_refused("--purge heaptrial");
    assert!(why.contains("  heaptrial trial stop packaged --revert\n"), "{why}");
    assert!(why.contains(&format!("{treated}.d/zz-heaptrial.conf")), "{why}");
    host.bed.assert_active(&host.units);
    assert!(host.bed.maps(treated).contains(host.allocator.library()));
    // The same file comes again: nothing is taken away from anybody.
    host.dpkg_succeeds("--install /root/allocator.deb /root/heaptrial.deb");

    host.heaptrial("trial stop packaged --revert --yes");
    assert!(!container.read(host.allocator.library()).unwrap().is_empty(), "it is the package's");
    host.dpkg_succeeds(&format!("--purge {package} heaptrial"));
    assert_eq!(before.unwrap().difference(&files_of(container)), Vec::<String>::new());
    host.assert_untreated();
}

#[test]
#[ignore = "needs root and a container"]
fn a_library_that_a_package_takes_over_from_a_trial_stays() {
    let Some(()) = drawn(5, 6) else { return };
    let Some((bed, units)) = Bed::with_churn(2) else { return };
    bed.write_trial("packaged", &trial("jemalloc@5.3.0"));
    bed.succeeds("trial plan packaged.toml --seed 1");
    bed.succeeds("trial start packaged --yes --no-agent");
    let made = bed.json("allocators package jemalloc@5.3.0 --out /root --json");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let (name, file) = (text(&made["package"]), text(&made["file"]));
    let library = text(&made["library"]["path"]);
    assert!(bed.container.read(&library).is_ok(), "the trial installed it where the package has it");
    bed.container.ok(&["dpkg", "--install", &file]);
    bed.succeeds("trial stop packaged --revert --yes");
    assert!(bed.container.read(&library).is_ok(), "it is the package's now");
    bed.container.ok(&["dpkg", "--purge", &name]);
    assert!(bed.container.read(&library).is_err());
    bed.assert_active(&units);
}
