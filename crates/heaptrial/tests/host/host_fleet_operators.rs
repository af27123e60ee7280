//! Two operators on two control machines at once, and hosts without room: who cannot go on is told, and nothing is left wrong.

use crate::support;

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use heaptrial_store::Store;
use heaptrial_testbed::is_drawn;
use support::bed::Bed;
use support::control::Control;
use support::hosts::{TRIAL, host, sampled, stage, succeeds, treated, with_verdict};
use support::{stderr, stdout};

fn rollout(folder: &Path) -> String {
    format!(
        "{{\"heaptrial_rollout\": \"to-jemalloc\", \"heaptrial_verdict\": \"{}/jemalloc.json\", \
         \"heaptrial_services\": [\"churn@*\"], \"heaptrial_poll\": 1, \"heaptrial_lost\": 5, \"heaptrial_resume\": true, \
         \"heaptrial_options\": [\"--soak\", \"2s\", \"--waves\", \"50%,100%\", \"--pause\", \"0s\", \"--settle\", \"500ms\"]}}",
        folder.display()
    )
}

/// Leaves no byte of room where the program and Ansible write.
fn fill(bed: &Bed) {
    for place in ["/fill", "/tmp/fill", "/var/lib/heaptrial/fill", "/run/fill"] {
        bed.container.run(&["sh", "-c", &format!("cat /dev/zero > {place}")]);
    }
}

fn make_room(bed: &Bed) {
    bed.container.ok(&["rm", "-f", "/fill", "/tmp/fill", "/var/lib/heaptrial/fill", "/run/fill"]);
}

#[track_caller]
fn tells_of_room(output: &Output) {
    let said = format!("{}{}", stdout(output), stderr(output));
    // The last are Python's words where Ansible's own module finds no room in /tmp.
    let told = ["No space left", "no room", "space", "disk is full", "No usable temporary directory"];
    assert!(!output.status.success() && told.iter().any(|word| said.contains(word)), "{said}");
}

/// How many samples of the trial a database has up to its end.
fn samples(path: &Path) -> u64 {
    let store = Store::open(path).unwrap();
    let trial = store.trials().unwrap().into_iter().rfind(|trial| trial.plan.name == "fleet").unwrap();
    let mut count = 0;
    for life in store.lives(trial.id).unwrap() {
        store
            .each_sample_of_life::<heaptrial_store::StoreError>(&life, |sample| {
                count += u64::from(trial.ended_wall_us.is_none_or(|ended| sample.wall_us <= ended));
                Ok(())
            })
            .unwrap();
    }
    count
}

#[test]
#[ignore = "needs root and a container"]
fn a_gathering_from_a_full_disk_is_told_and_the_next_one_brings_all() {
    if !is_drawn(2, 4) {
        return;
    }
    let Some((alpha, units)) = host("alpha") else { return };
    let control = Control::new(TRIAL, &[("alpha", &alpha)]);
    alpha.install_agent();
    control.plays("survey", &[]);
    succeeds(control.path(), "trial plan fleet.toml --survey surveys --seed 1");
    control.plays("start", &[]);
    sampled(&alpha, 3);
    control.plays("gather", &[]);
    let all = control.path().join("heaptrial.db");
    let before = samples(&all);
    assert!(before > 0);
    sampled(&alpha, 3);
    fill(&alpha);
    tells_of_room(&control.play("gather", &[]));
    assert_eq!(samples(&all), before, "what is here stays as it is");
    make_room(&alpha);
    sampled(&alpha, 3);
    control.plays("stop", &["-e", "heaptrial_state=reverted"]);
    control.plays("gather", &[]);
    assert_eq!(samples(&all), samples(&alpha.database()));
    assert!(samples(&all) > before);
    alpha.assert_active(&units);
}

