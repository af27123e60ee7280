//! `heaptrial rollout` on real services of a real systemd: waves, gates, one fault of each kind, power cut, rollback.

use crate::support;

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use heaptrial_testbed::drawn;
use serde_json::Value;
use support::bed::Bed;
use support::trials::two_arms;
use support::{stderr, stdout, wait_for};

const PACE_OF_TRIAL: &str = "at_once = 4\nsettle = \"500ms\"\nhealth_timeout = \"10s\"\n";
const THIRD: &str = "[[arm]]\nname = \"mimalloc\"\nallocator = \"mimalloc@2.0.9\"\n";
/// What services keep: gates compare their memory with that of before, under another allocator.
const LIVE_BYTES: u64 = 16_000_000;
/// Paces of tests: nobody depends on these services.
const PACE: &str = "--at-once 4 --pause 0s --yes";

/// A host with a trial over all of its services that was sampled for a while and has ended.
struct Host {
    bed: Bed,
    units: Vec<String>,
}

impl Host {
    fn with_trial(services: usize, sampled: Duration) -> Option<Self> {
        let bed = Bed::boot()?;
        let units = bed.start_churn_of(services, LIVE_BYTES);
        let container = &bed.container;
        bed.install_agent();
        let mut enable = vec!["systemctl", "enable"];
        enable.extend(units.iter().map(String::as_str));
        container.ok(&enable);
        bed.write_trial("three-way", &(two_arms("three-way", "churn@*", PACE_OF_TRIAL) + THIRD));
        bed.succeeds("trial plan three-way.toml --seed 1");
        bed.succeeds("trial start three-way --yes --no-agent");
        let host = Self { bed, units };
        host.wait_for_age(sampled);
        host.bed.succeeds("trial stop three-way --yes");
        Some(host)
    }

    /// Until the agent has read services of this age.
    fn wait_for_age(&self, age: Duration) {
        wait_for("readings of services", Duration::from_secs(120) + age, || {
            let status = self.bed.json("trial status three-way --json");
            let arms = status["arms"].as_array().unwrap();
            let old = |arm: &Value| arm["median_age_seconds"].as_f64().unwrap_or(0.0) >= age.as_secs_f64();
            arms.iter().all(old).then_some(())
        });
    }

    fn start(&self, more: &str) -> std::process::Output {
        self.bed.heaptrial(&format!("rollout start three-way --arm mimalloc {PACE} {more}"))
    }

