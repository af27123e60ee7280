//! `lab run` in a virtual machine with control groups of version 2 and swap: as root, as a user whose systemd gives out
//! groups, and without any. Memory of the services is known by construction.

use crate::support;

use std::path::Path;
use std::time::Duration;

use heaptrial_testbed::{Machine, Testbed, USER_MANAGER_FILES, drawn};
use serde_json::Value;
use support::arm;
use support::bed::build_folder;
use support::shapes::{BARE_MIB, MIB, assert_anon, shapes};

const MEMORY_MIB: u64 = 768;
const SWAP_MIB: u64 = 256;
/// Far more than the slowest machine takes.
const LIMIT: Duration = Duration::from_secs(900);

/// Three workers share 24 MiB with their parent, and have 4 MiB each.
const SHARED: f64 = 24.0 + 3.0 * 4.0 + 4.0 * BARE_MIB;
/// The same as the sum over the processes, each of which maps the shared part.
const SUMMED: f64 = 4.0 * 24.0 + 3.0 * 4.0 + 4.0 * BARE_MIB;
const ARMS: &str = r#"name = "shapes"
[[arm]]
name = "shared"
control = true
allocator = "glibc"
command = ["/shapes/shapes", "prefork", "24", "4", "3"]

[[arm]]
name = "swap"
allocator = "glibc"
command = ["/shapes/shapes", "prefork", "24", "4", "3", "swap"]
"#;
/// What only a control group has right: pages that are in memory and in swap.
const MORE_ARMS: &str = r#"
[[arm]]
name = "swap-read"
allocator = "glibc"
command = ["/shapes/shapes", "prefork", "24", "4", "3", "swap-read"]
"#;
const LIMITED: &str = r#"name = "limit"
[[arm]]
name = "lives"
control = true
allocator = "glibc"
command = ["/shapes/shapes", "hold", "16"]

[[arm]]
name = "dies"
allocator = "glibc"
command = ["/shapes/shapes", "hold", "48"]
"#;

const SCRIPT: &str = r#"
any="/build/heaptrial lab run --offline --source host --seed 7 --tick 250ms --json"
lab="$any --duration 2s"
useradd --uid 1500 alice
mkdir alice
chown alice alice
export HOME=/tmp
systemctl start user@1500.service
alice="setpriv --reuid 1500 --regid 1500 --clear-groups env HOME=/tmp/alice XDG_RUNTIME_DIR=/run/user/1500"
$alice systemctl --user start dbus.socket
own="$alice systemd-run --user --scope --quiet -p Delegate=yes"
confined='mount -t tmpfs none /sys/fs/cgroup && exec "$0" "$@"'
mkdir /results
$lab --out root --ready log:^holds$ --arms /more.toml -- true > /results/root
$alice $lab --out user --ready log:^holds$ --arms /arms.toml -- true > /results/user
unshare --mount sh -c "$confined" $lab --out none --ready log:^holds$ --arms /arms.toml -- true > /results/none
$own $lab --out limited --ready log:^holds$ --arms /limited.toml --memory-limit 32M -- true > /results/limited
$any --out storm-root --duration 10s -a glibc -- /shapes/shapes storm 15 > /results/storm-root
$own $any --out storm-user --duration 10s -a glibc -- /shapes/shapes storm 15 > /results/storm-user
crash="-a glibc -- /shapes/shapes crash-loop 8"
$lab --out crash-root $crash > /results/crash-root || echo $? > /results/crash-root-code
$own $lab --out crash-user $crash > /results/crash-user || echo $? > /results/crash-user-code
unshare --mount --net sh -c "$confined" $lab --out crash-none $crash > /results/crash-none || echo $? > /results/crash-none-code
"#;

#[test]
#[ignore = "needs root: it boots a virtual machine"]
fn on_version_2_figures_are_true_whoever_runs_the_lab_and_where_pages_are_swapped_out() {
    let Some(()) = drawn(4, 8) else { return };
    let Some(base) = Testbed::for_test_of_machines() else { return };
    let (build, shapes) = (build_folder(), shapes());
    let binds = [(build.as_path(), Path::new("/build")), (shapes.path(), Path::new("/shapes"))];
    let mut machine = Machine::new(&base, &binds).unwrap();
    for (path, content) in USER_MANAGER_FILES {
        machine.write(path, content).unwrap();
    }
    machine.write("/arms.toml", ARMS).unwrap();
    machine.write("/more.toml", &format!("{ARMS}{MORE_ARMS}")).unwrap();
    machine.write("/limited.toml", LIMITED).unwrap();
    let said = machine.run(MEMORY_MIB, SWAP_MIB, SCRIPT, LIMIT).unwrap_or_else(|error| panic!("{error}"));
    let report = |name: &str| -> Value {
        let text = machine.read(&format!("/results/{name}")).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{name}: {error}\n{text}\n{said}"))
    };
    for (name, accounting, arms) in [
        ("root", r#"{"from":"cgroup","version":"v2"}"#, &["shared", "swap", "swap-read"][..]),
        ("user", r#"{"delegated_by":"systemd","from":"cgroup","version":"v2"}"#, &["shared", "swap"]),
    ] {
        let report = report(name);
        assert_eq!(report["parameters"]["memory_accounting"].to_string(), accounting, "{name}");
        arms.iter().for_each(|arm| assert_anon(&report, arm, SHARED));
    }
    let none = report("none");
    assert_eq!(none["parameters"]["memory_accounting"]["from"], "processes");
    ["shared", "swap"].iter().for_each(|arm| assert_anon(&none, arm, SUMMED));
    let limited = report("limited");
    assert_eq!(limited["parameters"]["memory_accounting"].to_string(), r#"{"from":"cgroup","version":"v2"}"#);
    assert_anon(&limited, "lives", 16.0 + BARE_MIB);
    assert_eq!(arm(&limited, "lives")["services"], 1, "{limited:#}");
    assert_eq!(arm(&limited, "dies")["services"], 0, "{limited:#}");
    assert!(limited.to_string().contains("does not live under"), "{limited:#}");
    // Processes that live for less than a tick.
    for name in ["storm-root", "storm-user"] {
        let report = report(name);
        // An emulated machine takes as long to start a process as that lives: a highest reading is of one that holds all.
        let bytes = arm(&report, "glibc")["memory"]["peak_bytes"].as_f64().unwrap() / MIB;
        assert!((14.0..16.0).contains(&bytes), "{name}: {bytes} MiB in {report:#}");
    }
    // The machine's kernel has no process connector, so that a crash that the parent collects is not seen, and a warning says so.
    for name in ["crash-root", "crash-user", "crash-none"] {
        let report = report(name);
        let code = machine.read(&format!("/results/{name}-code")).unwrap_or_default();
        let told = report.to_string();
        let seen = code.trim() == "1" && told.contains("SIGABRT") && arm(&report, "glibc")["services"] == 0;
        let unseen = told.contains("crashes of processes other than its main one are not seen");
        assert!(seen || unseen, "{name}: {said}\n{report:#}");
    }
}
