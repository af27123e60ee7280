//! `heaptrial allocators` end to end: real packages, real crates, the system's compiler, real
//! processes. Needs a Debian host with apt, cargo and a C compiler; the cache of these tests is
//! kept between runs.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use heaptrial_allocator::{Catalog, SettingEntry};
use heaptrial_model::AllocatorSpec;
use heaptrial_testbed::Draw;
use serde_json::Value;

const PROGRAM: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\n\
    int main(void) { char *p = malloc(1000); memset(p, 1, 1000); puts(p[7] ? \"ready\" : \"\"); fflush(stdout);\n\
    sleep(100); free(p); return 0; }\n";

/// A cache that outlives the test run, so that packages are fetched once.
pub(crate) fn kept_cache() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("allocators");
    fs::create_dir_all(&folder).unwrap();
    folder
}

fn heaptrial(cache: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaptrial"));
    command.args(arguments).env("XDG_CACHE_HOME", cache).stdin(Stdio::null());
    command
}

pub(crate) fn run(cache: &Path, arguments: &[&str]) -> Output {
    heaptrial(cache, arguments).output().unwrap()
}

pub(crate) fn json(cache: &Path, arguments: &[&str]) -> Value {
    let output = run(cache, &[arguments, &["--json"]].concat());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {}\n{stderr}", output.status);
    let value: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(value["schema_version"], 1);
    value
}

/// Exit code and standard error of a command that must not succeed.
fn refused(cache: &Path, arguments: &[&str]) -> (i32, String) {
    let output = run(cache, arguments);
    assert!(!output.status.success(), "{arguments:?} succeeded");
    assert!(output.stdout.is_empty(), "{arguments:?} printed a result");
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

fn compile(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let source = folder.join("program.c");
    fs::write(&source, PROGRAM).unwrap();
    let program = folder.join(name);
    let status = Command::new("cc").arg(&source).arg("-o").arg(&program).args(flags).status().unwrap();
    assert!(status.success(), "cc {flags:?}");
    program
}

/// A process that is ended with the test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Starts a program and waits until it has allocated.
    fn start(command: Command) -> Self {
        Self::start_at(command, "ready")
    }

    /// Starts a program and waits for a line.
    pub(crate) fn start_at(mut command: Command, line: &str) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|found| found.unwrap() == line), "it ended without {line}");
        Self(child)
    }

    fn identity(&self, cache: &Path) -> Value {
        json(cache, &["allocators", "identify", &self.0.id().to_string()])["processes"][0]["identity"].clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A command that runs `program` as the result of `get` says.
pub(crate) fn under(got: &Value, program: &Path) -> Command {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let application = &got["application"];
    let mut words: Vec<String> = application["argv_prefix"].as_array().unwrap().iter().map(text).collect();
    words.push(program.display().to_string());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    for pair in application["env"].as_array().unwrap() {
        command.env(text(&pair[0]), text(&pair[1]));
    }
    command
}

fn host_glibc() -> String {
    let output = Command::new("getconf").arg("GNU_LIBC_VERSION").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().rsplit(' ').next().unwrap().to_owned()
}

#[test]
#[ignore = "needs the sources of allocators"]
fn every_allocator_is_obtained_verified_and_identified() {
    let cache = kept_cache();
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "dynamic", &[]);
    let host = host_glibc();
    // The spec, the version that the loaded library reports, the version that a process shows.
    let cases = [
        ("glibc", Some(host.as_str())),
        ("glibc@2.41", Some("2.41")),
        ("jemalloc@5.3.0", Some("5.3.0")),
        ("mimalloc@2.0.9", Some("2.0.9")),
        ("mimalloc@2.0.9+secure", Some("2.0.9")),
        ("mimalloc@2.1.2", Some("2.1.2")),
        ("mimalloc@2.1.7", Some("2.1.7")),
        ("mimalloc@2.1.7+secure", Some("2.1.7")),
        ("mimalloc@2.2.4", Some("2.2.4")),
        ("mimalloc@3.0.1", Some("3.0.1")),
        ("mimalloc@3.1.5", Some("3.1.5")),
        ("mimalloc@3.3.2", Some("3.3.2")),
        ("tcmalloc@2.10", Some("2.10")),
        ("snmalloc", None),
        ("rpmalloc", None),
        ("scudo", None),
    ];
    for (spec, version) in cases {
        let verified = json(&cache, &["allocators", "verify", spec]);
        assert_eq!(verified["verification"]["version"].as_str(), version, "{spec}: {verified:#}");
        if spec.ends_with("+secure") {
            let evidence = verified["verification"]["evidence"].to_string();
            assert!(evidence.contains("secure level: 4"), "{spec}: {evidence}");
        }
        let process = Running::start(under(&verified, &program));
        let identity = process.identity(&cache);
        let family = spec.split(['@', '+']).next().unwrap();
        assert_eq!(identity["family"], family, "{spec}: {identity:#}");
        assert_eq!(identity["version"].as_str(), version, "{spec}: {identity:#}");
        assert_eq!(
            identity["linkage"],
            if family == "glibc" { "libc" } else { "preloaded" },
            "{spec}: {identity:#}"
        );
        if family != "glibc" {
            assert_eq!(identity["sha256"], verified["sha256"], "{spec}: {identity:#}");
        }
    }
}

