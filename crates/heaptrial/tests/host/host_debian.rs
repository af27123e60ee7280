//! Units as Debian has them, and as projects document them for their users: treatments take hold, and all is put back.

use crate::support;

use heaptrial_testbed::{Options, Testbed};
use support::bed::Bed;
use support::stdout;
use support::trials::{of_arm, two_arms_of};

const PACKAGES: [&str; 5] = ["mariadb-server", "nginx-light", "php-fpm", "postgresql", "redis-server"];
/// Settings of units that Mastodon (dist/mastodon-web.service), Bitcoin Core (contrib/init/bitcoind.service) and Monero
/// (utils/systemd/monerod.service) publish; a program of ours is in the place of theirs, which Debian does not have.
const DOCUMENTED: [(&str, &str); 3] = [
    (
        "mastodon-web",
        "Restart=always\nEnvironment=LD_PRELOAD=libjemalloc.so\nProcSubset=pid\nProtectProc=invisible\nCapabilityBoundingSet=\n\
         NoNewPrivileges=true\nProtectSystem=strict\nPrivateTmp=true\nPrivateDevices=true\nPrivateUsers=true\n\
         ProtectHostname=true\nProtectKernelLogs=true\nProtectKernelModules=true\nProtectKernelTunables=true\n\
         ProtectControlGroups=true\nRestrictAddressFamilies=AF_INET AF_INET6 AF_NETLINK AF_UNIX\nRestrictNamespaces=true\n\
         LockPersonality=true\nRestrictRealtime=true\nRestrictSUIDSGID=true\nRemoveIPC=true\nPrivateMounts=true\n\
         ProtectClock=true\nSystemCallArchitectures=native\n\
         SystemCallFilter=~@cpu-emulation @debug @keyring @ipc @mount @obsolete @privileged @setuid\n\
         SystemCallFilter=@chown pipe pipe2\nExecStart=/ht/examples/churn_service\n",
    ),
    (
        "bitcoind",
        "Type=notify\nNotifyAccess=all\nPIDFile=/run/bitcoind/bitcoind.pid\nRuntimeDirectory=bitcoind\n\
         RuntimeDirectoryMode=0710\nStateDirectory=bitcoind\nRestart=on-failure\nTimeoutStartSec=infinity\n\
         TimeoutStopSec=600\nPrivateTmp=true\nProtectSystem=full\nProtectHome=true\nNoNewPrivileges=true\n\
         PrivateDevices=true\nMemoryDenyWriteExecute=true\nSystemCallArchitectures=native\n\
         ExecStart=/ht/examples/churn_service\n",
    ),
    (
        "monerod",
        "Type=forking\nWorkingDirectory=~\nRuntimeDirectory=monero\nPIDFile=/run/monero/monerod.pid\nRestart=always\n\
         PrivateTmp=true\nPrivateDevices=true\nProtectHome=true\nProtectSystem=full\n\
         ExecStart=/bin/sh -c '/ht/examples/churn_service & echo $! > /run/monero/monerod.pid'\n",
    ),
];
/// Runs PostgreSQL without Debian's program that clears the environment.
const DIRECT: &str = "[Service]\nType=notify\nPIDFile=\nUser=postgres\nExecStop=\nKillSignal=SIGINT\nExecStart=\n\
     ExecStart=/usr/lib/postgresql/%V/bin/postgres -D /var/lib/postgresql/%V/main \
     -c config_file=/etc/postgresql/%V/main/postgresql.conf\n";

#[test]
#[ignore = "needs root and a container"]
fn units_of_debian_and_of_projects_are_treated_proved_and_put_back() {
    let Some(base) = Testbed::for_test_with(None, &PACKAGES) else { return };
    let bed = Bed::boot_on(&base, Options::new());
    let container = &bed.container;
    for (name, settings) in DOCUMENTED {
        let unit = format!("[Service]\nUser=daemon\nEnvironment=LIVE_BYTES=1048576\n{settings}");
        container.write(format!("/etc/systemd/system/{name}.service"), unit, 0o644).unwrap();
    }
    container.ok(&["systemctl", "daemon-reload"]);
    container.ok(&["systemctl", "start", "mariadb", "postgresql", "mastodon-web", "bitcoind", "monerod"]);

    let refused = bed.heaptrial("preflight postgresql@* -a jemalloc@5.3.0");
    assert!(stdout(&refused).contains("clears the environment"), "{}", stdout(&refused));
    let clusters = container.ok(&["pg_lsclusters", "--no-header"]);
    let version = clusters.split_whitespace().next().unwrap();
    let cluster = format!("postgresql@{version}-main.service");
    let direct = DIRECT.replace("%V", version);
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
