//! Services that were given an allocator by hand: taken over as they are, watched, and the ground of rollouts.

use crate::support;

use std::time::Duration;

use heaptrial_testbed::drawn;
use serde_json::Value;
use support::bed::Bed;
use support::{json, stderr, stdout, wait_for};

/// Debian's package of jemalloc.
const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
const READINGS: Duration = Duration::from_secs(60);
const PACE: &str = "--at-once 4 --pause 0s --settle 500ms --soak 1s --no-work --no-agent --yes";

fn drop_in(unit: &str) -> String {
    format!("/etc/systemd/system/{unit}.d/allocator.conf")
}

/// As operators' scripts do it: by the library's path, by a link to it, by its name.
fn by_hand(bed: &Bed, units: &[String]) {
    bed.container.ok(&["ln", "-sf", LIBRARY, "/opt/allocator.so"]);
    for (unit, library) in
        units.iter().zip([LIBRARY, "/opt/allocator.so", "libjemalloc.so.2"].into_iter().cycle())
    {
        bed.container.ok(&["mkdir", "-p", &format!("/etc/systemd/system/{unit}.d")]);
        let text = format!("[Service]\nEnvironment=\"LD_PRELOAD={library}\"\n");
        bed.container.write(drop_in(unit), text, 0o644).unwrap();
    }
    bed.container.ok(&["systemctl", "daemon-reload"]);
}

fn restart(bed: &Bed, units: &[String]) {
    let words = ["systemctl", "restart"].into_iter().chain(units.iter().map(String::as_str));
    bed.container.ok(&words.collect::<Vec<_>>());
}

#[track_caller]
fn refused(bed: &Bed, command: &str, words: &[&str]) {
    let output = bed.heaptrial(command);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{command}: {}{said}", stdout(&output));
    words.iter().for_each(|word| assert!(said.contains(word), "`{word}` is not in\n{said}"));
}

fn pids(bed: &Bed, units: &[String]) -> Vec<String> {
    units.iter().map(|unit| bed.property(unit, "MainPID")).collect()
}

fn names(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|own| own["service"].as_str().unwrap()).collect()
}

fn alerts(bed: &Bed) -> (i32, Vec<String>) {
    let output = bed.heaptrial("watch check byhand --json");
    let document = json(&output);
    let standing = document["alerts"].as_array().unwrap();
    let keys = standing.iter().map(|alert| alert["alert"]["key"].as_str().unwrap().to_owned());
    (output.status.code().unwrap(), keys.collect())
}

