//! A watch on real services of a real systemd: what is changed is alerted once, and resolved after mending.

use crate::support;

use heaptrial_testbed::drawn;
use serde_json::Value;
use support::bed::Bed;
use support::trials::two_arms;
use support::watched::{HOOK, READINGS, TOLD, check, kinds, pair, quiet, start, told, with_trial};
use support::{stderr, stdout, wait_for};

const METRICS: &str = "/root/heaptrial.prom";
const SERVICE: &str = "heaptrial-watch-two-way.service";
/// What a watch may leave nothing in; the trial's own state is below /var/lib/heaptrial too.
const FOLDERS: [&str; 3] = ["/etc", "/usr", "/var/lib/heaptrial/watches"];

/// The services of the arm with jemalloc, and its library.
fn treated(plan: &Value) -> (Vec<String>, String) {
    let services = plan["services"].as_array().unwrap();
    let names = services.iter().map(|own| own["service"].as_str().unwrap().to_owned()).collect();
    (names, services[0]["expected"]["object"].as_str().unwrap().to_owned())
}

#[test]
#[ignore = "needs root and a container"]
fn what_changes_is_reported_once_and_again_when_it_is_mended() {
    let Some((bed, _)) = with_trial(6) else { return };
    let watched = snapshot(&bed);
    bed.container.write(HOOK, format!("#!/bin/sh\ncat >> {TOLD}\n"), 0o755).unwrap();
    let plan = start(&bed, &format!("--hook {HOOK} --metrics {METRICS}"));
    let (services, library) = treated(&plan["plan"]);
    assert_eq!(services.len(), 3, "{plan:#}");
    let timers = bed.container.ok(&["systemctl", "list-timers", "--all", "--no-legend"]);
    assert!(timers.contains("heaptrial-watch-two-way.timer"), "{timers}");
    assert_eq!(bed.property("heaptrial-watch-two-way.timer", "ActiveState"), "active");
    for file in plan["plan"]["installed"].as_array().unwrap() {
        bed.container.ok(&["test", "-e", file["path"].as_str().unwrap()]);
    }
    assert_eq!(bed.heaptrial("watch start two-way --arm jemalloc --yes").status.code(), Some(3));
    quiet(&bed);
    told(&bed);

    // A library is replaced on disk, as by an upgrade.
    bed.container.ok(&["cp", "-a", &library, "/root/library"]);
    bed.container.ok(&["cp", "/usr/bin/true", "/root/other"]);
    bed.container.ok(&["mv", "/root/other", &library]);
    let (code, document) = check(&bed);
    assert_eq!((code, kinds(&document)), (5, vec!["file"]), "{document:#}");
    assert_eq!(document["alerts"][0]["services"].as_array().unwrap().len(), 3);
    assert_eq!(told(&bed), [pair("raised", "file")]);
    let metrics = bed.container.ok(&["cat", METRICS]);
    assert!(metrics.contains("kind=\"file\"") && metrics.ends_with("# EOF\n"), "{metrics}");
    assert_eq!(check(&bed).0, 5);
    assert_eq!(told(&bed), [], "once");

    // The unit of the timer writes to the journal, by priority, and does not fail for an alert.
    let drop_in = format!("/etc/systemd/system/{}.d/zz-heaptrial.conf", services[0]);
    bed.container.ok(&["cp", "-a", &drop_in, "/root/drop-in"]);
    bed.container.ok(&["sed", "-i", "$a# changed", &drop_in]);
    bed.container.ok(&["systemctl", "start", SERVICE]);
    let journal = bed.container.ok(&["journalctl", "--no-pager", "-o", "json", "-p", "err", "-u", SERVICE]);
    assert!(journal.contains("raised: drop_in:") && journal.contains("\"PRIORITY\":\"3\""), "{journal}");
    assert_eq!(told(&bed), [pair("raised", "drop_in")]);

    // A new instance without a treatment.
    bed.container.ok(&["systemctl", "start", "churn@900.service"]);
    assert_eq!(check(&bed).0, 5);
    assert_eq!(told(&bed), [pair("raised", "new_service")]);
    let status = bed.succeeds("watch status two-way");
    assert!(
        stdout(&status).contains("heaptrial rollout start two-way --arm jemalloc --services churn@"),
        "{}",
        stdout(&status)
    );

    // Mended.
    bed.container.ok(&["mv", "/root/library", &library]);
    bed.container.ok(&["mv", "/root/drop-in", &drop_in]);
    bed.container.ok(&["systemctl", "stop", "churn@900.service"]);
    let (code, document) = check(&bed);
    assert_eq!((code, kinds(&document)), (0, vec![]), "{document:#}");
    let mut resolved = told(&bed);
    resolved.sort();
    assert_eq!(resolved, ["drop_in", "file", "new_service"].map(|kind| pair("resolved", kind)));
    assert!(!bed.container.ok(&["cat", METRICS]).contains("heaptrial_watch_alert{"));

    let status = bed.succeeds("watch status two-way");
    assert!(stdout(&status).contains("two-way: quiet, 0 of 11 looks taken"), "{}", stdout(&status));
    bed.succeeds("report two-way+watch");
    bed.succeeds("trial status two-way");
    bed.succeeds("watch stop two-way --yes");
    assert_eq!(watched.difference(&snapshot(&bed)), Vec::<String>::new());
    assert_eq!(bed.heaptrial("watch check two-way").status.code(), Some(3));
}

