//! What ends of a service's processes mean for its figures.

use std::collections::BTreeMap;
use std::time::Duration;

use heaptrial_model::{Ending, KnownEvent};

use crate::end_watch::ProcessEnd;

/// Signals of which a process dies by a fault of its own or of its allocator, or for want of memory: SIGQUIT (whose
/// use is to ask for an end) and SIGTERM are none.
const FATAL: [i32; 8] = [4, 5, 6, 7, 8, 9, 11, 31];
const SIGKILL: i32 = 9;
/// Failures of more kinds than these are told in sum.
const KINDS_TOLD: usize = 5;

/// The ends of one service's processes beside its main one.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// By program and how it ended.
    failures: BTreeMap<(String, Manner), Failures>,
    out_of_memory: u64,
    /// How many of them lived for less than a tick.
    brief: u64,
    missed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Manner {
    Killed(i32),
    Exited(i32),
}

#[derive(Debug)]
struct Failures {
    pid: i32,
    age_seconds: f64,
    times: u64,
}

impl Ends {
    /// Takes note of an end at an age of the service; `oom` where the kernel killed it for want of memory. Gives what is
    /// to be told at once: the first of its kind.
    pub(crate) fn take(
        &mut self,
        end: ProcessEnd,
        age_seconds: f64,
        tick: Duration,
        oom: bool,
    ) -> Option<(KnownEvent, String)> {
        self.brief += u64::from(end.lived.is_some_and(|lived| lived < tick));
        let manner = match (end.signal, end.code) {
            (Some(SIGKILL), _) if oom => {
                self.out_of_memory += 1;
                let text = format!("its process {}{} was OOM-killed", end.pid, named(&end.program));
                return (self.out_of_memory == 1).then_some((KnownEvent::OomKill, text));
            }
            (Some(signal), _) => Manner::Killed(signal),
            (None, Some(0) | None) => return None,
            (None, Some(code)) => Manner::Exited(code),
        };
        let program = end.program.clone();
        let new = Failures { pid: end.pid, age_seconds, times: 0 };
        let failures = self.failures.entry((program, manner)).or_insert(new);
        failures.times += 1;
        let first = failures.times == 1 && manner.is_crash();
        first.then(|| {
            let text = format!("its process {}{} was {}", end.pid, named(&end.program), manner.words());
            (KnownEvent::Crash, text)
        })
    }

    /// That ends may have been missed.
    pub(crate) fn missed(&mut self) {
        self.missed = true;
    }

    /// How many processes were killed for want of memory.
    pub(crate) fn out_of_memory(&self) -> u64 {
        self.out_of_memory
    }

    /// What is to be told of an end after the service was asked to end by a signal: crashes of code that runs then. A process that
    /// dies of what it was sent, or of SIGKILL, which programs send to what they have not ended in time, has not crashed.
    pub(crate) fn crash_when_asked(end: &ProcessEnd, asked_by: i32) -> Option<String> {
        let signal = end.signal.filter(|signal| *signal != asked_by && *signal != SIGKILL)?;
        let manner = Manner::Killed(signal);
        manner
            .is_crash()
            .then(|| format!("process {}{} was {}", end.pid, named(&end.program), manner.words()))
    }

    /// Why the service's figures do not count, if a process of it crashed.
    pub(crate) fn crash(&self) -> Option<String> {
        let crashes: Vec<String> =
            self.failures.iter().filter(|((_, manner), _)| manner.is_crash()).map(told).collect();
        (!crashes.is_empty()).then(|| format!("processes of it crashed: {}", cut(crashes)))
    }

    /// What may make its figures wrong. `in_cgroup` where processes of less than a tick are in them.
    pub(crate) fn warnings(&self, in_cgroup: bool, tick: Duration) -> Vec<String> {
        let mut warnings = Vec::new();
        // Without numbers of processes and times: of each service it is the same warning.
        let exited = self.failures.keys().filter(|(_, manner)| matches!(manner, Manner::Exited(_)));
        let others: Vec<String> =
            exited.map(|(program, manner)| format!("{}{}", manner.words(), named(program))).collect();
        if !others.is_empty() {
            warnings.push(format!("processes of it failed: {}", cut(others)));
        }
        if self.brief > 0 && !in_cgroup {
            warnings.push(format!(
                "{} of its processes lived for less than a tick ({} ms): what they used is not in its figures, which are too low",
                self.brief,
                tick.as_millis()
            ));
        }
        if self.missed {
            warnings
                .push("more processes ended than could be followed: a crash may have been missed".to_owned());
        }
        warnings
    }
}