    fn status(&self) -> Value {
        let output = self.bed.heaptrial("rollout status three-way-rollout --json");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn wave(&self, number: usize) -> Vec<String> {
        let names = &self.status()["waves"][number - 1]["names"];
        names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
    }

    fn stage(&self, wave: usize) -> String {
        self.status()["waves"][wave - 1]["stage"].as_str().unwrap().to_owned()
    }

    /// Faults of a service under the rollout's allocator; nothing mends it.
    fn fault(&self, unit: &str, fault: &str) {
        let number = unit.trim_start_matches("churn@").trim_end_matches(".service");
        let text = if fault.is_empty() { String::new() } else { format!("FAULTS_UNDER=mimalloc\n{fault}\n") };
        self.bed.container.write(format!("/etc/churn/{number}"), text, 0o644).unwrap();
    }

    fn runs_mimalloc(&self, unit: &str) -> bool {
        self.bed.maps(unit).contains("libmimalloc")
    }

    /// The rollout stopped in a wave, whose services run what they ran, and said why.
    #[track_caller]
    fn assert_stopped(&self, output: &std::process::Output, wave: usize, service: &str, why: &str) {
        assert_eq!(output.status.code(), Some(1), "{}{}", stdout(output), stderr(output));
        let status = self.status();
        let mut reasons = status["reasons"].as_array().unwrap().iter();
        let is_it = |reason: &Value| reason["service"] == service && reason["what"].to_string().contains(why);
        assert!(reasons.any(is_it), "{service}: {why}: {status:#}");
        assert_eq!(self.stage(wave), "stopped");
        self.bed.assert_active(&self.units);
        for unit in self.wave(wave) {
            assert!(!self.runs_mimalloc(&unit), "{unit} was not put back");
        }
        for passed in 1..wave {
            assert_eq!(self.stage(passed), "passed");
        }
    }

    fn resume(&self) -> std::process::Output {
        self.bed.heaptrial("rollout resume three-way-rollout")
    }

    /// The first service of a wave, as a start would make it.
    fn planned(&self, wave: usize, options: &str) -> String {
        let text = stderr(&self.start(&format!("--dry-run {options}")));
        let of_wave = format!("wave {wave}: ");
        let line = text.lines().find(|line| line.starts_with(&of_wave)).unwrap_or_else(|| panic!("{text}"));
        self.units.iter().find(|unit| line.contains(unit.as_str())).unwrap().clone()
    }

    fn command(&self, options: &str) -> Command {
        let mut command =
            self.bed.command(&format!("rollout start three-way --arm mimalloc {PACE} {options}"));
        command.stdin(Stdio::null());
        command
    }

    fn start_in_background(&self, options: &str) -> Child {
        let mut command = self.command(options);
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    }

    fn wait_for_wave(&self, number: usize, ready: impl Fn(&Value) -> bool) {
        let prepared = "/var/lib/heaptrial/trials/three-way-rollout/prepared.json";
        wait_for(&format!("wave {number}"), Duration::from_secs(120), || {
            self.bed.container.read(prepared).ok()?;
            ready(&self.status()["waves"][number - 1]).then_some(())
        });
    }

    /// Resumes to the end.
    #[track_caller]
    fn assert_completes(&self) {
        let output = self.resume();
        assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
        let status = self.status();
        assert_eq!(status["standing"], "complete");
        let waves = status["waves"].as_array().unwrap();
        assert!(waves.iter().all(|wave| wave["stage"] == "passed"), "{waves:?}");
        for unit in &self.units {
            assert!(self.runs_mimalloc(unit), "{unit}");
        }
    }
}

/// Twelve services, of which eight do not have the allocator yet: a canary, three, four.
const WAVES: &str = "--waves 50%,100%";

#[test]
#[ignore = "needs root and a container"]
fn a_canary_that_ends_is_put_back_and_no_other_service_is_touched() {
    let Some(()) = drawn(3, 6) else { return };
    let Some(host) = Host::with_trial(12, Duration::from_secs(8)) else { return };
    let options = format!("{WAVES} --soak 5s");
    let canary = host.planned(1, &options);
    let before: Vec<bool> = host.units.iter().map(|unit| host.runs_mimalloc(unit)).collect();
    host.fault(&canary, "FAIL_AFTER_MS=0");
    let output = host.start(&options);
    // Whether it is seen to end or to be started again is a matter of moments.
    host.assert_stopped(&output, 1, &canary, "by itself");
    assert_eq!(host.status()["rollback_proved"], false);
    let waves: Vec<usize> = (1..=3).map(|wave| host.wave(wave).len()).collect();
    assert_eq!(waves, [1, 3, 4]);
    let after: Vec<bool> = host.units.iter().map(|unit| host.runs_mimalloc(unit)).collect();
    assert_eq!(after, before);
    assert_eq!(host.start("").status.code(), Some(3));
}

#[test]
#[ignore = "needs root and a container"]
fn a_service_that_ends_while_it_is_watched_stops_its_wave_and_the_canary_stays() {
    let Some(()) = drawn(2, 6) else { return };
    let Some(host) = Host::with_trial(12, Duration::from_secs(8)) else { return };
    let options = format!("{WAVES} --soak 3s,30s");
    let (canary, ill) = (host.planned(1, &options), host.planned(2, &options));
    host.fault(&ill, "FAIL_WHEN=/run/fail");
    let process = host.command(&options).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    host.wait_for_wave(2, |wave| wave["stage"] == "soaking");
    host.bed.container.write("/run/fail", "", 0o644).unwrap();
    host.assert_stopped(&process.wait_with_output().unwrap(), 2, &ill, "code 3");
    assert_eq!(host.status()["rollback_proved"], true);
    assert!(host.runs_mimalloc(&canary));
}

#[test]
#[ignore = "needs root and a container"]
fn memory_above_what_the_trial_lets_expect_stops_a_wave() {
    let Some(()) = drawn(0, 4) else { return };
    let Some(host) = Host::with_trial(40, Duration::from_secs(25)) else { return };
    let options = "--waves 25%,100% --soak 5s,20s,5s";
    let leaking = host.planned(2, options);
    host.fault(&leaking, "LEAK_BYTES_PER_SECOND=5000000");
    host.assert_stopped(&host.start(options), 2, &leaking, "is expected by what it used before");
    host.fault(&leaking, "");
    host.assert_completes();

    // What is watched after it are all services, those of the trial's other arms too.
    let watch = host.bed.succeeds("watch start three-way --arm mimalloc --dry-run");
    assert!(stdout(&watch).contains("watch three-way of 40 services"), "{}", stdout(&watch));
}

#[test]
#[ignore = "needs root and a container"]
fn a_power_cut_within_a_wave_is_resumed_to_the_end() {
    let Some(()) = drawn(1, 6) else { return };
    let Some(mut host) = Host::with_trial(12, Duration::from_secs(8)) else { return };
    let mut process = host.start_in_background("--waves 100% --soak 3s");
    host.wait_for_wave(2, |wave| wave["stage"] == "begun" && wave["in_force"].as_u64().unwrap() > 0);
    host.bed.container.power_cut().unwrap();
    process.wait().unwrap();
    host.bed.container.boot_again().unwrap();
    host.bed.assert_active(&host.units);
    assert_eq!(host.stage(2), "begun");
    host.assert_completes();
}

#[test]
#[ignore = "needs root and a container"]
fn a_complete_rollout_changes_nothing_more_and_says_what_was_taken_away() {
    let Some(()) = drawn(2, 4) else { return };
    let Some(host) = Host::with_trial(12, Duration::from_secs(8)) else { return };
    let options = format!("{WAVES} --soak 3s");
    let canary = host.planned(1, &options);
    let output = host.start(&options);
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let complete = host.bed.snapshot();
    let output = host.start("");
    assert!(stdout(&output).contains("nothing to do"), "{}", stdout(&output));
    assert_eq!(complete.difference(&host.bed.snapshot()), Vec::<String>::new());

    assert!(stdout(&host.resume()).contains("nothing to do"));
    let drop_in = format!("/etc/systemd/system/{canary}.d/zz-heaptrial.conf");
    host.bed.container.ok(&["mv", &drop_in, "/root/aside"]);
    assert_eq!(host.status()["waves"][0]["in_force"], 0);
    host.bed.container.ok(&["mv", "/root/aside", &drop_in]);
    assert_eq!(complete.difference(&host.bed.snapshot()), Vec::<String>::new());

    // The trial's files are no longer what it wrote.
    let refused = host.bed.heaptrial("trial stop three-way --revert --yes");
    assert_eq!(refused.status.code(), Some(3), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("rollout rollback three-way-rollout` first"), "{}", stderr(&refused));
}

#[test]
#[ignore = "needs root and a container"]
fn a_wave_and_a_whole_rollout_are_put_back_to_the_byte() {
    let Some(()) = drawn(0, 6) else { return };
    let Some(host) = Host::with_trial(12, Duration::from_secs(8)) else { return };
    let before = host.bed.snapshot();
    let run = |library| host.units.iter().map(|unit| host.bed.maps(unit).contains(library)).collect();
    let ran: [Vec<bool>; 2] = ["libmimalloc", "libjemalloc"].map(run);
    let output = host.start(&format!("{WAVES} --soak 3s"));
    assert!(output.status.success(), "{}{}", stdout(&output), stderr(&output));
    let complete = host.bed.snapshot();

    let told = host.bed.json("rollout rollback three-way-rollout --dry-run --json");
    let would = told["would_put_back"].as_object().unwrap();
    let of_waves: BTreeSet<String> = (1..=3).flat_map(|wave| host.wave(wave)).collect();
    assert_eq!(would.keys().cloned().collect::<BTreeSet<_>>(), of_waves);
    for (unit, files) in would {
        assert!(files[0].as_str().unwrap().contains(&format!("{unit}.d/")), "{told:#}");
    }

    host.bed.succeeds("rollout rollback three-way-rollout --wave 3 --yes --pause 0s --at-once 8");
    assert!(host.wave(3).iter().all(|unit| !host.runs_mimalloc(unit)));
    assert!(host.wave(2).iter().all(|unit| host.runs_mimalloc(unit)));
    assert_eq!(host.stage(3), "rolled_back");
    host.assert_completes();
    assert_eq!(complete.difference(&host.bed.snapshot()), Vec::<String>::new());

    let output = host.bed.succeeds("rollout rollback three-way-rollout --yes --pause 0s --at-once 8");
    assert!(stdout(&output).contains("8 services as before the rollout"), "{}", stdout(&output));
    assert_eq!(before.difference(&host.bed.snapshot()), Vec::<String>::new());
    host.bed.assert_active(&host.units);
    assert_eq!(["libmimalloc", "libjemalloc"].map(run), ran);
}

#[test]
#[ignore = "needs root and a container"]
fn an_unmeasured_build_is_refused_unless_wanted_and_a_pause_holds_until_resumed() {
    let Some(()) = drawn(3, 4) else { return };
    let Some((bed, units)) = Bed::with_churn(4) else { return };
    bed.install_agent();
    let before = bed.snapshot();
    let refused = bed.heaptrial(&format!("rollout start mimalloc@2.0.9 --services churn@* {PACE}"));
    assert_eq!(refused.status.code(), Some(3));
    assert!(stderr(&refused).contains("no trial measured mimalloc@2.0.9"), "{}", stderr(&refused));
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());

