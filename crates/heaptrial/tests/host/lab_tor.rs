//! `heaptrial lab tor` end to end: real relays, real allocators, 500 entries, two arms, and proof that
//! no packet leaves loopback.

use crate::support;

use std::process::Command;

use heaptrial_testbed::drawn;
use serde_json::Value;
use support::{arm, json, processes_with, stderr};

/// A network namespace with a loopback and a way out that leads nowhere but counts: one end of a pair
/// of devices, with the default route. Removed with the test.
struct Namespace {
    name: String,
}

impl Namespace {
    fn create() -> Result<Self, String> {
        let name = format!("heaptrial-test-{}", std::process::id());
        let namespace = Self { name: name.clone() };
        ip(&["netns", "add", &name])?;
        // Without IPv6 and ARP the kernel itself sends nothing.
        let quiet = "echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6; echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6";
        ip(&["netns", "exec", &name, "sh", "-c", quiet])?;
        for arguments in [
            "link set lo up",
            "link add way-out type veth peer name nowhere",
            "link set way-out arp off",
            "addr add 198.51.100.1/24 dev way-out",
            "link set nowhere up",
            "link set way-out up",
            "route add default dev way-out",
        ] {
            let words: Vec<&str> = ["-n", &name].into_iter().chain(arguments.split(' ')).collect();
            ip(&words)?;
        }
        Ok(namespace)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name, program]);
        command
    }

    /// Packets that were sent towards the outside.
    fn packets_out(&self) -> u64 {
        let output = self.command("cat").arg("/proc/net/dev").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let line = text.lines().find_map(|line| line.trim().strip_prefix("way-out:")).unwrap();
        // proc_net_dev(5): eight fields of receiving, then bytes and packets sent.
        line.split_ascii_whitespace().nth(9).unwrap().parse().unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = ip(&["netns", "del", &self.name]);
    }
}

fn ip(arguments: &[&str]) -> Result<(), String> {
    let output = Command::new("ip").args(arguments).output().map_err(|error| format!("ip: {error}"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            Err(format!("ip {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

#[test]
#[ignore = "needs root and Tor"]
fn real_relays_are_compared_and_no_packet_leaves_loopback() {
    let Some(()) = drawn(1, 3) else { return };
    let namespace = match Namespace::create() {
        Ok(namespace) => namespace,
        Err(why) => {
            let why = format!("no network namespace can be made here ({why}); run as root with iproute2");
            return heaptrial_testbed::skip(&why);
        }
    };
    // The count counts: a packet to the outside is seen.
    let before = namespace.packets_out();
    let sent = namespace
        .command("python3")
        .args([
            "-c",
            "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('192.0.2.1', 9))",
        ])
        .status();
    assert!(sent.unwrap().success());
    let start = namespace.packets_out();
    assert!(start > before, "a packet to the outside was not counted");

    let folder = tempfile::tempdir().unwrap();
    let output = namespace
        .command(env!("CARGO_BIN_EXE_heaptrial"))
        .current_dir(folder.path())
        .args(
            "lab tor --offline --source host -a glibc -a jemalloc@5.3.0 --entries 500 --consensuses 3"
                .split(' '),
        )
        .args("--retain 1 --seed 3 --out run --json --connections 20 --ntor-rate 5".split(' '))
        .args(["--circuit-life", "2s"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(namespace.packets_out(), start, "packets left loopback");

    let report = json(&output);
    assert_eq!(report["kind"], "lab_tor");
    assert_eq!(report["outcome"], "completed");
    for name in ["glibc", "jemalloc@5.3.0"] {
        let arm = arm(&report, name);
        assert_eq!(arm["services"], 1, "{arm:#}");
        // A relay with 500 entries holds megabytes, not gigabytes.
        let bytes = arm["anon_bytes_final"].as_f64().unwrap();
        assert!((3e6..1e9).contains(&bytes), "{name}: {bytes}");
        // One service per arm: an estimate without an interval.
        if name != "glibc" {
            let ratio = &arm["ratio_to_control"];
            assert!(ratio["estimate"].as_f64().unwrap() > 0.0);
            assert_eq!((&ratio["low"], &ratio["high"]), (&Value::Null, &Value::Null));
        }
    }
    let relay_log = folder.path().join("run/network/repeat1/arm1-repeat1/notice.log");
    assert!(std::fs::read_to_string(relay_log).unwrap().contains("Tor 0."));
    // Keys and caches are gone, torrc stays, and so does nobody else.
    assert!(!folder.path().join("run/network/repeat1/arm1-repeat1/data").exists());
    assert!(folder.path().join("run/network/repeat1/arm1-repeat1/torrc").exists());
    let place = folder.path().to_string_lossy().into_owned();
    assert_eq!(processes_with(&place), Vec::<i32>::new());

    let database = folder.path().join("run/heaptrial.db");
    for name in ["load_connections_held", "load_circuits_made"] {
        let most = observations(&database, name).into_iter().fold(0.0, f64::max);
        assert!(most >= 20.0, "{name}: {most}");
    }
    let rested = observations(&database, "rested_consensuses");
    assert_eq!(rested, [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]);
    assert_eq!(observations(&database, "diffs_from"), [1.0; 6]);
    let torrc =
        std::fs::read_to_string(folder.path().join("run/network/repeat1/arm1-repeat1/torrc")).unwrap();
    assert!(torrc.contains("\nNumCPUs 128\n"), "{torrc}");
    assert_eq!(report["parameters"]["processors"]["as_on"], 128);
}

fn observations(database: &std::path::Path, name: &str) -> Vec<f64> {
    let store = heaptrial_store::Store::open(database).unwrap();
    let trial = store.trials().unwrap().remove(0);
    let lives = store.lives(trial.id).unwrap();
    let values = lives.iter().flat_map(|life| store.observations(life, name).unwrap());
    values.map(|(_, value)| value).collect()
}
