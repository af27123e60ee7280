//! Faults of a trial over hosts: what is lost, killed, full or switched off is gone on with, and nothing is left wrong.

use crate::support;

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::Duration;

use heaptrial_store::Store;
use heaptrial_testbed::drawn;
use support::bed::Bed;
use support::control::Control;
use support::hosts::{PATIENCE, TRIAL, host, kill, rename, sampled, stage, succeeds, treated, with_verdict};
use support::{stderr, stdout, wait_for};

#[test]
#[ignore = "needs root and a container"]
fn a_control_machine_or_a_connection_that_is_lost_is_gone_on_with() {
    let Some(()) = drawn(3, 4) else { return };
    let Some((alpha, alpha_units)) = host("alpha") else { return };
    let Some((beta, beta_units)) = host("beta") else { return };
    let hosts = [(&alpha, &alpha_units), (&beta, &beta_units)];
    let control = Control::new(TRIAL, &[("alpha", &alpha), ("beta", &beta)]);
    // Slow enough to be met in the middle.
    let slow = TRIAL.replace("settle = \"0s\"", "settle = \"2s\"");
    std::fs::write(control.path().join("fleet.toml"), slow).unwrap();
    hosts.iter().for_each(|(bed, _)| bed.install_agent());
    // In the middle of a survey: nothing is changed, and the next one does it.
    let mut survey = control.command("survey", &[]).process_group(0).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    kill(&mut survey);
    control.plays("survey", &[]);
    let before = [alpha.snapshot(), beta.snapshot()];
    succeeds(control.path(), "trial plan fleet.toml --survey surveys --seed 1");

    // The control machine dies while the first host starts; then the connection goes while the second one does.
    let half = |bed: &Bed| {
        let drop_ins =
            bed.container.run(&["sh", "-c", "ls -d /etc/systemd/system/churn@*.service.d/zz-heaptrial.conf"]);
        (stage(bed).as_deref() == Some("starting") && !drop_ins.stdout.is_empty()).then_some(())
    };
    let mut start = control.command("start", &[]).process_group(0).spawn().unwrap();
    wait_for("a start", PATIENCE, || half(&alpha));
    kill(&mut start);
    assert_eq!(stage(&beta), None);
    // What runs on the host ends its work, or is put back; either is gone on with.
    let at_rest = |bed: &Bed| {
        let holders = bed.container.run(&["sh", "-c", "pidof heaptrial | wc -w"]);
        (String::from_utf8_lossy(&holders.stdout).trim() == "1").then_some(())
    };
    wait_for("the end of what runs on the host", PATIENCE, || at_rest(&alpha));
    let start = control.command("start", &[]).process_group(0).stdout(Stdio::null()).spawn().unwrap();
    wait_for("a start", PATIENCE, || half(&beta));
    beta.container.ok(&["sh", "-c", "kill -9 $(pidof sshd)"]);
    let code = start.wait_with_output().unwrap().status;
    assert!(!code.success(), "a host that is lost is told");
    assert_eq!(stage(&alpha).as_deref(), Some("running"));
    wait_for("the end of what runs on the host", PATIENCE, || at_rest(&beta));
    control.plays("start", &[]);
    for (bed, units) in hosts {
        assert_eq!(stage(bed).as_deref(), Some("running"));
        assert_eq!(treated(bed, units), 2);
    }

    // Gatherings that are cut short, twice, lose nothing.
    sampled(&alpha, 3);
    for seconds in [2, 4] {
        let mut gather =
            control.command("gather", &[]).process_group(0).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_secs(seconds));
        kill(&mut gather);
    }
    // And so does a revert that is.
    let mut stop =
        control.command("stop", &["-e", "heaptrial_state=reverted"]).process_group(0).spawn().unwrap();
    wait_for("a revert", PATIENCE, || (stage(&alpha).as_deref() != Some("running")).then_some(()));
    kill(&mut stop);
    wait_for("the end of what runs on the host", PATIENCE, || at_rest(&alpha));
    // A host that cannot be reached does not keep the others from being put back.
    alpha.container.ok(&["ip", "link", "set", "eth0", "down"]);
    let lost = control.play("stop", &["-e", "heaptrial_state=reverted"]);
    assert!(!lost.status.success() && stdout(&lost).contains("unreachable=1"), "{}", stdout(&lost));
    assert_eq!(stage(&beta).as_deref(), Some("reverted"));
    alpha.container.ok(&["ip", "link", "set", "eth0", "up"]);
    control.plays("stop", &["-e", "heaptrial_state=reverted"]);
    control.plays("gather", &[]);
    let store = Store::open(&control.path().join("heaptrial.db")).unwrap();
    let trial = store.trials().unwrap().remove(0);
    for (bed, units) in hosts {
        let name = if std::ptr::eq(bed, &alpha) { "alpha/" } else { "beta/" };
        let own = Store::open(&bed.database()).unwrap();
        let there = own.trials().unwrap().into_iter().rfind(|trial| trial.plan.name == "fleet").unwrap();
        let ended = there.ended_wall_us.unwrap();
        let mut samples = [0, 0];
        for (count, (store, id)) in samples.iter_mut().zip([(&own, there.id), (&store, trial.id)]) {
            let services = store.services(id).unwrap();
            let mine =
                services.iter().filter(|service| std::ptr::eq(store, &own) || service.name.starts_with(name));
            let mine: Vec<i64> = mine.map(|service| service.id).collect();
            let lives = store.lives(id).unwrap();
            let lives: Vec<i64> =
                lives.iter().filter(|life| mine.contains(&life.service_id)).map(|life| life.id).collect();
            let each = |sample: &heaptrial_store::StoredSample| -> Result<(), heaptrial_store::StoreError> {
                *count += u32::from(lives.contains(&sample.life_id) && sample.wall_us <= ended);
                Ok(())
            };
            store.each_sample_in_time(id, each).unwrap();
        }
        assert!(samples[0] == samples[1] && samples[0] > 0, "{name}: {samples:?}");
        bed.assert_active(units);
    }
    for ((bed, _), before) in hosts.into_iter().zip(before) {
        assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    }
}

