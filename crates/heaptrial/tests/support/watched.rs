//! A trial `two-way`, and a watch after it.

use std::time::Duration;

use heaptrial_store::Store;
use serde_json::Value;

use super::bed::Bed;
use super::trials::plan;
use super::{json, stderr, stdout, wait_for};

pub const TOLD: &str = "/root/told.json";
pub const HOOK: &str = "/root/hook";
pub const READINGS: Duration = Duration::from_secs(60);

/// A host with a trial that runs, of which every service of an arm has readings.
pub fn with_trial(count: usize) -> Option<(Bed, Vec<String>)> {
    let (bed, units) = Bed::with_churn(count)?;
    plan(&bed, "two-way", "at_once = 6");
    bed.succeeds("trial start two-way --yes");
    sample_each_second(&bed);
    Some((bed, units))
}

fn sample_each_second(bed: &Bed) {
    let text = "[Service]\nExecStart=\nExecStart=/usr/lib/heaptrial/bin/heaptrial agent --interval 1s\n";
    let folder = "/etc/systemd/system/heaptrial-agent.service.d";
    bed.container.ok(&["mkdir", "-p", folder]);
    bed.container.write(format!("{folder}/interval.conf"), text, 0o644).unwrap();
    bed.container.ok(&["systemctl", "daemon-reload"]);
    bed.container.ok(&["systemctl", "restart", "heaptrial-agent.service"]);
}

/// Starts a watch on the arm with jemalloc once every process is proved and there is something to forecast from.
pub fn start(bed: &Bed, options: &str) -> Value {
    wait_for("every process is proved", READINGS, || {
        let store = Store::open(&bed.database()).ok()?;
        let trial = store.trials().ok()?.into_iter().rfind(|trial| trial.plan.name == "two-way")?;
        let lives = store.lives(trial.id).ok()?;
        let mut treated = lives.iter().filter(|life| life.contamination.is_none()).peekable();
        treated.peek()?;
        treated.all(|life| life.identity.is_some()).then_some(())
    });
    let command = format!("watch start two-way --arm jemalloc --yes --json {options}");
    let output = wait_for("there is a forecast", READINGS, || {
        let output = bed.heaptrial(&command);
        match output.status.code() {
            Some(0) => Some(output),
            // No readings yet.
            Some(3) => None,
            code => panic!("{code:?} {}", stderr(&output)),
        }
    });
    json(&output)
}

/// Runs a check: exit code and document.
pub fn check(bed: &Bed) -> (i32, Value) {
    let output = bed.heaptrial("watch check two-way --json");
    (output.status.code().unwrap(), json(&output))
}

/// Checks until the first readings of the watch are there.
pub fn quiet(bed: &Bed) {
    wait_for("the watch is quiet", READINGS, || (check(bed).0 == 0).then_some(()));
}

/// The kinds of what is alerted.
pub fn kinds(document: &Value) -> Vec<&str> {
    let alerts = document["alerts"].as_array().unwrap();
    alerts.iter().map(|alert| alert["kind"].as_str().unwrap()).collect()
}

/// What the hook got since the last call: what happened, and the kind of the alert.
pub fn told(bed: &Bed) -> Vec<(String, String)> {
    let text = bed.container.run(&["cat", TOLD]);
    bed.container.ok(&["rm", "-f", TOLD]);
    let texts = stdout(&text);
    let documents = serde_json::Deserializer::from_str(&texts).into_iter::<Value>();
    let text = |document: &Value, name: &str| document[name].as_str().unwrap().to_owned();
    documents
        .map(Result::unwrap)
        .map(|document| (text(&document, "change"), text(&document, "kind")))
        .collect()
}

pub fn pair(change: &str, kind: &str) -> (String, String) {
    (change.to_owned(), kind.to_owned())
}
