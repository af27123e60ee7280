//! Units as real hosts have them: names with escapes and dots, what holds up the host, drop-ins of the administrator,
//! programs without a path.

use crate::support;

use std::time::Duration;

use heaptrial_store::{LifeRecord, Store};
use heaptrial_testbed::{ChurnService, drawn};
use support::bed::{Bed, example};
use support::trials::{of_arm, two_arms};
use support::{stderr, stdout, wait_for};

/// The agent of a trial reads once a minute: what it sees may be that old, and a busy machine takes longer.
const AGENT_PATIENCE: Duration = Duration::from_secs(180);

/// A trial whose services are restarted every hour.
fn restarting(name: &str, services: &str) -> String {
    two_arms(name, services, "").replace("allocator =", "restart_every = \"1h\"\nallocator =")
}

/// Instances of a churn service, and a plain unit, as `systemd-escape` names them.
fn escaped_units(bed: &Bed) -> Vec<String> {
    let service =
        ChurnService { template: "odd".to_owned(), ..ChurnService::new(example("churn_service"), 1) };
    bed.container.install_churn_service(&service).unwrap();
    let texts =
        ["a-b", "ü", ".hidden", "-", "@", r"a\x2fb", "a/b c", "%i", "q:1_2.3", "x.timer", "y.service", "*"];
    let mut units: Vec<String> = texts
        .iter()
        .map(|text| bed.container.ok(&["systemd-escape", "--template=odd@.service", "--", text]))
        .map(|line| line.trim().to_owned())
        .collect();
    for plain in [r"my\x2dplain.service", "php8.2-fpm.service"] {
        let unit = bed.container.read_text("/etc/systemd/system/odd@.service").unwrap();
        bed.container.write(format!("/etc/systemd/system/{plain}"), unit, 0o644).unwrap();
        units.push(plain.to_owned());
    }
    let alias = "/etc/systemd/system/alias.service";
    bed.container.ok(&["ln", "-s", r"/etc/systemd/system/my\x2dplain.service", alias]);
    bed.container.ok(&["systemctl", "daemon-reload"]);
    let mut words = vec!["systemctl", "start"];
    words.extend(units.iter().map(String::as_str));
    bed.container.ok(&words);
    units
}

#[test]
#[ignore = "needs root and a container"]
fn units_are_named_in_one_way_whatever_their_names_hold() {
    let Some(()) = drawn(1, 6) else { return };
    let Some(bed) = Bed::boot() else { return };
    let mut units = escaped_units(&bed);
    units.sort();
    let before = bed.snapshot();
    // By full names, without their type, and by a pattern.
    let full = units.join(" ");
    // What ends as a timer does is taken for one, as by systemctl.
    let ends_otherwise = |unit: &str| unit.ends_with(".timer.service") || unit.ends_with(".service.service");
    let short = |unit: &'_ String| match ends_otherwise(unit) {
        true => unit.clone(),
        false => unit.strip_suffix(".service").unwrap().to_owned(),
    };
    let short: Vec<String> = units.iter().map(short).collect();
    let short = short.join(" ");
    bed.write_trial("odd", &restarting("odd", &short));
    bed.succeeds("trial plan odd.toml --seed 1");
    let mut planned = [of_arm(&bed, "odd", "glibc"), of_arm(&bed, "odd", "jemalloc")].concat();
    planned.sort();
    assert_eq!(planned, units);
    for named in [&full, &short] {
        let listed = bed.json(&format!("services --json {named}"));
        assert_eq!(listed["services"].as_array().unwrap().len(), units.len(), "{named}");
        let examined = bed.json_of(&format!("preflight --json -a jemalloc@5.3.0 {named}"));
        assert_eq!(examined["services"].as_array().unwrap().len(), units.len(), "{named}");
    }
    let escaped = bed.json(r"services --json odd@a\x2d*");
    assert_eq!(escaped["services"][0]["unit"]["name"], r"odd@a\x2db.service", "{escaped:#}");

    // One unit, by whichever of its names.
    let listed = bed.json(r"services --json alias my\x2dplain");
    assert_eq!(listed["services"][0]["unit"]["name"], r"my\x2dplain.service", "{listed:#}");
    assert_eq!(listed["services"].as_array().unwrap().len(), 1, "{listed:#}");

    bed.succeeds("trial start odd --yes --no-agent");
    for unit in &units {
        let treated = of_arm(&bed, "odd", "jemalloc").contains(unit);
        let runs_it = || bed.maps(unit).contains("libjemalloc") == treated;
        assert!(runs_it(), "{unit}");
        assert_eq!(bed.property(unit, "DropInPaths").contains("heaptrial.conf"), treated, "{unit}");
        let stem = unit.strip_suffix(".service").unwrap().replace('@', "\\x40");
        let timer = format!("heaptrial-restart-{stem}");
        assert_eq!(bed.property(&format!("{timer}.timer"), "ActiveState"), "active", "{unit}");
        let pid = bed.property(unit, "MainPID");
        bed.container.ok(&["systemctl", "start", &format!("{timer}.service")]);
        let now = bed.property(unit, "MainPID");
        assert!(now != pid && runs_it(), "{unit}: {pid}, then {now}");
    }
    let status = bed.json("trial status odd --json");
    assert_eq!(status["arms"][1]["committed"], of_arm(&bed, "odd", "jemalloc").len(), "{status:#}");
    // A watch finds its services; without readings there is nothing to compare them with.
    let watched = bed.heaptrial("watch start odd --arm jemalloc --dry-run");
    assert!(!stderr(&watched).contains("nothing to watch"), "{}", stderr(&watched));
    bed.succeeds("trial stop odd --revert --yes");
    bed.assert_active(&units);
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());

    let all = "rollout start jemalloc@5.3.0 --force a-pilot --dry-run --services";
    let out = bed.heaptrial(&format!("{all} *"));
    assert!(stderr(&out).contains("excluded") && stderr(&out).contains("dbus.service"), "{}", stderr(&out));
    assert!(!stdout(&out).contains("dbus.service"), "{}", stdout(&out));
    let out =
        bed.succeeds(&format!("rollout start jemalloc@5.3.0 --force a-pilot --services {full} --dry-run"));
    assert!(units.iter().all(|unit| stdout(&out).contains(unit.as_str())), "{}", stdout(&out));
}