#[test]
#[ignore = "needs root and a container"]
fn a_key_without_root_is_told_and_changes_nothing() {
    let Some(()) = drawn(0, 4) else { return };
    let Some((alpha, alpha_units)) = host("alpha") else { return };
    let control = Control::new(TRIAL, &[("alpha", &alpha)]);
    control.plays("survey", &[]);
    succeeds(control.path(), "trial plan fleet.toml --survey surveys --seed 1");
    let before = alpha.snapshot();
    alpha.container.ok(&["useradd", "-m", "-p", "*", "op"]);
    alpha.container.ok(&["sh", "-c", "cp -r /root/.ssh /home/op/.ssh && chown -R op /home/op/.ssh"]);
    let users = alpha.snapshot();
    let folder = ["-e", "ansible_user=op", "-e", "heaptrial_folder=/home/op/fleet"];
    let output = control.play("start", &folder);
    assert!(!output.status.success() && stdout(&output).contains("root"), "{}", stdout(&output));
    assert_eq!(users.difference(&alpha.snapshot()), Vec::<String>::new());
    assert!(!before.difference(&users).is_empty());
    assert_eq!(treated(&alpha, &alpha_units), 0);
}

#[test]
#[ignore = "needs root and a container"]
fn two_operators_at_once_and_a_full_disk_leave_a_trial_that_is_whole() {
    let Some(()) = drawn(1, 4) else { return };
    let Some((alpha, alpha_units)) = host("alpha") else { return };
    let Some((beta, beta_units)) = host("beta") else { return };
    let hosts = [(&alpha, &alpha_units), (&beta, &beta_units)];
    let control = Control::new(TRIAL, &[("alpha", &alpha), ("beta", &beta)]);
    hosts.iter().for_each(|(bed, _)| bed.install_agent());
    control.plays("survey", &[]);
    succeeds(control.path(), "trial plan fleet.toml --survey surveys --seed 1");

    // A disk without room: the host is told, nothing of it is changed, and the next host is not begun.
    alpha.container.ok(&["mkdir", "-p", "-m", "700", "/var/lib/heaptrial-fleet"]);
    let before = [alpha.snapshot(), beta.snapshot()];
    let running: Vec<String> = alpha_units.iter().map(|unit| alpha.property(unit, "MainPID")).collect();
    alpha.container.run(&["sh", "-c", "cat /dev/zero > /fill"]);
    let full = control.play("start", &[]);
    let said = stdout(&full);
    assert!(!full.status.success(), "{said}");
    assert!(said.contains("No space left") || said.contains("space"), "{said}");
    assert_eq!((stage(&beta), treated(&beta, &beta_units)), (None, 0));
    alpha.container.ok(&["rm", "/fill"]);
    let after: Vec<String> = alpha_units.iter().map(|unit| alpha.property(unit, "MainPID")).collect();
    assert_eq!(after, running, "nothing was restarted");
    for ((bed, _), before) in hosts.into_iter().zip(&before) {
        assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    }

    // Two operators start it at the same time: one of them does it, and who comes second is told or finds it done.
    let operators = [0, 1].map(|_| {
        let mut command = control.command("start", &[]);
        command
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    });
    let outputs = operators.map(|operator| operator.wait_with_output().unwrap());
    for output in &outputs {
        let said = format!("{}{}", stdout(output), stderr(output));
        let words = ["is at work", "is changing", "another", "locked", "was begun and not finished"];
        let told = words.iter().any(|word| said.contains(word));
        assert!(output.status.success() || told, "{said}");
    }
    // Whatever they left, once more makes it whole, and after that there is nothing to do.
    control.plays("start", &[]);
    assert_eq!(control.plays("start", &[]), [0, 0]);
    for (bed, units) in hosts {
        assert_eq!((stage(bed).as_deref(), treated(bed, units)), (Some("running"), 2));
        bed.assert_active(units);
    }
    // One puts it back while the other still starts it.
    let stop = ["-e", "heaptrial_state=reverted"];
    let operators = [control.command("stop", &stop), control.command("start", &[])].map(|mut command| {
        command
            .process_group(0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .stdin(Stdio::null())
            .spawn()
            .unwrap()
    });
    for operator in operators {
        operator.wait_with_output().unwrap();
    }
    control.plays("stop", &stop);
    for ((bed, units), before) in hosts.into_iter().zip(before) {
        bed.container.run(&["sh", "-c", "mkdir -p -m 700 /var/lib/heaptrial-fleet"]);
        assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
        bed.assert_active(units);
    }
}

#[test]
#[ignore = "needs root and a container"]
fn a_host_that_is_switched_off_in_its_second_wave_goes_on_when_it_is_back() {
    let Some(()) = drawn(3, 4) else { return };
    let Some((mut alpha, alpha_units)) = host("alpha") else { return };
    let Some((beta, beta_units)) = host("beta") else { return };
    let mut control = Control::new(TRIAL, &[("alpha", &alpha), ("beta", &beta)]);
    for bed in [&alpha, &beta] {
        bed.install_agent();
        for unit in &alpha_units {
            // Comes up with its host, as services of production do.
            bed.container.ok(&["systemctl", "enable", unit]);
        }
    }
    control.plays("survey", &[]);
    succeeds(control.path(), "trial plan fleet.toml --survey surveys --seed 1");
    let before = [alpha.snapshot(), beta.snapshot()];
    with_verdict(&control, &[&alpha, &beta]);

    // Waves of a half, the second of which lasts long enough to be met.
    let with = format!(
        "{{\"heaptrial_rollout\": \"to-jemalloc\", \"heaptrial_verdict\": \"{}/jemalloc.json\", \
         \"heaptrial_services\": [\"churn@*\"], \"heaptrial_poll\": 1, \"heaptrial_resume\": true, \
         \"heaptrial_options\": [\"--soak\", \"4s\", \"--waves\", \"50%,100%\", \"--pause\", \"0s\"]}}",
        control.path().display()
    );
    let play =
        control.command("rollout", &["-e", &with]).process_group(0).stdout(Stdio::piped()).spawn().unwrap();
    let drop_ins = "ls -d /etc/systemd/system/churn@*.service.d/zz-heaptrial.conf | wc -l";
    wait_for("the second wave", PATIENCE, || {
        let count = alpha.container.ok(&["sh", "-c", drop_ins]);
        count.trim().parse::<usize>().ok().filter(|count| *count > 2)
    });
    alpha.container.power_cut().unwrap();
    let lost = play.wait_with_output().unwrap();
    assert!(!lost.status.success(), "a host that is gone is told");
    let said = stdout(&lost);
    assert!(said.contains("unreachable"), "{said}");
    assert!(!said.contains("changed: [beta]"), "{said}");
    assert_eq!(treated(&beta, &beta_units), 0, "the next one is not begun: {said}");

    alpha.container.boot_again().unwrap();
    alpha.container.ok(&["hostname", "alpha"]);
    control.reach("alpha", &alpha);
    let changed = control.plays("rollout", &["-e", &with]);
    assert!(changed[0] > 0 && changed[1] > 0, "{changed:?}");
    let all = (treated(&alpha, &alpha_units), treated(&beta, &beta_units));
    assert_eq!(all, (alpha_units.len(), beta_units.len()));
    assert_eq!(control.plays("rollout", &["-e", &with]), [0, 0]);
    control.plays("rollout", &["-e", &with, "-e", "heaptrial_state=rolled_back"]);
    for ((bed, units), before) in [(&alpha, &alpha_units), (&beta, &beta_units)].into_iter().zip(before) {
        bed.container.ok(&["rm", "-rf", "/var/lib/heaptrial-fleet"]);
        assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
        bed.assert_active(units);
    }
}

/// Where another host of the plan has the same services in the same order, only what the start froze tells which one this is.
#[test]
#[ignore = "needs root and a container"]
fn a_host_that_was_renamed_is_put_back_as_the_plan_calls_it() {
    let Some(()) = drawn(2, 4) else { return };
    let Some((beta, units)) = host("beta") else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("fleet.toml"), TRIAL).unwrap();
    std::fs::create_dir(folder.join("surveys")).unwrap();
    beta.succeeds("trial survey fleet.toml -o survey.json");
    let survey = String::from_utf8(beta.container.read("/root/survey.json").unwrap()).unwrap();
    for name in ["alpha", "beta"] {
        let of_host = survey.replace("\"host\": \"beta\"", &format!("\"host\": \"{name}\""));
        std::fs::write(folder.join(format!("surveys/{name}.json")), of_host).unwrap();
    }
    succeeds(folder, "trial plan fleet.toml --survey surveys --seed 1");
    beta.container.write("/root/fleet.plan.toml", alike(&folder.join("fleet.plan.toml")), 0o644).unwrap();
    beta.install_agent();
    // What was written for it by hand is told, and recorded of each service.
    let warned = " and 3 more) have another arm or block than was drawn";
    let started = beta.heaptrial("trial start fleet --yes");
    assert!(started.status.success() && stderr(&started).contains(warned), "{}", stderr(&started));
    assert_eq!(treated(&beta, &units), 2);
    let recorded = {
        let store = Store::open(&beta.database()).unwrap();
        let trial = store.trials().unwrap().into_iter().rfind(|trial| trial.plan.name == "fleet").unwrap();
        let services = store.services(trial.id).unwrap().into_iter();
        let services: Vec<_> =
            services.map(|service| (service.is_by_hand(), service.name, service.block)).collect();
        (trial.plan.parameters["host"].clone(), services)
    };
    assert_eq!(recorded.0, "beta");
    assert!(recorded.1.iter().all(|(by_hand, ..)| *by_hand), "{recorded:?}");

    rename(&beta, "gamma");
    beta.succeeds("trial stop fleet --revert --yes");
    assert_eq!(treated(&beta, &units), 0);
}

/// A plan of two hosts with the same services, in which both have the same arms in the same order.
fn alike(plan: &std::path::Path) -> String {
    let text = std::fs::read_to_string(plan).unwrap();
    let of = |host: &str| -> Vec<String> {
        let own = format!("host = \"{host}\"");
        text.lines().filter(|line| line.contains(&own)).map(str::to_owned).collect()
    };
    let (alpha, beta) = (of("alpha"), of("beta"));
    assert_eq!((alpha.len(), beta.len()), (4, 4), "{text}");
    let block = |line: &str| -> u32 {
        let (_, rest) = line.split_once("block = ").unwrap();
        rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
    };
    let further = beta.iter().map(|line| block(line)).min().unwrap();
    let mut edited = text.clone();
    for (own, other) in beta.iter().zip(&alpha) {
        let number = block(other);
        let line = other.replace("\"alpha\"", "\"beta\"");
        let line = line.replace(&format!("block = {number}"), &format!("block = {}", number + further));
        edited = edited.replace(&format!("{own}\n"), &format!("{line} # in place\n"));
    }
    edited.replace(" # in place", "")
}
