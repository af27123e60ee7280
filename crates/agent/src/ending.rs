//! What the end of a life means, from what systemd and the kernel tell of it.

use heaptrial_host::systemd::UnitStatus;
use heaptrial_model::{Ending, KnownEvent};

/// How a life ended, for the ledger, and the event that tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) ending: Ending,
    /// Kind and text; `None` where a command has told already.
    pub(crate) event: Option<(KnownEvent, String)>,
}

/// What is known beside the unit's state.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Circumstances {
    /// The kernel killed a process of the service for want of memory.
    pub(crate) oom: bool,
    /// A command said that it would restart the service, and that is what happened.
    pub(crate) announced: bool,
    /// The trial's timer restarted it.
    pub(crate) by_timer: bool,
    /// It began before the trial, which therefore restarts it.
    pub(crate) older_than_trial: bool,
    /// NRestarts when the life began.
    pub(crate) restarts_before: u32,
}

/// CLD_EXITED, CLD_KILLED and CLD_DUMPED (sigaction(2)).
const EXITED: i32 = 1;
const KILLED: i32 = 2;
const DUMPED: i32 = 3;

/// Whether systemd's state is of the time after the end of process `pid`.
pub(crate) fn is_after(status: &UnitStatus, pid: i32) -> bool {
    status.main_pid != Some(pid)
}

pub(crate) fn judge(status: &UnitStatus, known: Circumstances) -> Verdict {
    // A unit that runs again has forgotten how its last process ended.
    let told = match status.exec_main_code {
        EXITED => Some(Ending::Exited(status.exec_main_status)),
        KILLED | DUMPED => Some(Ending::Signaled(status.exec_main_status)),
        _ => None,
    };
    let by_itself = status.restarts > known.restarts_before;
    if known.announced {
        return Verdict { ending: Ending::Planned, event: None };
    }
    if known.oom || status.result == "oom-kill" {
        let ending = told.unwrap_or(Ending::Signaled(9));
        let text = format!("the kernel killed it for want of memory ({ending})");
        return Verdict { ending: Ending::Signaled(9), event: Some((KnownEvent::OomKill, text)) };
    }
    if known.by_timer {
        let text = "restarted by the trial's timer".to_owned();
        return Verdict { ending: Ending::Planned, event: Some((KnownEvent::RestartPlanned, text)) };
    }
    if status.result != "success" {
        let ending = told.unwrap_or(Ending::Exited(-1));
        let text = format!("{ending}; systemd says `{}`", status.result);
        return Verdict { ending, event: Some((KnownEvent::Crash, text)) };
    }
    if known.older_than_trial {
        return Verdict { ending: Ending::Planned, event: None };
    }
    if told.is_none() && by_itself {
        let text =
            "ended by itself, and systemd started it anew before its exit code could be read".to_owned();
        return Verdict { ending: Ending::Exited(-1), event: Some((KnownEvent::Crash, text)) };
    }
    let how = told.map_or(String::new(), |ending| format!(" ({ending})"));
    let text = format!("stopped or restarted by systemd, and no command of Heaptrial had announced it{how}");
    Verdict { ending: Ending::Stopped, event: Some((KnownEvent::RestartUnplanned, text)) }
}

/// What it means that another main process was found than the one that ran when the agent ended, or none. Of the circumstances
/// only announcements, the timer and the trial's start can be known.
pub(crate) fn judge_missed(known: Circumstances, runs_again: bool) -> Verdict {
    if known.announced || known.older_than_trial {
        return Verdict { ending: Ending::Planned, event: None };
    }
    if known.by_timer {
        let text =
            "restarted while the agent did not run, by the trial's timer as far as can be told".to_owned();
        return Verdict { ending: Ending::Planned, event: Some((KnownEvent::RestartPlanned, text)) };
    }
    let what = if runs_again { "was another one" } else { "did not run any more" };
    let text = format!("its main process {what} when the agent was started again");
    Verdict { ending: Ending::Stopped, event: Some((KnownEvent::RestartUnplanned, text)) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn status(result: &str, code: i32, number: i32) -> UnitStatus {
        UnitStatus {
            active_state: "activating".into(),
            sub_state: "auto-restart".into(),
            main_pid: None,
            control_group: String::new(),
            restarts: 1,
            result: result.into(),
            exec_main_code: code,
            exec_main_status: number,
            invocation_id: String::new(),
        }
    }

    fn judged(status: &UnitStatus, known: Circumstances) -> (Ending, Option<KnownEvent>) {
        let verdict = judge(status, known);
        (verdict.ending, verdict.event.map(|event| event.0))
    }

    #[test]
    fn every_kind_of_end_is_told_apart() {
        let none = Circumstances { restarts_before: 1, ..Circumstances::default() };
        let oom = Circumstances { oom: true, ..none };
        let announced = Circumstances { announced: true, ..none };
        let by_timer = Circumstances { by_timer: true, ..none };
        let old = Circumstances { older_than_trial: true, ..none };
        let again = Circumstances { restarts_before: 0, ..none };
        for (status, known, ending, kind) in [
            (status("exit-code", 1, 3), none, Ending::Exited(3), Some(KnownEvent::Crash)),
            (status("core-dump", 3, 11), none, Ending::Signaled(11), Some(KnownEvent::Crash)),
            (status("oom-kill", 2, 9), none, Ending::Signaled(9), Some(KnownEvent::OomKill)),
            // Under cgroup v1 systemd does not know.
            (status("signal", 2, 9), oom, Ending::Signaled(9), Some(KnownEvent::OomKill)),
            (status("success", 1, 0), none, Ending::Stopped, Some(KnownEvent::RestartUnplanned)),
            (status("success", 0, 0), none, Ending::Stopped, Some(KnownEvent::RestartUnplanned)),
            (status("success", 0, 0), again, Ending::Exited(-1), Some(KnownEvent::Crash)),
            (status("success", 1, 0), announced, Ending::Planned, None),
            (status("timeout", 2, 9), announced, Ending::Planned, None),
            (status("success", 2, 15), by_timer, Ending::Planned, Some(KnownEvent::RestartPlanned)),
            (status("success", 1, 0), old, Ending::Planned, None),
            (status("signal", 2, 6), old, Ending::Signaled(6), Some(KnownEvent::Crash)),
        ] {
            assert_eq!(judged(&status, known), (ending, kind), "{status:?} {known:?}");
        }
    }
}
