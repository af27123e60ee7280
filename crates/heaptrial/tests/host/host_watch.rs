//! A watch on a host where other things happen too: trials are reverted, rollouts mend what was alerted, services have
//! escaped names. And what rollouts tell of themselves there.

use crate::support;

use std::process::Stdio;
use std::time::Duration;

use heaptrial_testbed::{ChurnService, drawn};
use serde_json::Value;
use support::bed::Bed;
use support::trials::TWO_WAY;
use support::watched::{HOOK, READINGS, TOLD, check, pair, quiet, start, told, with_trial};
use support::{stderr, stdout, wait_for};

const LOCK: &str = "/var/lib/heaptrial/lock";
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
fn an_alert_names_all_services_and_what_changed_them() {
    let Some(()) = drawn(2, 6) else { return };
    let Some((bed, services)) = watched(8) else { return };
    assert_eq!(services.len(), 4);

    // Somebody's script takes all drop-ins away.
    for service in &services {
        bed.container.ok(&["mv", &drop_in(service), &format!("/root/{service}")]);
    }
    bed.container.ok(&["systemctl", "daemon-reload"]);
    let (code, document) = check(&bed);
    assert_eq!((code, document["alerts"].as_array().unwrap().len()), (5, 1), "{document:#}");
    let alert = &document["alerts"][0];
    assert_eq!((&alert["kind"], alert["services"].as_array().unwrap().len()), (&"drop_in".into(), 4));
    assert_eq!(told(&bed), [pair("raised", "drop_in")]);
    for service in &services {
        bed.container.ok(&["mv", &format!("/root/{service}"), &drop_in(service)]);
    }
    bed.container.ok(&["systemctl", "daemon-reload"]);
    assert_eq!(check(&bed).0, 0);
    assert_eq!(told(&bed), [pair("resolved", "drop_in")]);

    // The trial is put back under the watch.
    bed.succeeds("trial stop two-way --revert --yes --pause 0s");
    let (code, document) = check(&bed);
    assert_eq!(code, 5, "{document:#}");
    assert!(
        document.to_string().contains("trial `two-way` changed it since the watch began"),
        "{document:#}"
    );
    assert!(told(&bed).contains(&pair("raised", "identity")));
    assert_eq!(check(&bed).0, 5);
    assert!(!told(&bed).contains(&pair("raised", "identity")), "once");
    bed.succeeds("watch stop two-way --yes");
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

    // A drop-in is gone, and a rollout brings it back, with a text of its own; then one is changed.
    for spoil in [&["rm"][..], &["sed", "-i", "$a# changed"]] {
        let mut words = spoil.to_vec();
        let path = drop_in(&services[0]);
        words.push(&path);
        bed.container.ok(&words);
        bed.container.ok(&["systemctl", "daemon-reload"]);
        assert_eq!(check(&bed).0, 5);
        assert_eq!(told(&bed), [pair("raised", "drop_in")]);
        let status = stdout(&bed.succeeds("watch status two-way"));
        let again = format!("rollout start two-way --arm jemalloc --services {}", services[0]);
        assert!(status.contains(&format!("`heaptrial {again}`")), "{status}");
        bed.container.ok(&["rm", "-f", &path]);
        bed.container.ok(&["systemctl", "daemon-reload"]);
        bed.succeeds(&format!("{again} {PACE}"));
        let (code, document) = check(&bed);
        assert_eq!(code, 0, "{document:#}");
        assert_eq!(told(&bed), [pair("resolved", "drop_in")]);
    }

    // What mended it is put back: by whom is known.
    bed.succeeds("rollout rollback two-way-rollout-2 --yes");
    let (code, document) = check(&bed);
    assert!(code == 5 && document.to_string().contains("rollout `two-way-rollout-2`"), "{document:#}");
}

