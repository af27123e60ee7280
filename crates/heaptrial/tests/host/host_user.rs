//! Services of a user's own service manager: listed, examined, and in a trial of that user. On a real systemd.

use crate::support;

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use heaptrial_testbed::{Snapshot, USER_MANAGER_FILES, drawn};
use serde_json::Value;
use support::bed::{Bed, CHANGED, example};
use support::trials::two_arms;
use support::{json, stderr, stdout, wait_for};

const ID: &str = "1500";
const HOME: &str = "/home/alice";
const RUNTIME: &str = "XDG_RUNTIME_DIR=/run/user/1500";

/// An agent that reads often.
const AGENT_DROP_IN: &str = "[Service]\nExecStart=\n\
    ExecStart=/home/alice/.local/lib/heaptrial/bin/heaptrial --user agent --interval 300ms\n";
const CHURN: &str = "[Unit]\nDescription=Allocations of %i\nStartLimitIntervalSec=0\n[Service]\nType=notify\n\
    Environment=LIVE_BYTES=1048576 ALLOCATIONS_PER_SECOND=400\nExecStart=/usr/local/bin/churn_service\nRestart=on-failure\n";
const UNITS: [&str; 4] = ["churn@1.service", "churn@2.service", "churn@3.service", "churn@4.service"];
/// A host with a user that has a service manager, a bus and services that run.
struct Alice {
    bed: Bed,
}

impl Alice {
    fn boot() -> Option<Self> {
        let alice = Self { bed: Bed::boot()? };
        let container = &alice.bed.container;
        container.ok(&["useradd", "--create-home", "--uid", ID, "alice"]);
        container.install_program(&example("churn_service")).unwrap();
        let agent = ("/etc/systemd/user/heaptrial-agent.service.d/test.conf", AGENT_DROP_IN);
        for (path, text) in USER_MANAGER_FILES.into_iter().chain([agent]) {
            container.write(path, text, 0o644).unwrap();
        }
        container.ok(&["systemctl", "daemon-reload"]);
        Some(alice)
    }

    fn start_services(&self) {
        self.bed.container.ok(&["systemctl", "start", &format!("user@{ID}.service")]);
        let units = format!("{HOME}/.config/systemd/user");
        self.ok(&["mkdir", "-p", &units]);
        self.bed.container.write(format!("{units}/churn@.service"), CHURN, 0o644).unwrap();
        self.bed.container.ok(&["chown", "alice:alice", &format!("{units}/churn@.service")]);
        self.ok(&["systemctl", "--user", "start", "dbus.service"]);
        self.ok(&["systemctl", "--user", "daemon-reload"]);
        self.ok(&[["systemctl", "--user", "start"].as_slice(), &UNITS].concat());
    }

