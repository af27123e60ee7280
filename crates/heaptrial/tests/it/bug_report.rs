//! `heaptrial report --bug` over real lab runs and stored trials.

use crate::fixture;
use crate::support;
use crate::trial;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Output;

use heaptrial_store::Store;
use serde_json::Value;
use support::{heaptrial, json, run, stderr};
use trial::{FieldArm, FieldTrial, four_arms};

const USAGE: i32 = 2;
const REFUSED: i32 = 3;

/// Builds and drops structures of many sizes, keeps a little of each, and then stays as it is.
const CHURN: &str = "import random, time
random.seed(1)
kept = []
for _ in range(4):
    burst = [bytes(int(random.lognormvariate(6, 1)) % 20000) for _ in range(20000)]
    kept += burst[::200]
    del burst
print('built', flush=True)
time.sleep(600)
";

/// The files of a bundle, by name.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = |folder: &Path| std::fs::read_dir(folder).unwrap().flatten().collect::<Vec<_>>();
    let all = entries(folder).into_iter().chain(entries(&folder.join("charts")));
    all.filter(|entry| entry.path().is_file())
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect()
}

fn text<'a>(files: &'a BTreeMap<String, Vec<u8>>, name: &str) -> &'a str {
    std::str::from_utf8(&files[name]).unwrap()
}

fn holds(bytes: &[u8], wanted: &str) -> bool {
    bytes.windows(wanted.len()).any(|window| window.eq_ignore_ascii_case(wanted.as_bytes()))
}

#[track_caller]
fn assert_holds_none(files: &BTreeMap<String, Vec<u8>>, secrets: &[&str]) {
    for (name, bytes) in files {
        for secret in secrets {
            assert!(!holds(bytes, secret), "{name} holds {secret}");
        }
    }
}

/// The arms that a proposed command would run, as the program itself reads it; whose program it is stays with its owner.
fn arms_of(folder: &Path, command: &str) -> BTreeSet<String> {
    let words = shell_words::split(command).unwrap();
    let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
    let program: &[&str] = if end < words.len() { &["--", "true"] } else { &[] };
    let output =
        heaptrial(folder).args(&words[1..end]).args(["--dry-run", "--json"]).args(program).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{command}: {}", stderr(&output));
    let rounds = json(&output)["rounds"].as_array().unwrap().clone();
    let arms = rounds.iter().flat_map(|round| round["arms"].as_array().unwrap().clone());
    arms.map(|arm| arm.as_str().unwrap().to_owned()).collect()
}

fn names(arms: &Value) -> BTreeSet<String> {
    arms.as_array().unwrap().iter().map(|arm| arm["name"].as_str().unwrap().to_owned()).collect()
}

/// Two versions of mimalloc, and the later one with the earlier one's purge_delay, twice.
fn run_of_versions(folder: &Path) -> Output {
    std::fs::write(folder.join("program.py"), CHURN).unwrap();
    heaptrial(folder)
        .args(
            "lab run -a mimalloc@2.1.7 -a mimalloc@3.0.1 -a mimalloc@3.0.1?purge_delay=10 --out run --seed 7"
                .split(' '),
        )
        .args(
            "--repeat 2 --duration 3s --tick 100ms --ready log:built -- /usr/bin/python3 program.py"
                .split(' '),
        )
        .env("PYTHONMALLOC", "malloc")
        .output()
        .unwrap()
}

