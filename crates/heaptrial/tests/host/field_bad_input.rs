//! What a trial on real services does with services and files that are not as it needs them.

use crate::support;

use std::time::Duration;

use heaptrial_testbed::{Options, Testbed};
use support::bed::Bed;
use support::trials::{of_arm, plan, planned};
use support::{stderr, stdout, wait_for};

#[test]
#[ignore = "needs root and a container"]
fn a_service_that_never_becomes_ready_is_put_back_and_stops_the_run() {
    let Some((bed, units)) = planned("never", 4, "health_timeout = \"4s\"") else { return };
    let victim = of_arm(&bed, "never", "jemalloc").remove(0);
    let before = bed.snapshot();
    // It is ready only without a preload: the way that an allocator breaks a program.
    let script = "#!/bin/sh\nif [ -n \"$LD_PRELOAD\" ]; then export NEVER_READY=1; fi\nexec /usr/local/bin/churn_service\n";
    bed.container.write("/usr/local/bin/picky", script, 0o755).unwrap();
    let drop_in = format!("/etc/systemd/system/{victim}.d/picky.conf");
    bed.container.write(&drop_in, "[Service]\nExecStart=\nExecStart=/usr/local/bin/picky\n", 0o644).unwrap();
    bed.container.ok(&["systemctl", "daemon-reload"]);
    bed.container.ok(&["systemctl", "restart", &victim]);

    let output = bed.heaptrial("trial start never --yes --no-agent");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    bed.assert_active(&units);
    let status = support::json(&bed.heaptrial("trial status never --json"));
    assert_eq!(status["services"][&victim]["stage"], "reverted", "{status:#}");
    assert!(status["interrupted"].is_string(), "{status:#}");
    assert!(!bed.maps(&victim).contains("libjemalloc"));

    bed.container.ok(&["rm", &drop_in, "/usr/local/bin/picky"]);
    bed.container.ok(&["rmdir", &format!("/etc/systemd/system/{victim}.d")]);
    bed.succeeds("trial stop never --revert --yes");
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    bed.assert_active(&units);
}

#[test]
#[ignore = "needs root and a container"]
fn drift_is_refused_with_the_difference_and_nothing_is_lost() {
    let Some((bed, units)) = planned("drift", 4, "") else { return };
    let victim = of_arm(&bed, "drift", "jemalloc").remove(0);
    let before = bed.snapshot();
    bed.succeeds("trial start drift --yes --no-agent");
    let path = format!("/etc/systemd/system/{victim}.d/zz-heaptrial.conf");
    let ours = bed.container.read_text(&path).unwrap();
    bed.container.write(&path, format!("{ours}Environment=MINE=1\n"), 0o644).unwrap();
    let output = bed.heaptrial("trial stop drift --revert --yes");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("+Environment=MINE=1") && said.contains(&victim), "{said}");
    assert!(
        bed.container.read_text(&path).unwrap().ends_with("Environment=MINE=1\n"),
        "it was left as it is"
    );
    bed.assert_active(&units);
    bed.container.write(&path, ours, 0o644).unwrap();
    bed.succeeds("trial stop drift --revert --yes");
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
}

/// Each is refused with what is in the way, and restarts nothing.
#[test]
#[ignore = "needs root and a container"]
fn a_start_that_does_not_fit_the_host_changes_no_service() {
    let Some(base) = Testbed::for_test() else { return };
    let bed = Bed::boot_on(&base, Options::new().disk_bytes(1 << 30));
    let units = bed.start_churn(4);
    plan(&bed, "fit", "");
    let victim = of_arm(&bed, "fit", "jemalloc").remove(0);
    let pids = || units.iter().map(|unit| bed.property(unit, "MainPID")).collect::<Vec<_>>();
    let (before, running) = (bed.snapshot(), pids());
    let start = "trial start fit --yes --no-agent";
    let refused = |code: i32, what: &str| {
        let output = bed.heaptrial(start);
        assert_eq!(output.status.code(), Some(code), "{what}: {}", stderr(&output));
        assert!(stderr(&output).contains(what), "{what}: {}", stderr(&output));
    };
    // Another process changes services.
    bed.container.ok(&["mkdir", "-p", "/var/lib/heaptrial"]);
    let mut holder = bed.container.command("flock");
    let mut holder = holder.args(["/var/lib/heaptrial/lock", "sleep", "600"]).spawn().unwrap();
    wait_for("the lock", Duration::from_secs(10), || {
        let free = bed.container.run(&["flock", "--nonblock", "/var/lib/heaptrial/lock", "true"]);
        (!free.status.success()).then_some(())
    });
    refused(3, "lock");
    holder.kill().unwrap();
    holder.wait().unwrap();
    bed.container.ok(&["sh", "-c", "kill $(pidof sleep) || true"]);
    // Somebody's file where ours would be.
    let folder = format!("/etc/systemd/system/{victim}.d");
    let file = format!("{folder}/zz-heaptrial.conf");
    bed.container.write(&file, "# somebody's\n", 0o644).unwrap();
    bed.container.ok(&["systemctl", "daemon-reload"]);
    refused(3, "# somebody's");
    assert_eq!(bed.container.read_text(&file).unwrap(), "# somebody's\n");
    bed.container.ok(&["rm", "-r", &folder]);
    bed.container.ok(&["systemctl", "daemon-reload"]);
    // A service that does not run.
    bed.container.ok(&["systemctl", "mask", "--runtime", "--now", &units[1]]);
    refused(3, &units[1]);
    bed.container.ok(&["systemctl", "unmask", "--runtime", &units[1]]);
    bed.container.ok(&["systemctl", "start", &units[1]]);
    // A full disk.
    let running = [&pids()[1..2], &running[..1], &running[2..]].concat();
    let _ = bed.container.run(&["dd", "if=/dev/zero", "of=/root/filler", "bs=64k"]);
    assert!(!bed.heaptrial(start).status.success());
    bed.container.ok(&["rm", "-f", "/root/filler"]);
    assert_eq!([&pids()[1..2], &pids()[..1], &pids()[2..]].concat(), running, "no service was restarted");

    // A unit of others that is broken is no obstacle, and a dry run changes nothing.
    bed.container.write("/etc/systemd/system/broken.service", "[Service\n", 0o644).unwrap();
    let shown = bed.succeeds("trial start fit --dry-run");
    assert!(stdout(&shown).contains("zz-heaptrial.conf"), "{}", stdout(&shown));
    bed.succeeds(start);
    bed.succeeds("trial stop fit --revert --yes");
    bed.container.ok(&["rm", "/etc/systemd/system/broken.service"]);
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
}
