//! `lab run` of services of several processes whose memory is known by construction.

use crate::support;

use std::path::Path;
use std::process::{Command, Output};

use heaptrial_testbed::drawn;
use serde_json::Value;
use support::shapes::{self, BARE_MIB, MIB, shapes};
use support::{arm, heaptrial, json, run, stderr, stdout};

/// Runs a shape, behind `wrapper`, a command that changes where the whole run lives.
fn lab_behind(wrapper: &[&str], folder: &Path, options: &str, shape: &[&str]) -> Output {
    let own = heaptrial(folder);
    let mut command = match wrapper.split_first() {
        Some((program, words)) => {
            let mut command = Command::new(program);
            command.args(words).arg(own.get_program()).current_dir(folder);
            command.envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command
        }
        None => own,
    };
    command
        .args("lab run --offline --source host --out run --seed 7 --tick 250ms --json".split(' '))
        .args(options.split_whitespace())
        .arg("--")
        .arg("./shapes")
        .args(shape)
        .output()
        .unwrap()
}

fn lab(options: &str, shape: &[&str]) -> Output {
    lab_behind(&[], shapes().path(), options, shape)
}

#[track_caller]
fn assert_anon(report: &Value, truth_mib: f64) {
    shapes::assert_anon(report, "glibc", truth_mib);
}

/// Files of cgroups that cannot be written, and no process connector: what a container has.
const CONFINED: [&str; 6] =
    ["unshare", "--mount", "--net", "sh", "-c", "mount -t tmpfs none /sys/fs/cgroup && exec \"$0\" \"$@\""];