#[test]
fn a_run_of_two_versions_becomes_a_bundle_for_their_maintainers() {
    let folder = tempfile::tempdir().unwrap();
    let output = run_of_versions(folder.path());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let output = run(folder.path(), "report run --bug mimalloc@3.0.1 --good mimalloc@2.1.7 --out bundle");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let files = files(&folder.path().join("bundle"));
    for name in ["report.html", "report.json", "report.md", "memory-over-time.svg"] {
        assert!(files.contains_key(name), "{name}");
    }
    let bug: Value = serde_json::from_str(text(&files, "report.json")).unwrap();
    let reproduce = &bug["reproduce"];
    assert_eq!((&reproduce["bad"], &reproduce["good"]), (&"mimalloc@3.0.1".into(), &"mimalloc@2.1.7".into()));
    assert!(reproduce["ratio"]["estimate"].is_number(), "{reproduce}");
    assert!(
        reproduce["defaults"].as_array().unwrap().iter().any(|found| {
            found["name"] == "purge_delay" && found["good"] == "10" && found["bad"] == "2500"
        })
    );
    for fact in ["kernel", "libc", "thp_mode", "page_size_bytes", "ram_bytes", "cpu_count"] {
        assert!(!bug["host"][fact].is_null(), "{fact}: {}", bug["host"]);
    }

    // What ran has digests that are those of the run's libraries.
    let page = text(&files, "report.md");
    let builds: Value =
        serde_json::from_str(&std::fs::read_to_string(folder.path().join("run/allocators.json")).unwrap())
            .unwrap();
    for build in builds.as_array().unwrap() {
        assert!(page.contains(build["sha256"].as_str().unwrap()), "{build}");
    }
    let own_folder = folder.path().to_str().unwrap().to_owned();
    let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    assert_holds_none(&files, &[&own_folder, boot_id.trim(), "/root/", "/home/", "arm1-repeat1"]);

    // The command is one that this program reads.
    let command = reproduce["command"].as_str().unwrap();
    assert!(page.contains(command), "{command}");
    assert_eq!(
        arms_of(folder.path(), command),
        ["mimalloc@2.1.7", "mimalloc@3.0.1"].map(str::to_owned).into()
    );

    // Written again in place of an earlier one, and never into a folder of anything else.
    let again = run(folder.path(), "report run --bug mimalloc@3.0.1 --good mimalloc@2.1.7 --out bundle");
    assert_eq!(again.status.code(), Some(0), "{}", stderr(&again));
    let refused = run(folder.path(), "report run --bug mimalloc@3.0.1 --good mimalloc@2.1.7 --out run");
    assert_eq!(refused.status.code(), Some(REFUSED), "{}", stderr(&refused));
}

#[test]
fn what_makes_no_bundle_is_refused_with_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let mut stored = fixture::command(2);
    for service in stored.services.iter_mut().filter(|service| service.arm == 1) {
        service.contamination = Some("the library was not loaded");
    }
    drop(stored.write(&folder.path().join("heaptrial.db")));
    for (arguments, code, words) in [
        ("report . --bug tcmalloc", REFUSED, "no arm of tcmalloc"),
        ("report . --bug glibc --good tcmalloc", REFUSED, "no arm of tcmalloc"),
        ("report . --bug glibc", REFUSED, "--good"),
        ("report . --bug jemalloc@5.3.0 --good glibc", REFUSED, "no service of jemalloc@5.3.0 counts"),
        ("report . --good glibc", USAGE, "--bug"),
        ("report . --bug glibc@", USAGE, "position 7"),
    ] {
        let output = run(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {}", stderr(&output));
        assert!(stderr(&output).contains(words), "{arguments}: {}", stderr(&output));
    }
    assert!(!folder.path().join("heaptrial-runs").exists());
}

/// Names that are words of the report, parts of its specs, or as odd as names get.
const NASTY: [(&str, &str); 12] = [
    ("tor@a.service", "a"),
    ("tor@growth.service", "growth"),
    ("memory", "Memory"),
    ("tor@GoldenOwl.service", "GoldenOwl"),
    ("mail@backend-7.barn.example.org.service", "backend7"),
    ("tor@203.0.113.9.service", "Unnamed"),
    ("level", "Level"),
    ("evidence", "services"),
    ("tor@mimalloc.service", "mimalloc"),
    ("relay\\x2dof\\x2dopuser", "opusersRelay42"),
    ("1", "0"),
    ("tor@operator.example.net.service", "OperatorNet"),
];
const SECRETS: [&str; 13] = [
    "GoldenOwl",
    "backend-7",
    "backend7",
    "barn.example",
    "203.0.113.9",
    "198.51.100.7",
    "2001:db8",
    "opuser",
    "OperatorNet",
    "example.net",
    "example.org",
    "A0B1C2D3",
    "abcdefghij234567",
];

fn nasty(service: usize) -> (String, Option<[String; 2]>) {
    let (name, nickname) = NASTY[service % NASTY.len()];
    let name = if service < NASTY.len() { name.to_owned() } else { format!("{service}-{name}") };
    let fingerprint = format!("A0B1C2D3{service:032X}");
    (name, Some([nickname.to_owned(), fingerprint]))
}

fn plain(service: usize) -> (String, Option<[String; 2]>) {
    (format!("tor@relay{service:02}.service"), None)
}

