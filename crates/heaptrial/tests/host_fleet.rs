//! A trial over two hosts, each with a real systemd, from surveys to one report and back.

mod support;

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use heaptrial_store::Store;
use serde_json::Value;
use support::bed::Bed;
use support::{json, stderr, stdout, wait_for};

const PATIENCE: Duration = Duration::from_secs(60);
const TRIAL: &str = r#"
name = "fleet"
services = "churn@*"
duration = "2d"
[pace]
pause = "0s"
settle = "0s"
[[arm]]
name = "glibc"
control = true
allocator = "glibc"
[[arm]]
name = "jemalloc"
allocator = "jemalloc@5.3.0"
"#;

/// A host of this name with four services.
fn host(name: &str) -> Option<(Bed, Vec<String>)> {
    let (bed, units) = Bed::with_churn(4)?;
    rename(&bed, name);
    bed.write_trial("fleet", TRIAL);
    Some((bed, units))
}

fn rename(bed: &Bed, name: &str) {
    bed.container.ok(&["hostname", name]);
}

/// A command on the machine that controls them.
fn here(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaptrial"));
    command.current_dir(folder).args(arguments.split_whitespace()).output().unwrap()
}

#[track_caller]
fn succeeds(folder: &Path, arguments: &str) -> Output {
    let output = here(folder, arguments);
    assert!(output.status.success(), "{arguments}\n{}\n{}", stdout(&output), stderr(&output));
    output
}

#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    let said = format!("{}{}", stdout(output), stderr(output));
    assert_eq!(output.status.code(), Some(3), "{said}");
    words.iter().for_each(|word| assert!(said.contains(word), "`{word}` is not in\n{said}"));
}

fn fetch(bed: &Bed, from: &str, to: &Path) {
    std::fs::write(to, bed.container.read(from).unwrap()).unwrap();
}

/// Waits until every service has been read that often more.
fn sampled(bed: &Bed, more: u64) {
    let ticks = || {
        let store = Store::open(&bed.database()).ok()?;
        let trial = store.trials().ok()?.into_iter().rfind(|trial| trial.plan.name == "fleet")?;
        Some(store.tick_summary(trial.id).ok()?.ticks)
    };
    let before = ticks().unwrap_or(0);
    wait_for("samples", PATIENCE, || ticks().filter(|ticks| *ticks >= before + more));
}

fn export(bed: &Bed, since: &str, to: &Path) {
    let since = if since.is_empty() { String::new() } else { format!("--since {since}") };
    bed.succeeds(&format!("export fleet --format heaptrial -o part.db {since}"));
    fetch(bed, "/root/part.db", to);
}

fn names(list: &Value, key: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
}

