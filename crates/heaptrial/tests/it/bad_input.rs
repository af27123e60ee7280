//! Bad input: what, where, why, what next; and nothing changed.

use crate::support;

use std::path::Path;

use support::{heaptrial, run, stderr};

/// Runs a command line that must be refused with `code`, saying `words`, and leave the folder empty.
#[track_caller]
fn assert_refused(folder: &Path, arguments: &str, code: i32, words: &[&str]) {
    let before = std::fs::read_dir(folder).unwrap().count();
    let output = run(folder, arguments);
    let told = stderr(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments}\n{told}");
    for word in words {
        assert!(told.contains(word), "{arguments}: `{word}` is not in: {told}");
    }
    assert_eq!(std::fs::read_dir(folder).unwrap().count(), before, "{arguments} left something");
}

#[test]
fn specs_are_refused_with_position_and_near_misses() {
    let folder = tempfile::tempdir().unwrap();
    let refuse = |arguments: &str, words: &[&str]| assert_refused(folder.path(), arguments, 2, words);
    refuse("lab run -a mimaloc@2.0.9 -- sleep 60", &["mimaloc", "mimalloc"]);
    refuse("lab run -a glibc -a mimalloc@9.9.9 -- sleep 60", &["9.9.9", "2.0.9"]);
    refuse("lab run -a mimalloc@2.0.9?purge_delay=0 -- sleep 60", &["purge_delay"]);
    refuse("lab run -a mimalloc@2.0.9+ -- sleep 60", &["position 16"]);
    refuse("lab run -a glibc", &["CMD"]);
    refuse("lab run -a glibc --duration 5x -- sleep 60", &["duration"]);
    refuse("lab run -a glibc --duration 0s -- sleep 60", &["a duration of 0s is too short"]);
    refuse("lab run -a glibc --tick 1ms -- sleep 60", &["--tick 1ms is too short"]);
    refuse(
        "lab run -a glibc --memory-limit 512 -- sleep 60",
        &["--memory-limit", "with its unit, such as 512M"],
    );
    refuse("report --memory-limit 64", &["--memory-limit", "with its unit"]);
    refuse("lab run -a glibc --ready tcp:99999 -- sleep 60", &["99999", "1 to 65535"]);
    refuse("lab run -a glibc --metric pss -- sleep 60", &["PSS is read too rarely", "--metric anon"]);
    refuse("lab run -a mimaloc --dry-run -- sleep 60", &["mimalloc"]);
    refuse("lab run -a glibc --arms plan.toml -- sleep 60", &["--arms"]);
    refuse("lab run --arms no-such-plan.toml -- sleep 60", &["no-such-plan.toml"]);
}

#[test]
fn the_command_that_repeats_a_run_has_its_options_as_given() {
    let folder = tempfile::tempdir().unwrap();
    for given in ["512M", "1.5GiB", "5000b"] {
        let output =
            run(folder.path(), &format!("lab run -a glibc --memory-limit {given} --dry-run -- sleep 60"));
        let line = support::stdout(&output);
        assert!(line.contains(&format!("--memory-limit {given} ")), "{line}{}", stderr(&output));
    }
}

#[test]
fn programs_that_do_not_exist_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let refuse = |arguments: &str, words: &[&str]| assert_refused(folder.path(), arguments, 3, words);
    refuse("lab run -a glibc -- no-such-program", &["no-such-program", "was not found"]);
    refuse("lab run -a glibc -- /etc/passwd", &["/etc/passwd"]);
    refuse("report no-such-run", &["no-such-run"]);
    refuse("report", &["heaptrial-runs"]);
}

#[test]
fn a_machine_without_tor_is_told_what_to_install() {
    let folder = tempfile::tempdir().unwrap();
    let output =
        heaptrial(folder.path()).args(["lab", "tor", "--dry-run"]).env("PATH", "/nowhere").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(stderr(&output).contains("apt-get install tor"), "{}", stderr(&output));
}

#[test]
#[ignore = "needs Tor"]
fn torrc_lines_that_tor_refuses_are_refused_before_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let plan = "name = \"x\"\n[[arm]]\nname = \"a\"\ncontrol = true\ntorrc = { NoSuchOption = \"1\" }\n";
    std::fs::write(folder.path().join("plan.toml"), plan).unwrap();
    assert_refused(folder.path(), "lab tor --arms plan.toml", 3, &["NoSuchOption", "`a`"]);
    assert_refused(folder.path(), "lab run --arms plan.toml -- sleep 60", 3, &["heaptrial lab tor"]);
    std::fs::write(folder.path().join("plan.toml"), plan.replace("NoSuchOption", "ORPort")).unwrap();
    assert_refused(folder.path(), "lab tor --arms plan.toml", 3, &["ORPort", "belongs to the lab"]);
    std::fs::write(folder.path().join("plan.toml"), plan.replace("control = true", "")).unwrap();
    assert_refused(folder.path(), "lab tor --arms plan.toml", 2, &["exactly one arm must be the control"]);
}

#[test]
fn a_folder_that_holds_a_run_is_not_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("heaptrial.db"), "measured").unwrap();
    let arguments = "lab run --offline --source host --out . -a glibc --duration 2s -- sleep 60";
    assert_refused(folder.path(), arguments, 3, &["already holds a run"]);
    assert_eq!(std::fs::read_to_string(folder.path().join("heaptrial.db")).unwrap(), "measured");
}

#[test]
fn internal_commands_are_not_offered() {
    let script = support::stdout(&run(Path::new("."), "completions bash"));
    assert!(script.contains("identify") && !script.contains("lab-supervisor"));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = heaptrial(folder.path())
        .args(["completions", "bash"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}