/// A trial of two versions against a control, with an arm of a torrc option.
fn mimalloc_trial(named: fn(usize) -> (String, Option<[String; 2]>)) -> FieldTrial {
    let base = four_arms(120);
    let glibc = base.arms[0].clone();
    let version = |name: &'static str,
                   spec: &'static str,
                   level_gib: f64,
                   growth_gib_per_day: f64,
                   contaminated: usize| FieldArm {
        name,
        allocator: Some(spec),
        level_gib,
        growth_gib_per_day,
        contaminated,
        ..glibc.clone()
    };
    let arms = vec![
        FieldArm { name: "as opuser had it", ..glibc.clone() },
        version("opuser's favourite", "mimalloc@2.1.7", 1.2, 0.0003, 0),
        version("GoldenOwl group", "mimalloc@3.0.1", 3.1, 0.2, 1),
        FieldArm { name: "address", torrc: Some(("Address", "198.51.100.7")), ..glibc.clone() },
    ];
    FieldTrial { arms, named, outcome: Some("completed"), ..base }
}

/// Writes the trial and its bundle; gives the bundle's files.
fn bundle_of(trial: &FieldTrial, gossip: &str) -> BTreeMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("host.db");
    let id = trial.write(&path);
    let mut store = Store::create(&path).unwrap();
    let service = store.services(id).unwrap()[2].id;
    for kind in ["warning", "note", "crash", "gap", "config_change"] {
        store
            .add_event(id, Some(service), trial.start_us + 1_000_000, kind.parse().unwrap(), gossip)
            .unwrap();
    }
    drop(store);
    let output = run(
        folder.path(),
        "report five-way --db host.db --bug mimalloc@3.0.1 --good mimalloc@2.1.7 --out bundle",
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    files(&folder.path().join("bundle"))
}

#[test]
fn nasty_names_leave_no_trace_and_damage_nothing() {
    let gossip = "GoldenOwl on barn.example.org (203.0.113.9, [2001:db8::7]) said to op@example.net: /home/opuser/tor.log, \
                  abcdefghij234567.onion, A0B1C2D300000000000000000000000000000002, growth of memory, a level";
    let nasty = bundle_of(&mimalloc_trial(nasty), gossip);
    assert_holds_none(&nasty, &SECRETS);
    // A trial with harmless names and gossip has the same bundle, byte for byte: no name is in it, and none of the
    // words that are names elsewhere was touched.
    let plain = bundle_of(&mimalloc_trial(plain), "nothing");
    assert_eq!(nasty.keys().collect::<Vec<_>>(), plain.keys().collect::<Vec<_>>());
    for (name, bytes) in &plain {
        assert!(*bytes == nasty[name], "{name} differs");
    }

    let bug: Value = serde_json::from_str(text(&nasty, "report.json")).unwrap();
    let arms = names(&bug["arms"]);
    assert!(arms.contains("as found, Address …"), "{arms:?}");
    let bad = bug["arms"].as_array().unwrap().iter().find(|arm| arm["name"] == "mimalloc@3.0.1").unwrap();
    // One of its services ran something else, which is counted in no figure.
    assert_eq!(bad["as_treated"]["services"], 7);
    let folder = tempfile::tempdir().unwrap();
    let arms = arms_of(folder.path(), bug["reproduce"]["command"].as_str().unwrap());
    assert_eq!(arms.len(), 2, "{arms:?}");
}

#[test]
fn a_bundle_has_specs_seed_and_repeats_and_no_word_of_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let mut stored = fixture::command(2);
    stored.command = "heaptrial lab run --arms /home/opuser/plans/p.toml --repeat 2 --seed 42 --name secret \
                      --load 'wrk http://web7.acme.it/' -- /srv/acme/server --listen 203.0.113.9:80"
        .to_owned();
    let settings = &mut stored.arms[2].1.as_mut().unwrap().settings;
    settings.insert("MIMALLOC_TRACE".to_owned(), "/home/opuser/trace,op@example.org".to_owned());
    drop(stored.write(&folder.path().join("heaptrial.db")));
    let output = run(folder.path(), "report . --bug mimalloc@3.0.1?purge_delay=0 --good glibc --out bundle");
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let files = files(&folder.path().join("bundle"));
    assert_holds_none(&files, &["opuser", "203.0.113.9", "example.org", "acme", "wrk", "secret"]);
    let bug: Value = serde_json::from_str(text(&files, "report.json")).unwrap();
    assert_eq!(
        bug["reproduce"]["command"],
        "heaptrial lab run -a glibc -a 'mimalloc@3.0.1?purge_delay=0' --repeat 2 --seed 42 -- CMD"
    );
}
