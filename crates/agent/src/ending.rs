//! What the end of a process lifetime means.

use heaptrial_model::{Ending, KnownEvent};

use crate::systemd_journal::End;

/// How a lifetime ended, for the ledger, and the event that reports it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) ending: Ending,
    /// `None` where a command of Heaptrial has recorded it.
    pub(crate) event: Option<(KnownEvent, String)>,
}

/// `end` is what systemd's journal says, if anything; `by_heaptrial` whether a command of Heaptrial restarted the service,
/// or is about to because the lifetime is older than its trial.
pub(crate) fn judge(end: Option<&End>, by_heaptrial: bool) -> Verdict {
    let verdict = |ending, kind, text: String| Verdict { ending, event: Some((kind, text)) };
    let planned = Verdict { ending: Ending::Planned, event: None };
    let Some(end) = end else {
        let text = "its main process is another one or gone, and why is unknown".to_owned();
        return if by_heaptrial {
            planned
        } else {
            verdict(Ending::Stopped, KnownEvent::RestartUnplanned, text)
        };
    };
    let how = end.how.clone();
    match () {
        () if end.oom => {
            let ending = how.unwrap_or(Ending::Signaled(9));
            let text = format!("OOM-killed by the kernel ({ending})");
            verdict(Ending::Signaled(9), KnownEvent::OomKill, text)
        }
        () if end.by_job && by_heaptrial => planned,
        () if end.by_timer => {
            verdict(Ending::Planned, KnownEvent::RestartPlanned, "restarted by the trial's timer".to_owned())
        }
        () if end.by_job => {
            let text = "stopped or restarted through systemd, and not by Heaptrial".to_owned();
            verdict(Ending::Stopped, KnownEvent::RestartUnplanned, text)
        }
        () if how.is_none() && end.result == "success" => {
            let text = "its main process ended by itself with success".to_owned();
            verdict(Ending::Stopped, KnownEvent::RestartUnplanned, text)
        }
        () => {
            let ending = how.unwrap_or(Ending::Exited(-1));
            let text = format!("{ending}; systemd's result is `{}`", end.result);
            verdict(ending, KnownEvent::Crash, text)
        }
    }
}

#[cfg(test)]
mod tests {
    use heaptrial_host::Instant;

    use super::*;
    use crate::systemd_journal::tests::end;

    #[test]
    fn every_kind_of_end_is_distinguished() {
        let at = Instant { wall_us: 0, boottime_us: 0 };
        let of = |result, how| end(result, how, at);
        let stopped = |end: End| End { by_job: true, ..end };
        let by_timer = |end: End| End { by_timer: true, by_job: true, ..end };
        let signal = |number| Some(Ending::Signaled(number));
        for (end, by_heaptrial, ending, kind) in [
            (of("exit-code", Some(Ending::Exited(3))), false, Ending::Exited(3), Some(KnownEvent::Crash)),
            (of("core-dump", signal(11)), false, Ending::Signaled(11), Some(KnownEvent::Crash)),
            (of("oom-kill", signal(9)), false, Ending::Signaled(9), Some(KnownEvent::OomKill)),
            (of("success", None), false, Ending::Stopped, Some(KnownEvent::RestartUnplanned)),
            (stopped(of("success", None)), false, Ending::Stopped, Some(KnownEvent::RestartUnplanned)),
            (stopped(of("success", None)), true, Ending::Planned, None),
            (stopped(of("timeout", signal(9))), true, Ending::Planned, None),
            (by_timer(of("success", None)), false, Ending::Planned, Some(KnownEvent::RestartPlanned)),
            // A crash is one, whoever was about to restart the service.
            (of("signal", signal(6)), true, Ending::Signaled(6), Some(KnownEvent::Crash)),
        ] {
            let verdict = judge(Some(&end), by_heaptrial);
            assert_eq!((verdict.ending, verdict.event.map(|event| event.0)), (ending, kind), "{end:?}");
        }
        assert_eq!(judge(None, true), Verdict { ending: Ending::Planned, event: None });
        assert_eq!(judge(None, false).ending, Ending::Stopped);
    }
}