#[test]
#[ignore = "needs root and a container"]
fn a_rollout_on_a_full_disk_begins_on_no_host_and_goes_on_when_there_is_room() {
    if !is_drawn(0, 4) {
        return;
    }
    let Some((alpha, alpha_units)) = host("alpha") else { return };
    let Some((beta, beta_units)) = host("beta") else { return };
    let hosts = [(&alpha, &alpha_units), (&beta, &beta_units)];
    let control = Control::new(TRIAL, &[("alpha", &alpha), ("beta", &beta)]);
    hosts.iter().for_each(|(bed, _)| bed.install_agent());
    control.plays("survey", &[]);
    succeeds(control.path(), "trial plan fleet.toml --survey surveys --seed 1");
    let before = hosts.map(|(bed, _)| bed.snapshot());
    with_verdict(&control, &[&alpha, &beta]);
    let with = rollout(control.path());
    let running = |(bed, units): (&Bed, &Vec<String>)| -> Vec<String> {
        units.iter().map(|unit| bed.property(unit, "MainPID")).collect()
    };
    let pids = hosts.map(running);
    fill(&alpha);
    tells_of_room(&control.play("rollout", &["-e", &with]));
    assert_eq!(hosts.map(running), pids, "nothing was restarted");
    make_room(&alpha);
    control.plays("rollout", &["-e", &with]);
    for (bed, units) in hosts {
        assert_eq!(treated(bed, units), units.len());
    }
    control.plays("rollout", &["-e", &with, "-e", "heaptrial_state=rolled_back"]);
    for ((bed, units), before) in hosts.into_iter().zip(before) {
        bed.container.ok(&["rm", "-rf", "/var/lib/heaptrial-fleet"]);
        assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
        bed.assert_active(units);
    }
}

#[test]
#[ignore = "needs root and a container"]
fn two_operators_who_roll_out_and_put_back_at_once_leave_every_host_whole() {
    if !is_drawn(3, 4) {
        return;
    }
    let Some((alpha, alpha_units)) = host("alpha") else { return };
    let Some((beta, beta_units)) = host("beta") else { return };
    let hosts = [(&alpha, &alpha_units), (&beta, &beta_units)];
    let control = Control::new(TRIAL, &[("alpha", &alpha), ("beta", &beta)]);
    hosts.iter().for_each(|(bed, _)| bed.install_agent());
    control.plays("survey", &[]);
    succeeds(control.path(), "trial plan fleet.toml --survey surveys --seed 1");
    let before = hosts.map(|(bed, _)| bed.snapshot());
    with_verdict(&control, &[&alpha, &beta]);

    // Another operator's folder, with what a trial needs.
    let second = tempfile::tempdir().unwrap();
    for name in ["fleet.toml", "fleet.plan.toml", "jemalloc.json"] {
        std::fs::copy(control.path().join(name), second.path().join(name)).unwrap();
    }
    let folders = [control.path(), second.path()];
    let at_once = |further: [&[&str]; 2]| -> [Output; 2] {
        let started = [0, 1].map(|number: usize| {
            let folder: &Path = folders[number];
            let with = rollout(folder);
            let local = format!("heaptrial_local={}", folder.display());
            let words = [&["-e", local.as_str(), "-e", with.as_str()], further[number]].concat();
            let mut command: Command = control.command("rollout", &words);
            command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            command.spawn().unwrap()
        });
        started.map(|play| play.wait_with_output().unwrap())
    };
    let told = |output: &Output| {
        let said = format!("{}{}", stdout(output), stderr(output));
        let why =
            ["is at work", "is changing", "another", "locked", "rolled back", "exists", "paused", "stopped"];
        assert!(output.status.success() || why.iter().any(|word| said.contains(word)), "{said}");
    };

    // Both roll out: whoever comes second is told or goes along, and once more makes it whole.
    at_once([&[], &[]]).iter().for_each(told);
    let with = rollout(control.path());
    control.plays("rollout", &["-e", &with]);
    assert_eq!(control.plays("rollout", &["-e", &with]), [0, 0]);
    for (bed, units) in hosts {
        assert_eq!(treated(bed, units), units.len());
        bed.assert_active(units);
    }
    // One puts it back while the other one still brings it.
    let back: &[&str] = &["-e", "heaptrial_state=rolled_back"];
    at_once([&[], back]).iter().for_each(told);
    control.plays("rollout", &["-e", &with, "-e", "heaptrial_state=rolled_back"]);
    for ((bed, units), before) in hosts.into_iter().zip(before) {
        assert_eq!(stage(bed).as_deref(), Some("reverted"));
        assert_eq!(treated(bed, units), 0);
        bed.container.ok(&["rm", "-rf", "/var/lib/heaptrial-fleet"]);
        assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
        bed.assert_active(units);
    }
}