#[test]
#[ignore = "needs root and a container"]
fn what_was_migrated_by_hand_is_taken_over_watched_and_rolled_out_to_others() {
    let Some(()) = drawn(1, 4) else { return };
    let Some((bed, units)) = Bed::with_churn(6) else { return };
    by_hand(&bed, &units[..4]);
    // The fourth has its drop-in and was not restarted.
    restart(&bed, &units[..3]);
    bed.install_agent();
    let (before, running) = (bed.snapshot(), pids(&bed, &units));

    let dry = bed.succeeds("adopt churn@* --name byhand --dry-run");
    eprintln!("{}{}", stderr(&dry), stdout(&dry));
    assert!(stdout(&dry).contains("nothing was recorded"), "{}", stdout(&dry));
    refused(&bed, "watch start byhand --yes", &["no trial, rollout or adoption `byhand`"]);
    refused(&bed, "adopt nothing@* --name byhand", &["no loaded service matches nothing@*"]);
    let adopted = bed.succeeds("adopt churn@* --name byhand --json");
    let told = stderr(&adopted);
    assert!(told.contains(&units[3]) && told.contains("was started without it"), "{told}");
    let document = json(&adopted);
    assert_eq!(document["arms"][0]["arm"]["name"], "jemalloc@5.3.0", "{document:#}");
    assert_eq!(names(&document["arms"][0]["services"]), units[..3]);
    assert_eq!(document["arms"][1]["arm"]["allocator"], "glibc", "{document:#}");
    assert_eq!(names(&document["arms"][1]["services"]), units[4..]);
    let sum = bed.container.ok(&["sha256sum", &drop_in(&units[0]), LIBRARY]);
    let own = &document["arms"][0];
    let file = own["services"][0]["files"].as_array().unwrap();
    let file = file.iter().find(|file| file["path"] == drop_in(&units[0])).unwrap();
    let digests: Vec<&str> = sum.lines().map(|line| line.split(' ').next().unwrap()).collect();
    assert_eq!([&file["sha256"], &own["expected"]["sha256"]], [digests[0], digests[1]]);
    assert_eq!(document["left_out"][0]["service"], units[3], "{document:#}");
    refused(&bed, "adopt churn@* --name byhand", &["has `byhand` already (adoption of services as found)"]);
    let again = ["it belongs to adoption `byhand`", "no service can be adopted"];
    refused(&bed, "adopt churn@* --name other --dry-run", &again);
    refused(&bed, "adopt churn@* --name byhand --dry-run", &["has `byhand` already"]);
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    assert_eq!(pids(&bed, &units), running, "nothing was restarted");

    watched(&bed, &units);
    rolled_out(&bed, &units);
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    let report = bed.succeeds("report byhand");
    eprintln!("{}", stdout(&report));
    assert!(stdout(&report).contains("jemalloc@5.3.0"), "{}", stdout(&report));
    bed.succeeds("adopt --end byhand");
    refused(&bed, "adopt --end byhand", &["no adoption `byhand` goes on"]);
    // The name of one that has ended is free, and the fourth was restarted since.
    restart(&bed, &units[3..4]);
    let again = json(&bed.succeeds("adopt churn@* --name byhand --json"));
    assert_eq!(names(&again["arms"][0]["services"]), units[..4], "{again:#}");
    bed.assert_active(&units);
}

/// A watch over them holds them to their own first readings, and their drop-ins are theirs.
fn watched(bed: &Bed, units: &[String]) {
    let start = |options: &str| bed.heaptrial(&format!("watch start byhand {options} --json --yes"));
    let output = wait_for("there is a forecast of their own", READINGS, || {
        let output = start("--arm jemalloc@5.3.0 --dry-run");
        output.status.success().then_some(output)
    });
    assert!(json(&output)["plan"]["forecast_from"].is_null());
    refused(
        bed,
        "watch start byhand --arm jemalloc@5.3.0 --forecast byhand --forecast-arm x --yes",
        &["no forecast of arm `x`", "jemalloc@5.3.0, glibc"],
    );
    let other = json(&start("--arm jemalloc@5.3.0 --forecast byhand --forecast-arm glibc --dry-run"));
    assert_eq!(other["plan"]["forecast_from"], "arm glibc of byhand");
    let plan = json(&start("--arm jemalloc@5.3.0 --services churn@*"))["plan"].clone();
    assert_eq!(names(&plan["services"]), units[..3], "{plan:#}");
    assert_eq!(plan["services"][0]["drop_in_path"], drop_in(&units[0]));
    // The fourth has the drop-in and is no newcomer; the others run glibc, as when they were adopted.
    wait_for("the watch is quiet", READINGS, || (alerts(bed).0 == 0).then_some(()));

    let file = drop_in(&units[1]);
    let text = bed.container.read(&file).unwrap();
    let other = "[Service]\nEnvironment=MALLOC_ARENA_MAX=1\n";
    bed.container.write(&file, other, 0o644).unwrap();
    bed.container.ok(&["systemctl", "daemon-reload"]);
    let (code, keys) = alerts(bed);
    assert_eq!((code, keys), (5, vec![format!("drop_in:{}", units[1])]));
    let fix = stdout(&bed.succeeds("watch fix byhand"));
    assert!(fix.contains(&format!("put {file} (SHA-256 ")), "{fix}");
    bed.container.write(&file, &text, 0o644).unwrap();
    bed.container.ok(&["systemctl", "daemon-reload"]);
    assert_eq!(alerts(bed), (0, Vec::new()));
}