#[test]
#[ignore = "needs root and a container"]
fn after_a_rollout_of_a_setting_the_watch_of_its_trial_has_all_services() {
    let Some(()) = drawn(0, 3) else { return };
    let Some((bed, _)) = Bed::with_churn(4) else { return };
    let arms = two_arms("setting", "churn@*", "").replace("jemalloc@5.3.0", "glibc?arena_max=1");
    bed.write_trial("setting", &arms);
    for command in ["plan setting.toml --seed 1", "start setting --yes", "stop setting --yes"] {
        bed.succeeds(&format!("trial {command}"));
    }
    bed.succeeds("rollout start setting --arm jemalloc --force tried --soak 1s --pause 0s --yes");
    let plan = &bed.json("watch start setting --arm jemalloc --yes --json")["plan"];
    assert_eq!(plan["services"].as_array().map(Vec::len), Some(4), "{plan:#}");
}

fn snapshot(bed: &Bed) -> heaptrial_testbed::Snapshot {
    heaptrial_testbed::Snapshot::of(&bed.container, &FOLDERS).unwrap()
}

#[test]
#[ignore = "needs root and a container"]
fn another_process_and_missing_readings_are_reported_and_a_failing_hook_too() {
    let Some(()) = drawn(0, 6) else { return };
    let Some((bed, _)) = with_trial(6) else { return };
    let plan = start(&bed, "--hook /usr/bin/false --no-data-after 10s");
    let (services, _) = treated(&plan["plan"]);
    quiet(&bed);

    // Started anew without its treatment: the drop-in is gone.
    let service = services[1].as_str();
    bed.container.ok(&["rm", &format!("/etc/systemd/system/{service}.d/zz-heaptrial.conf")]);
    bed.container.ok(&["systemctl", "daemon-reload"]);
    bed.container.ok(&["systemctl", "restart", service]);
    let output = bed.heaptrial("watch check two-way");
    assert_eq!(output.status.code(), Some(1), "{}", stdout(&output));
    assert!(stderr(&output).contains("/usr/bin/false ended with exit status: 1"), "{}", stderr(&output));
    for line in [
        format!("identity: {service}: does not run"),
        format!("drop_in: {service}: its next start will be without"),
    ] {
        assert!(stdout(&output).contains(&line), "{}", stdout(&output));
    }

    // Without the agent there are no readings.
    bed.container.ok(&["systemctl", "stop", "heaptrial-agent.service"]);
    let document = wait_for("missing readings are reported", READINGS, || {
        let (_, document) = check(&bed);
        kinds(&document).contains(&"no_data").then_some(document)
    });
    assert!(kinds(&document).contains(&"identity"), "{document:#}");
    bed.succeeds("watch stop two-way --yes");
}

#[test]
#[ignore = "needs root and a container"]
fn what_cannot_be_watched_is_refused_and_nothing_is_changed() {
    let Some((bed, _)) = with_trial(4) else { return };
    let before = snapshot(&bed);
    for (arguments, code, said) in [
        ("watch start other --yes", 3, "no trial or rollout is called other"),
        ("watch start two-way --arm x --yes", 3, "has no arm `x`; it has glibc, jemalloc"),
        ("watch start two-way --yes", 3, "name one with --arm"),
        ("watch start two-way --hook tee --yes", 2, "no absolute path"),
        ("watch start two-way --metrics heaptrial.prom --yes", 2, "absolute path"),
        ("watch start two-way --every 90s --yes", 2, "expected whole minutes"),
        ("watch check two-way", 3, "no watch `two-way`"),
        ("watch stop two-way --yes", 3, "no watch `two-way`"),
    ] {
        let output = bed.heaptrial(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {}", stderr(&output));
        assert!(stderr(&output).contains(said), "{arguments}: {}", stderr(&output));
    }
    let output = wait_for("a dry run shows a watch", READINGS, || {
        let output = bed.heaptrial("watch start two-way --arm jemalloc --dry-run");
        output.status.success().then_some(output)
    });
    assert!(stdout(&output).contains("OnUnitActiveSec=15min"), "{}", stdout(&output));
    assert_eq!(before.difference(&snapshot(&bed)), Vec::<String>::new());
}
