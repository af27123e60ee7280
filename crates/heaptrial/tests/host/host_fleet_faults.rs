//! Faults of a trial over hosts: what is lost, killed, full or switched off is gone on with, and nothing is left wrong.

use crate::support;

use std::os::unix::process::CommandExt as _;
use std::process::Stdio;
use std::time::Duration;

use heaptrial_testbed::drawn;
use support::bed::Bed;
use support::control::Control;
use support::hosts::{PATIENCE, host, kill, sampled, stage, succeeds, treated, trial, with_verdict};
use support::{stdout, wait_for};

#[test]
#[ignore = "needs root and a container"]
fn a_control_machine_or_a_connection_that_is_lost_is_gone_on_with() {
    let Some(()) = drawn(3, 4) else { return };
    let Some((alpha, alpha_units)) = host("alpha") else { return };
    let Some((beta, beta_units)) = host("beta") else { return };
    let hosts = [(&alpha, &alpha_units), (&beta, &beta_units)];
    let control = Control::new(&trial(), &[("alpha", &alpha), ("beta", &beta)]);
    // Slow enough to be met in the middle.
    let slow = trial().replace("settle = \"0s\"", "settle = \"2s\"");
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
    for ((bed, _), before) in hosts.into_iter().zip(before) {
        assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    }
}

#[test]
#[ignore = "needs root and a container"]
fn a_host_that_is_switched_off_in_its_second_wave_goes_on_when_it_is_back() {
    let Some(()) = drawn(3, 4) else { return };
    let Some((mut alpha, alpha_units)) = host("alpha") else { return };
    let Some((beta, beta_units)) = host("beta") else { return };
    let mut control = Control::new(&trial(), &[("alpha", &alpha), ("beta", &beta)]);
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