#[test]
#[ignore = "needs the sources of allocators"]
fn settings_are_proved_to_be_in_force() {
    let cache = kept_cache();
    let folder = tempfile::tempdir().unwrap();
    let program = compile(folder.path(), "dynamic", &[]);
    let cases = [
        ("glibc?arena_max=1&mmap_threshold=16384", "setting arena_max = 0x1 is in force"),
        ("glibc@2.41?arena_max=3", "setting arena_max = 0x3 is in force"),
        ("glibc@2.43?arena_max=3", "setting arena_max = 0x3 is in force"),
        ("mimalloc@2.1.7?purge_delay=0", "setting purge_delay = 0 is in force"),
        ("mimalloc@3.0.1?purge_delay=0", "setting purge_delay = 0 is in force"),
        ("mimalloc@3.3.2?purge_delay=0", "setting purge_delay = 0 is in force"),
        ("mimalloc@2.0.9?reserve_os_memory=33554432", "setting reserve_os_memory = 33554432 is in force"),
        ("mimalloc@2.1.7?arena_reserve=67108864", "setting arena_reserve = 67108864 is in force"),
        (
            "mimalloc@3.0.1?arena_reserve=67108864&reclaim_on_free=0",
            "setting reclaim_on_free = 0 is in force",
        ),
        ("mimalloc@3.3.2?minimal_purge_size=131072", "setting minimal_purge_size = 131072 is in force"),
        ("mimalloc@2.0.9?segment_decommit_delay=7", "setting segment_decommit_delay = 7 is in force"),
        (
            "jemalloc@5.3.0?dirty_decay_ms=0&background_thread=true",
            "setting background_thread = true is in force",
        ),
        ("jemalloc@5.2.1?narenas=3", "setting narenas = 3 is in force"),
        ("tcmalloc@2.10?aggressive_decommit=1", "setting aggressive_decommit = 1 is in force"),
        ("tcmalloc@2.10?release_rate=2.5", "setting release_rate = 2.5 is in the environment"),
    ];
    for (_, (spec, evidence)) in
        cases.into_iter().enumerate().filter(|(case, _)| Draw::of_this_run().has(*case, 3))
    {
        let verified = json(&cache, &["allocators", "verify", spec]);
        let found = verified["verification"]["evidence"].to_string();
        assert!(found.contains(evidence), "{spec}: {found}");
        let identity = Running::start(under(&verified, &program)).identity(&cache);
        assert!(!identity["settings"].as_object().unwrap().is_empty(), "{spec}: {identity:#}");
    }
}