#[test]
#[ignore = "needs root: it makes a cgroup"]
fn pages_that_workers_share_count_once() {
    let output = lab("-a glibc --duration 4s", &["prefork", "64", "8", "6"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&output);
    assert_anon(&report, 64.0 + 6.0 * 8.0 + 7.0 * BARE_MIB);
}

#[test]
#[ignore = "needs root: it hides the cgroups"]
fn without_a_cgroup_the_figure_is_the_sum_over_the_processes_and_says_so() {
    let output =
        lab_behind(&CONFINED, shapes().path(), "-a glibc --duration 4s", &["prefork", "64", "8", "6"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&output);
    // Six workers and their parent each map the 64 MiB.
    assert_anon(&report, 7.0 * 64.0 + 6.0 * 8.0 + 7.0 * BARE_MIB);
    let text = report.to_string();
    assert!(
        text.contains("the sum over its processes")
            && text.contains("crashes of processes other than its main one are not seen")
    );
}

#[test]
#[ignore = "needs root: it makes a cgroup"]
fn processes_of_less_than_a_tick_are_in_the_figures() {
    let output = lab("-a glibc --duration 10s", &["storm", "15"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&output);
    // On a busy machine the kernel's figure may still have pages of one that has ended beside those of the next. Between two there
    // is none, which is less than half of the time.
    let of = |field: &str| arm(&report, "glibc")["memory"][field].as_f64().unwrap() / MIB;
    let (peak, median) = (of("peak_bytes"), of("median_bytes"));
    assert!(
        (14.0..30.0).contains(&peak) && median > 1.0 && median < 16.0,
        "{peak}, {median} MiB in {report:#}"
    );
}

#[test]
#[ignore = "needs root: it makes a cgroup"]
fn one_process_has_what_it_tells_itself() {
    let output = lab("-a glibc --duration 3s", &["hold", "80"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let report = json(&output);
    assert_anon(&report, 80.0 + BARE_MIB);
    // It maps them itself: they are none of malloc's.
    let split = &arm(&report, "glibc")["memory_split"];
    let other = split["other_bytes"].as_f64().unwrap_or_else(|| panic!("{report:#}")) / MIB;
    assert!((80.0..81.0).contains(&other), "{split}");
}

#[test]
#[ignore = "needs root: it follows ends of processes"]
fn an_arm_whose_workers_crash_is_not_ranked() {
    let folder = shapes();
    let output = lab_behind(&[], folder.path(), "-a glibc --duration 3s", &["crash-loop", "8"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report = json(&output);
    assert_eq!(arm(&report, "glibc")["services"], 0, "{report:#}");
    let told = stderr(&output);
    assert!(told.contains("SIGABRT") && told.contains("(shapes)") && told.contains("times"), "{told}");
    assert_eq!(arm(&report, "glibc")["identity"]["linkage"], "libc", "{report:#}");
    let text = stdout(&run(folder.path(), "report run"));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("processes of it crashed: killed by SIGABRT"), "{text}");
}

#[test]
#[ignore = "needs root: it makes cgroups"]
fn a_process_that_leaves_the_cgroup_fails_its_arm() {
    let folder = shapes();
    // Where the own group of the service is, one beside it is made.
    let script = "\
                  beside=$(dirname \"$own\")/heaptrial-test-$$; mkdir \"$beside\" && echo \"$beside\" > beside; \
                  sh -c 'echo $$ > \"$0\"/cgroup.procs; exec ./shapes hold 40' \"$beside\" & wait";
    std::fs::write(folder.path().join("leaves"), format!("{OWN_GROUP}{script}")).unwrap();
    let output = heaptrial(folder.path())
        .args("lab run --offline --source host --out run --tick 250ms --json -a glibc --duration 4s -- sh leaves".split(' '))
        .output()
        .unwrap();
    let beside = std::fs::read_to_string(folder.path().join("beside")).unwrap();
    std::fs::remove_dir(beside.trim()).unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let report = json(&output);
    assert_eq!(arm(&report, "glibc")["services"], 0, "{report:#}");
    assert!(stderr(&output).contains("was in another control group"), "{}", stderr(&output));
}

/// Which group of memory a shell is in, of version 1 or 2.
const OWN_GROUP: &str = "own=/sys/fs/cgroup$(grep -E '^[0-9]+:(memory)?:' /proc/self/cgroup | head -1 | cut -d: -f3); \
                         test -e /sys/fs/cgroup/cgroup.controllers || own=/sys/fs/cgroup/memory${own#/sys/fs/cgroup}; ";

#[test]
#[ignore = "needs root: it makes a cgroup"]
fn a_memory_limit_shows_who_lives_under_it() {
    let Some(()) = drawn(4, 6) else { return };
    let lives = lab("-a glibc --duration 2s --memory-limit 64M", &["hold", "40"]);
    assert_eq!(lives.status.code(), Some(0), "{}", stderr(&lives));
    assert!(json(&lives).to_string().contains("lives under"), "{}", stderr(&lives));
    for shape in ["hold", "grow"] {
        let dies = lab("-a glibc --duration 3s --memory-limit 64M", &[shape, "100"]);
        assert_eq!(dies.status.code(), Some(0), "{shape}: {}", stderr(&dies));
        let report = json(&dies);
        assert_eq!(arm(&report, "glibc")["services"], 0, "{report:#}");
        assert!(report.to_string().contains("does not live under"), "{shape}: {report:#}");
    }
}

#[test]
#[ignore = "needs root: it hides the cgroups"]
fn a_memory_limit_without_cgroups_is_refused() {
    let options = "-a glibc --duration 2s --memory-limit 64M";
    let output = lab_behind(&CONFINED, shapes().path(), options, &["hold", "8"]);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("--memory-limit needs control groups"), "{}", stderr(&output));
}

/// How a service is started, and whose figures are whose.
const WAYS: [&[&str]; 2] = [&[], &CONFINED];

#[test]
#[ignore = "needs root: it makes a cgroup, and hides the cgroups"]
fn a_helper_that_lost_its_parent_is_in_all_figures() {
    let Some(()) = drawn(0, 6) else { return };
    for way in WAYS {
        for (options, most) in [("", 41.0), ("--metric rss", 44.0)] {
            let options = format!("-a glibc --duration 3s --ready log:holds {options}");
            let output = lab_behind(way, shapes().path(), &options, &["orphan", "40"]);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            let report = json(&output);
            let bytes = arm(&report, "glibc")["memory"]["final_bytes"].as_f64().unwrap() / MIB;
            assert!((39.5..most).contains(&bytes), "{way:?} {options}: {bytes} MiB");
        }
    }
}

#[test]
fn a_helper_that_lost_its_parent_and_the_treatment_fails_its_arm() {
    let output = lab("-a glibc?arena_max=1 --duration 2s --ready log:holds", &["orphan", "40"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("did not run the treatment"), "{}", stderr(&output));
}

#[test]
#[ignore = "needs root: it makes a cgroup"]
fn cpu_time_of_children_counts_whoever_waited_for_them() {
    let Some(()) = drawn(1, 6) else { return };
    for how in ["waited", "ignored", "uncollected", "orphan"] {
        let options = "-a glibc --duration 2s --ready log:holds";
        let output = lab_behind(WAYS[0], shapes().path(), options, &["spend", how]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let report = json(&output);
        let seconds = report["services"][0]["cpu_seconds"].as_f64().unwrap();
        // Forking takes some as well.
        assert!((0.96..1.2).contains(&seconds), "{how}: {seconds} s");
    }
}

#[test]
#[ignore = "needs root: it follows ends of processes"]
fn a_crash_is_seen_whichever_thread_it_is_in() {
    for how in ["exec", "thread"] {
        let output = lab("-a glibc --duration 3s", &["late-crash", how]);
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{how}: {told}");
        assert!(told.contains("processes of it crashed") && told.contains("SIGABRT"), "{how}: {told}");
        assert_eq!(arm(&json(&output), "glibc")["services"], 0);
    }
}

/// Huge pages that the test set aside, put back at its end.
struct HugePages(String);

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

impl HugePages {
    fn set_aside(pages: u32) -> Self {
        let before = std::fs::read_to_string(HUGE_PAGES).unwrap();
        std::fs::write(HUGE_PAGES, (before.trim().parse::<u32>().unwrap() + pages).to_string()).unwrap();
        Self(before)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        std::fs::write(HUGE_PAGES, &self.0).unwrap();
    }
}

#[test]
#[ignore = "needs root: it sets huge pages aside, makes a cgroup, and hides the cgroups"]
fn huge_pages_are_anonymous_memory() {
    let Some(()) = drawn(3, 6) else { return };
    let _set_aside = HugePages::set_aside(16);
    for way in WAYS {
        for metric in ["anon", "rss"] {
            let options = format!("-a glibc --duration 2s --ready log:holds --metric {metric}");
            let output = lab_behind(way, shapes().path(), &options, &["huge", "32"]);
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            let report = json(&output);
            let bytes = arm(&report, "glibc")["memory"]["final_bytes"].as_f64().unwrap() / MIB;
            assert!((32.0..36.0).contains(&bytes), "{way:?} {metric}: {bytes} MiB");
        }
    }
}

#[test]
#[ignore = "needs root: it follows ends of processes"]
fn a_service_that_crashes_when_it_is_asked_to_end_does_not_count() {
    for way in WAYS {
        let output = lab_behind(
            way,
            shapes().path(),
            "-a glibc --duration 1s --ready log:holds",
            &["crash-at-end", "8"],
        );
        let told = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{way:?}: {told}");
        assert!(
            told.contains("crashed when it was asked to end (SIGTERM)") && told.contains("SIGABRT"),
            "{told}"
        );
        assert_eq!(arm(&json(&output), "glibc")["services"], 0);
    }
    let options = "-a glibc --duration 1s --ready log:holds --end-signal KILL";
    let output = lab(options, &["crash-at-end", "8"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}
