//! Hosts of a trial over several of them, and what Ansible is asked to do there.

use std::path::Path;
use std::process::{Child, Command, Output};
use std::time::Duration;

use heaptrial_store::Store;
use heaptrial_testbed::{Base, Options, Testbed};

use super::bed::Bed;
use super::control::Control;
use super::trials::two_arms;
use super::{stderr, stdout, wait_for};

/// Whatever is waited for comes within some seconds; a machine with much else to do may take minutes.
pub const PATIENCE: Duration = Duration::from_secs(300);
/// Its description, on a host and where hosts are controlled.
pub fn trial() -> String {
    two_arms("fleet", "churn@*", "")
}

/// A host of this name with four services.
pub fn host(name: &str) -> Option<(Bed, Vec<String>)> {
    Some(host_on(&Testbed::for_test()?, name))
}

/// The same with another system, whose package of an allocator is another build.
pub fn other_host(name: &str) -> Option<(Bed, Vec<String>)> {
    Some(host_on(&Testbed::for_test_with(Some("trixie"), &[])?, name))
}

/// A host of this system and name.
pub fn host_on(base: &Base, name: &str) -> (Bed, Vec<String>) {
    let bed = Bed::boot_on(base, Options::new());
    // Gates hold them to 1.1 times what a trial of moments foretells: what an allocator keeps for itself must be little of it.
    let units = bed.start_churn_of(4, 16 << 20);
    rename(&bed, name);
    bed.write_trial("fleet", &trial());
    (bed, units)
}

/// Gives a host another name.
pub fn rename(bed: &Bed, name: &str) {
    bed.container.ok(&["hostname", name]);
}

/// A command on the machine that controls them.
pub fn here(folder: &Path, arguments: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_heaptrial"));
    command.current_dir(folder).args(arguments.split_whitespace()).output().unwrap()
}

/// The same, which is expected to succeed.
#[track_caller]
pub fn succeeds(folder: &Path, arguments: &str) -> Output {
    let output = here(folder, arguments);
    assert!(output.status.success(), "{arguments}\n{}\n{}", stdout(&output), stderr(&output));
    output
}

/// Waits until every service has been read that often more.
pub fn sampled(bed: &Bed, more: u64) {
    let ticks = || {
        let store = Store::open(&bed.database()).ok()?;
        let trial = store.trials().ok()?.into_iter().rfind(|trial| trial.plan.name == "fleet")?;
        Some(store.tick_summary(trial.id).ok()?.ticks)
    };
    let before = ticks().unwrap_or(0);
    wait_for("samples", PATIENCE, || ticks().filter(|ticks| *ticks >= before + more));
}

/// Ends a command with all that it started here, at once.
pub fn kill(child: &mut Child) {
    let group = rustix::process::Pid::from_child(child);
    rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
    child.wait().unwrap();
}

/// What `trial status` tells of the trial; nothing while there is none.
pub fn stage(bed: &Bed) -> Option<String> {
    let trials = bed.json_of("trial status --json");
    let own = trials["trials"].as_array()?.iter().find(|trial| trial["name"] == "fleet")?;
    Some(own["stage"].as_str()?.to_owned())
}

/// How many of these services run the treatment of the trial's arm.
pub fn treated(bed: &Bed, units: &[String]) -> usize {
    units.iter().filter(|unit| bed.maps(unit).contains("libjemalloc")).count()
}

/// Runs the trial that is planned, puts it back, gathers it and takes its verdict.
pub fn with_verdict(control: &Control, hosts: &[&Bed]) {
    control.plays("start", &[]);
    hosts.iter().for_each(|bed| sampled(bed, 20));
    control.plays("stop", &["-e", "heaptrial_state=reverted"]);
    control.plays("gather", &[]);
    succeeds(control.path(), "trial verdict heaptrial.db --arm jemalloc -o jemalloc.json");
}