/// What they run is brought to others by waves, and a rollout over their own drop-ins is put back to the byte.
fn rolled_out(bed: &Bed, units: &[String]) {
    let output = bed.heaptrial("rollout start byhand --yes");
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let before = bed.snapshot();
    // What runs it already is not restarted.
    let running = pids(bed, &units[..3]);
    let all = bed.succeeds(&format!(
        "rollout start byhand --arm jemalloc@5.3.0 {PACE} --services {}",
        units[..3].join(" ")
    ));
    assert!(stdout(&all).contains("nothing to do: 3 services run already"), "{}", stdout(&all));
    assert_eq!(pids(bed, &units[..3]), running);
    let others = units[4..].join(" ");
    let command = format!("rollout start byhand --arm jemalloc-5.3.0 {PACE} --services {others}");
    bed.succeeds(&command);
    units[4..].iter().for_each(|unit| assert!(bed.maps(unit).contains("libjemalloc"), "{unit}"));
    let status = stdout(&bed.succeeds("rollout status byhand-rollout"));
    assert!(status.contains("services of adoption byhand run it"), "{status}");
    bed.succeeds("rollout rollback byhand-rollout --yes --pause 0s");
    units[4..].iter().for_each(|unit| assert!(!bed.maps(unit).contains("libjemalloc"), "{unit}"));
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());

    bed.succeeds("watch stop byhand --yes");
    let before = bed.snapshot();
    let back = format!(
        "rollout start --allocator glibc --unmeasured --name away {PACE} --services {}",
        units[..2].join(" ")
    );
    bed.succeeds(&back);
    units[..2].iter().for_each(|unit| assert!(!bed.maps(unit).contains("libjemalloc"), "{unit}"));
    bed.succeeds("rollout rollback away --yes --pause 0s");
    units[..2].iter().for_each(|unit| assert!(bed.maps(unit).contains(LIBRARY), "{unit}"));
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
}

#[test]
#[ignore = "needs root and a container"]
fn what_will_not_be_the_same_after_the_next_start_is_left_out_and_what_comes_another_way_is_found() {
    let Some(()) = drawn(0, 6) else { return };
    let Some((bed, units)) = Bed::with_churn(6) else { return };
    let own = "/usr/local/lib/own-jemalloc.so";
    bed.container.ok(&["cp", LIBRARY, own]);
    let set = |unit: &String, body: &str| {
        bed.container.ok(&["mkdir", "-p", &format!("/etc/systemd/system/{unit}.d")]);
        bed.container.write(drop_in(unit), format!("[Service]\n{body}\n"), 0o644).unwrap();
    };
    let [replaced, not_loaded, file, wrapped, not_reloaded, stopped] = &units[..] else { panic!() };
    set(replaced, &format!("Environment=LD_PRELOAD={own}"));
    set(not_loaded, "Environment=LD_PRELOAD=/usr/local/lib/nothing.so");
    bed.container.write("/etc/default/churn-allocator", format!("LD_PRELOAD={LIBRARY}\n"), 0o644).unwrap();
    set(file, "EnvironmentFile=/etc/default/churn-allocator");
    bed.container.ok(&["systemctl", "daemon-reload"]);
    let program = bed.property(wrapped, "ExecStart");
    let program = program.split("argv[]=").nth(1).unwrap().split(" ;").next().unwrap().to_owned();
    set(wrapped, &format!("ExecStart=\nExecStart=/usr/bin/env LD_PRELOAD={LIBRARY} {program}"));
    bed.container.ok(&["systemctl", "daemon-reload"]);
    restart(&bed, &units[..5]);
    bed.container.ok(&["systemctl", "stop", stopped]);
    // An upgrade puts another file in its place.
    bed.container.ok(&[
        "sh",
        "-c",
        &format!("cp {own} {own}.new && echo >> {own}.new && mv {own}.new {own}"),
    ]);
    set(not_reloaded, "Environment=MALLOC_ARENA_MAX=1");
    let output = bed.succeeds("adopt churn@* --name byhand --dry-run --json");
    let document = json(&output);
    let left_out = |unit: &str| {
        let list = document["left_out"].as_array().unwrap();
        let found = list.iter().find(|own| own["service"] == unit).unwrap_or_else(|| panic!("{document:#}"));
        found["why"]["why"].as_str().unwrap().to_owned()
    };
    assert_eq!(left_out(replaced), "replaced");
    assert_eq!(left_out(not_loaded), "not_loaded");
    // systemd forgets an instance that is stopped and that nothing wants.
    assert!(!document.to_string().contains(stopped.as_str()), "{document:#}");
    let arm = &document["arms"][0];
    assert_eq!(arm["expected"]["object"], LIBRARY, "{document:#}");
    assert_eq!(names(&arm["services"]), [file.as_str(), wrapped.as_str()]);
    let preloads = |index: usize| arm["services"][index]["preload_files"].clone();
    assert_eq!(preloads(0), serde_json::json!(["/etc/default/churn-allocator"]));
    assert_eq!(preloads(1), serde_json::json!([]));
    assert_eq!(left_out(not_reloaded), "not_reloaded");
}

