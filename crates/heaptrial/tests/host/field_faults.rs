//! A trial that is cut short anywhere ends in a state that the journal knows, and reverts to the byte.
//!
//! The program is killed at system calls, by strace(1): nothing in it knows of the test. `make reliability` walks every
//! system call that changes a file, and one in four of those that ask systemd, which mostly read; `make test` one in twelve
//! of those that write the journal and that put files in place.

use crate::support;

use std::process::Command;
use std::time::Duration;

use heaptrial_testbed::{Draw, Snapshot, drawn};
use support::bed::Bed;
use support::trials::two_arms;
use support::{stderr, stdout, wait_for};

/// A walk that never comes to an end would find nothing.
const MOST_CALLS: u32 = 1000;
/// The whole walk mostly waits: it goes on in several containers at once.
const WALKERS: usize = 4;
/// Nine in ten of the calls that ask systemd only read: one in four is walked.
const ASKS: usize = 4;
const JOURNAL_CALLS: [&str; 3] = ["fsync", "rename", "unlink"];
const ALL_CALLS: [&str; 9] =
    ["fsync", "rename", "unlink", "mkdir", "rmdir", "symlink", "ftruncate", "fchmod", "sendmsg"];
const SAVED: [&str; 2] = ["/etc", "/usr/lib/heaptrial"];

/// What is done after the kill.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Recovery {
    Resume,
    Revert,
    Timer,
}

/// What is walked.
#[derive(Debug, Clone, Copy)]
enum Of<'n> {
    Trial,
    Rollout(&'n str),
}

struct Walk {
    bed: Bed,
    units: Vec<String>,
    before: Snapshot,
}

impl Walk {
    /// Records in the journal.
    fn recorded(&self) -> usize {
        let journal = self.bed.container.read_text("/var/lib/heaptrial/trials/walk/journal.jsonl");
        journal.map_or(0, |text| text.lines().count())
    }

    fn begin(services: usize) -> Option<Self> {
        Self::begin_of(services, 1 << 20)
    }

    /// With services that keep so many bytes each.
    fn begin_of(services: usize, live_bytes: u64) -> Option<Self> {
        let bed = strace_works().then(Bed::boot)??;
        let units = bed.start_churn_of(services, live_bytes);
        let trial = two_arms("walk", "churn@*", "health_timeout = \"20s\"");
        bed.write_trial("walk", &(trial + "restart_every = \"1h\"\n"));
        // Obtaining the allocators is no part of what is walked.
        bed.succeeds("trial plan walk.toml --seed 1");
        let before = Snapshot::of(&bed.container, &SAVED).unwrap();
        Some(Self { bed, units, before })
    }

    /// Runs a command that is killed at its `number`th `call`; gives whether it was.
    fn killed_at(&self, arguments: &str, call: &str, number: u32) -> bool {
        assert!(number < MOST_CALLS, "{arguments} does not end, it seems");
        let inner = self.bed.container.command("/usr/bin/env");
        let mut command = Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={call}")]);
        command.args(["-e", &format!("inject={call}:signal=SIGKILL:when={number}")]);
        command.arg(inner.get_program()).args(inner.get_args());
        command.args(["-C", "/root", "HOME=/root", "/ht/heaptrial"]).args(arguments.split_whitespace());
        let output = command.output().unwrap();
        let survived = output.status.success();
        assert!(
            survived || output.status.code() == Some(137) || output.status.code().is_none(),
            "{arguments} {call} {number}: {}\n{}",
            stdout(&output),
            stderr(&output)
        );
        !survived
    }

    /// A trial in the state in which the command that is walked begins.
    fn reset(&self) {
        self.bed.container.ok(&["rm", "-rf", "/var/lib/heaptrial"]);
    }

    #[track_caller]
    fn assert_as_before(&self, what: &str) {
        let now = Snapshot::of(&self.bed.container, &SAVED).unwrap();
        assert_eq!(self.before.difference(&now), Vec::<String>::new(), "{what}");
        self.bed.assert_active(&self.units);
        for unit in &self.units {
            let is_treated = self.bed.maps(unit).contains("libjemalloc") || self.has_one_arena(unit);
            assert!(!is_treated, "{what}: {unit}");
        }
    }

