//! What others do to a host's services, units and bus while a trial runs on them. Each on a real systemd.

use crate::support;

use std::time::Duration;

use heaptrial_testbed::drawn;
use serde_json::Value;
use support::bed::Bed;
use support::trials::{of_arm, planned, two_arms};
use support::{stderr, stdout, wait_for};

#[test]
#[ignore = "needs root and a container"]
fn what_an_operator_stopped_stays_stopped_and_what_is_masked_can_be_given_up() {
    let Some(()) = drawn(2, 6) else { return };
    let Some((bed, units)) = planned("gone", 6, "") else { return };
    let before = bed.snapshot();
    bed.succeeds("trial start gone --yes --no-agent");
    let treated = of_arm(&bed, "gone", "jemalloc");
    let (stopped, masked) = (&treated[0], &treated[1]);
    bed.container.ok(&["systemctl", "stop", stopped]);
    bed.container.ok(&["systemctl", "mask", masked]);

    let status = bed.json("trial status gone --json");
    let problems = status["problems"].as_array().unwrap();
    let down = problems.iter().find(|problem| problem["kind"] == "not_running").unwrap();
    assert_eq!(down["service"], stopped.as_str(), "{status:#}");

    let output = bed.heaptrial("trial stop gone --revert --yes");
    let said = format!("{}{}", stdout(&output), stderr(&output));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("--without {masked}")), "{said}");
    assert_eq!(bed.property(stopped, "ActiveState"), "inactive");

    let other = bed.heaptrial("trial stop gone --revert --yes --without churn@nobody.service");
    assert_eq!(other.status.code(), Some(3), "{}", stderr(&other));
    let ended = bed.json(&format!("trial stop gone --revert --yes --json --without {masked}"));
    assert_eq!(ended["given_up"][0]["service"], masked.as_str(), "{ended:#}");
    let status = bed.json("trial status gone --json");
    assert_eq!(status["stage"], "reverted", "{status:#}");
    let again = bed.json("trial stop gone --revert --yes --json");
    assert_eq!(again["given_up"][0], masked.as_str(), "{again:#}");
    assert_eq!(bed.property(stopped, "ActiveState"), "inactive");

    bed.container.ok(&["systemctl", "unmask", masked]);
    bed.container.ok(&["systemctl", "restart", masked]);
    assert!(!bed.maps(masked).contains("libjemalloc"), "its files are as before");
    bed.container.ok(&["systemctl", "start", stopped]);
    bed.assert_active(&units);
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
}

#[test]
#[ignore = "needs root and a container"]
fn a_service_is_dropped_from_a_running_trial_and_the_rest_goes_on() {
    let Some(()) = drawn(5, 6) else { return };
    let Some((bed, units)) = planned("drop", 6, "") else { return };
    let before = bed.snapshot();
    bed.succeeds("trial start drop --yes");
    let (treated, controls) = (of_arm(&bed, "drop", "jemalloc"), of_arm(&bed, "drop", "glibc"));
    let dry = bed.succeeds(&format!("trial drop drop {} --dry-run", treated[0]));
    assert!(stdout(&dry).contains("nothing was changed"), "{}", stdout(&dry));
    assert!(bed.maps(&treated[0]).contains("libjemalloc"));
    bed.succeeds(&format!("trial drop drop {} --yes --because needed-elsewhere", treated[0]));
    assert!(!bed.maps(&treated[0]).contains("libjemalloc"));
    bed.succeeds(&format!("trial drop drop {} --yes", controls[0]));
    let again = bed.heaptrial(&format!("trial drop drop {} --yes", treated[0]));
    assert_eq!(again.status.code(), Some(3), "{}", stderr(&again));

    // A resume does not bring it back, and a report tells it.
    bed.succeeds("trial resume drop");
    assert!(!bed.maps(&treated[0]).contains("libjemalloc"));
    let report = bed.json("report drop --json");
    let findings = report["findings"].as_array().unwrap();
    let is_dropped = |finding: &&Value| finding["evidence"].as_str().unwrap().starts_with("dropped");
    let told = findings.iter().find(is_dropped).expect("it is told");
    let mut services: Vec<&str> =
        told["services"].as_array().unwrap().iter().map(|service| service.as_str().unwrap()).collect();
    services.sort_unstable();
    let mut expected = [treated[0].as_str(), controls[0].as_str()];
    expected.sort_unstable();
    assert_eq!(services, expected, "{told:#}");

    bed.succeeds("trial stop drop --revert --yes");
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    bed.assert_active(&units);
}

