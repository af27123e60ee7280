//! Commands that are run alongside a service: outside of what is measured, and without the arm's allocator.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use heaptrial_model::Ending;

use crate::Accounting;
use crate::end::{EndRequest, EndSignal};
use crate::placeholders::Placeholders;
use crate::service::{inherited_allocator_settings, last_words};
use crate::supervisor::{KeptCommand, Supervisor};

/// How often an errand is looked at while it is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Where errands of one service belong.
#[derive(Debug, Clone)]
pub(crate) struct ErrandPlace {
    /// The program that is the supervisor.
    pub(crate) supervisor: PathBuf,
    pub(crate) logs: PathBuf,
    pub(crate) service: String,
    pub(crate) placeholders: Placeholders,
}

/// A command under way, run by `sh -c`. Dropping it ends it and all that it started.
#[derive(Debug)]
pub(crate) struct Errand {
    /// What it is for: `prepare`, `load`, `conclude`.
    what: &'static str,
    supervisor: Option<Supervisor>,
    stdout: PathBuf,
    stderr: PathBuf,
    ended: Option<Result<(), String>>,
}

impl Errand {
    pub(crate) fn start(place: &ErrandPlace, what: &'static str, text: &str) -> Result<Self, String> {
        let log = |stream: &str| place.logs.join(format!("{}.{what}.{stream}", place.service));
        let (stdout, stderr) = (log("stdout"), log("stderr"));
        let command = KeptCommand {
            words: ["/bin/sh".into(), "-c".into(), place.placeholders.fill(text).into()].into(),
            environment: BTreeMap::new(),
            removed: inherited_allocator_settings(std::iter::empty()),
            stdout: stdout.clone(),
            stderr: stderr.clone(),
            // At an interrupt load generators write their summary.
            end: EndRequest { signal: EndSignal::Int, ..EndRequest::default() },
            cgroup: None,
        };
        let (supervisor, _) = Supervisor::start(&place.supervisor, &Accounting::not_measured(), &command)
            .map_err(|error| format!("its --{what} could not be started: {error}"))?;
        Ok(Self { what, supervisor: Some(supervisor), stdout, stderr, ended: None })
    }

    /// What it writes to its standard output and error.
    pub(crate) fn outputs(&self) -> [&Path; 2] {
        [&self.stdout, &self.stderr]
    }

    /// How it ended by itself: `None` while it runs, and an error with its last words where it failed.
    pub(crate) fn ended(&mut self) -> Option<&Result<(), String>> {
        if self.ended.is_none() {
            let ending = self.supervisor.as_mut()?.ended()?;
            self.ended = Some(self.judged(&ending));
        }
        self.ended.as_ref()
    }

    fn judged(&self, ending: &Ending) -> Result<(), String> {
        match ending {
            // What it left behind goes on until the errand is dropped.
            Ending::Exited(0) | Ending::ForkedAway => Ok(()),
            ending => {
                let how = match ending {
                    Ending::Exited(code) => format!("ended with code {code}"),
                    other => other.to_string(),
                };
                let mut words = last_words(&self.stderr);
                if words.is_empty() {
                    words = last_words(&self.stdout);
                }
                Err(format!("its --{} {how}{words}", self.what))
            }
        }
    }

    /// Waits for its end, or until `goes_on` says that waiting is of no use.
    pub(crate) fn wait(&mut self, goes_on: &dyn Fn() -> bool) -> Result<(), String> {
        loop {
            if let Some(ended) = self.ended() {
                return ended.clone();
            }
            if !goes_on() {
                return Err(format!("its --{} was interrupted", self.what));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    pub(crate) fn failed(&self) -> bool {
        matches!(self.ended, Some(Err(_)))
    }

    /// Ends it with all that it started, and waits for that.
    pub(crate) fn stop(&mut self) {
        if let Some(mut supervisor) = self.supervisor.take() {
            supervisor.ask_to_end();
            // One that cannot be ended is reported by the supervisor of the service as well.
            let _ = supervisor.close();
        }
    }
}