#[test]
#[ignore = "needs root and a container"]
fn a_stopped_service_and_a_timer_that_does_not_run_are_told_as_such_and_nothing_stays_behind() {
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
        said.contains("the unit is masked") && said.contains("heaptrial-watch-two-way.timer is "),
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

const AGENT: &str = "heaptrial-agent.service";

#[test]
#[ignore = "needs root and a container"]
fn a_rollout_holds_services_of_two_kinds_to_what_their_own_kind_uses() {
    let Some(()) = drawn(3, 6) else { return };
    let Some(bed) = Bed::boot() else { return };
    let program = support::bed::example("churn_service");
    let large = ChurnService {
        template: "churnlarge".to_owned(),
        live_bytes: 64_000_000,
        ..ChurnService::new(program, 1)
    };
    let large = bed.container.install_churn_service(&large).unwrap().remove(0);
    bed.start_churn_of(8, 8_000_000);
    bed.container.ok(&["systemctl", "start", &large]);
    let unit = stdout(&bed.succeeds("agent --print-unit /ht/heaptrial"));
    bed.container.write(format!("/etc/systemd/system/{AGENT}"), unit, 0o644).unwrap();
    let often = "[Service]\nExecStart=\nExecStart=/ht/heaptrial agent --interval 300ms\n";
    bed.container.write(format!("/etc/systemd/system/{AGENT}.d/test.conf"), often, 0o644).unwrap();
    bed.container.ok(&["mkdir", "-p", "-m", "750", "/var/lib/heaptrial"]);
    bed.container.ok(&["systemctl", "daemon-reload"]);
    bed.container.ok(&["systemctl", "start", AGENT]);
    bed.write_trial("two-way", &TWO_WAY.replace("\"churn@*\"", "\"churn*@*\""));
    bed.succeeds("trial plan two-way.toml --seed 1");
    bed.succeeds("trial start two-way --yes --no-agent");
    let old = |arm: &Value| arm["median_age_seconds"].as_f64().unwrap_or(0.0) >= 6.0;
    wait_for("readings of services", Duration::from_secs(120), || {
        let status = bed.json("trial status two-way --json");
        status["arms"].as_array().unwrap().iter().all(old).then_some(())
    });
    bed.succeeds("trial stop two-way --yes");

    // The arm that the large one is not in has seen nothing of its kind.
    let arm = if bed.maps(&large).contains("libjemalloc") { "glibc" } else { "jemalloc" };
    let pace = format!("{PACE} --at-once 9 --waves 100%");
    let output = bed.heaptrial(&format!("rollout start two-way --arm {arm} {pace}"));
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    let lines = ["(churn@* from ", "memory of 1 service (churnlarge@* from "];
    let status = stdout(&bed.succeeds("rollout status two-way-rollout"));
    for line in lines {
        assert!(stderr(&output).contains(line), "{}", stderr(&output));
        assert!(status.contains(line), "{status}");
    }
    assert!(stderr(&output).contains("memory of churn@* from "), "{}", stderr(&output));
    assert!(stderr(&output).contains("memory of churnlarge@* from "), "{}", stderr(&output));
}

#[test]
#[ignore = "needs root and a container"]
fn a_rollout_that_was_cut_short_reports_its_last_record() {
    let Some(()) = drawn(2, 4) else { return };
    let Some((bed, _)) = Bed::with_churn(2) else { return };
    let rollout = "jemalloc@5.3.0 --services churn@* --force a-pilot --name short";
    let mut command = bed.command(&format!("rollout start {rollout} {PACE}"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = command.spawn().unwrap();
    wait_for("the canary is watched", Duration::from_secs(60), || {
        bed.container.read("/var/lib/heaptrial/trials/short/prepared.json").ok()?;
        let status = bed.json_of("rollout status short --json");
        (status["rollouts"][0]["waves"][0]["stage"] == "soaking").then_some(())
    });
    let holder: Value = serde_json::from_slice(&bed.container.read(LOCK).unwrap()).unwrap();
    let pid = holder["pid"].to_string();
    bed.container.ok(&["kill", "-9", &pid]);
    process.wait().unwrap();
    let status = bed.heaptrial("rollout status short");
    let text = stdout(&status);
    assert_eq!(status.status.code(), Some(1), "{text}");
    let line =
        text.lines().find(|line| line.starts_with("  cut short: ")).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("last record, "), "{line}");
}
