//! A trial on real services of a real systemd: planned, started, proved, stopped, reverted to the byte.

use crate::support;

use heaptrial_testbed::{Snapshot, drawn};
use support::bed::Bed;
use support::trials::two_arms;
use support::{stderr, stdout};

const RESTARTED: &str = "[[arm]]\nname = \"restarted\"\nallocator = \"glibc\"\nrestart_every = \"1h\"\n";

fn planned(count: usize) -> Option<(Bed, Vec<String>)> {
    let (bed, units) = Bed::with_churn(count)?;
    bed.write_trial("three-way", &(two_arms("three-way", "churn@*", "at_once = 2\n") + RESTARTED));
    bed.succeeds("trial plan three-way.toml --seed 1");
    Some((bed, units))
}

#[test]
#[ignore = "needs root and a container"]
fn a_trial_is_started_proved_and_reverted_to_the_byte() {
    let Some((bed, units)) = planned(6) else { return };
    let before = bed.snapshot();
    let output = bed.succeeds("trial start three-way --yes");
    assert!(stdout(&output).contains("6 services run what their arms want"), "{}", stdout(&output));
    bed.assert_active(&units);
    let status = bed.json("trial status three-way --json");
    assert_eq!(status["stage"], "running");
    for unit in &units {
        let arm = status["services"][unit]["arm"].as_str().unwrap();
        assert_eq!(status["services"][unit]["stage"], "committed", "{unit}");
        assert_eq!(bed.maps(unit).contains("libjemalloc"), arm == "jemalloc", "{unit} {arm}");
        let timer =
            format!("heaptrial-restart-{}.timer", unit.trim_end_matches(".service").replace('@', "\\x40"));
        assert_eq!(bed.property(&timer, "ActiveState") == "active", arm == "restarted", "{unit} {arm}");
    }
    let again = bed.heaptrial("trial start three-way --yes");
    assert_eq!(again.status.code(), Some(3), "{}", stderr(&again));

    bed.succeeds("trial stop three-way --revert --yes");
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    bed.assert_active(&units);
    for unit in &units {
        assert!(!bed.maps(unit).contains("libjemalloc"), "{unit}");
    }
    bed.succeeds("trial stop three-way --revert --yes");
}

#[test]
#[ignore = "needs root and a container"]
fn the_documented_rollback_by_hand_needs_no_heaptrial() {
    let Some(()) = drawn(5, 6) else { return };
    let Some((bed, units)) = planned(6) else { return };
    let etc = || Snapshot::of(&bed.container, &["/etc"]).unwrap();
    let torrc = "/etc/tor/instances/r1/torrc";
    bed.container.ok(&["mkdir", "-p", "/etc/tor/instances/r1"]);
    bed.container.write(torrc, "Nickname r1\n", 0o644).unwrap();
    let before = etc();
    bed.succeeds("trial start three-way --yes --no-agent");
    assert!(units.iter().any(|unit| bed.maps(unit).contains("libjemalloc")));
    let edit = format!("printf '# heaptrial begin three-way\\nDirCache 0\\n# heaptrial end\\n' >> {torrc}");
    bed.container.ok(&["sh", "-c", &edit]);

    let text = include_str!("../../../../docs/rollback-by-hand.md");
    let (_, block) = text.split_once("```sh\n").unwrap();
    let (script, _) = block.split_once("```").unwrap();
    bed.container.ok(&["rm", "-r", "/usr/lib/heaptrial/bin"]);
    let printed = bed.container.ok(&["sh", "-c", script]);
    // A relay has no drop-in where its arm is an option of torrc alone.
    assert!(printed.contains("tor@r1.service"), "{printed}");
    assert_eq!(before.difference(&etc()), Vec::<String>::new());
    bed.assert_active(&units);
    for unit in &units {
        assert!(!bed.maps(unit).contains("libjemalloc"), "{unit}");
    }
    let timers = bed.container.ok(&["systemctl", "list-timers", "--all", "--no-legend", "heaptrial-*"]);
    assert_eq!(timers.trim(), "");
    // The tool, back again, finds everything as it was before and says so.
    bed.succeeds("trial stop three-way --revert --yes");
    bed.assert_active(&units);
}

/// Starts a trial of two arms on these services.
fn start(bed: &Bed, name: &str, services: &str) {
    bed.write_trial(name, &two_arms(name, services, ""));
    bed.succeeds(&format!("trial plan {name}.toml --seed 1"));
    bed.succeeds(&format!("trial start {name} --yes"));
}

#[test]
#[ignore = "needs root and a container"]
fn a_library_that_two_trials_use_stays_until_both_are_reverted() {
    let Some(()) = drawn(0, 6) else { return };
    let Some((bed, units)) = Bed::with_churn(4) else { return };
    let before = bed.snapshot();
    for (name, services) in [("first", "churn@00[12]*"), ("second", "churn@00[34]*")] {
        start(&bed, name, services);
    }
    let preloads = |unit: &&String| bed.maps(unit).contains("/usr/lib/heaptrial/allocators/");
    let treated: Vec<&String> = units.iter().filter(preloads).collect();
    assert_eq!(treated.len(), 2);
    bed.succeeds("trial stop first --revert --yes");
    let left = treated.iter().find(|unit| unit.contains("@003") || unit.contains("@004")).unwrap();
    bed.container.ok(&["systemctl", "restart", left]);
    bed.assert_active(&units);
    assert!(preloads(left), "{left} is still in the second trial");
    bed.succeeds("trial stop second --revert --yes");
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
}
