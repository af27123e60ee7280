//! The whole story on real relays: plan, start, sample, look, report, revert.

use crate::support;

use std::time::Duration;

use heaptrial_testbed::{FIVE_WAY, PrivateDirectory, TorInstances, drawn};
use serde_json::Value;
use support::bed::{Bed, example};
use support::{json, stderr, stdout, wait_for};

/// So that seconds are enough for a series.
const FAST_AGENT: &str =
    "[Service]\nExecStart=\nExecStart=/usr/lib/heaptrial/bin/heaptrial agent --interval 1s\n";

fn instances() -> usize {
    std::env::var("HEAPTRIAL_TOR_INSTANCES").ok().and_then(|count| count.parse().ok()).unwrap_or(10)
}

#[test]
#[ignore = "needs root and a container"]
fn five_arms_on_real_relays_are_planned_started_sampled_looked_at_and_reverted() {
    let Some(()) = drawn(0, 3) else { return };
    let Some(bed) = Bed::boot() else { return };
    let torrc = bed
        .container
        .install_private_directory(&PrivateDirectory::new(example("private_directory")))
        .unwrap();
    let relays = TorInstances::new(instances(), torrc);
    let units = bed.container.install_tor_instances(&relays).unwrap();
    bed.container.ok(&[
        &["systemctl", "start"],
        units.iter().map(String::as_str).collect::<Vec<_>>().as_slice(),
    ]
    .concat());
    bed.container.wait_for_bootstrap(&relays.names, Duration::from_secs(240)).unwrap();
    bed.container
        .write("/etc/systemd/system/heaptrial-agent.service.d/fast.conf", FAST_AGENT, 0o644)
        .unwrap();

    let services = bed.json("services tor@* --json");
    let running =
        services["services"].as_array().unwrap().iter().filter(|service| !service["process"].is_null());
    assert_eq!(running.count(), units.len(), "{services:#}");
    let trial = FIVE_WAY
        .replace("duration = \"10m\"", "duration = \"2h\"")
        .replace("\"5m\", \"10m\"", "\"20s\", \"2h\"");
    bed.write_trial("five-way", &trial.replace("2m", "1h").replace("at_once = 2", "at_once = 3"));
    bed.succeeds("trial plan five-way.toml --seed 7");
    let before = bed.snapshot();

    let output = bed.succeeds("trial start five-way --yes");
    eprintln!("{}", stderr(&output));
    bed.assert_active(&units);
    let status = bed.json("trial status five-way --json");
    for unit in &units {
        let arm = status["services"][unit]["arm"].as_str().unwrap();
        let maps = bed.maps(unit);
        assert_eq!(maps.contains("libjemalloc"), arm == "jemalloc-5.3.0", "{unit} {arm}");
        assert_eq!(maps.contains("libmimalloc"), arm == "mimalloc-2.0.9", "{unit} {arm}");
        let name = unit.trim_start_matches("tor@").trim_end_matches(".service");
        let torrc = bed.container.read_text(format!("/etc/tor/instances/{name}/torrc")).unwrap();
        assert_eq!(torrc.contains("\nDirCache 0\n"), arm == "dircache-0", "{unit} {arm}");
    }

    let look = wait_for("the first look", Duration::from_secs(180), || {
        let output = bed.heaptrial("trial look five-way --json");
        // 3: it is not due yet.
        (output.status.code() != Some(3)).then_some(output)
    });
    assert!(matches!(look.status.code(), Some(0 | 4)), "{}{}", stdout(&look), stderr(&look));
    for arm in json(&look)["arms"].as_array().unwrap() {
        let split = &arm["memory_split"];
        let is_glibc = arm["name"] != "jemalloc-5.3.0" && arm["name"] != "mimalloc-2.0.9";
        assert_eq!(split["in_use_bytes"].as_u64().is_some_and(|bytes| bytes > 1 << 20), is_glibc, "{arm:#}");
    }
    let status = bed.json("trial status five-way --json");
    for arm in status["arms"].as_array().unwrap() {
        assert_eq!(arm["contaminated"], 0, "{status:#}");
        assert_eq!(arm["without_reading"], 0, "{status:#}");
        assert!(arm["median_bytes"].as_u64().unwrap() > 1 << 20, "{status:#}");
    }
    assert_eq!(status["looks_taken"], 1);

    bed.succeeds("trial stop five-way --revert --yes");
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    bed.assert_active(&units);
    for unit in &units {
        let maps = bed.maps(unit);
        assert!(!maps.contains("libjemalloc") && !maps.contains("libmimalloc"), "{unit}");
    }
    bed.succeeds("report five-way --out /root/report");
    let report: Value =
        serde_json::from_slice(&bed.container.read("/root/report/report.json").unwrap()).unwrap();
    assert_eq!(report["kind"], "field");
    assert_eq!(report["arms"].as_array().map(Vec::len), Some(5), "{report:#}");
    for arm in report["arms"].as_array().unwrap() {
        assert_eq!(
            arm["services"].as_u64().or(arm["services_total"].as_u64()).unwrap_or(0),
            units.len() as u64 / 5,
            "{arm:#}"
        );
    }
    // The lives before the trial are none of its own.
    let text = bed.container.read_text("/root/report/report.md").unwrap();
    assert!(!text.contains("Ran something else"), "{text}");
    assert!(bed.container.read_text("/root/report/report.html").unwrap().contains("dircache-0"));

    // These relays are in no consensus: gates would never know their flags of before, which is told before anything
    // is changed. (Ages of a trial of a minute are far apart, which may be a grave finding.)
    let rollout = "rollout start mimalloc@2.0.9 --services tor@relay* --force a-pilot --dry-run";
    let refused = bed.heaptrial(rollout);
    assert_eq!(refused.status.code(), Some(3), "{}{}", stdout(&refused), stderr(&refused));
    let told = stderr(&refused);
    assert!(told.contains("--no-work"), "{told}");
    let wanted = stderr(&bed.succeeds(&format!("{rollout} --no-work")));
    assert!(wanted.contains("and not by work and flags (--no-work)"), "{wanted}");
}