    let spec = "glibc?arena_max=1 --services churn@* --force a-pilot --name one-arena";
    let start = format!("rollout start {spec} --soak 8s {PACE}");
    let mut command = bed.command(&start);
    let mut process =
        command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
    let status = || bed.json_of("rollout status one-arena --json");
    wait_for("the first wave", Duration::from_secs(60), || {
        bed.container.read("/var/lib/heaptrial/trials/one-arena/prepared.json").ok()?;
        (status()["waves"][0]["stage"] == "soaking").then_some(())
    });
    bed.succeeds("rollout pause one-arena");
    assert_eq!(process.wait().unwrap().code(), Some(6));
    let paused = status();
    assert_eq!(paused["standing"], "paused");
    assert_eq!(paused["waves"][0]["in_force"], 1);
    assert_eq!(paused["waves"][1]["in_force"], 0);

    let output = bed.heaptrial("rollout resume one-arena");
    let is_judged = stderr(&output).contains("memory of churn@* is ");
    assert!(output.status.success() && is_judged, "{}{}", stdout(&output), stderr(&output));
    for unit in &units {
        let pid = bed.property(unit, "MainPID");
        let environment = bed.container.ok(&["cat", &format!("/proc/{pid}/environ")]);
        assert!(environment.contains("MALLOC_ARENA_MAX=1"), "{unit}");
    }
    let report = bed.heaptrial("report one-arena");
    assert!(stdout(&report).contains("--force (a-pilot)"), "{}{}", stdout(&report), stderr(&report));
    bed.succeeds("rollout rollback one-arena --yes --pause 0s");
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    bed.assert_active(&units);

