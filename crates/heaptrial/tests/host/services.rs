//! `heaptrial services` on a real systemd.

use std::time::Duration;

use crate::support;

use serde_json::Value;
use support::bed::{Bed, example};
use support::{heaps, json, stderr, stdout, wait_for};

/// Puts a library before the allocator of a unit by a drop-in.
fn preload(bed: &Bed, unit: &str, library: &str) {
    let path = format!("/etc/systemd/system/{unit}.d/50-preload.conf");
    bed.container.write(path, format!("[Service]\nEnvironment=LD_PRELOAD={library}\n"), 0o644).unwrap();
}

fn library(bed: &Bed, name: &str) -> String {
    bed.container.ok(&["find", "/usr/lib", "-name", name]).lines().next().expect(name).to_owned()
}

fn service<'a>(listed: &'a Value, name: &str) -> &'a Value {
    let services = listed["services"].as_array().unwrap();
    services.iter().find(|service| service["unit"]["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

#[test]
#[ignore = "needs root and a container"]
fn what_really_runs_is_told_and_not_what_was_asked_for() {
    let Some((bed, units)) = Bed::with_churn(12) else { return };
    let jemalloc = library(&bed, "libjemalloc.so.2");
    preload(&bed, &units[0], &jemalloc);
    preload(&bed, &units[1], "libjemalloc.so.2");
    preload(&bed, &units[2], "/opt/gone/libmimalloc.so.2.0");
    preload(&bed, &units[4], "\"libjemalloc.so.1 libjemalloc.so.2\"");
    let setting = format!("/etc/systemd/system/{}.d/arenas.conf", units[5]);
    bed.container.write(setting, "[Service]\nEnvironment=MALLOC_ARENA_MAX=2\n", 0o644).unwrap();
    bed.container.ok(&["systemctl", "daemon-reload"]);
    // One has its drop-in and was not restarted.
    bed.container.ok(&["systemctl", "restart", &units[0], &units[1], &units[2], &units[4], &units[5]]);
    preload(&bed, &units[3], &jemalloc);
    bed.container.ok(&["systemctl", "daemon-reload"]);

    let listed = bed.json("services churn@* --json");
    assert_eq!(listed["schema_version"], 1);
    assert_eq!(listed["services"].as_array().unwrap().len(), 12);
    let process = |number: usize| &service(&listed, &units[number])["process"];
    for (number, unit) in units.iter().enumerate() {
        let family = if [0, 1, 4].contains(&number) { "jemalloc" } else { "glibc" };
        assert_eq!(process(number)["identity"]["family"], family, "{unit}");
        let pid = bed.property(unit, "MainPID").parse::<i32>().unwrap();
        assert_eq!(process(number)["life"]["pid"], pid, "{unit}");
        assert!(process(number)["sample"]["rss_bytes"].as_u64().unwrap() > 1 << 20, "{unit}");
        assert!(process(number)["age_seconds"].as_f64().unwrap() < 3600.0, "{unit}");
    }
    for (number, loaded) in [(0, true), (1, true), (2, false)] {
        assert_eq!(process(number)["preloads"][0]["loaded"], loaded, "{}", units[number]);
    }
    assert_eq!(process(3)["preloads"], serde_json::json!([]));
    let allocators = listed["allocators"].as_array().unwrap();
    let counts: Vec<u64> = allocators.iter().map(|entry| entry["services"].as_u64().unwrap()).collect();
    assert_eq!(counts, [9, 3]);

    let table = stdout(&bed.succeeds("services churn@*"));
    assert!(table.contains("(asked for libmimalloc.so.2.0: not loaded)"), "{table}");
    assert!(table.contains("not running what LD_PRELOAD asks for: churn@003\n"), "{table}");
    assert!(table.contains("9 of 12 run glibc "), "{table}");
    assert!(table.contains("1, LD_PRELOAD by 50-preload.conf"), "{table}");
    // Of a list of versions the one that is there is enough, and settings are shown.
    let row = |name: &str| table.lines().find(|line| line.starts_with(name)).unwrap();
    assert!(!row("churn@005").contains("not loaded"), "{table}");
    assert!(row("churn@006").contains("(MALLOC_ARENA_MAX=2)"), "{table}");
    // Where memory is, is known of glibc alone.
    let listed = bed.json("services churn@* --explain --json");
    let split = |number: usize| service(&listed, &units[number])["explanation"]["parsed_share"].as_f64();
    assert!(split(0).is_none() && split(6).is_some_and(|share| share > 0.95), "{listed:#}");
    let table = stdout(&bed.succeeds("services churn@* --explain"));
    assert!(table.contains("KEPT FREE") && table.contains("THREADS"), "{table}");
    // What every program loads is named.
    bed.container.write("/etc/ld.so.preload", format!("{jemalloc}\n"), 0o644).unwrap();
    let table = stdout(&bed.succeeds("services churn@*"));
    assert!(table.contains(&format!("/etc/ld.so.preload loads {jemalloc} into every program")), "{table}");
    let refused = bed.heaptrial("preflight churn@010 -a glibc --offline");
    assert!(stderr(&refused).contains("which /etc/ld.so.preload names"), "{}", stderr(&refused));
    bed.container.ok(&["rm", "/etc/ld.so.preload"]);
    // A trial from there: what they run, and what could help. These are too small for any advice.
    let refused = bed.heaptrial("trial new small --services churn@* --from-explain");
    assert_eq!(refused.status.code(), Some(3), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("nothing is shown to help"), "{}", stderr(&refused));
    // One that keeps what it freed.
    let folder = tempfile::tempdir().unwrap();
    let program = bed.container.install_program(&heaps(folder.path())).unwrap();
    bed.container.ok(&["systemd-run", "--unit=keeps", &program, "4", "16000000", "3", "buffers"]);
    wait_for("advice", Duration::from_secs(30), || {
        let written = bed.heaptrial("trial new kept --services keeps churn@001 --from-explain");
        written.status.success().then_some(())
    });
    let plan = bed.container.read_text("/root/kept.toml").unwrap();
    let control = plan.split("\n[[arm]]\n").nth(1).unwrap();
    assert_eq!(control, "name = \"current\"\ncontrol = true\n");
    let arms: Vec<&str> = plan.lines().filter(|line| line.starts_with("allocator = ")).collect();
    assert!(arms.contains(&"allocator = \"glibc?trim_threshold=131072\""), "{plan}");
}

#[test]
#[ignore = "needs root and a container"]
fn a_preload_whose_file_an_upgrade_took_away_is_told() {
    let Some((bed, units)) = Bed::with_churn(3) else { return };
    let path = library(&bed, "libmimalloc.so.2");
    for unit in &units {
        preload(&bed, unit, &path);
    }
    bed.container.ok(&["systemctl", "daemon-reload"]);
    let restart = || units.iter().for_each(|unit| drop(bed.container.ok(&["systemctl", "restart", unit])));
    restart();
    let table = stdout(&bed.succeeds("services churn@*"));
    assert!(table.contains("all 3 run mimalloc 2.0.9"), "{table}");

    // What an upgrade from Debian 12 to 13 does: the next major version under another name.
    bed.container.ok(&["mv", &path, &path.replace(".so.2", ".so.3")]);
    // Processes that run keep what they have mapped.
    assert!(stdout(&bed.succeeds("services churn@*")).contains("all 3 run mimalloc 2.0.9"));
    restart();
    bed.assert_active(&units);
    let table = stdout(&bed.succeeds("services churn@*"));
    let lines: Vec<&str> = table.lines().filter(|line| line.starts_with("churn@")).collect();
    assert_eq!(lines.len(), 3);
    for line in lines {
        assert!(
            line.contains("glibc") && line.contains("(asked for libmimalloc.so.2: not loaded)"),
            "{table}"
        );
    }
    assert!(
        table.contains("not running what LD_PRELOAD asks for: churn@001, churn@002, churn@003"),
        "{table}"
    );
}

#[test]
#[ignore = "needs root and a container"]
fn services_in_trouble_are_listed_with_what_is_wrong() {
    let Some((bed, units)) = Bed::with_churn(1) else { return };
    let write = |name: &str, text: &str| {
        bed.container.write(format!("/etc/systemd/system/{name}.service"), text, 0o644).unwrap();
    };
    write("fails", "[Service]\nExecStart=/bin/sh -c 'exit 7'\n");
    write("bad", "[Service]\nExecStart=no-absolute-path/at all\nType=nonsense\n");
    write("changed", "[Service]\nExecStart=/bin/sleep 1000\nRestart=always\nRestartSec=0\n");
    bed.container.ok(&["ln", "-s", "/dev/null", "/etc/systemd/system/hidden.service"]);
    bed.container.ok(&["systemctl", "daemon-reload"]);
    bed.container.ok(&["systemctl", "start", "changed"]);
    bed.container.run(&["systemctl", "start", "fails"]);
    bed.container.ok(&["sh", "-c", "kill -9 $(systemctl show -P MainPID changed)"]);
    support::wait_for("the restart", std::time::Duration::from_secs(30), || {
        (bed.property("changed", "NRestarts") == "1" && bed.property("changed", "SubState") == "running")
            .then_some(())
    });
    write("changed", "[Service]\nExecStart=/bin/sleep 2000\nRestart=always\nRestartSec=0\n");

    let table = stdout(&bed.succeeds("services fails bad changed hidden"));
    let row = |name: &str| {
        let row = table.lines().find(|line| line.split_whitespace().next() == Some(name));
        row.unwrap_or_else(|| panic!("no {name} in\n{table}")).to_owned()
    };
    assert!(row("fails").contains("failed: exit-code 7"), "{table}");
    assert!(row("bad").contains("bad-setting"), "{table}");
    assert!(row("hidden").contains("masked"), "{table}");
    assert!(
        row("changed").contains("1 restart by itself, files changed: needs `systemctl daemon-reload`"),
        "{table}"
    );

    // Names are exact, and one that no unit has is a failure.
    bed.container.ok(&["systemctl", "start", "churn@0011.service"]);
    let output = bed.heaptrial("services chrun@001 churn@ churn@001 --json");
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert_eq!(json(&output)["unmatched"], serde_json::json!(["chrun@001", "churn@"]));
    assert_eq!(json(&output)["services"].as_array().unwrap().len(), 1);
    assert_eq!(bed.json("services churn@001* --json")["services"].as_array().unwrap().len(), 2);

    // Without patterns there is only what runs.
    let listed = bed.json("services --json");
    let running = service(&listed, &units[0]);
    assert_eq!(running["unit"]["template"], serde_json::json!(["churn@.service", "001"]));
    assert!(listed["services"].as_array().unwrap().iter().all(|service| !service["process"].is_null()));
}

#[test]
#[ignore = "needs root and a container"]
fn a_user_sees_what_may_be_seen_and_learns_what_is_missing() {
    let Some((bed, units)) = Bed::with_churn(2) else { return };
    preload(&bed, &units[0], "libjemalloc.so.2");
    bed.container.ok(&["systemctl", "daemon-reload"]);
    let program = "/ht/heaptrial";
    let output = bed.container.run(&[
        "setpriv",
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        program,
        "services",
        "churn@*",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let table = stdout(&output);
    assert!(table.contains("not known (asked for libjemalloc.so.2)"), "{table}");
    assert!(table.contains("of 2 the allocator is not known"), "{table}");
    assert!(table.contains(" MiB "), "{table}");
    assert!(stderr(&output).contains("run it as the process' user or as root"), "{}", stderr(&output));
}

#[test]
#[ignore = "needs root and a container"]
fn jobs_are_followed_by_several_threads_at_once() {
    let Some((bed, units)) = Bed::with_churn(20) else { return };
    let write = |name: &str, text: &str| {
        bed.container.write(format!("/etc/systemd/system/{name}"), text, 0o644).unwrap();
    };
    write("fails.service", "[Service]\nType=exec\nExecStart=/usr/local/bin/not-there\n");
    write("slow.service", "[Service]\nExecStartPre=/bin/sleep 600\nExecStart=/bin/sleep 600\n");
    write("later.timer", "[Timer]\nOnCalendar=2100-01-01\nUnit=slow.service\n");
    bed.container.ok(&["systemctl", "daemon-reload"]);
    bed.container.ok(&["systemctl", "start", "later.timer"]);
    let program = bed.container.install_program(&example("systemd_jobs")).unwrap();
    let mut words = vec![program.as_str(), "fails=fails.service", "slow=slow.service", "timer=later.timer"];
    words.extend(units.iter().map(String::as_str));
    assert_eq!(bed.container.ok(&words), "restarted 20\n");

    words.splice(0..0, ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    let output = bed.container.run(&words);
    assert!(!output.status.success());
    assert!(stderr(&output).contains("AccessDenied"), "{}", stderr(&output));
}