/// A way to give a service its allocator: the drop-in's text after `[Service]`, and that of its file of variables.
struct Way {
    drop_in: &'static str,
    variables: &'static str,
}

const FILE: &str = "EnvironmentFile=/etc/default/VARS\n";

/// LIB is the library, LINK a link to it, OTHER a copy, PROGRAM what the unit starts, VARS the file of variables.
const WAYS: [Way; 17] = [
    Way { drop_in: "", variables: "" },
    Way { drop_in: "Environment=LD_PRELOAD=LIB\n", variables: "" },
    Way { drop_in: FILE, variables: "LD_PRELOAD=LIB\n" },
    Way { drop_in: FILE, variables: " # LD_PRELOAD=OTHER\n  LD_PRELOAD = 'LI'\"B\"  \nA=\\\n1\n" },
    Way { drop_in: FILE, variables: "export LD_PRELOAD=LIB\n" },
    Way {
        drop_in: "Environment=LD_PRELOAD=OTHER\nEnvironmentFile=-/etc/default/VARS\n",
        variables: "LD_PRELOAD=LIB",
    },
    Way { drop_in: "Environment=LD_PRELOAD=OTHER\nEnvironmentFile=-/etc/default/VARS\n", variables: "" },
    Way { drop_in: "Environment=LD_PRELOAD=LIB\nUnsetEnvironment=LD_PRELOAD\n", variables: "" },
    Way { drop_in: "Environment=LD_PRELOAD=LIB\nUnsetEnvironment=LD_PRELOAD=OTHER\n", variables: "" },
    Way { drop_in: "Environment=LD_PRELOAD=LIB\nEnvironment=MALLOC_CONF=narenas:2\n", variables: "" },
    Way {
        drop_in: "Environment=LD_PRELOAD=LIB\nEnvironment=\nEnvironment=MALLOC_ARENA_MAX=1\n",
        variables: "",
    },
    Way { drop_in: "EnvironmentFile=/etc/default/VA*S\n", variables: "MALLOC_ARENA_MAX=\"1\"\n" },
    Way { drop_in: "ExecStart=\nExecStart=/usr/bin/env LD_PRELOAD=LIB PROGRAM\n", variables: "" },
    Way {
        drop_in: "Environment=MALLOC_CONF=narenas:2\nExecStart=\nExecStart=/usr/bin/env LD_PRELOAD=LIB PROGRAM\n",
        variables: "",
    },
    Way { drop_in: "Environment=LD_PRELOAD=LINK\n", variables: "" },
    Way { drop_in: "Environment=\"LD_PRELOAD=LIB OTHER\"\n", variables: "" },
    Way { drop_in: "Environment=\"LD_PRELOAD=OTHER:LIB\"\n", variables: "" },
];

/// What processes run, by unit: family, file and settings.
fn running(bed: &Bed, units: &[String]) -> Vec<Value> {
    let services = json(&bed.succeeds("services churn@* --json"));
    let services = services["services"].as_array().unwrap().clone();
    let of = |unit: &String| {
        let own =
            services.iter().find(|own| own["unit"]["name"] == *unit).unwrap_or_else(|| panic!("{unit}"));
        let found = &own["process"]["identity"];
        assert!(found["family"].is_string(), "{own:#}");
        serde_json::json!([found["family"], found["path"], found["settings"]])
    };
    units.iter().map(of).collect()
}