    /// Recovers a trial or a rollout, puts it back, and finds the host as before.
    fn recover(&self, of: Of<'_>, recovery: Recovery, what: &str) {
        let (kind, name, back) = match of {
            Of::Trial => ("trial", "walk", "trial stop walk --revert --yes".to_owned()),
            Of::Rollout(name) => ("rollout", name, format!("rollout rollback {name} --yes")),
        };
        let run = |arguments: &str| {
            let output = self.bed.heaptrial(arguments);
            assert!(output.status.success(), "{what}: {}{}", stdout(&output), stderr(&output));
        };
        let status = format!("trial status {name} --json");
        // Killed before there was one: nothing was changed.
        if self.bed.heaptrial(&status).status.code() == Some(3) {
            return self.assert_as_before(what);
        }
        match recovery {
            Recovery::Resume => {
                run(&format!("{kind} resume {name}"));
                let services = self.bed.json_of(&status)["services"].clone();
                for unit in &self.units {
                    assert_eq!(services[unit]["stage"], "committed", "{what}: {services:#}");
                    let is_treated = match of {
                        Of::Trial => self.bed.maps(unit).contains("libjemalloc"),
                        Of::Rollout(_) => self.has_one_arena(unit),
                    };
                    assert_eq!(is_treated, services[unit]["arm"] != "glibc", "{what}: {unit}");
                }
            }
            Recovery::Timer => {
                run(&format!("trial recover {name}"));
                // The timer itself may be at it: then the command left it to that.
                wait_for(what, Duration::from_secs(60), || {
                    let services = self.bed.json_of(&status)["services"].clone();
                    let known = |unit: &String| {
                        let stage = &services[unit]["stage"];
                        stage.is_null() || stage == "committed" || stage == "reverted"
                    };
                    self.units.iter().all(known).then_some(())
                });
            }
            Recovery::Revert => {}
        }
        self.bed.assert_active(&self.units);
        run(&back);
        self.assert_as_before(what);
    }

    fn has_one_arena(&self, unit: &str) -> bool {
        let pid = self.bed.property(unit, "MainPID");
        self.bed
            .container
            .ok(&["cat", &format!("/proc/{pid}/environ")])
            .to_lowercase()
            .contains("arena_max=1")
    }
}

fn strace_works() -> bool {
    let works = Command::new("strace").arg("-V").output().is_ok_and(|output| output.status.success());
    if !works {
        heaptrial_testbed::skip("strace is missing");
    }
    works
}

fn calls() -> &'static [&'static str] {
    if Draw::of_this_run() == Draw::All { &ALL_CALLS } else { &JOURNAL_CALLS }
}

/// Which of the calls a command is killed at: every one, or the drawn one in `of`, counted on until the command survives.
fn numbers(of: usize) -> impl Iterator<Item = u32> {
    (1..).filter(move |number| Draw::of_this_run().has(*number as usize, of))
}

/// Kills a command at one call after the other, until it survives; at `least` so many, of a drawn part one.
fn walk_calls(
    command: &str,
    (of, least): (usize, usize),
    begin: impl Fn() -> Option<Walk> + Sync,
    killed: impl Fn(&Walk, &str, u32) -> bool + Sync,
) {
    let (walkers, least) = if Draw::of_this_run() == Draw::All { (WALKERS, least) } else { (1, 1) };
    let walk = |walker| {
        let walk = begin()?;
        let of_call = |call: &&str| {
            let step = if *call == "sendmsg" { ASKS * walkers } else { walkers };
            numbers(of).skip(walker).step_by(step).take_while(|number| killed(&walk, call, *number)).count()
        };
        Some(calls().iter().map(of_call).sum::<usize>())
    };
    let kills = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..walkers).map(|walker| scope.spawn(move || walk(walker))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum::<Option<usize>>()
    });
    let Some(kills) = kills else { return };
    eprintln!("killed at {kills} calls of a {command}");
    assert!(kills >= least, "only {kills} calls were walked");
}

#[test]
#[ignore = "needs root and a container"]
fn a_start_that_is_killed_anywhere_can_be_resumed_reverted_and_put_right() {
    let Some(()) = drawn(1, 6) else { return };
    walk_calls(
        "start",
        (12, 20),
        || Walk::begin(2),
        |walk, call, number| {
            walk.reset();
            let recovery = [Recovery::Resume, Recovery::Revert, Recovery::Timer][number as usize % 3];
            let what = format!("killed at {call} {number}, then {recovery:?}");
            let killed = walk.killed_at("trial start walk --yes --no-agent", call, number);
            walk.recover(Of::Trial, if killed { recovery } else { Recovery::Revert }, &what);
            killed
        },
    );
}

