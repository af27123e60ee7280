//! The plan as a file, and edits of it.

use crate::support;

use std::collections::BTreeMap;

use heaptrial_model::{Build, BuildOfHosts, DrawnPlan, TrialPlan, builds_of_hosts};
use heaptrial_plan::{Candidate, DrawRequest, draw};
use support::{build, fleet};

const TRIAL: &str = r#"
    name = "five-way"
    duration = "10d"
    [[arm]]
    name = "glibc"
    control = true
    allocator = "glibc"
    [[arm]]
    name = "mimalloc \"2.0.9\", # = secure"
    allocator = "mimalloc@2.0.9+secure?purge_delay=0"
    [[arm]]
    name = "dircache-0"
    allocator = "glibc"
    torrc = { DirCache = "0", ContactInfo = "a 'quoted' \"name\"" }
    restart_every = "2d"
"#;

fn plan() -> DrawnPlan {
    let trial = TrialPlan::from_toml(TRIAL).unwrap();
    let hosts = ["alpha", "beta"].map(str::to_owned).to_vec();
    let group = BuildOfHosts { hosts, build: build("libmimalloc-secure.so.2.0") };
    let builds = [(trial.arms[1].name.clone(), vec![group])].into();
    let candidates: Vec<Candidate> = fleet(11)
        .into_iter()
        .enumerate()
        .map(|(number, candidate)| Candidate { family: (number < 3).then(|| "f1".to_owned()), ..candidate })
        .collect();
    let request = DrawRequest {
        trial: &trial,
        candidates: &candidates,
        builds: &builds,
        seed: 7,
        tool_version: "1.2.3",
    };
    draw(&request).unwrap()
}

#[test]
fn the_file_reads_well() {
    insta::assert_snapshot!(plan().to_toml());
}

#[test]
fn what_a_trial_is_about_goes_into_the_plan() {
    let about = "[about]\nhypothesis = 'less \"than\" half'\nnotes = \"one\\ntwo\\t\\\\three\"\n[[arm]]\n    name = \"glibc\"";
    let trial = TrialPlan::from_toml(&TRIAL.replace("[[arm]]\n    name = \"glibc\"", about)).unwrap();
    assert_eq!(trial.about.notes.as_deref(), Some("one\ntwo\t\\three"));
    let mut drawn = plan();
    drawn.about = trial.about;
    assert_eq!(DrawnPlan::from_toml(&drawn.to_toml()).unwrap(), drawn);
    assert!(!plan().to_toml().contains("about"));
}

/// A line that was moved or taken out is as it was drawn; one with another arm or block, another service or no mark is not.
#[test]
fn an_assignment_by_hand_is_told_from_one_that_was_drawn() {
    let drawn = plan();
    let text = drawn.to_toml();
    let by_hand = |text: &str| -> Vec<String> {
        let plan = DrawnPlan::from_toml(text).unwrap();
        plan.by_hand().iter().map(|assigned| assigned.service.to_string()).collect()
    };
    assert_eq!(by_hand(&text), [""; 0]);
    let line = |service: &str| text.lines().find(|line| line.contains(service)).unwrap();
    let (first, last) = (line("tor@r009.service"), line("tor@r004.service"));
    let without = text.replace(&format!("{last}\n"), "");
    assert_eq!(by_hand(&without), [""; 0]);
    let moved = without.replace(first, &format!("{last}\n{first}"));
    assert_eq!(by_hand(&moved), [""; 0]);
    assert_eq!(by_hand(&text.replace("family = \"f1\"", "family = \"f2\"")), [""; 0]);
    let edits = [
        line("tor@r010.service").replace("arm = \"glibc\"", "arm = \"dircache-0\""),
        line("tor@r010.service").replace("block = ", "block = 1"),
        line("tor@r010.service").replace("tor@r010", "tor@r110"),
        line("tor@r010.service").split(", drawn").next().unwrap().to_owned() + " },",
    ];
    for edit in edits {
        let found = by_hand(&text.replace(line("tor@r010.service"), &edit));
        assert!(found.len() == 1 && found[0].ends_with("10.service"), "{edit}: {found:?}");
    }
}

#[test]
fn edits_that_break_the_plan_are_refused() {
    let text = plan().to_toml();
    let arm = "    { name = \"dircache-0\"";
    let further = format!("    {{ name = \"further\", control = false }},\n{arm}");
    for (from, to, why) in [
        ("tor@r000.service", "tor@r001.service", "is there twice"),
        ("\"tor@r004.service\"", "\"tor@r4;reboot\"", "not a service name"),
        ("arm = \"dircache-0\"", "arm = \"dircache\"", "is assigned to `dircache`, but the arms are"),
        ("arm = \"dircache-0\", ", "", "arm"),
        ("family = ", "famliy = ", "famliy"),
        ("looks = [\"3d\", \"7d\"", "looks = [\"7d\", \"3d\"", "ascend"),
        ("duration = \"10d\"", "duration = \"12d\"", "the last look must be the trial's end"),
        (", control = true", "", "exactly one arm"),
        ("at_once = 1", "at_once = 0", "at_once"),
        ("name = \"five-way\"", "name = \"../x\"", "cannot name a trial"),
        ("libmimalloc-secure.so.2.0", "../../evil.so", "a library without a folder"),
        ("sha256 = \"ab", "sha256 = \"zz", "64 hexadecimal digits"),
        ("restart_every = \"2d\"", "restart_every = \"20d\"", "restart_every"),
        ("DirCache = \"0\"", "DirCache = \"0\\nORPort 1\"", "torrc option"),
        (arm, &further, "no service is assigned to the arm `further`"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = DrawnPlan::from_toml(&text.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.contains(why), "{from}: {error}");
    }
    let cut = &text[..text.find("services = [").unwrap()];
    for (text, why) in [
        (cut.to_owned(), "cannot be read"),
        (format!("{cut}services = []\n[builds]\n"), "the plan has no services"),
    ] {
        assert!(DrawnPlan::from_toml(&text).unwrap_err().to_string().contains(why), "{why}");
    }
}

#[test]
fn hosts_may_have_builds_of_their_own() {
    let mut plan = plan();
    let arm = plan.arms[1].name.clone();
    let other = Build { sha256: "cd".repeat(32), ..build("libmimalloc.so.2") };
    let of = |build: &Build| BTreeMap::from([(arm.clone(), build.clone())]);
    let (first, second) = (of(&build("libmimalloc.so.2")), of(&other));
    // Equal builds are one.
    let same = builds_of_hosts([("alpha", &first), ("beta", &first)]);
    assert_eq!((same[&arm].len(), same[&arm][0].hosts.len()), (1, 2));
    plan.builds = builds_of_hosts([("alpha", &first), ("beta", &second)]);
    assert_eq!(
        (plan.build(&arm, "alpha"), plan.build(&arm, "beta")),
        (Some(&build("libmimalloc.so.2")), Some(&other))
    );
    assert_eq!(plan.build(&arm, "gamma"), None);
    let text = plan.to_toml();
    assert_eq!(DrawnPlan::from_toml(&text).unwrap(), plan);
    for (edited, told) in [
        (text.replace("hosts = [\"beta\"]", "hosts = [\"alpha\"]"), "has two builds"),
        (
            text.replace("hosts = [\"beta\"]", "hosts = [\"gamma\"]"),
            "for host beta, which has services of it",
        ),
        (text.replace(&"cd".repeat(32), "cd"), "64 hexadecimal digits"),
    ] {
        let error = DrawnPlan::from_toml(&edited).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}
