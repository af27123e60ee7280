//! Ansible brings Heaptrial to a host whose services were migrated by hand, has them watched, and takes it away.

use crate::support;

use std::time::Duration;

use heaptrial_testbed::drawn;
use serde_json::Value;
use support::bed::{Bed, own_package};
use support::control::Control;
use support::{json, stderr, stdout, wait_for};

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
const PATIENCE: Duration = Duration::from_secs(300);

/// A host whose clock a minute and a half more is.
const FAST: &str = "#!/bin/sh\necho $(($(/usr/bin/date +%s) + 90))\n";

#[test]
#[ignore = "needs root and a container"]
fn ansible_installs_takes_over_watches_and_removes() {
    let Some(()) = drawn(2, 4) else { return };
    let Some((alpha, units)) = Bed::with_churn(4) else { return };
    for unit in &units[..3] {
        alpha.container.ok(&["mkdir", "-p", &format!("/etc/systemd/system/{unit}.d")]);
        let text = format!("[Service]\nEnvironment=LD_PRELOAD={LIBRARY}\n");
        alpha.container.write(drop_in(unit), text, 0o644).unwrap();
    }
    alpha.container.ok(&["systemctl", "daemon-reload"]);
    alpha.container.ok(&["systemctl", "restart", &units[0], &units[1], &units[2]]);
    let control = Control::new("", &[("alpha", &alpha)]);
    let deb = own_package(control.path());
    let deb = format!("heaptrial_deb={}", deb.display());
    let program = ["-e", "heaptrial_program=heaptrial"];
    let with = |further: &[&'static str]| [&program, further].concat();

    // What the login itself leaves is there before.
    let told = control.play("status", &with(&[]));
    assert!(!told.status.success(), "nothing is installed yet: {}", stdout(&told));
    let before = alpha.snapshot();
    let running: Vec<String> = units.iter().map(|unit| alpha.property(unit, "MainPID")).collect();
    assert!(control.plays("install", &["-e", &deb])[0] > 0);
    assert_eq!(control.plays("install", &["-e", &deb]), [0]);
    assert_eq!(alpha.property("heaptrial-agent.service", "ActiveState"), "active");
    let often = "[Service]\nExecStart=\nExecStart=/usr/bin/heaptrial agent --interval 300ms\n";
    alpha.container.write("/etc/systemd/system/heaptrial-agent.service.d/often.conf", often, 0o644).unwrap();
    alpha.container.ok(&["systemctl", "daemon-reload"]);
    alpha.container.ok(&["systemctl", "restart", "heaptrial-agent.service"]);

    let adopt = with(&["-e", "{\"heaptrial_services\": [\"churn@*\"], \"heaptrial_adoption\": \"byhand\"}"]);
    // A clock that is wrong is told before anything is recorded.
    alpha.container.write("/usr/local/bin/date", FAST, 0o755).unwrap();
    let refused = control.play("adopt", &adopt);
    assert!(
        !refused.status.success() && stdout(&refused).contains("ahead of this machine's"),
        "{}",
        stdout(&refused)
    );
    assert_eq!(adoptions(&alpha), Vec::<Value>::new());
    alpha.container.ok(&["rm", "/usr/local/bin/date"]);

    let told = control.play("adopt", &[adopt.as_slice(), &["--check"]].concat());
    assert!(told.status.success() && stdout(&told).contains("changed=1"), "{}", stdout(&told));
    assert_eq!(adoptions(&alpha), Vec::<Value>::new());
    assert_eq!(control.plays("adopt", &adopt), [1]);
    assert_eq!(control.plays("adopt", &adopt), [0]);
    let adopted = adoptions(&alpha);
    assert_eq!(
        (adopted.len(), &adopted[0]["adoption"], &adopted[0]["services"]),
        (1, &"byhand".into(), &4.into())
    );

    let watch = with(&["-e", "heaptrial_watch=byhand"]);
    wait_for("there is a forecast", PATIENCE, || {
        let dry = alpha.container.run(&["heaptrial", "watch", "start", "byhand", "--dry-run"]);
        dry.status.success().then_some(())
    });
    let told = control.play("watch", &[watch.as_slice(), &["--check", "--diff"]].concat());
    assert!(told.status.success() && stdout(&told).contains("would install"), "{}", stdout(&told));
    assert_eq!(control.plays("watch", &watch), [1]);
    assert_eq!(control.plays("watch", &watch), [0]);
    // What somebody took away is told by the same playbook.
    let text = alpha.container.read(drop_in(&units[1])).unwrap();
    alpha.container.ok(&["rm", &drop_in(&units[1])]);
    alpha.container.ok(&["systemctl", "daemon-reload"]);
    alpha.container.run(&["heaptrial", "watch", "check", "byhand"]);
    let alerted = control.play("watch", &watch);
    let said = stdout(&alerted);
    assert!(!alerted.status.success() && said.contains(&units[1]) && said.contains("drop-in"), "{said}");
    alpha.container.write(drop_in(&units[1]), &text, 0o644).unwrap();
    alpha.container.ok(&["systemctl", "daemon-reload"]);
    alpha.container.ok(&["heaptrial", "watch", "check", "byhand"]);
    assert_eq!(control.plays("watch", &watch), [0]);

    let stopped = with(&["-e", "heaptrial_watch=byhand", "-e", "heaptrial_state=stopped"]);
    let told = control.play("watch", &[stopped.as_slice(), &["--check"]].concat());
    assert!(told.status.success() && stdout(&told).contains("changed=1"), "{}", stdout(&told));
    assert_eq!(control.plays("watch", &stopped), [1]);
    assert_eq!(control.plays("watch", &stopped), [0]);
    let ended = with(&["-e", "heaptrial_adoption=byhand", "-e", "heaptrial_state=ended"]);
    assert_eq!(control.plays("adopt", &ended), [1]);
    assert_eq!(control.plays("adopt", &ended), [0]);
    alpha.container.ok(&["rm", "-r", "/etc/systemd/system/heaptrial-agent.service.d"]);
    assert!(control.plays("remove", &["-e", "heaptrial_purge=true"])[0] > 0);
    assert_eq!(control.plays("remove", &["-e", "heaptrial_purge=true"]), [0]);
    assert_eq!(before.difference(&alpha.snapshot()), Vec::<String>::new());
    let now: Vec<String> = units.iter().map(|unit| alpha.property(unit, "MainPID")).collect();
    assert_eq!(running, now, "no service was restarted");
}

fn drop_in(unit: &str) -> String {
    format!("/etc/systemd/system/{unit}.d/allocator.conf")
}

fn adoptions(bed: &Bed) -> Vec<Value> {
    let listed = bed.container.run(&["heaptrial", "--json", "adopt", "--list"]);
    assert!(listed.status.success(), "{}", stderr(&listed));
    json(&listed)["adoptions"].as_array().unwrap().clone()
}
