//! What a trial on real services does with services and files that are not as it needs them.

use crate::support;

use heaptrial_testbed::drawn;
use support::bed::Bed;
use support::trials::{of_arm, planned, two_arms};
use support::{stderr, stdout};

fn instance(unit: &str) -> &str {
    unit.trim_start_matches("churn@").trim_end_matches(".service")
}

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
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("{victim}: FAILED")) && said.contains("did not end within 4s"), "{said}");
    bed.assert_active(&units);
    let status = support::json(&bed.heaptrial("trial status never --json"));
    assert_eq!(status["services"][&victim]["stage"], "reverted", "{status:#}");
    assert!(status["interrupted"].as_str().unwrap().contains("failure_budget"), "{status:#}");
    assert!(!bed.maps(&victim).contains("libjemalloc"));

    bed.container.ok(&["rm", &drop_in, "/usr/local/bin/picky"]);
    bed.container.ok(&["rmdir", &format!("/etc/systemd/system/{victim}.d")]);
    bed.succeeds("trial stop never --revert --yes");
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    bed.assert_active(&units);
}

#[test]
#[ignore = "needs root and a container"]
fn a_service_that_crashes_soon_after_is_put_back() {
    let Some(()) = drawn(4, 6) else { return };
    let Some((bed, units)) = planned("crash", 4, "settle = \"2s\"") else { return };
    let victim = of_arm(&bed, "crash", "jemalloc").remove(0);
    bed.container.write(format!("/etc/churn/{}", instance(&victim)), "FAIL_AFTER_MS=300\n", 0o644).unwrap();
    let output = bed.heaptrial("trial start crash --yes --no-agent");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{}{said}", stdout(&output));
    assert!(said.contains(&victim), "{said}");
    bed.container.ok(&["rm", &format!("/etc/churn/{}", instance(&victim))]);
    bed.succeeds("trial stop crash --revert --yes");
    bed.container.ok(&["systemctl", "restart", &victim]);
    bed.assert_active(&units);
}

#[test]
#[ignore = "needs root and a container"]
fn a_service_that_ends_again_and_again_is_put_back_long_before_the_limit() {
    let Some(()) = drawn(5, 6) else { return };
    let limit = "settle = \"2s\"\nhealth_timeout = \"1h\"";
    let Some((bed, units)) = planned("loop", 4, limit) else { return };
    let before = bed.snapshot();
    let victim = of_arm(&bed, "loop", "jemalloc").remove(0);
    let fault = format!("/etc/churn/{}", instance(&victim));
    bed.container.write(&fault, "FAULTS_UNDER=jemalloc\nFAIL_AFTER_MS=0\n", 0o644).unwrap();
    let output = bed.heaptrial("trial start loop --yes --no-agent");
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{}{said}", stdout(&output));
    // It lives so shortly that it is hardly ever seen to.
    assert!(said.contains(&format!("{victim}: FAILED")) && said.contains("by itself"), "{said}");
    assert!(!bed.maps(&victim).contains("libjemalloc"));
    bed.assert_active(&units);
    bed.container.ok(&["rm", "-r", "/etc/churn"]);
    bed.succeeds("trial stop loop --revert --yes");
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
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

#[test]
#[ignore = "needs root and a container"]
fn a_full_disk_stops_the_run_and_everything_comes_back() {
    let Some(()) = drawn(3, 6) else { return };
    use heaptrial_testbed::{Options, Testbed, drawn};
    let Some(base) = Testbed::for_test() else { return };
    let bed = Bed::boot_on(&base, Options::new().disk_bytes(1 << 30));
    let units = bed.start_churn(4);
    bed.write_trial("full", &two_arms("full", "churn@*", ""));
    bed.succeeds("trial plan full.toml --seed 1");
    let before = bed.snapshot();
    bed.succeeds("trial start full --yes --no-agent");
    // All that is left of the disk, to the last block.
    let _ = bed.container.run(&["dd", "if=/dev/zero", "of=/root/filler", "bs=64k"]);
    let _ = bed.container.run(&["sh", "-c", "while echo x >>/root/filler2; do :; done"]);
    let output = bed.heaptrial("trial stop full --revert --yes");
    let said = stderr(&output);
    bed.assert_active(&units);
    bed.container.ok(&["rm", "-f", "/root/filler", "/root/filler2"]);
    let output =
        if output.status.success() { output } else { bed.heaptrial("trial stop full --revert --yes") };
    assert!(output.status.success(), "{said}\n{}", stderr(&output));
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new(), "{said}");
    bed.assert_active(&units);
}

#[test]
#[ignore = "needs root and a container"]
fn a_start_on_a_full_disk_changes_no_service() {
    use heaptrial_testbed::{Options, Testbed};
    let Some(base) = Testbed::for_test() else { return };
    let bed = Bed::boot_on(&base, Options::new().disk_bytes(1 << 30));
    let units = bed.start_churn(4);
    bed.write_trial("full", &two_arms("full", "churn@*", ""));
    bed.succeeds("trial plan full.toml --seed 1");
    let pids: Vec<String> = units.iter().map(|unit| bed.property(unit, "MainPID")).collect();
    let _ = bed.container.run(&["dd", "if=/dev/zero", "of=/root/filler", "bs=64k"]);
    let output = bed.heaptrial("trial start full --yes --no-agent");
    assert!(!output.status.success(), "{}", stdout(&output));
    assert!(
        stderr(&output).contains("No space left") || stderr(&output).contains("disk is full"),
        "{}",
        stderr(&output)
    );
    let now: Vec<String> = units.iter().map(|unit| bed.property(unit, "MainPID")).collect();
    assert_eq!(pids, now, "no service was restarted");
}

