//! A watch on a host where other things happen too: trials are reverted, rollouts mend what was alerted, services have
//! escaped names.

use crate::support;

use heaptrial_testbed::drawn;
use support::bed::Bed;
use support::watched::{HOOK, READINGS, TOLD, check, pair, quiet, start, told, with_trial};
use support::{stdout, wait_for};

/// Nobody depends on these services.
const PACE: &str = "--soak 1s --pause 0s --yes";

/// A host with a watch that is quiet, and the services that it watches.
fn watched(count: usize) -> Option<(Bed, Vec<String>)> {
    let (bed, _) = with_trial(count)?;
    bed.container.write(HOOK, format!("#!/bin/sh\ncat >> {TOLD}\n"), 0o755).unwrap();
    let plan = start(&bed, &format!("--hook {HOOK}"));
    let services = plan["plan"]["services"].as_array().unwrap();
    let services = services.iter().map(|own| own["service"].as_str().unwrap().to_owned()).collect();
    quiet(&bed);
    told(&bed);
    Some((bed, services))
}

fn drop_in(service: &str) -> String {
    format!("/etc/systemd/system/{service}.d/zz-heaptrial.conf")
}

#[test]
#[ignore = "needs root and a container"]
fn what_a_watch_advises_can_be_followed_and_mends() {
    let Some((bed, services)) = watched(4) else { return };
    bed.succeeds("trial stop two-way --yes");

    // A name with a backslash stands in a command as a shell reads it.
    let escaped = r"churn@a\x2db.service";
    bed.container.ok(&["systemctl", "start", escaped]);
    let (_, document) = check(&bed);
    let alert = &document["alerts"][0];
    assert_eq!(alert["services"][0], escaped, "{document:#}");
    let advice = alert["advice"].as_str().unwrap().split('`').nth(1).unwrap().to_owned();
    let status = stdout(&bed.succeeds("watch status two-way"));
    assert!(status.contains(&advice), "{status}");
    let words = bed.container.ok(&["sh", "-c", &format!("printf '%s\\n' {advice}")]);
    assert_eq!(words.lines().last(), Some(escaped), "{advice}");
    bed.container.ok(&["systemctl", "stop", escaped]);
    assert_eq!(check(&bed).0, 0);
    told(&bed);

    // A drop-in is gone, and a rollout brings it back, with a text of its own.
    bed.container.ok(&["rm", &drop_in(&services[0])]);
    bed.container.ok(&["systemctl", "daemon-reload"]);
    assert_eq!(check(&bed).0, 5);
    assert_eq!(told(&bed), [pair("raised", "drop_in")]);
    let status = stdout(&bed.succeeds("watch status two-way"));
    let again = format!("rollout start two-way --arm jemalloc --services {}", services[0]);
    assert!(status.contains(&format!("`heaptrial {again}`")), "{status}");
    bed.succeeds(&format!("{again} {PACE}"));
    let (code, document) = check(&bed);
    assert_eq!(code, 0, "{document:#}");
    assert_eq!(told(&bed), [pair("resolved", "drop_in")]);

    bed.succeeds("rollout rollback two-way-rollout --yes");
    assert_eq!(check(&bed).0, 5);
}

#[test]
#[ignore = "needs root and a container"]
fn a_stopped_service_and_a_timer_that_does_not_run_are_reported_as_such_and_nothing_stays_behind() {
    let Some(()) = drawn(4, 6) else { return };
    let Some((bed, services)) = watched(4) else { return };
    let service = &services[0];
    bed.container.ok(&["systemctl", "stop", service]);
    let (code, document) = check(&bed);
    let alert = &document["alerts"][0];
    assert_eq!((code, alert["kind"].as_str()), (5, Some("stopped")), "{document:#}");
    assert!(alert["text"].as_str().unwrap().contains("does not run: it is inactive (dead)"), "{document:#}");
    assert_eq!(told(&bed), [pair("raised", "stopped")]);
    bed.container.ok(&["systemctl", "start", service]);
    wait_for("the watch is quiet", READINGS, || (check(&bed).0 == 0).then_some(()));

    // While the trial runs, it is the trial that writes its files again.
    bed.container.ok(&["rm", &drop_in(service)]);
    bed.container.ok(&["systemctl", "daemon-reload"]);
    assert_eq!(check(&bed).0, 5);
    let status = stdout(&bed.succeeds("watch status two-way"));
    assert!(status.contains("`heaptrial trial resume two-way`"), "{status}");
    bed.succeeds("trial resume two-way");
    assert_eq!(check(&bed).0, 0);

    let timer = "/etc/systemd/system/heaptrial-watch-two-way.timer";
    bed.container.ok(&["mv", timer, "/root/timer"]);
    bed.container.ok(&["ln", "-s", "/dev/null", timer]);
    bed.container.ok(&["systemctl", "daemon-reload"]);
    bed.container.ok(&["systemctl", "stop", "heaptrial-watch-two-way.timer"]);
    let status = bed.heaptrial("watch status");
    let said = stdout(&status);
    assert_eq!(status.status.code(), Some(1), "{said}");
    assert!(
        said.contains("is masked or was changed") && said.contains("heaptrial-watch-two-way.timer is "),
        "{said}"
    );
    bed.container.ok(&["mv", "/root/timer", timer]);
    bed.container.ok(&["systemctl", "daemon-reload"]);
    bed.container.ok(&["systemctl", "start", "heaptrial-watch-two-way.timer"]);
    bed.succeeds("watch status");

    // The trial finds the watch's program in its folder, and the watch one that it did not make.
    bed.succeeds("trial stop two-way --revert --yes");
    bed.succeeds("watch stop two-way --yes");
    assert!(!bed.container.root().join("usr/lib/heaptrial").exists());
}