/// Runs a start, and has something done to the host each time that it comes further, up to `most` times.
fn start_beside(bed: &Bed, name: &str, most: u32, disturb: &[&str]) {
    let mut start = bed.command(&format!("trial start {name} --yes --no-agent")).spawn().unwrap();
    let journal = format!("/var/lib/heaptrial/trials/{name}/journal.jsonl");
    let recorded = || bed.container.read_text(&journal).map_or(0, |text| text.lines().count());
    let (mut times, mut seen) = (0, 0);
    let status = loop {
        if let Some(status) = start.try_wait().unwrap() {
            break status;
        }
        if times < most && recorded() > seen + 5 {
            bed.container.ok(disturb);
            times += 1;
            seen = recorded();
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    assert!(status.success(), "{disturb:?} {times} times: {status}");
    assert!(times > 0, "the start ended before {disturb:?}");
}

#[test]
#[ignore = "needs root and a container"]
fn systemd_may_execute_itself_anew_and_the_bus_may_go_in_the_middle_of_a_start() {
    let Some(()) = drawn(4, 6) else { return };
    let Some((bed, units)) = planned("anew", 12, "pause = \"200ms\"") else { return };
    let before = bed.snapshot();
    start_beside(&bed, "anew", u32::MAX, &["systemctl", "daemon-reexec"]);
    let status = bed.json("trial status anew --json");
    assert_eq!(status["stage"], "running", "{status:#}");
    bed.succeeds("trial stop anew --revert --yes");
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());

    bed.write_trial("bus", &two_arms("bus", "churn@*", "pause = \"200ms\""));
    bed.succeeds("trial plan bus.toml --seed 1");
    // The daemon ends, and its socket starts it again; systemd gives up one that ends five times in ten seconds.
    start_beside(&bed, "bus", 4, &["systemctl", "kill", "--signal=KILL", "dbus.service"]);
    bed.succeeds("trial stop bus --revert --yes");
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    wait_for("services are up", Duration::from_secs(30), || {
        units.iter().all(|unit| bed.property(unit, "ActiveState") == "active").then_some(())
    });
}

#[test]
#[ignore = "needs root and a container"]
fn services_of_what_has_not_ended_belong_to_it_and_who_may_not_read_is_told_so() {
    let Some(()) = drawn(0, 6) else { return };
    let Some((bed, _)) = planned("first", 6, "") else { return };
    bed.write_trial("early", &two_arms("early", "churn@*", ""));
    bed.succeeds("trial plan early.toml --seed 2");
    bed.succeeds("trial start first --yes");
    let controls = of_arm(&bed, "first", "glibc");

    // A control is as much the trial's as any other: refused when it is planned, and when an earlier plan is started.
    bed.write_trial("second", &two_arms("second", &controls.join(" "), ""));
    for (command, name) in
        [("trial plan second.toml --seed 1", "second"), ("trial start early --yes", "early")]
    {
        let output = bed.heaptrial(command);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{command}: {said}");
        assert!(said.contains(&format!("{} (trial `first`)", controls[0])), "{command}: {said}");
        assert!(!bed.container.root().join(format!("var/lib/heaptrial/trials/{name}")).exists());
    }
    // One that was taken out is free again.
    bed.succeeds(&format!("trial drop first {} --yes", controls[0]));
    let output = bed.heaptrial("trial plan second.toml --seed 1");
    assert!(!stderr(&output).contains(&controls[0]), "{}", stderr(&output));

    // Without root nothing is known, which is not the same as nothing.
    bed.container.ok(&["chmod", "700", "/var/lib/heaptrial"]);
    for command in [
        "trial status",
        "trial status first",
        "trial look first --peek",
        "rollout status",
        "watch status",
        "serve",
        "report first",
    ] {
        let words = format!("setpriv --reuid 65534 --clear-groups /ht/heaptrial {command}");
        let output = bed.container.run(&words.split(' ').collect::<Vec<_>>());
        let said = format!("{}{}", stdout(&output), stderr(&output));
        assert_eq!(output.status.code(), Some(3), "{command}: {said}");
        assert!(
            said.contains("cannot read /var/lib/heaptrial") && said.contains("sudo"),
            "{command}: {said}"
        );
    }
    bed.succeeds("trial stop first --yes");
    bed.succeeds("trial plan second.toml --seed 1");
    bed.succeeds("trial stop first --revert --yes");
}

#[test]
#[ignore = "needs root and a container"]
fn what_others_can_change_is_neither_written_nor_run_as_root() {
    let Some(()) = drawn(3, 6) else { return };
    let Some((bed, units)) = planned("trusted", 2, "") else { return };
    let container = &bed.container;
    let before = bed.snapshot();
    let start = "trial start trusted --yes --no-agent";
    let refused = |command: &str, about: &str| {
        let output = bed.heaptrial(command);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{command}: {said}");
        assert!(said.contains(about), "{command}: {said}");
    };
    // The folder of what must last is a link into somebody's home.
    container.ok(&["mkdir", "-p", "/home/somebody/state"]);
    container.ok(&["chown", "-R", "4711:4711", "/home/somebody"]);
    container.ok(&["ln", "-s", "/home/somebody/state", "/var/lib/heaptrial"]);
    refused(start, "/home/somebody belongs to user 4711");
    assert_eq!(container.ok(&["ls", "-A", "/home/somebody/state"]), "", "nothing was written there");
    container.ok(&["rm", "/var/lib/heaptrial"]);
    // Others may write into it.
    container.ok(&["install", "-d", "-m", "777", "/var/lib/heaptrial"]);
    refused(start, "/var/lib/heaptrial can be written by everybody");
    container.ok(&["chmod", "755", "/var/lib/heaptrial"]);
    // The lock is a link to a file that matters.
    container.write("/etc/precious", "as it was\n", 0o644).unwrap();
    container.ok(&["ln", "-s", "/etc/precious", "/var/lib/heaptrial/lock"]);
    let output = bed.heaptrial(start);
    assert!(
        !output.status.success() && stderr(&output).contains("/var/lib/heaptrial/lock"),
        "{}",
        stderr(&output)
    );
    assert_eq!(container.read_text("/etc/precious").unwrap(), "as it was\n");
    container.ok(&["rm", "/var/lib/heaptrial/lock", "/etc/precious"]);
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());

    // A watch's hook would run as root.
    bed.succeeds(start);
    container.write("/home/somebody/hook", "#!/bin/sh\n", 0o755).unwrap();
    container.ok(&["chown", "4711", "/home/somebody/hook"]);
    refused("watch start trusted --arm jemalloc --hook /home/somebody/hook --yes", "belongs to user 4711");
    container.write("/usr/local/bin/hook", "#!/bin/sh\n", 0o775).unwrap();
    refused(
        "watch start trusted --arm jemalloc --hook /usr/local/bin/hook --yes",
        "/usr/local/bin/hook can be written by its group",
    );
    bed.succeeds("trial stop trusted --revert --yes");
    bed.assert_active(&units);
}

