//! The services that field tests observe: they start, fail on demand, and real relays bootstrap.

use std::time::Duration;

use heaptrial_testbed::{
    ChurnService, Container, Options, PrivateDirectory, Testbed, TorInstances, drawn, example_program,
};

#[test]
#[ignore = "needs root and a container"]
fn small_services_start_in_numbers_and_fail_on_demand() {
    let Some(base) = Testbed::for_test() else { return };
    let host = Container::boot(&base, Options::new()).unwrap();
    let churn = ChurnService::new(example_program("churn_service").unwrap(), 20);
    let units = host.install_churn_service(&churn).unwrap();
    assert_eq!(units[19], "churn@020.service");
    host.start(&units).unwrap();
    let active = host.ok(&["systemctl", "list-units", "--plain", "--no-legend", "--state=active", "churn@*"]);
    assert_eq!(active.lines().count(), 20, "{active}");
    let property = |unit: &str, name: &str| {
        host.ok(&["systemctl", "show", "--value", &format!("--property={name}"), unit]).trim().to_owned()
    };
    let resident: u64 = property(&units[0], "MemoryCurrent").parse().unwrap();
    assert!(resident > churn.live_bytes, "{resident}");

    host.write("/etc/churn/001", "NEVER_READY=1\n", 0o644).unwrap();
    host.write("/etc/churn/002", "FAIL_AFTER_MS=1\n", 0o644).unwrap();
    host.ok(&["systemctl", "restart", "--no-block", &units[0]]);
    // It is ended first, and then stays on its way up.
    let on_its_way = "for i in $(seq 300); do [ $(systemctl show --value --property=ActiveState churn@001) = activating ] && exit 0; sleep 0.1; done; exit 1";
    host.ok(&["sh", "-c", on_its_way]);
    // It fails before or after it has told that it is ready.
    host.run(&["systemctl", "restart", &units[1]]);
    let limit = "for i in $(seq 300); do [ $(systemctl show --value --property=ExecMainStatus churn@002) = 3 ] && exit 0; sleep 0.1; done; exit 1";
    host.ok(&["sh", "-c", limit]);
}

#[test]
#[ignore = "needs root and a container"]
fn real_relays_bootstrap_also_after_a_power_cut() {
    let Some(()) = drawn(2, 3) else { return };
    let Some(base) = Testbed::for_test() else { return };
    let mut host = Container::boot(&base, Options::new()).unwrap();
    let directory = PrivateDirectory::new(example_program("private_directory").unwrap());
    let torrc = host.install_private_directory(&directory).unwrap();
    let instances = TorInstances::new(4, torrc);
    let units = host.install_tor_instances(&instances).unwrap();

    // As Debian's own tool makes an instance.
    host.ok(&["tor-instance-create", "debian"]);
    let made = |path: &str| {
        let words = ["stat", "--format=%A %a", &path.replace('*', "debian"), &path.replace('*', "relay01")];
        let shown = host.ok(&words);
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], lines[1], "{path}");
    };
    made("/var/lib/tor-instances/*");
    made("/etc/tor/instances/*");
    made("/etc/tor/instances/*/torrc");
    let entry = |name: &str| {
        let line = host.ok(&["getent", "passwd", &format!("_tor-{name}")]).replace(name, "NAME");
        let fields: Vec<&str> = line.trim().split(':').collect();
        [fields[0], fields[5], fields[6]].map(str::to_owned)
    };
    assert_eq!(entry("debian"), entry("relay01"));

    let limit = Duration::from_secs(240);
    host.start(&units).unwrap();
    host.wait_for_bootstrap(&instances.names, limit).unwrap();
    let pid = host.ok(&["systemctl", "show", "--value", "--property=MainPID", &units[0]]);
    let user = host.ok(&["ps", "-o", "user:32=", "-p", pid.trim()]);
    assert_eq!(user.trim(), "_tor-relay01");

    host.power_cut().unwrap();
    host.boot_again().unwrap();
    host.wait_for_bootstrap(&instances.names, limit).unwrap();
}