#[test]
#[ignore = "needs root and a container"]
fn a_trial_over_two_hosts_is_one_plan_one_report_and_leaves_nothing_behind() {
    let Some((alpha, alpha_units)) = host("alpha") else { return };
    let Some((beta, beta_units)) = host("beta") else { return };
    let before = [alpha.snapshot(), beta.snapshot()];
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("fleet.toml"), TRIAL).unwrap();
    std::fs::create_dir(folder.join("surveys")).unwrap();
    for (bed, name) in [(&alpha, "alpha"), (&beta, "beta")] {
        bed.succeeds("trial survey fleet.toml -o survey.json");
        fetch(bed, "/root/survey.json", &folder.join(format!("surveys/{name}.json")));
    }

    // One plan, drawn away from the hosts.
    let planned = json(&succeeds(folder, "trial plan fleet.toml --survey surveys --seed 1 --json"));
    assert_eq!(names(&planned["hosts"], "host"), ["alpha", "beta"]);
    let services = planned["plan"]["services"].as_array().unwrap();
    for host in ["alpha", "beta"] {
        for arm in ["glibc", "jemalloc"] {
            let own = services.iter().filter(|own| own["host"] == host && own["arm"] == arm);
            assert_eq!(own.count(), 2, "{host} {arm}");
        }
    }
    let plan = std::fs::read(folder.join("fleet.plan.toml")).unwrap();
    // Surveys that do not fit each other or the trial.
    let survey = std::fs::read_to_string(folder.join("surveys/beta.json")).unwrap();
    let sha256 = planned["plan"]["builds"]["jemalloc"]["sha256"].as_str().unwrap();
    for (text, words) in [
        (survey.replace(sha256, &sha256.replace(&sha256[..4], "0000")), ["different builds", "alpha"]),
        (
            survey.replace("\"host\": \"beta\"", "\"host\": \"alpha\""),
            ["are both of host alpha", "beta.json"],
        ),
        (survey.replace("5.3.0\"", "5.2.1\""), ["another description", "beta"]),
    ] {
        std::fs::write(folder.join("surveys/beta.json"), text).unwrap();
        refused(&here(folder, "trial plan fleet.toml --survey surveys --force"), &words);
    }
    assert_eq!(std::fs::read(folder.join("fleet.plan.toml")).unwrap(), plan);

    // Each host starts its own part, and another host none.
    for bed in [&alpha, &beta] {
        bed.container.write("/root/fleet.plan.toml", &plan, 0o644).unwrap();
        bed.install_agent();
    }
    rename(&beta, "gamma");
    refused(&beta.heaptrial("trial start fleet --yes"), &["no service of this host (gamma)", "alpha, beta"]);
    rename(&beta, "beta");
    for (bed, units) in [(&alpha, &alpha_units), (&beta, &beta_units)] {
        bed.succeeds("trial start fleet --yes");
        let treated = units.iter().filter(|unit| bed.maps(unit).contains("libjemalloc"));
        assert_eq!(treated.count(), 2);
    }
    sampled(&alpha, 20);
    // It is called otherwise now, and stays the same host of the trial.
    rename(&beta, "gamma");
    sampled(&beta, 20);

    // Gathered one after the other: what is missing is told first, and no look is taken on a part.
    let (a, b, all) = (folder.join("a.db"), folder.join("b.db"), folder.join("all.db"));
    export(&alpha, "", &a);
    let first = json(&succeeds(folder, "import heaptrial a.db --db all.db --json"));
    assert_eq!(first["missing_hosts"], serde_json::json!(["beta"]));
    let report = json(&succeeds(folder, "report --db all.db --out r1 --json"));
    assert_eq!(report["findings"][0]["kind"], "hosts_missing", "{}", report["findings"]);
    refused(&here(folder, "--db all.db trial look fleet"), &["beta", "over all of them"]);
    let own = alpha.json("report fleet --json");
    assert_eq!(own["findings"][0]["kind"], "hosts_missing");

    export(&beta, "", &b);
    let second = json(&succeeds(folder, "import heaptrial b.db --db all.db --json"));
    assert_eq!(second["missing_hosts"], serde_json::json!([]));
    assert_eq!(second["parts"][0]["host"], "beta");
    let since = first["parts"][0]["since"].as_str().unwrap();
    sampled(&alpha, 5);
    export(&alpha, since, &a);
    let third = json(&succeeds(folder, "import heaptrial a.db --db all.db --json"));
    assert!(third["parts"][0]["new_samples"].as_u64().unwrap() >= 20, "{third}");
    let again = json(&succeeds(folder, "import heaptrial a.db b.db --db all.db --json"));
    let new: Vec<u64> =
        again["parts"].as_array().unwrap().iter().map(|part| part["new_samples"].as_u64().unwrap()).collect();
    assert_eq!(new, [0, 0]);

    // The report of all is that of what each host has.
    let report = json(&succeeds(folder, "report --db all.db --out r2 --json"));
    assert_eq!(names(&report["hosts"], "name"), ["alpha", "beta"]);
    assert!(report["findings"].as_array().unwrap().iter().all(|found| found["kind"] != "hosts_missing"));
    assert_eq!(report["services"].as_array().unwrap().len(), 8);
    for (file, host) in [(&a, "alpha"), (&b, "beta")] {
        let store = Store::open(file).unwrap();
        let trial = store.trials().unwrap().remove(0);
        let services = store.services(trial.id).unwrap();
        for latest in store.latest(trial.id).unwrap() {
            let name = &services.iter().find(|service| service.id == latest.service_id).unwrap().name;
            let name = format!("{host}/{name}");
            let told = report["services"].as_array().unwrap().iter().find(|own| own["name"] == name.as_str());
            let told = told.unwrap_or_else(|| panic!("{name}"));
            assert_eq!(told["memory"]["final_bytes"].as_u64(), latest.rss_bytes, "{name}");
            assert_eq!(told["counts"], true, "{told}");
        }
    }
    let jemalloc = &report["by_host"].as_array().unwrap()[1];
    assert_eq!(names(&jemalloc["hosts"], "host"), ["alpha", "beta"]);
    for on in jemalloc["hosts"].as_array().unwrap() {
        assert_eq!(on["services"], 2);
        assert!(on["ratio"]["estimate"]["value"].as_f64().unwrap() > 0.0);
    }
    let page = std::fs::read_to_string(folder.join("r2/report.md")).unwrap();
    assert!(page.contains("## Hosts") && page.contains("| alpha |"), "{page}");
    assert_eq!(Store::open(&all).unwrap().trials().unwrap().len(), 1);

    // Ended on both, it has ended; and both are as they were.
    for bed in [&alpha, &beta] {
        bed.succeeds("trial stop fleet --revert --yes");
    }
    export(&alpha, "", &a);
    export(&beta, "", &b);
    succeeds(folder, "import heaptrial a.db b.db --db all.db");
    let report = json(&succeeds(folder, "report --db all.db --out r3 --json"));
    assert_eq!(report["outcome"], "completed");
    for ((bed, units), before) in [(&alpha, &alpha_units), (&beta, &beta_units)].into_iter().zip(before) {
        bed.container.ok(&["systemctl", "disable", "--now", "heaptrial-agent.service"]);
        bed.container.ok(&["sh", "-c", "rm -r /etc/systemd/system/heaptrial-agent.service*"]);
        assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
        bed.assert_active(units);
    }
}