/// A host with churn services, whose template the administrator edited, and one whose program has no path.
fn host_of_others() -> Option<(Bed, Vec<String>)> {
    let (bed, mut units) = Bed::with_churn(3)?;
    let unit = bed.container.read_text("/etc/systemd/system/churn@.service").unwrap();
    let bare = unit.replace("ExecStart=/usr/local/bin/", "ExecStart=");
    bed.container.write("/etc/systemd/system/bare.service", bare, 0o644).unwrap();
    let edited = "/etc/systemd/system/churn@.service.d/override.conf";
    bed.container.write(edited, "[Service]\nEnvironment=LD_PRELOAD=/nothing.so\n", 0o644).unwrap();
    bed.container.ok(&["systemctl", "daemon-reload"]);
    bed.container.ok(&["systemctl", "start", "bare.service"]);
    units.push("bare.service".to_owned());
    Some((bed, units))
}

#[test]
#[ignore = "needs root and a container"]
fn a_host_with_services_of_its_own_is_taken_as_it_is() {
    let Some(()) = drawn(0, 6) else { return };
    let Some((bed, units)) = host_of_others() else { return };
    let before = bed.snapshot();

    // What holds up the host takes part only by its name.
    let warned = bed.heaptrial("preflight * -a jemalloc@5.3.0");
    let line =
        stderr(&warned).lines().find(|line| line.starts_with("excluded")).unwrap_or_default().to_owned();
    assert!(
        line.contains("dbus.service") && line.contains("systemd-journald.service"),
        "{}",
        stderr(&warned)
    );
    assert!(!stdout(&warned).contains("dbus.service"), "{}", stdout(&warned));
    // systemd itself finds the program of `bare`, and so do we.
    assert!(!stdout(&warned).contains("churn_service was not found"), "{}", stdout(&warned));
    let named = bed.json_of("preflight dbus --json -a jemalloc@5.3.0");
    assert_eq!(named["services"][0], "dbus.service", "{named:#}");
    let path = bed.container.ok(&["systemd-path", "search-binaries-default"]);
    let known = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
    assert!(path.trim().split(':').eq(known.into_iter().take(path.split(':').count())), "{path}");

    bed.write_trial("all", &two_arms("all", "*", "health_timeout = \"10s\""));
    let plan = bed.succeeds("trial plan all.toml --seed 1");
    let edited = "LD_PRELOAD is `/nothing.so` today";
    assert!(stderr(&plan).contains(&line), "{}", stderr(&plan));
    let mut planned = [of_arm(&bed, "all", "glibc"), of_arm(&bed, "all", "jemalloc")].concat();
    planned.sort();
    let mut expected = units.clone();
    expected.sort();
    assert_eq!(planned, expected);
    assert!(stdout(&plan).contains(edited), "{}", stdout(&plan));

    let shown = bed.succeeds("trial start all --dry-run");
    assert!(stderr(&shown).contains(edited), "{}", stderr(&shown));
    bed.succeeds("trial start all --yes");
    // The administrator's drop-in comes before ours; of the two with jemalloc one has it.
    for unit in of_arm(&bed, "all", "jemalloc") {
        assert!(bed.maps(&unit).contains("libjemalloc"), "{unit}");
    }

    let status = stdout(&bed.succeeds("trial status all"));
    assert!(!status.contains("is heaptrial-agent.service active"), "{status}");
    let mapping = stdout(&bed.container.run(&["sh", "-c", by_hand_search()]));
    let mut found: Vec<&str> = mapping.lines().collect();
    let pid = |unit: &String| format!("/proc/{}/maps", bed.property(unit, "MainPID"));
    let mut treated: Vec<String> = of_arm(&bed, "all", "jemalloc").iter().map(pid).collect();
    found.sort();
    treated.sort();
    assert_eq!(found, treated, "the search by hand finds services and nothing else");

    let victim = units[1].clone();
    wait_for("the agent knows it", AGENT_PATIENCE, || {
        lives(&bed, "all", &victim)?.into_iter().find(|life| life.identity.is_some() && life.ending.is_none())
    });
    bed.container.ok(&["systemctl", "kill", "--signal=KILL", "--kill-who=main", &victim]);
    let status = wait_for("the crash is told", AGENT_PATIENCE, || {
        let status = bed.json("trial status all --json");
        (status["failures"][&victim]["crashes"] == 1).then_some(status)
    });
    let arms = status["arms"].as_array().unwrap();
    assert_eq!(arms.iter().map(|arm| arm["crashes"].as_u64().unwrap()).sum::<u64>(), 1, "{status:#}");
    bed.succeeds("trial stop all --revert --yes");
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    let status = stdout(&bed.succeeds("trial status all"));
    assert!(!status.contains("heaptrial-agent.service"), "{status}");
}