#[test]
#[ignore = "needs root and a container"]
fn a_journal_that_lost_records_is_no_trial_that_changed_nothing() {
    let Some(()) = drawn(0, 6) else { return };
    let Some((bed, units)) = planned("lost", 4, "") else { return };
    let before = bed.snapshot();
    bed.succeeds("trial start lost --yes --no-agent");
    let journal = "/var/lib/heaptrial/trials/lost/journal.jsonl";
    let whole = bed.container.read_text(journal).unwrap();
    let treated = of_arm(&bed, "lost", "jemalloc");
    let upto = |count: usize| whole.lines().take(count).map(|line| format!("{line}\n")).collect::<String>();
    // Nothing of it, and only its beginning.
    let beginning = whole.lines().position(|line| line.contains("\"intent\",\"service\":\"")).unwrap();
    for text in [String::new(), upto(beginning)] {
        bed.container.write(journal, &text, 0o600).unwrap();
        for command in ["trial status lost", "trial stop lost --revert --yes", "trial resume lost"] {
            let output = bed.heaptrial(command);
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(1), "{command}: {}{said}", stdout(&output));
            assert!(said.contains("has lost records") && said.contains(".conf"), "{command}: {said}");
        }
        for unit in &treated {
            assert!(bed.maps(unit).contains("libjemalloc"), "{unit} is as it was");
        }
    }
    bed.container.write(journal, &whole, 0o600).unwrap();
    bed.succeeds("trial stop lost --revert --yes");
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    bed.assert_active(&units);
}