#[test]
#[ignore = "needs root and a container"]
fn a_revert_that_is_killed_anywhere_is_completed() {
    let Some(()) = drawn(2, 6) else { return };
    walk_calls(
        "revert",
        (12, 10),
        || Walk::begin(2),
        |walk, call, number| {
            walk.reset();
            walk.bed.succeeds("trial start walk --yes --no-agent");
            let recovery = [Recovery::Revert, Recovery::Timer][number as usize % 2];
            let what = format!("revert killed at {call} {number}, then {recovery:?}");
            let killed = walk.killed_at("trial stop walk --revert --yes", call, number);
            walk.bed.assert_active(&walk.units);
            walk.recover(Of::Trial, recovery, &what);
            killed
        },
    );
}

#[test]
#[ignore = "needs root and a container"]
fn a_rollout_that_is_killed_anywhere_goes_on_is_rolled_back_and_put_right() {
    let Some(()) = drawn(0, 6) else { return };
    let begin = || {
        let mut walk = Walk::begin_of(2, 16 << 20)?;
        walk.bed.install_agent();
        walk.before = Snapshot::of(&walk.bed.container, &SAVED).unwrap();
        Some(walk)
    };
    walk_calls("rollout", (24, 5), begin, |walk, call, number| {
        let name = format!("{call}-{number}");
        let recovery = [Recovery::Resume, Recovery::Revert, Recovery::Timer][number as usize % 3];
        let what = format!("rollout killed at {call} {number}, then {recovery:?}");
        let start = format!(
            "rollout start glibc?arena_max=1 --services churn@* --force a-pilot --name {name} --waves 50%,100% \
             --soak 1s --pause 0s --yes"
        );
        let killed = walk.killed_at(&start, call, number);
        walk.recover(Of::Rollout(&name), if killed { recovery } else { Recovery::Revert }, &what);
        killed
    });
}

/// Which of a hundred power cuts there are: all, or one of a start and one of a revert.
fn cuts() -> Vec<u32> {
    (0..100).filter(|cut| Draw::of_this_run().has(*cut as usize / 2, 50)).collect()
}

#[test]
#[ignore = "needs root and a container"]
fn a_power_cut_at_any_moment_leaves_what_can_be_resumed_and_reverted() {
    let Some(()) = drawn(3, 6) else { return };
    let Some(mut walk) = Walk::begin(3) else { return };
    walk.bed.container.ok(&[
        &["systemctl", "enable"],
        walk.units.iter().map(String::as_str).collect::<Vec<_>>().as_slice(),
    ]
    .concat());
    walk.before = Snapshot::of(&walk.bed.container, &SAVED).unwrap();
    // How much each of the two commands records: cuts are spread over that, so that they hit it however fast it goes.
    walk.bed.succeeds("trial start walk --yes --no-agent");
    let of_start = walk.recorded();
    walk.bed.succeeds("trial stop walk --revert --yes");
    let of_revert = walk.recorded() - of_start;

    let mut in_the_middle = 0;
    for cut in cuts() {
        walk.reset();
        let reverting = cut % 2 == 1;
        if reverting {
            walk.bed.succeeds("trial start walk --yes --no-agent");
        }
        let (arguments, records) = if reverting {
            ("trial stop walk --revert --yes", of_revert)
        } else {
            ("trial start walk --yes --no-agent", of_start)
        };
        // Spread without a pattern that could meet the program's own (the golden ratio's multiples).
        let share = (f64::from(cut) * 0.618_034).fract();
        let until = walk.recorded() + (share * records as f64) as usize;
        let mut command = walk.bed.command(arguments).spawn().unwrap();
        while walk.recorded() < until && command.try_wait().unwrap().is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        let running = command.try_wait().unwrap().is_none();
        walk.bed.container.power_cut().unwrap();
        command.wait().unwrap();
        walk.bed.container.boot_again().unwrap();
        in_the_middle += usize::from(running);
        walk.bed.assert_active(&walk.units);
        let recovery = [Recovery::Resume, Recovery::Revert, Recovery::Timer][cut as usize / 2 % 3];
        let recovery = if reverting && recovery == Recovery::Resume { Recovery::Revert } else { recovery };
        walk.recover(
            Of::Trial,
            recovery,
            &format!("power cut {cut} after {share:.2} of {arguments}, then {recovery:?}"),
        );
    }
    let made = cuts().len();
    eprintln!("{in_the_middle} of {made} power cuts hit a running command");
    // Of two, both may come when the command has just ended.
    assert!(
        made == 2 || in_the_middle * 2 >= made,
        "only {in_the_middle} of {made} cuts hit a running command"
    );
}