#[test]
#[ignore = "needs the sources of allocators"]
fn the_ends_of_what_a_search_tries_are_taken() {
    let cache = kept_cache();
    let specs = [
        "glibc",
        "jemalloc@5.2.1",
        "jemalloc@5.3.0",
        "mimalloc@1.7.5",
        "mimalloc@2.0.9",
        "mimalloc@2.1.7",
        "mimalloc@2.2.4",
        "mimalloc@2.3.2",
        "mimalloc@3.0.1",
        "mimalloc@3.1.5",
        "mimalloc@3.3.2",
        "tcmalloc@2.10",
        "scudo",
    ];
    let (mut wrong, mut taken) = (Vec::new(), BTreeSet::new());
    let drawn = specs.into_iter().enumerate().filter(|(case, _)| Draw::of_this_run().has(*case, 7));
    for (_, spec) in drawn {
        let spec: AllocatorSpec = spec.parse().unwrap();
        let family = Catalog::builtin().family(&spec.family).unwrap();
        let there = |entry: &&SettingEntry| spec.version.as_ref().is_none_or(|at| entry.range(at).is_some());
        for entry in family.settings.iter().filter(there) {
            let Some(tried) = &entry.search else { continue };
            let ends = [tried.numbers.first(), tried.numbers.last()].into_iter().flatten();
            for value in ends.chain(&tried.values) {
                let set = format!("{spec}?{}={value}", entry.name);
                let output = run(&cache, &["allocators", "verify", &set, "--json"]);
                let shown = String::from_utf8_lossy(&output.stdout);
                // Others cannot be asked for all, but complain of what they do not take.
                let asked = family.name == "mimalloc" || entry.key.is_some() && family.name == "glibc";
                let in_force =
                    shown.contains(&format!("setting {} = ", entry.name)) && shown.contains("is in force");
                if !output.status.success() || (asked && !in_force) {
                    wrong.push(format!("{set}: {shown}{}", String::from_utf8_lossy(&output.stderr)));
                }
                taken.insert((family.name.clone(), entry.name.clone()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let least = if Draw::of_this_run() == Draw::All { 60 } else { 1 };
    assert!(taken.len() > least, "{taken:?}");
}

#[test]
#[ignore = "needs the sources of allocators"]
fn a_given_library_is_asked_and_another_version_or_machine_refused() {
    let cache = kept_cache();
    let folder = tempfile::tempdir().unwrap();
    let library =
        json(&cache, &["allocators", "get", "mimalloc@2.1.2"])["library"].as_str().unwrap().to_owned();
    let got = json(&cache, &["allocators", "get", "mimalloc", "--from", &library]);
    assert_eq!((&got["version"], &got["provenance"]["kind"]), (&"2.1.2".into(), &"local".into()));
    let (code, message) = refused(&cache, &["allocators", "get", "mimalloc@2.1.7", "--from", &library]);
    assert!(code == 3 && message.contains("it is mimalloc 2.1.2 and not 2.1.7"), "{message}");
    let (code, message) = refused(&cache, &["allocators", "get", "jemalloc", "--from", &library]);
    assert!(code == 3 && message.contains("it is not jemalloc"), "{message}");
    let (code, message) =
        refused(&cache, &["allocators", "get", "mimalloc@2.1.2+secure", "--from", &library]);
    assert!(code == 3 && message.contains("secure level: 0"), "{message}");

    let foreign = folder.path().join("libforeign.so");
    let mut header = fs::read(&library).unwrap();
    header[18] = 243;
    fs::write(&foreign, header).unwrap();
    let (code, message) =
        refused(&cache, &["allocators", "get", "mimalloc", "--from", foreign.to_str().unwrap()]);
    assert!(code == 3 && message.contains("RISC-V"), "{message}");
    let (code, message) =
        refused(&cache, &["allocators", "get", "mimalloc", "--from", "/no/such/library.so"]);
    assert!(code == 1 && message.contains("cannot be read"), "{message}");
}

#[test]
#[ignore = "needs the sources of allocators"]
fn several_processes_get_the_same_allocator_at_once() {
    let cache = tempfile::tempdir().unwrap();
    let outputs: Vec<Output> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| run(cache.path(), &["allocators", "get", "rpmalloc", "--json"])))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut compiled = 0;
    let mut libraries = Vec::new();
    for output in outputs {
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{message}");
        compiled += message.matches("compiling").count();
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        libraries.push(value["library"].as_str().unwrap().to_owned());
    }
    assert_eq!(compiled, 1);
    libraries.dedup();
    assert_eq!(libraries.len(), 1);
}

#[test]
#[ignore = "needs the sources of allocators"]
fn a_killed_maker_leaves_nothing_behind_that_counts() {
    let cache = tempfile::tempdir().unwrap();
    for delay in [50, 200, 500, 900] {
        let mut command = heaptrial(cache.path(), &["allocators", "get", "mimalloc@2.1.7+secure"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let got = json(cache.path(), &["allocators", "get", "mimalloc@2.1.7+secure"]);
    assert_eq!(got["version"], "2.1.7");
    let entries = fs::read_dir(cache.path().join("heaptrial/allocators")).unwrap().flatten();
    let names: Vec<String> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    assert!(!names.iter().any(|name| name.ends_with(".making")), "{names:?}");
}

#[test]
fn the_callers_own_tunables_are_none_of_what_is_verified() {
    let arguments = ["allocators", "verify", "--offline", "glibc?arena_max=1"];
    let mut command = heaptrial(&kept_cache(), &arguments);
    let output = command.env("GLIBC_TUNABLES", "glibc.malloc.arena_max=7").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains("arena_max = 0x1 is in force"));
}

#[test]
fn the_security_table_has_a_source_for_each_cell() {
    let cache = kept_cache();
    let output = run(&cache, &["allocators", "mitigations"]);
    assert!(String::from_utf8_lossy(&output.stdout).contains("mimalloc+secure"));
    for build in json(&cache, &["allocators", "mitigations"])["builds"].as_array().unwrap() {
        for cell in build["mitigations"].as_array().unwrap() {
            assert!(cell["state"] == "unknown" || cell["source"].is_string(), "{cell}");
        }
    }
}
