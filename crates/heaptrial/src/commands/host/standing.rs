//! Where a trial or a rollout of this host is, and what is wrong with it.

use std::time::Duration;

use heaptrial_change::{
    Ledger, Prepared, ServiceState, Stage, TrialStage, TrialState, changed_files, check_trusted,
    read_prepared, read_state, trials,
};
use heaptrial_fleet::rollout::is_rollout;
use heaptrial_host::systemd::{Manager as _, Systemd};
use heaptrial_model::ServiceName;
use serde::Serialize;
use serde_json::{Value, json};

use super::Host;
use super::record::is_over;
use crate::answer::Answer;
use crate::exit::Failure;

/// A trial or rollout, as its journal and the host show it.
pub struct Standing {
    pub prepared: Prepared,
    pub state: TrialState,
    /// Whether a process is changing its services.
    pub at_work: bool,
    pub problems: Vec<Problem>,
}

/// Something about a trial, a rollout or a watch that a person should know.
#[derive(Debug, Clone, Serialize)]
pub struct Problem {
    /// A word for programs, such as `not_running`.
    pub kind: &'static str,
    pub service: Option<String>,
    pub what: String,
    /// Whether the status command fails for it.
    pub grave: bool,
}

impl Problem {
    pub fn grave(kind: &'static str, service: Option<&ServiceName>, what: String) -> Self {
        Self { grave: true, ..Self::note(kind, service, what) }
    }

    pub fn note(kind: &'static str, service: Option<&ServiceName>, what: String) -> Self {
        Self { kind, service: service.map(ToString::to_string), what, grave: false }
    }
}

impl Standing {
    pub fn read(host: &Host<'_>, name: &str) -> Result<Self, Failure> {
        let mut standing = Self {
            prepared: read_prepared(&host.paths, name)?,
            state: read_state(&host.paths, name)?,
            at_work: host.is_at_work(name),
            problems: Vec::new(),
        };
        if let Err(error) = check_trusted(&host.paths, name) {
            standing.problems.push(Problem::grave("untrusted", None, error.to_string()));
        }
        standing.look_at_services();
        if !is_over(&standing.state) {
            standing.look_at_systemd(host);
        }
        Ok(standing)
    }

    fn look_at_services(&mut self) {
        let is_rollout = is_rollout(&self.prepared);
        for (service, path) in changed_files(&self.state) {
            let what = format!("{} is not as it was written", path.display());
            // What an ended trial left is the operator's.
            let grave = is_rollout || !is_over(&self.state);
            self.problems.push(Problem { grave, ..Problem::note("changed_file", Some(&service), what) });
        }
        let puts_back =
            matches!(self.state.stage, TrialStage::Reverting | TrialStage::Reverted) || is_rollout;
        let kept = self.state.services.iter().filter(|(name, _)| !self.state.dropped.contains(name));
        for (service, found) in kept {
            let why = found.why.clone().unwrap_or_default();
            self.problems.extend(match found.stage {
                Stage::Committed => None,
                Stage::Reverted if puts_back => None,
                Stage::Reverted => Some(Problem::note("put_back", Some(service), why)),
                Stage::RevertFailed => Some(Problem::grave("not_put_back", Some(service), why)),
                Stage::Changing | Stage::Reverting => {
                    Some(Problem::note("being_changed", Some(service), why))
                }
            });
        }
        for service in &self.state.given_up {
            let what = "it could not be put back, and may still run the treatment".to_owned();
            self.problems.push(Problem::note("given_up", Some(service), what));
        }
    }

    /// Adds services that were changed or put back and that do not run.
    fn look_at_systemd(&mut self, host: &Host<'_>) {
        let is_settled = |found: &ServiceState| matches!(found.stage, Stage::Committed | Stage::Reverted);
        let names = self.state.services.iter().filter(|(_, found)| is_settled(found));
        let names: Vec<ServiceName> = names.map(|(name, _)| name.clone()).collect();
        let Ok(systemd) = Systemd::connect_with_limit(host.paths.scope, Duration::from_secs(5)) else {
            return;
        };
        for (service, status) in names.iter().zip(systemd.statuses(&names)) {
            let Ok(status) = status else { continue };
            if status.active_state != "active" {
                let what = format!("it is {} ({})", status.active_state, status.sub_state);
                self.problems.push(Problem::note("not_running", Some(service), what));
            }
        }
    }
}

/// What a status command shows of a trial, a rollout or a watch.
pub struct Status {
    /// In a line, with its name.
    pub headline: String,
    /// Below the headline where it alone was asked for.
    pub detail: String,
    /// For programs; the problems are added.
    pub document: Value,
    pub problems: Vec<Problem>,
}

impl Status {
    fn lines(&self) -> String {
        let line = |problem: &Problem| {
            let service = problem.service.as_ref().map_or(String::new(), |service| format!(" {service}:"));
            let what = if problem.what.is_empty() { String::new() } else { format!(" {}", problem.what) };
            format!("  {}:{service}{what}\n", problem.kind.replace('_', " "))
        };
        self.problems.iter().map(line).collect()
    }

    fn document(&self) -> Value {
        let mut document = self.document.clone();
        document["problems"] = json!(self.problems);
        document
    }

    fn is_well(&self) -> bool {
        self.problems.iter().all(|problem| !problem.grave)
    }

    /// Of one that was named.
    pub fn answer(&self) -> Answer {
        let text = format!("{}\n{}{}", self.headline, self.detail, self.lines());
        Answer::new(self.document(), text).unless(self.is_well())
    }

    /// Of all of a kind, such as `trials`; `none` is printed where there is none.
    pub fn list(kind: &str, all: &[Self], damaged: &[Damaged], none: &str) -> Answer {
        let mut text: String =
            all.iter().map(|status| format!("{}\n{}", status.headline, status.lines())).collect();
        for damaged in damaged {
            text += &format!("{}: {}\n", damaged.name, damaged.why);
        }
        if text.is_empty() {
            text = format!("{none}\n");
        }
        let documents: Vec<Value> = all.iter().map(Self::document).collect();
        let well = damaged.is_empty() && all.iter().all(Self::is_well);
        Answer::new(json!({ kind: documents, "damaged": damaged }), text).unless(well)
    }
}

/// A trial or rollout whose folder is damaged or gone.
#[derive(Debug, Serialize)]
pub struct Damaged {
    pub name: String,
    pub why: String,
}

/// All trials, or all rollouts, of this host, and what is damaged of either.
pub fn standings(host: &Host<'_>, rollouts: bool) -> Result<(Vec<Standing>, Vec<Damaged>), Failure> {
    let (mut found, mut damaged) = (Vec::new(), Vec::new());
    for name in trials(&host.paths)? {
        match read_prepared(&host.paths, &name) {
            Ok(prepared) if is_rollout(&prepared) != rollouts => continue,
            Ok(_) => {}
            Err(error) => {
                damaged.push(Damaged { name, why: error.to_string() });
                continue;
            }
        }
        match Standing::read(host, &name) {
            Ok(standing) => found.push(standing),
            Err(error) => damaged.push(Damaged { name, why: error.to_string() }),
        }
    }
    for stray in Ledger::of_this_host(&host.paths)?.strays()? {
        if damaged.iter().all(|known: &Damaged| known.name != stray.name) {
            let why = format!(
                "its folder is gone, and {} is still there; restore the folder, or see docs/rollback-by-hand.md",
                stray.path.display()
            );
            damaged.push(Damaged { name: stray.name, why });
        }
    }
    Ok((found, damaged))
}