impl Manner {
    fn is_crash(self) -> bool {
        matches!(self, Self::Killed(signal) if FATAL.contains(&signal))
    }

    fn words(self) -> String {
        match self {
            Self::Killed(signal) => Ending::Signaled(signal).to_string(),
            Self::Exited(code) => format!("ended with exit code {code}"),
        }
    }
}

fn named(program: &str) -> String {
    if program.is_empty() { String::new() } else { format!(" ({program})") }
}

fn told(((program, manner), failures): (&(String, Manner), &Failures)) -> String {
    let times = match failures.times {
        1 => "once".to_owned(),
        times => format!("{times} times, first"),
    };
    let Failures { pid, age_seconds, .. } = failures;
    format!("{} {times} at {age_seconds:.1} s (process {pid}{})", manner.words(), named(program))
}

fn cut(mut told: Vec<String>) -> String {
    let more = told.len().saturating_sub(KINDS_TOLD);
    told.truncate(KINDS_TOLD);
    if more > 0 {
        told.push(format!("and {more} other kinds"));
    }
    told.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_millis(500);

    fn end(code: Option<i32>, signal: Option<i32>) -> ProcessEnd {
        let lived = Some(Duration::from_millis(200));
        ProcessEnd { pid: 7, program: "worker".to_owned(), code, signal, lived, at_boottime_us: 0 }
    }

    #[test]
    fn a_crash_is_told_once_and_counted() {
        let mut ends = Ends::default();
        let first = ends.take(end(None, Some(6)), 1.0, TICK, false).unwrap();
        assert_eq!(first.0, KnownEvent::Crash);
        assert!(first.1.contains("7 (worker)") && first.1.contains("SIGABRT"), "{}", first.1);
        assert_eq!(ends.take(end(None, Some(6)), 2.0, TICK, false), None);
        let why = ends.crash().unwrap();
        assert!(why.contains("2 times, first at 1.0 s"), "{why}");
    }

    #[test]
    fn helpers_and_workers_that_are_asked_to_end_are_no_crashes() {
        let mut ends = Ends::default();
        for end in [end(Some(0), None), end(None, Some(15)), end(None, Some(3))] {
            assert_eq!(ends.take(end, 1.0, TICK, false), None);
        }
        assert_eq!((ends.crash(), ends.warnings(true, TICK)), (None, Vec::new()));
        assert!(ends.warnings(false, TICK)[0].contains("3 of its processes lived for less"));
        assert_eq!(ends.take(end(Some(4), None), 1.0, TICK, false), None);
        assert_eq!(ends.crash(), None);
        assert!(ends.warnings(true, TICK)[0].contains("exit code 4"));
    }

    #[test]
    fn who_is_asked_to_end_may_die_of_that_and_of_nothing_else() {
        for (signal, asked_by, crash) in
            [(11, 15, true), (6, 15, true), (15, 15, false), (9, 15, false), (6, 6, false)]
        {
            let told = Ends::crash_when_asked(&end(None, Some(signal)), asked_by);
            assert_eq!(told.is_some(), crash, "{signal} after {asked_by}: {told:?}");
        }
        assert_eq!(Ends::crash_when_asked(&end(Some(7), None), 15), None);
    }

    #[test]
    fn want_of_memory_is_a_result_and_no_crash() {
        let mut ends = Ends::default();
        assert_eq!(ends.take(end(None, Some(9)), 1.0, TICK, true).unwrap().0, KnownEvent::OomKill);
        assert_eq!((ends.crash(), ends.out_of_memory()), (None, 1));
        assert_eq!(ends.take(end(None, Some(9)), 1.0, TICK, false).unwrap().0, KnownEvent::Crash);
    }
}