#[test]
#[ignore = "needs root and a container"]
fn a_library_folder_that_others_can_write_is_refused() {
    let Some((bed, units)) = planned("vanish", 6, "") else { return };
    let pids: Vec<String> = units.iter().map(|unit| bed.property(unit, "MainPID")).collect();
    // A library that others can write is as good as gone.
    bed.container.ok(&["sh", "-c", "mkdir -p /usr/lib/heaptrial && chmod 777 /usr/lib/heaptrial"]);
    let output = bed.heaptrial("trial start vanish --yes --no-agent");
    assert!(!output.status.success());
    assert!(stderr(&output).contains("/usr/lib/heaptrial"), "{}", stderr(&output));
    let now: Vec<String> = units.iter().map(|unit| bed.property(unit, "MainPID")).collect();
    assert_eq!(pids, now);
}

#[test]
#[ignore = "needs root and a container"]
fn a_plan_that_does_not_fit_the_host_is_refused() {
    let Some((bed, units)) = planned("fit", 4, "") else { return };
    bed.container.ok(&["systemctl", "stop", &units[0]]);
    let output = bed.heaptrial("trial start fit --yes --no-agent");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains(&units[0]), "{}", stderr(&output));
    bed.container.ok(&["systemctl", "start", &units[0]]);
    bed.container.ok(&["systemctl", "mask", "--runtime", "--now", &units[1]]);
    let output = bed.heaptrial("trial start fit --yes --no-agent");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains(&units[1]), "{}", stderr(&output));
    bed.container.ok(&["systemctl", "unmask", "--runtime", &units[1]]);
    bed.container.ok(&["systemctl", "start", &units[1]]);

    let path =
        format!("/etc/systemd/system/{}.d/zz-heaptrial.conf", of_arm(&bed, "fit", "jemalloc").remove(0));
    bed.container.write(&path, "# somebody's\n", 0o644).unwrap();
    let output = bed.heaptrial("trial start fit --yes --no-agent");
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("begins with `# somebody's`"), "{}", stderr(&output));
    bed.assert_active(&units);
    assert_eq!(bed.container.read_text(&path).unwrap(), "# somebody's\n");

    let without_yes = bed.heaptrial("trial start unknown");
    assert_eq!(without_yes.status.code(), Some(3), "{}", stderr(&without_yes));
    assert!(stderr(&without_yes).contains("unknown.plan.toml"), "{}", stderr(&without_yes));
}

#[test]
#[ignore = "needs root and a container"]
fn a_later_drop_in_that_overrides_ours_fails_before_the_restart() {
    let Some((bed, units)) = planned("later", 4, "") else { return };
    let victim = of_arm(&bed, "later", "jemalloc").remove(0);
    let pid = bed.property(&victim, "MainPID");
    bed.container
        .write(
            format!("/etc/systemd/system/{victim}.d/99-mine.conf"),
            "[Service]\nUnsetEnvironment=LD_PRELOAD\n",
            0o644,
        )
        .unwrap();
    bed.container.ok(&["systemctl", "daemon-reload"]);
    let output = bed.heaptrial("trial start later --yes --no-agent");
    assert!(!output.status.success(), "{}", stdout(&output));
    assert!(stderr(&output).contains("99-mine.conf"), "{}", stderr(&output));
    assert_eq!(bed.property(&victim, "MainPID"), pid, "it was not restarted");
    bed.assert_active(&units);
}

#[test]
#[ignore = "needs root and a container"]
fn a_broken_unit_elsewhere_is_no_obstacle() {
    let Some((bed, units)) = planned("third", 4, "") else { return };
    bed.container
        .write("/etc/systemd/system/broken.service", "[Service\nExecStart=relative\n", 0o644)
        .unwrap();
    bed.succeeds("trial start third --yes --no-agent");
    bed.succeeds("trial stop third --revert --yes");
    bed.assert_active(&units);
}

#[test]
#[ignore = "needs root and a container"]
fn two_at_once_are_refused_and_a_dry_run_changes_nothing() {
    let Some((bed, units)) = planned("alone", 4, "") else { return };
    let before = bed.snapshot();
    let shown = bed.succeeds("trial start alone --dry-run");
    assert!(stdout(&shown).contains("zz-heaptrial.conf") && stdout(&shown).contains("nothing was changed"));
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    assert!(!bed.container.root().join("var/lib/heaptrial/trials").exists());
    let mut holder = bed.container.command("flock");
    holder.args(["/var/lib/heaptrial/lock", "sleep", "60"]);
    bed.container.ok(&["mkdir", "-p", "/var/lib/heaptrial"]);
    let mut holder = holder.spawn().unwrap();
    let output = support::wait_for("the lock", std::time::Duration::from_secs(10), || {
        let output = bed.heaptrial("trial start alone --yes --no-agent");
        (output.status.code() == Some(3)).then_some(output)
    });
    assert!(stderr(&output).contains("is locked"), "{}", stderr(&output));
    holder.kill().unwrap();
    holder.wait().unwrap();
    bed.assert_active(&units);
}
