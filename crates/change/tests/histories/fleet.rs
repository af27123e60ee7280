//! The services of a history, what they are to get, and the host before anything happens.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use heaptrial_allocator::Expected;
use heaptrial_change::{FileState, Library, Owner, Prepared, ServiceTreatment};
use heaptrial_host::Paths;
use heaptrial_model::{HumanDuration, Pace, ServiceName};
use heaptrial_relay::Relay;
use serde_json::json;

use crate::disk::{Files, digest};
use crate::services::{Fault, Services};
use crate::world::World;

pub const NAME: &str = "t";
pub const UNITS: &str = "/etc/systemd/system";
pub const PROGRAM: &str = "/usr/bin/heaptrial";
/// What a transaction may change beside its own state.
pub const CHANGED: [&str; 2] = ["/etc", "/usr"];
const SOURCE: &str = "/cache/libjemalloc.so.2";
const LIBRARY: &[u8] = b"a library";
const TORRC: &[u8] = b"ORPort 1\nDataDirectory /d\n";

/// Which services, and how each of them fails under its treatment. The first preloads a library and has a timer, the
/// second has a variable beside a drop-in of its own, the third an option in its torrc.
pub type Faults = Vec<(usize, Fault)>;

pub fn paths() -> Paths {
    Paths::default()
}

pub fn service(number: usize) -> ServiceName {
    format!("s@{number}.service").parse().unwrap()
}

pub fn torrc_of(service: &ServiceName) -> PathBuf {
    PathBuf::from(format!("/etc/tor/{service}/torrc"))
}

/// Files by path.
pub type FilesAt = BTreeMap<PathBuf, FileState>;

/// What a transaction may change, as it is before anything happens.
pub static BEFORE: LazyLock<FilesAt> = LazyLock::new(|| files().snapshot(&CHANGED));

fn files() -> Files {
    Files::with(
        &[
            "/etc/systemd/system/s@1.service.d",
            "/etc/tor/s@2.service",
            "/usr/lib",
            "/usr/bin",
            "/var/lib",
            "/cache",
        ],
        &[
            (PROGRAM, b"the program", 0o755, (0, 0)),
            (SOURCE, LIBRARY, 0o644, (0, 0)),
            (
                "/etc/systemd/system/s@1.service.d/10-own.conf",
                b"[Service]\nEnvironment=LANG=C\n",
                0o644,
                (0, 0),
            ),
            ("/etc/tor/s@2.service/torrc", TORRC, 0o640, (107, 107)),
        ],
    )
}

pub fn world(faults: &Faults) -> World {
    let files = files();
    let services: Vec<(ServiceName, Fault)> =
        faults.iter().map(|(number, fault)| (service(*number), *fault)).collect();
    let services = Services::with(&services, &files);
    World::new(files, services)
}

pub fn prepared(faults: &Faults, pace: Pace, takes_over: bool) -> Prepared {
    let installed = paths().allocators().join("jemalloc/libjemalloc.so.2");
    let treatment = |number: usize| {
        let own =
            |settings: Vec<(String, String)>| Expected::own_c_library("glibc".parse().unwrap(), settings);
        let arena = ("MALLOC_ARENA_MAX".to_owned(), "1".to_owned());
        let plain = ServiceTreatment {
            service: service(number),
            arm: format!("arm-{number}"),
            family: None,
            environment: Vec::new(),
            unset: Vec::new(),
            torrc: BTreeMap::new(),
            restart_every: None,
            expected: own(Vec::new()),
            relay: None,
        };
        match number {
            0 => ServiceTreatment {
                environment: vec![("LD_PRELOAD".to_owned(), installed.display().to_string())],
                restart_every: Some(HumanDuration(Duration::from_secs(3600))),
                expected: Expected {
                    spec: "jemalloc".parse().unwrap(),
                    version: None,
                    object: Some(installed.clone()),
                    sha256: digest(LIBRARY),
                    build_id: None,
                    settings: Vec::new(),
                    carried: None,
                },
                ..plain
            },
            1 => ServiceTreatment {
                environment: vec![arena.clone()],
                unset: vec!["LD_PRELOAD".to_owned()],
                expected: own(vec![arena]),
                ..plain
            },
            _ => ServiceTreatment {
                torrc: BTreeMap::from([("DirCache".to_owned(), "0".to_owned())]),
                relay: Some(relay(&service(number))),
                ..plain
            },
        }
    };
    let plan = json!({
        "name": NAME, "id": "0123456789abcdef", "tool_version": "0", "seed": 1, "metric": "rss", "duration": "1d",
        "looks": [], "pace": {}, "arms": [], "builds": {}, "services": []
    });
    let mut plan: heaptrial_model::DrawnPlan = serde_json::from_value(plan).unwrap();
    plan.pace = pace;
    let owner = Owner { kind: "trial".to_owned(), takes_over, frozen: serde_json::Value::Null };
    Prepared {
        plan,
        schema_version: Prepared::VERSION,
        host: "here".to_owned(),
        services: faults.iter().map(|(number, _)| treatment(*number)).collect(),
        libraries: vec![Library {
            source: SOURCE.into(),
            installed: installed.clone(),
            sha256: digest(LIBRARY),
        }],
        agent: None,
        owner,
    }
}

fn relay(service: &ServiceName) -> Relay {
    Relay { torrc: torrc_of(service), program: "/usr/bin/tor".into(), ..Relay::default() }
}

pub fn pace(at_once: u32, failure_budget: u32) -> Pace {
    let milliseconds = |milliseconds| HumanDuration(Duration::from_millis(milliseconds));
    Pace {
        at_once,
        pause: milliseconds(0),
        health_timeout: milliseconds(60),
        settle: milliseconds(12),
        failure_budget,
    }
}

/// The files of a service that a treatment changes, and the folder of its drop-ins; without times, which are those of writing.
pub fn files_of(snapshot: &FilesAt, service: &ServiceName) -> FilesAt {
    let number = service.as_str().trim_start_matches("s@").trim_end_matches(".service");
    let drop_ins = format!("/{service}.d");
    let drop_in = format!("{drop_ins}/zz-heaptrial.conf");
    let timer = format!("heaptrial-restart-s\\x40{number}.");
    let torrc = torrc_of(service);
    let own = |path: &Path| {
        let text = path.to_str().unwrap_or_default();
        text.ends_with(&drop_ins) || text.contains(&drop_in) || text.contains(&timer) || path == torrc
    };
    let timeless = |state: &FileState| {
        let mut state = state.clone();
        if let FileState::File { modified_ns, .. } = &mut state {
            *modified_ns = 0;
        }
        state
    };
    let found = snapshot.iter().filter(|(path, _)| own(path));
    found.map(|(path, state)| (path.clone(), timeless(state))).collect()
}

/// The services of a history by name.
pub fn names(faults: &Faults) -> BTreeSet<ServiceName> {
    faults.iter().map(|(number, _)| service(*number)).collect()
}

/// The maintainer script of the Debian package looks for a rollout by these words.
#[test]
fn packages_recognise_a_rollout_by_its_words() {
    let written = |kind: &str| {
        let mut prepared = prepared(&vec![(0, Fault::None)], pace(1, 0), false);
        prepared.owner.kind = kind.to_owned();
        serde_json::to_string_pretty(&prepared).unwrap()
    };
    let is_rollout = |text: String| text.lines().any(|line| line.starts_with("    \"kind\": \"rollout\","));
    assert!(is_rollout(written("rollout")));
    assert!(!is_rollout(written("trial")));
}