    /// A command as the user.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.bed.container.command("setpriv");
        command.args(["--reuid", ID, "--regid", ID, "--clear-groups", "env", "-C", HOME]);
        command.args([&format!("HOME={HOME}"), RUNTIME]).args(words);
        command
    }

    #[track_caller]
    fn ok(&self, words: &[&str]) -> String {
        let output = self.command(words).output().unwrap();
        assert!(output.status.success(), "{words:?}\n{}\n{}", stdout(&output), stderr(&output));
        stdout(&output)
    }

    /// Runs the binary as the user; `arguments` are split at spaces.
    fn heaptrial(&self, arguments: &str) -> Output {
        let words: Vec<&str> = ["/ht/heaptrial"].into_iter().chain(arguments.split_whitespace()).collect();
        self.command(&words).output().unwrap()
    }

    #[track_caller]
    fn succeeds(&self, arguments: &str) -> Output {
        let output = self.heaptrial(arguments);
        assert!(output.status.success(), "heaptrial {arguments}\n{}\n{}", stdout(&output), stderr(&output));
        output
    }

    #[track_caller]
    fn json(&self, arguments: &str) -> Value {
        json(&self.succeeds(arguments))
    }

    fn maps(&self, unit: &str) -> String {
        let pid = self.ok(&["systemctl", "--user", "show", "-P", "MainPID", unit]);
        self.ok(&["cat", &format!("/proc/{}/maps", pid.trim())])
    }

    /// Report, export and look read the user's own database.
    fn reads_what_was_sampled(&self) {
        let report = self.json(&format!("--user report own --json --out {HOME}/report"));
        let arms: Vec<&str> =
            report["arms"].as_array().unwrap().iter().map(|arm| arm["name"].as_str().unwrap()).collect();
        assert_eq!(arms, ["glibc", "jemalloc"], "{report:#}");
        assert!(self.ok(&["ls", &format!("{HOME}/report")]).contains("report.html"));
        let samples = stdout(&self.succeeds("--user export own --format csv"));
        assert!(UNITS.iter().all(|unit| samples.contains(unit)), "{samples}");
        let peek = stdout(&self.succeeds("--user trial look own --peek"));
        assert!(peek.contains("jemalloc"), "{peek}");
        Self::refuses(&self.heaptrial("--user trial look own"), "is planned in");
    }

    fn own_files(&self) -> Snapshot {
        Snapshot::of(&self.bed.container, &[&format!("{HOME}/.config"), &format!("{HOME}/.local/lib")])
            .unwrap()
    }

    fn others_files(&self) -> Snapshot {
        let folders = [CHANGED.as_slice(), &["/var/lib", "/root"]].concat();
        Snapshot::of(&self.bed.container, &folders).unwrap()
    }

    #[track_caller]
    fn refuses(output: &Output, words: &str) {
        let said = stderr(output);
        assert!(output.status.code() == Some(3) && said.contains(words), "{words}\n{said}{}", stdout(output));
    }
}

