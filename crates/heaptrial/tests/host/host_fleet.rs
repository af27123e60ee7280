//! A trial over two hosts, each with a real systemd, from surveys to one report and back.

use crate::support;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Output, Stdio};

use heaptrial_exchange::PartFile;
use heaptrial_fleet::rollout::Verdict;
use heaptrial_store::Store;
use heaptrial_testbed::drawn;
use serde_json::Value;
use support::bed::Bed;
use support::control::Control;
use support::hosts::{
    PATIENCE, here, host, kill, other_host, rename, sampled, succeeds, treated, trial, with_verdict,
};
use support::{json, stderr, stdout, wait_for};

#[track_caller]
fn refused(output: &Output, words: &[&str]) {
    refused_with(3, output, words);
}

#[track_caller]
fn refused_with(code: i32, output: &Output, words: &[&str]) {
    let said = format!("{}{}", stdout(output), stderr(output));
    assert_eq!(output.status.code(), Some(code), "{said}");
    words.iter().for_each(|word| assert!(said.contains(word), "`{word}` is not in\n{said}"));
}

fn fetch(bed: &Bed, from: &str, to: &Path) {
    std::fs::write(to, bed.container.read(from).unwrap()).unwrap();
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
    let Some(()) = drawn(3, 6) else { return };
    let Some((alpha, alpha_units)) = host("alpha") else { return };
    let Some((beta, beta_units)) = host("beta") else { return };
    let before = [alpha.snapshot(), beta.snapshot()];
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("fleet.toml"), trial()).unwrap();
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
    // What may be a secret stays on the host.
    let surveyed: Value = serde_json::from_str(&survey).unwrap();
    for service in surveyed["services"].as_array().unwrap() {
        assert_eq!(service["unit"]["environment"], serde_json::json!([]));
        assert_eq!(service["unit"]["exec_start"], serde_json::json!([]));
    }
    let sha256 = planned["plan"]["builds"]["jemalloc"][0]["build"]["sha256"].as_str().unwrap();
    for (text, words) in [
        (survey.replace(sha256, &sha256.replace(&sha256[..4], "0000")), ["different builds", "alpha"]),
        (
            survey.replace("\"host\": \"beta\"", "\"host\": \"alpha\""),
            ["both of host alpha", "survey them again"],
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
        assert_eq!(treated(bed, units), 2);
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
    assert_eq!(report["findings"][0]["kind"], "data_missing", "{}", report["findings"]);
    refused(&here(folder, "--db all.db trial look fleet"), &["beta", "over all hosts"]);
    let own = alpha.json("report fleet --json");
    assert_eq!(own["findings"][0]["kind"], "data_missing");

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
    assert!(report["findings"].as_array().unwrap().iter().all(|found| found["kind"] != "data_missing"));
    assert_eq!(report["services"].as_array().unwrap().len(), 8);
    for (file, host) in [(&a, "alpha"), (&b, "beta")] {
        let part = PartFile::open(file).unwrap();
        let store = part.store();
        let trial = store.trials().unwrap().remove(0);
        let services = store.services(trial.id).unwrap();
        for latest in store.latest(trial.id).unwrap() {
            let name = &services.iter().find(|service| service.id == latest.service_id).unwrap().name;
            let name = format!("{host}/{name}");
            let told = report["services"].as_array().unwrap().iter().find(|own| own["name"] == name.as_str());
            let told = told.unwrap_or_else(|| panic!("{name}"));
            assert_eq!(told["rss_bytes_final"].as_u64(), latest.rss_bytes, "{name}");
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
    // Putting services back is none of the trial, whichever host was first.
    for service in report["services"].as_array().unwrap() {
        assert_eq!(service["counts"], true, "{service}");
    }
    by_its_verdict(folder, &beta, &beta_units);
    for ((bed, units), before) in [(&alpha, &alpha_units), (&beta, &beta_units)].into_iter().zip(before) {
        bed.container.ok(&["systemctl", "disable", "--now", "heaptrial-agent.service"]);
        bed.container.ok(&["sh", "-c", "rm -r /etc/systemd/system/heaptrial-agent.service*"]);
        assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
        bed.assert_active(units);
    }
}

/// What the hosts found together is rolled out on one of them, by a file and without their database.
fn by_its_verdict(folder: &Path, bed: &Bed, units: &[String]) {
    refused_with(2, &here(folder, "trial verdict all.db --arm mimalloc"), &["no arm `mimalloc`", "jemalloc"]);
    // One host alone has its own part.
    refused(&bed.heaptrial("trial verdict fleet --arm jemalloc"), &["alpha"]);
    let told = json(&succeeds(folder, "trial verdict all.db --arm jemalloc -o jemalloc.json --json"));
    let digest = told["sha256"].as_str().unwrap();
    assert!(told["ratio"].as_f64().unwrap() > 0.0, "{told}");
    let text = std::fs::read_to_string(folder.join("jemalloc.json")).unwrap();
    bed.container.write("/root/jemalloc.json", &text, 0o644).unwrap();
    bed.container.write("/root/forged.json", text.replacen("\"alpha\"", "\"gamma\"", 1), 0o644).unwrap();
    // As if its seconds showed days to come.
    let mut against: Verdict = Verdict::read(&folder.join("jemalloc.json")).unwrap().0;
    against.objections = vec!["it is bloating".into()];
    bed.container.write("/root/against.json", against.sealed().unwrap().0, 0o644).unwrap();
    let start = |file: &str, more: &str| {
        let pace = "--at-once 4 --pause 0s --soak 2s --yes";
        bed.heaptrial(&format!("rollout start {file} --services churn@* {pace} {more}"))
    };
    let before = bed.snapshot();
    refused(&start("forged.json", ""), &["was changed after it was written"]);
    let without = start("against.json", "--dry-run");
    refused(&without, &["a rollout of jemalloc is refused: it is bloating", "--force REASON"]);
    let despite = start("against.json", "--dry-run --force a-pilot");
    assert!(despite.status.success() && stderr(&despite).contains("it is bloating"));
    // Another system, in its own words.
    let release = bed.container.read("/usr/lib/os-release").unwrap();
    let other = String::from_utf8_lossy(&release).replace("bookworm", "trixie").replace("12", "13");
    bed.container.write("/usr/lib/os-release", &other, 0o644).unwrap();
    refused(
        &start("jemalloc.json", "--dry-run"),
        &["this host is unlike those of the trial", "(trixie) here"],
    );
    let dry = start("jemalloc.json", "--dry-run --force a-pilot");
    assert!(
        dry.status.success() && stderr(&dry).contains("this host is unlike those of the trial: system"),
        "{}",
        stderr(&dry)
    );
    bed.container.write("/usr/lib/os-release", &release, 0o644).unwrap();
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());

    bed.container.ok(&["systemctl", "start", "heaptrial-agent.service"]);
    let started = start("jemalloc.json", "");
    let said = format!("{}{}", stdout(&started), stderr(&started));
    assert!(started.status.success(), "{said}");
    assert!(said.contains("jemalloc of trial fleet: ") && said.contains("of the trial"), "{said}");
    assert_eq!(treated(bed, units), units.len());
    let report = bed.heaptrial("report fleet-rollout");
    assert!(stdout(&report).contains(digest), "{}{}", stdout(&report), stderr(&report));
    let watch = json(&bed.succeeds("watch start fleet-rollout --dry-run --json"));
    assert_eq!(watch["plan"]["arms"][0], "jemalloc", "{watch:#}");
    assert_eq!(watch["plan"]["services"].as_array().unwrap().len(), units.len());
    bed.succeeds("rollout rollback fleet-rollout --yes --pause 0s");
    // What the unit refuses is told by who started it.
    refused(&bed.heaptrial("rollout resume fleet-rollout --detach"), &["`fleet-rollout` has ended"]);
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
}

#[test]
#[ignore = "needs root and a container"]
fn ansible_takes_two_hosts_from_survey_to_revert() {
    let Some(()) = drawn(1, 4) else { return };
    let Some((alpha, alpha_units)) = host("alpha") else { return };
    let Some((beta, beta_units)) = other_host("beta") else { return };
    let control = Control::new(&trial(), &[("alpha", &alpha), ("beta", &beta)]);
    for bed in [&alpha, &beta] {
        bed.install_agent();
    }
    // What the login itself leaves is there before.
    control.plays("survey", &[]);
    let before = [alpha.snapshot(), beta.snapshot()];
    let planned = succeeds(control.path(), "trial plan fleet.toml --survey surveys --seed 1");
    assert!(stdout(&planned).contains("jemalloc is another build for each system"), "{}", stdout(&planned));

    // What would be done is told, and nothing is.
    let told = control.play("start", &["--check", "--diff"]);
    assert!(told.status.success(), "{}\n{}", stdout(&told), stderr(&told));
    assert!(stdout(&told).contains("zz-heaptrial.conf"), "{}", stdout(&told));
    assert_eq!(before[0].difference(&alpha.snapshot()), Vec::<String>::new());

    // A host that fails keeps the one after it from being begun.
    alpha.container.ok(&["systemctl", "stop", &alpha_units[0]]);
    let failed = control.play("start", &[]);
    assert!(!failed.status.success());
    assert!(stdout(&failed).contains("is not running"), "{}", stdout(&failed));
    assert_eq!(treated(&beta, &beta_units), 0);
    alpha.container.ok(&["systemctl", "start", &alpha_units[0]]);

    assert!(control.plays("start", &[]).iter().all(|changed| *changed > 0));
    for (bed, units) in [(&alpha, &alpha_units), (&beta, &beta_units)] {
        assert_eq!(treated(bed, units), 2);
    }
    assert_eq!(control.plays("start", &[]), [0, 0]);
    sampled(&alpha, 2);
    sampled(&beta, 2);
    control.plays("status", &[]);

    assert_eq!(control.plays("gather", &[]).iter().filter(|changed| **changed > 0).count(), 2);
    let report = json(&succeeds(control.path(), "report --db heaptrial.db --out r --json"));
    assert_eq!(names(&report["hosts"], "name"), ["alpha", "beta"]);
    assert_eq!(report["services"].as_array().unwrap().len(), 8);
    assert!(
        report["services"].as_array().unwrap().iter().all(|service| service["counts"] == true),
        "{report:#}"
    );
    let findings = report["findings"].as_array().unwrap();
    let of_builds: Vec<&str> = findings
        .iter()
        .filter(|finding| finding["kind"] == "several_builds")
        .map(|finding| finding["evidence"].as_str().unwrap())
        .collect();
    eprintln!("{of_builds:#?}");
    assert!(of_builds[0].contains("glibc 2.36") && of_builds[0].contains("glibc 2.41"), "{findings:#?}");
    let both = |text: &str| text.contains("on alpha") && text.contains("on beta");
    assert!(of_builds.len() == 2 && of_builds.iter().all(|told| both(told)), "{findings:#?}");

    // Drawn anew it is another trial: what runs by the first drawing is not passed for it.
    succeeds(control.path(), "trial plan fleet.toml --survey surveys --seed 2 --force");
    let other = control.play("start", &[]);
    assert!(!other.status.success() && stdout(&other).contains("another drawing"), "{}", stdout(&other));
    // What another trial needs in the folder stays.
    alpha.container.write("/var/lib/heaptrial-fleet/other.plan.toml", "", 0o600).unwrap();
    assert!(control.plays("stop", &[]).iter().all(|changed| *changed == 1));
    assert_eq!(control.plays("stop", &[]), [0, 0]);
    assert!(control.plays("stop", &["-e", "heaptrial_state=reverted"]).iter().all(|changed| *changed > 0));
    alpha.container.ok(&["rm", "/var/lib/heaptrial-fleet/other.plan.toml"]);
    alpha.container.ok(&["rmdir", "/var/lib/heaptrial-fleet"]);
    assert_eq!(control.plays("stop", &["-e", "heaptrial_state=reverted"]), [0, 0]);
    // What ran until the end is still to be had; then there is nothing new.
    control.plays("gather", &[]);
    assert_eq!(control.plays("gather", &[]), [0, 0]);
    for ((bed, units), before) in [(&alpha, &alpha_units), (&beta, &beta_units)].into_iter().zip(before) {
        assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
        bed.assert_active(units);
    }
}

#[test]
#[ignore = "needs root and a container"]
fn ansible_rolls_out_by_a_verdict_one_host_after_the_other() {
    let Some(()) = drawn(0, 4) else { return };
    let Some((alpha, alpha_units)) = host("alpha") else { return };
    let Some((beta, beta_units)) = other_host("beta") else { return };
    let control = Control::new(&trial(), &[("alpha", &alpha), ("beta", &beta)]);
    let path = control.path();
    for bed in [&alpha, &beta] {
        bed.install_agent();
    }
    // A service may take as long to come up as this test lets it.
    alpha
        .container
        .write(
            "/etc/systemd/system/churn@.service.d/patient.conf",
            "[Service]\nTimeoutStartSec=infinity\n",
            0o644,
        )
        .unwrap();
    alpha.container.ok(&["systemctl", "daemon-reload"]);
    control.plays("survey", &[]);
    let before = [alpha.snapshot(), beta.snapshot()];
    succeeds(path, "trial plan fleet.toml --survey surveys --seed 1");
    with_verdict(&control, &[&alpha, &beta]);

    let more = format!(
        "{{\"heaptrial_rollout\": \"to-jemalloc\", \"heaptrial_verdict\": \"{}/jemalloc.json\", \
         \"heaptrial_services\": [\"churn@*\"], \"heaptrial_poll\": 1, \"heaptrial_force\": \"a pilot\", \
         \"heaptrial_options\": [\"--soak\", \"2s\", \"--waves\", \"100%\", \"--pause\", \"0s\"]}}",
        path.display()
    );
    let with = |further: &'static [&str]| [&["-e", more.as_str()], further].concat();
    let told = control.play("rollout", &with(&["--check", "--diff"]));
    assert!(told.status.success(), "{}\n{}", stdout(&told), stderr(&told));
    assert!(stdout(&told).contains("zz-heaptrial.conf"), "{}", stdout(&told));
    assert_eq!((treated(&alpha, &alpha_units), treated(&beta, &beta_units)), (0, 0));

    let faults = |text: &str| {
        for unit in &alpha_units {
            let number = unit.trim_start_matches("churn@").trim_end_matches(".service");
            alpha.container.write(format!("/etc/churn/{number}"), text, 0o644).unwrap();
        }
    };
    let standing_of = |bed: &Bed, rollout: &str| {
        let told = bed.json_of(&format!("rollout status {rollout} --json"));
        told["standing"].as_str().unwrap_or_default().to_owned()
    };
    // A service of the first host that does not come up under it stops the host, and the next one is not begun.
    faults("FAULTS_UNDER=jemalloc\nFAIL_AFTER_MS=0\n");
    let stopped = control.play("rollout", &with(&[]));
    assert!(!stopped.status.success());
    assert!(stdout(&stopped).contains("rollout to-jemalloc is stopped"), "{}", stdout(&stopped));
    assert_eq!((treated(&alpha, &alpha_units), treated(&beta, &beta_units)), (0, 0));
    let names_on_beta = names(&beta.json("rollout status --json")["rollouts"], "rollout");
    assert_eq!(names_on_beta, Vec::<&str>::new());
    faults("");

    // The machine that controls them dies: the host goes on by itself. The same again waits for it and takes the next one.
    let standing = |bed: &Bed| standing_of(bed, "to-jemalloc");
    let mut play = control.command("rollout", &with(&["-e", "heaptrial_resume=true"]));
    let mut play = play
        .process_group(0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the rollout to go on", PATIENCE, || (standing(&alpha) == "in progress").then_some(()));
    kill(&mut play);
    wait_for("alpha to be done", PATIENCE, || (standing(&alpha) == "complete").then_some(()));
    assert_eq!((treated(&alpha, &alpha_units), treated(&beta, &beta_units)), (alpha_units.len(), 0));
    let changed = control.plays("rollout", &with(&[]));
    assert!(changed[1] > 0, "{changed:?}");
    assert_eq!(treated(&beta, &beta_units), beta_units.len());
    assert_eq!(control.plays("rollout", &with(&[])), [0, 0]);
    // Each tells what its gate would say, also after the end; both together go on.
    for (bed, name) in [(&alpha, "alpha"), (&beta, "beta")] {
        let judged = bed.json("rollout judge to-jemalloc --json");
        assert_eq!(
            (&judged["standing"], &judged["gate"]["outcome"]),
            (&"complete".into(), &"go".into()),
            "{judged:#}"
        );
        std::fs::write(path.join(format!("{name}.json")), judged.to_string()).unwrap();
    }
    let pooled = json(&succeeds(path, "rollout judge --hosts alpha.json beta.json --json"));
    assert_eq!(pooled["gate"]["outcome"], "go", "{pooled:#}");

    let back = with(&["-e", "heaptrial_state=rolled_back"]);
    assert_eq!(control.plays("rollout", &back), [1, 1]);
    assert_eq!(control.plays("rollout", &back), [0, 0]);
    for ((bed, units), before) in [(&alpha, &alpha_units), (&beta, &beta_units)].into_iter().zip(before) {
        bed.container.ok(&["rm", "-rf", "/var/lib/heaptrial-fleet", "/etc/churn"]);
        assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
        bed.assert_active(units);
    }
}