    // One that is in progress is paused for that, and waited for.
    let spec = spec.replace("one-arena", "again");
    let mut command = bed.command(&format!("rollout start {spec} --soak 1h {PACE}"));
    let mut process =
        command.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn().unwrap();
    wait_for("the first wave", Duration::from_secs(60), || {
        bed.container.read("/var/lib/heaptrial/trials/again/prepared.json").ok()?;
        let status = bed.json_of("rollout status again --json");
        (status["waves"][0]["stage"] == "soaking").then_some(())
    });
    bed.succeeds("rollout rollback again --yes --pause 0s");
    assert_eq!(process.wait().unwrap().code(), Some(6));
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
}

#[test]
#[ignore = "needs root and a container"]
fn quiet_hours_hold_for_the_canary_too() {
    let Some(bed) = Bed::boot() else { return };
    bed.start_churn_of(4, LIVE_BYTES);
    bed.install_agent();
    let before = bed.snapshot();
    let start = |name: &str, more: &str| {
        let spec = format!("mimalloc@2.0.9 --services churn@* --force a-pilot --name {name}");
        format!("rollout start {spec} --waves 100% --soak 3s {PACE} {more}")
    };
    let status = |name: &str| bed.json_of(&format!("rollout status {name} --json"));

    let hour: i32 = bed.container.ok(&["date", "+%H"]).trim().parse().unwrap();
    let quiet = format!("--quiet-hours {:02}:00-{:02}:00", (hour + 23) % 24, (hour + 2) % 24);
    let mut process = bed
        .command(&start("quiet", &quiet))
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    for line in BufReader::new(process.stderr.take().unwrap()).lines().map_while(Result::ok) {
        if line.contains("quiet hours until") {
            bed.succeeds("rollout pause quiet");
        }
    }
    assert_eq!(process.wait().unwrap().code(), Some(6));
    assert_eq!(status("quiet")["waves"][0]["in_force"], 0);
    bed.succeeds("rollout rollback quiet --yes");

    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
}
