//! What ends of a service's processes mean for its figures.

use std::collections::BTreeMap;

use heaptrial_model::{Ending, KnownEvent};

use crate::end_watch::ProcessEnd;

/// Signals of which a process dies by a fault of its own or of its allocator, or because memory ran out: SIGQUIT (whose
/// use is to ask for an end) and SIGTERM are none.
const FATAL: [i32; 8] = [4, 5, 6, 7, 8, 9, 11, 31];
const SIGKILL: i32 = 9;

/// Crashes and OOM kills of one service's processes other than its main one.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// By program and signal: how often, and the first of them.
    crashes: BTreeMap<(String, i32), (u64, String)>,
    out_of_memory: u64,
}

impl Ends {
    /// Takes note of an end at an age of the service; `oom` where the kernel killed it because memory ran out. Returns the event of
    /// the first of its kind.
    pub(crate) fn take(
        &mut self,
        end: &ProcessEnd,
        age_seconds: f64,
        oom: bool,
    ) -> Option<(KnownEvent, String)> {
        if end.signal == Some(SIGKILL) && oom {
            self.out_of_memory += 1;
            let text = format!("its process {} was OOM-killed", named(end));
            return (self.out_of_memory == 1).then_some((KnownEvent::OomKill, text));
        }
        let signal = end.signal.filter(|signal| FATAL.contains(signal))?;
        let first = format!("first at {age_seconds:.1} s, process {}", named(end));
        let (times, _) = self.crashes.entry((end.program.clone(), signal)).or_insert((0, first));
        *times += 1;
        let text = format!("its process {} was {}", named(end), Ending::Signaled(signal));
        (*times == 1).then_some((KnownEvent::Crash, text))
    }

    pub(crate) fn out_of_memory(&self) -> u64 {
        self.out_of_memory
    }

    /// A crash among ends after the service was asked to end by a signal. A process that dies of that signal, or of SIGKILL, which
    /// programs send to what they have not ended in time, has not crashed.
    pub(crate) fn crash_when_asked(ends: &[ProcessEnd], asked_by: i32) -> Option<String> {
        let crash = |end: &ProcessEnd| {
            let own = end.signal.filter(|signal| *signal != asked_by && *signal != SIGKILL);
            let signal = own.filter(|signal| FATAL.contains(signal))?;
            Some(format!("process {} was {}", named(end), Ending::Signaled(signal)))
        };
        ends.iter().find_map(crash)
    }

    /// Why the service's figures do not count, if a process of it crashed.
    pub(crate) fn crash(&self) -> Option<String> {
        let crash = |((_, signal), (times, first)): (&(String, i32), &(u64, String))| {
            format!("{} {times} times ({first})", Ending::Signaled(*signal))
        };
        let crashes: Vec<String> = self.crashes.iter().map(crash).collect();
        (!crashes.is_empty()).then(|| format!("processes of it crashed: {}", crashes.join("; ")))
    }
}

fn named(end: &ProcessEnd) -> String {
    match end.program.as_str() {
        "" => end.pid.to_string(),
        program => format!("{} ({program})", end.pid),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(code: Option<i32>, signal: Option<i32>) -> ProcessEnd {
        ProcessEnd { pid: 7, program: "worker".to_owned(), code, signal, at_boottime_us: 0 }
    }

    #[test]
    fn a_crash_is_reported_once_and_counted() {
        let mut ends = Ends::default();
        let first = ends.take(&end(None, Some(6)), 1.0, false).unwrap();
        assert_eq!(first.0, KnownEvent::Crash);
        assert!(first.1.contains("7 (worker)") && first.1.contains("SIGABRT"), "{}", first.1);
        assert_eq!(ends.take(&end(None, Some(6)), 2.0, false), None);
        let why = ends.crash().unwrap();
        assert!(why.contains("2 times (first at 1.0 s"), "{why}");
    }

    #[test]
    fn other_ends_are_no_crashes() {
        let mut ends = Ends::default();
        for end in [end(Some(0), None), end(Some(4), None), end(None, Some(15)), end(None, Some(3))] {
            assert_eq!(ends.take(&end, 1.0, false), None);
        }
        assert_eq!(ends.take(&end(None, Some(9)), 1.0, true).unwrap().0, KnownEvent::OomKill);
        assert_eq!((ends.crash(), ends.out_of_memory()), (None, 1));
        assert_eq!(ends.take(&end(None, Some(9)), 1.0, false).unwrap().0, KnownEvent::Crash);
    }

    #[test]
    fn a_process_that_is_asked_to_end_may_die_of_that_and_of_nothing_else() {
        for (signal, asked_by, crash) in
            [(11, 15, true), (6, 15, true), (15, 15, false), (9, 15, false), (6, 6, false)]
        {
            let found = Ends::crash_when_asked(&[end(None, Some(signal))], asked_by);
            assert_eq!(found.is_some(), crash, "{signal} after {asked_by}: {found:?}");
        }
    }
}