/// What the agent recorded of a service of a trial.
fn lives(bed: &Bed, trial: &str, service: &str) -> Option<Vec<LifeRecord>> {
    let store = Store::open(&bed.database()).ok()?;
    let trial = store.trials().ok()?.into_iter().find(|found| found.plan.name == trial)?;
    let service = store.services(trial.id).ok()?.into_iter().find(|found| found.name == service)?;
    let lives = store.lives(trial.id).ok()?.into_iter();
    Some(lives.filter(|life| life.service_id == service.id).collect())
}

/// The search of the page for a rollback by hand.
fn by_hand_search() -> &'static str {
    let text = include_str!("../../../../docs/rollback-by-hand.md");
    text.lines().find(|line| line.starts_with("grep -l /usr/lib/heaptrial/")).unwrap()
}

const TITLED: &str = "\
[Service]
ExecStart=/usr/local/bin/shapes title 8
";

#[test]
#[ignore = "needs root and a container"]
fn settings_of_services_that_overwrite_their_environment_are_proved() {
    let Some(()) = drawn(3, 6) else { return };
    let Some((bed, units)) = Bed::with_churn(2) else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/shapes.c");
    let program = folder.path().join("shapes");
    let compiled = std::process::Command::new("cc").args(["-O1", "-o"]).arg(&program).arg(source).status();
    assert!(compiled.unwrap().success());
    bed.container.install_program(&program).unwrap();
    let titled = ["titled-1.service", "titled-2.service"];
    for name in titled {
        bed.container.write(format!("/etc/systemd/system/{name}"), TITLED, 0o644).unwrap();
    }
    bed.container.ok(&["systemctl", "daemon-reload"]);
    titled.iter().for_each(|name| drop(bed.container.ok(&["systemctl", "start", name])));
    let plan = restarting("titles", &titled.join(" "))
        .replace("name = \"jemalloc\"", "name = \"one arena\"")
        .replace("\"jemalloc@5.3.0\"", "\"glibc?arena_max=1\"");
    bed.write_trial("titles", &plan);
    bed.succeeds("trial plan titles.toml --seed 1");
    // The agent, which is quick, sees them when they have overwritten it.
    bed.install_agent();
    bed.container.ok(&["systemctl", "stop", "heaptrial-agent.service"]);
    bed.succeeds("trial start titles --yes --no-agent");
    bed.container.ok(&["systemctl", "start", "heaptrial-agent.service"]);
    let treated = of_arm(&bed, "titles", "one arena")[0].clone();
    let identity = wait_for("the agent proves it", AGENT_PATIENCE, || {
        let mut lives = lives(&bed, "titles", &treated)?;
        lives.retain(|life| !life.contamination.as_ref().is_some_and(|why| why.contains("before the trial")));
        let life = lives.pop()?;
        assert_eq!(life.contamination, None);
        life.identity
    });
    assert_eq!(identity.settings.get("MALLOC_ARENA_MAX").map(String::as_str), Some("1"), "{identity:?}");
    assert!(identity.evidence.iter().any(|line| line.contains("started with")), "{identity:?}");
    bed.succeeds("trial stop titles --revert --yes");
    bed.assert_active(&units);
}
