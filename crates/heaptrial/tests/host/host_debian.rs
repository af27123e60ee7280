//! Units as Debian has them, and as projects document them for their users: treatments take hold, and all is put back.

use crate::support;

use heaptrial_testbed::{Options, Testbed};
use support::bed::Bed;
use support::stdout;
use support::trials::{of_arm, two_arms_of};

const PACKAGES: [&str; 5] = ["mariadb-server", "nginx-light", "php-fpm", "postgresql", "redis-server"];
const DOCUMENTED: [(&str, &str); 3] = [
    ("mastodon-web", include_str!("../units/mastodon-web.service")),
    ("bitcoind", include_str!("../units/bitcoind.service")),
    ("monerod", include_str!("../units/monerod.service")),
];

#[test]
#[ignore = "needs root and a container"]
fn units_of_debian_and_of_projects_are_treated_proved_and_put_back() {
    let Some(base) = Testbed::for_test_with(None, &PACKAGES) else { return };
    let bed = Bed::boot_on(&base, Options::new());
    let container = &bed.container;
    for (name, unit) in DOCUMENTED {
        container.write(format!("/etc/systemd/system/{name}.service"), unit, 0o644).unwrap();
    }
    container.ok(&["systemctl", "daemon-reload"]);
    container.ok(&["systemctl", "start", "mariadb", "postgresql", "mastodon-web", "bitcoind", "monerod"]);

    let refused = bed.heaptrial("preflight postgresql@* -a jemalloc@5.3.0");
    assert!(stdout(&refused).contains("clears the environment"), "{}", stdout(&refused));
    let clusters = container.ok(&["pg_lsclusters", "--no-header"]);
    let version = clusters.split_whitespace().next().unwrap();
    let cluster = format!("postgresql@{version}-main.service");
    let direct = include_str!("../units/postgresql-direct.conf").replace("VERSION", version);
    container.write(format!("/etc/systemd/system/{cluster}.d/direct.conf"), direct, 0o644).unwrap();
    container.ok(&["systemctl", "daemon-reload"]);
    container.ok(&["systemctl", "restart", &cluster]);

    let before = bed.snapshot();
    // Debian's Redis is linked with jemalloc; its PHP 8.2 crashes with whatever allocator is preloaded.
    let preloads = ("redis-server", [("mimalloc", "mimalloc@2.0.9"), ("jemalloc", "jemalloc@5.3.0")]);
    let settings = ("php*-fpm", [("arenas", "glibc?arena_max=2"), ("trim", "glibc?trim_threshold=131072")]);
    for (name, (own, arms)) in [("preloads", preloads), ("settings", settings)] {
        let services = format!("mariadb nginx postgresql@* mastodon-web bitcoind monerod {own}");
        bed.write_trial(name, &two_arms_of(name, &services, "", arms));
        bed.succeeds(&format!("trial plan {name}.toml --seed 1"));
        bed.succeeds(&format!("trial start {name} --yes --no-agent"));
        let status = bed.json(&format!("trial status {name} --json"));
        let treated = status["services"].as_object().unwrap();
        assert_eq!(treated.len(), 7, "{status:#}");
        assert!(treated.values().all(|service| service["stage"] == "committed"), "{status:#}");
        for (arm, library) in [("mimalloc", "allocators/mimalloc"), ("jemalloc", "allocators/jemalloc")] {
            assert!(of_arm(&bed, name, arm).iter().all(|unit| bed.maps(unit).contains(library)), "{arm}");
        }
        bed.succeeds(&format!("trial stop {name} --revert --yes"));
        assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
        bed.assert_active(&treated.keys().cloned().collect::<Vec<_>>());
    }
}