#[test]
#[ignore = "needs root and a container"]
fn services_of_a_user_are_in_a_trial_of_that_user() {
    let Some(()) = drawn(0, 6) else { return };
    let Some(alice) = Alice::boot() else { return };
    let linger = "loginctl enable-linger 1500";
    Alice::refuses(&alice.heaptrial("--user services"), linger);
    Alice::refuses(&alice.heaptrial("--user preflight churn@1 -a glibc"), linger);
    alice.start_services();

    let services = alice.json("services --user churn@* --json");
    let found: Vec<&Value> = services["services"].as_array().unwrap().iter().collect();
    let names: Vec<&str> = found.iter().map(|service| service["unit"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, UNITS);
    assert!(found.iter().all(|service| service["process"]["identity"]["family"] == "glibc"), "{services:#}");
    let systems = alice.json("services --json");
    let systems = systems["services"].as_array().unwrap();
    assert!(
        !systems.is_empty()
            && systems.iter().all(|service| !service["unit"]["name"].as_str().unwrap().starts_with("churn"))
    );

    Alice::refuses(&alice.bed.heaptrial("--user services"), "this is root");
    Alice::refuses(&alice.bed.heaptrial("--user trial stop own --revert --yes"), "this is root");
    Alice::refuses(&alice.heaptrial("--user watch status"), "a watch is for services of the system");
    Alice::refuses(&alice.heaptrial("--user rollout status x"), "a rollout is for services of the system");

    let checked = alice.json("--user preflight churn@* -a jemalloc@5.3.0 --json");
    let library = checked["library"].as_str().unwrap();
    assert!(library.starts_with(&format!("{HOME}/.local/lib/heaptrial/allocators/")), "{library}");
    assert_eq!(checked["refused"], false, "{checked:#}");

    alice.bed.container.write(format!("{HOME}/own.toml"), two_arms("own", "churn@*", ""), 0o644).unwrap();
    alice.succeeds("--user trial plan own.toml --seed 1");
    let (own, others) = (alice.own_files(), alice.others_files());
    // Whoever else may write there could change what runs.
    alice.ok(&["chmod", "g+w", &format!("{HOME}/.config/systemd")]);
    let start = "--user trial start own --yes";
    Alice::refuses(&alice.heaptrial(start), "can be written by its group");
    alice.ok(&["chmod", "g-w", &format!("{HOME}/.config/systemd")]);
    let started = alice.succeeds(start);
    assert!(stdout(&started).contains("4 services run what their arms want"), "{}", stdout(&started));

    // What is to be done next is told for the same services.
    assert!(stdout(&started).contains("`heaptrial --user trial status own`"), "{}", stdout(&started));
    let again = alice.heaptrial(start);
    assert!(stderr(&again).contains("`heaptrial --user trial status own`"), "{}", stderr(&again));

    let status = alice.json("--user trial status own --json");
    assert_eq!(status["stage"], "running");
    let mut treated = Vec::new();
    for unit in UNITS {
        let service = &status["services"][unit];
        let is_treated = service["arm"] == "jemalloc";
        assert_eq!(service["stage"], "committed", "{unit} {status:#}");
        assert_eq!(alice.maps(unit).contains(library), is_treated, "{unit}");
        treated.extend(is_treated.then_some(unit));
    }
    assert_eq!(treated.len(), 2);
    let agent = "heaptrial-agent.service";
    assert_eq!(alice.ok(&["systemctl", "--user", "show", "-P", "ActiveState", agent]).trim(), "active");
    wait_for("the agent has a reading of each service", Duration::from_secs(60), || {
        let status = alice.json("--user trial status own --json");
        let arms = status["arms"].as_array()?.clone();
        arms.iter().all(|arm| arm["without_reading"] == 0).then_some(())
    });
    alice.reads_what_was_sampled();
    // The system's own trials know nothing of it.
    let listed = alice.bed.json("trial status --json");
    assert_eq!(listed["trials"], Value::Array(Vec::new()));
    alice.succeeds("--user trial resume own");

    alice.succeeds(&format!("--user trial drop own {} --yes", treated[0]));
    assert!(!alice.maps(treated[0]).contains(library) && alice.maps(treated[1]).contains(library));
    alice.succeeds("--user trial stop own --revert --yes");
    for unit in UNITS {
        assert!(!alice.maps(unit).contains("jemalloc"), "{unit}");
    }
    assert_eq!(own.difference(&alice.own_files()), Vec::<String>::new());
    assert_eq!(others.difference(&alice.others_files()), Vec::<String>::new());

    // One that is cut short is looked after by a unit of the user, and put back as well.
    let slow = two_arms("cut", "churn@*", "pause = \"1h\"\n");
    alice.bed.container.write(format!("{HOME}/cut.toml"), slow, 0o644).unwrap();
    alice.succeeds("--user trial plan cut.toml --seed 1");
    let words = ["/ht/heaptrial", "--user", "trial", "start", "cut", "--yes", "--no-agent"];
    let mut cut_short = alice.command(&words).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the first service is committed", Duration::from_secs(60), || {
        let status = alice.heaptrial("--user trial status cut --json");
        let status = serde_json::from_slice::<Value>(&status.stdout).ok()?;
        let services = status["services"].as_object()?;
        services.values().any(|service| service["stage"] == "committed").then_some(())
    });
    let lock = alice.bed.container.read_text(format!("{HOME}/.local/state/heaptrial/lock")).unwrap();
    let holder: Value = serde_json::from_str(&lock).unwrap();
    alice.ok(&["kill", "-KILL", &holder["pid"].to_string()]);
    assert!(!cut_short.wait().unwrap().success());
    let timer =
        alice.ok(&["systemctl", "--user", "show", "-P", "ActiveState", "heaptrial-recovery-cut.timer"]);
    assert_eq!(timer.trim(), "active");
    alice.ok(&["systemctl", "--user", "start", "heaptrial-recovery-cut.service"]);
    alice.succeeds("--user trial stop cut --revert --pause 0s --yes");
    assert_eq!(own.difference(&alice.own_files()), Vec::<String>::new());
    assert_eq!(others.difference(&alice.others_files()), Vec::<String>::new());
}
