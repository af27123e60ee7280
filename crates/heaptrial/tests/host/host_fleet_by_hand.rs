//! Ansible brings Heaptrial to a host whose services were migrated by hand, has them watched as they are, and takes it away.

use crate::support;

use heaptrial_testbed::drawn;
use support::bed::{Bed, own_package};
use support::control::Control;
use support::stdout;

const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
#[test]
#[ignore = "needs root and a container"]
fn ansible_installs_watches_services_as_they_are_and_removes() {
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

    let watch = with(&["-e", "{\"heaptrial_services\": [\"churn@*\"], \"heaptrial_watch\": \"byhand\"}"]);
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
    assert!(!alerted.status.success() && said.contains(&units[1]) && said.contains("drop_in"), "{said}");
    alpha.container.write(drop_in(&units[1]), &text, 0o644).unwrap();
    alpha.container.ok(&["systemctl", "daemon-reload"]);
    alpha.container.ok(&["heaptrial", "watch", "check", "byhand"]);
    assert_eq!(control.plays("watch", &watch), [0]);

    let stopped = with(&["-e", "heaptrial_watch=byhand", "-e", "heaptrial_state=stopped"]);
    let told = control.play("watch", &[stopped.as_slice(), &["--check"]].concat());
    assert!(told.status.success() && stdout(&told).contains("changed=1"), "{}", stdout(&told));
    assert_eq!(control.plays("watch", &stopped), [1]);
    assert_eq!(control.plays("watch", &stopped), [0]);
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
