//! The agent's database under its hands: deleted, replaced, damaged.

use crate::support;

use std::time::Duration;

use heaptrial_store::Store;
use heaptrial_testbed::drawn;
use support::bed::Bed;
use support::trials::planned;
use support::{json, stderr, stdout, wait_for};

const UNIT: &str = "heaptrial-agent.service";
const DATABASE: &str = "/var/lib/heaptrial/heaptrial.db";
const OPTIONS: &str = "--interval 200ms --metrics unix:/run/heaptrial/metrics.sock";
/// Whatever is waited for comes within some seconds; a busy machine may take longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host with a trial of two services that was started, and the agent at work.
struct Host {
    bed: Bed,
}

impl Host {
    fn boot() -> Option<Self> {
        let (bed, _) = planned("kept", 2, "")?;
        bed.succeeds("trial start kept --yes --no-agent");
        let container = &bed.container;
        let text = bed.succeeds("agent --print-unit /ht/heaptrial").stdout;
        container.write(format!("/etc/systemd/system/{UNIT}"), text, 0o644).unwrap();
        let start = format!("[Service]\nExecStart=\nExecStart=/ht/heaptrial agent {OPTIONS}\n");
        container.write(format!("/etc/systemd/system/{UNIT}.d/test.conf"), start, 0o644).unwrap();
        container.ok(&["systemctl", "daemon-reload"]);
        let host = Self { bed };
        host.agent("start");
        host.more_ticks();
        Some(host)
    }

    fn agent(&self, verb: &str) {
        self.bed.container.ok(&["systemctl", verb, UNIT]);
    }

    /// As another process sees it now.
    fn store(&self) -> Store {
        Store::open(&self.bed.database()).unwrap()
    }

    /// The trial's row in the database, and how many ticks it has there.
    fn recorded(&self) -> Option<(i64, u64)> {
        let store = Store::open(&self.bed.database()).ok()?;
        let trials = store.trials().ok()?;
        let id = trials.iter().rfind(|record| record.plan.name == "kept")?.id;
        Some((id, store.tick_summary(id).ok()?.ticks))
    }

    /// How many ticks there are once there are more than now.
    #[track_caller]
    fn more_ticks(&self) -> u64 {
        let now = self.recorded().map_or(0, |(_, ticks)| ticks);
        wait_for("more ticks", PATIENCE, || {
            self.recorded().map(|(_, ticks)| ticks).filter(|ticks| *ticks > now + 2)
        })
    }

    /// Exit code and all that is said.
    fn said(&self, arguments: &str) -> (Option<i32>, String) {
        let output = self.bed.heaptrial(arguments);
        (output.status.code(), format!("{}{}", stdout(&output), stderr(&output)))
    }
}

#[test]
#[ignore = "needs root and a container"]
fn a_database_lost_or_replaced_under_the_agent_is_refused_and_keeps_no_revert_back() {
    let Some(()) = drawn(3, 6) else { return };
    let Some(host) = Host::boot() else { return };
    let container = &host.bed.container;
    let disk = host.bed.database();
    let backup = disk.with_file_name("backup.db");
    host.agent("stop");
    std::fs::copy(&disk, &backup).unwrap();
    container.ok(&["sh", "-c", &format!("rm {DATABASE}*")]);
    assert_eq!(host.said("trial status kept").0, Some(1));
    assert_eq!(host.said("trial look kept").0, Some(3));
    assert_eq!(host.said("trial resume kept").0, Some(3));
    assert!(!disk.exists(), "a resume that refuses makes no database");
    // As it says: what was kept goes back, and the trial goes on.
    std::fs::rename(backup, &disk).unwrap();
    host.agent("start");
    host.more_ticks();
    assert_eq!(host.said("trial status kept").0, Some(0));
    assert_eq!(host.said("trial resume kept").0, Some(0));
    let lives = host.store().lives(host.recorded().unwrap().0).unwrap();
    assert!(lives.iter().all(|life| life.contamination.is_none()), "{lives:?}");

    // Neither readable nor a database any more.
    host.agent("stop");
    let garbage = format!("rm {DATABASE}*; head -c 65536 /dev/urandom > {DATABASE}; chmod 000 {DATABASE}");
    container.ok(&["sh", "-c", &garbage]);
    let output = host.bed.heaptrial("trial status kept --json");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let status = json(&output);
    assert_eq!((&status["stage"], &status["arms"][0]["committed"]), (&"running".into(), &1.into()));
    assert_eq!(status["problems"][0]["kind"], "database", "{status:#}");
    let (code, said) = host.said("trial look kept");
    assert!(code == Some(3) && said.contains("not a database"), "{said}");
    // A header that is right and pages that are not.
    let torn = format!("chmod 600 {DATABASE}; printf 'SQLite format 3\\000' | dd of={DATABASE} conv=notrunc");
    container.ok(&["sh", "-c", &torn]);
    let (code, said) = host.said("trial status kept");
    assert!(code.is_some_and(|code| code != 0) && said.contains("trial kept: running"), "{said}");
    host.bed.succeeds("trial stop kept --revert --yes");
    for unit in ["churn@001.service", "churn@002.service"] {
        assert!(!host.bed.maps(unit).contains("libjemalloc"));
    }
}

#[test]
fn several_patterns_follow_one_flag() {
    let output = support::heaptrial(std::path::Path::new("/"))
        .args(["agent", "--services", "churn@*", "tor@*", "--interval", "1ms"])
        .output()
        .unwrap();
    assert!(stderr(&output).contains("at least 100ms"), "{}", stderr(&output));
}