/// The independent way of knowing: what is adopted is restarted, and must run what was said of it.
#[test]
#[ignore = "needs root and a container"]
fn what_is_adopted_runs_the_same_after_a_restart() {
    let Some(()) = drawn(3, 4) else { return };
    // Every way after every other one, those that stay with some to spare.
    let pairs: Vec<(usize, usize)> =
        (0..WAYS.len()).flat_map(|from| (0..WAYS.len()).map(move |to| (from, to))).collect();
    // Each way once before and once after at a time, beside a service that nobody touches.
    let Some((bed, units)) = Bed::with_churn(WAYS.len() + 1) else { return };
    let units = &units[..WAYS.len()];
    let (link, other) = ("/opt/allocator.so", "/usr/local/lib/other-jemalloc.so");
    bed.container.ok(&["ln", "-sf", LIBRARY, link]);
    // Another file, or both would be one library.
    bed.container.ok(&["sh", "-c", &format!("cp {LIBRARY} {other} && echo >> {other}")]);
    let program = bed.property(&units[0], "ExecStart");
    let program = program.split("argv[]=").nth(1).unwrap().split(" ;").next().unwrap().to_owned();
    let write = |unit: &String, way: &Way| {
        let variables = format!("VA{}S", unit.replace(|c: char| !c.is_ascii_digit(), ""));
        let put = |text: &str| {
            let text = text.replace("VARS", &variables).replace("VA*S", &variables.replace('S', "*"));
            let text = text.replace("LI'\"B\"", &format!("{}'\"{}\"", &LIBRARY[..9], &LIBRARY[9..]));
            let text = text.replace("LIB", LIBRARY).replace("LINK", link).replace("OTHER", other);
            text.replace("PROGRAM", &program)
        };
        let folder = format!("/etc/systemd/system/{unit}.d");
        if way.drop_in.is_empty() {
            bed.container.ok(&["rm", "-rf", &folder]);
            return;
        }
        bed.container.ok(&["mkdir", "-p", &folder]);
        let files = [
            (drop_in(unit), format!("[Service]\n{}", put(way.drop_in))),
            (format!("/etc/default/{variables}"), put(way.variables)),
        ];
        for (path, text) in files {
            // A file that stays as it is keeps its time.
            if bed.container.read(&path).ok().as_deref() != Some(text.as_bytes()) {
                bed.container.write(&path, text, 0o644).unwrap();
            }
        }
    };
    let mut adopted_at_all = 0;
    for shift in 0..WAYS.len() {
        let pairs: Vec<(usize, usize)> =
            pairs.iter().copied().filter(|(from, to)| (from + shift) % WAYS.len() == *to).collect();
        let each = |which: fn(&(usize, usize)) -> usize| {
            units.iter().zip(&pairs).for_each(|(unit, pair)| write(unit, &WAYS[which(pair)]));
            bed.container.ok(&["systemctl", "daemon-reload"]);
        };
        each(|(from, _)| *from);
        restart(&bed, units);
        each(|(_, to)| *to);
        let before = running(&bed, units);
        let output = bed.heaptrial("adopt churn@* --name all --dry-run --json");
        let document = json(&output);
        let arms = document["arms"].as_array().unwrap();
        let adopted: Vec<&str> = arms.iter().flat_map(|arm| names(&arm["services"])).collect();
        restart(&bed, units);
        let after = running(&bed, units);
        for (((unit, pair), before), after) in units.iter().zip(&pairs).zip(&before).zip(&after) {
            let is_adopted = adopted.contains(&unit.as_str());
            let told = format!("{pair:?} {unit}: {before} then {after}\n{}", stderr(&output));
            assert!(before == after || !is_adopted, "it is adopted: {told}");
            assert!(pair.0 != pair.1 || is_adopted, "nothing was changed: {told}");
            adopted_at_all += u32::from(is_adopted);
        }
    }
    assert!(adopted_at_all > 2 * WAYS.len() as u32, "{adopted_at_all}");
}
