//! Whether a rollout may go on. What judges here cannot change anything.

mod memory;
mod pool;
mod work;

use heaptrial_change::Standing;
use heaptrial_evaluate::analysis::Worked;
use heaptrial_model::{ServiceName, TorFlag, units};
use serde::{Deserialize, Serialize};

pub use self::memory::{Above, Level, Together, judge as judge_memory};
pub use self::pool::{Judged, pool};
pub use self::work::LEAST_WORK;
use crate::rollout::expected::Stratum;
use crate::rollout::plan::Before;
use crate::rollout::step::Reason;

/// What samples and events show of a service since it has its treatment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observed {
    /// Median memory over the last window of its life, in bytes, and the life's age at its end in seconds.
    pub level: Option<(f64, f64)>,
    pub last_reading_seconds: Option<f64>,
    pub failures: Vec<String>,
    pub work: Option<Worked>,
    pub flags: Option<Vec<TorFlag>>,
}

/// A service before the judge.
#[derive(Debug, Clone)]
pub struct Subject<'a> {
    pub service: &'a ServiceName,
    pub standing: &'a Standing,
    pub observed: Option<&'a Observed>,
    pub before: Option<&'a Before>,
    pub stratum: &'a Stratum,
    /// Whether it is of the wave that is judged: what is older than all the trial saw has passed its own gate.
    pub is_new: bool,
}

/// What a gate goes by.
#[derive(Debug, Clone, Copy)]
pub struct Grounds {
    pub work_seconds: f64,
    pub judges_work: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything that has to be known is known and as expected.
    Go,
    /// Something is not as expected.
    Stop,
    /// Something is not known. Missing data never passes.
    NotEnough,
}

/// A gate's decision and what it rests on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Gate {
    pub outcome: Outcome,
    /// What speaks against going on, or what is missing.
    pub reasons: Vec<Reason>,
    pub evidence: Vec<String>,
    /// Of which services memory was judged: those of several hosts are judged together by it.
    pub levels: Vec<Level>,
    /// Work of the services of the wave over that of before.
    pub work: Vec<(String, f64)>,
}

#[derive(Default)]
struct Findings {
    against: Vec<Reason>,
    missing: Vec<Reason>,
    evidence: Vec<String>,
}

impl Findings {
    fn against(&mut self, service: &ServiceName, what: String) {
        self.against.push(Reason { service: Some(service.clone()), what });
    }

    fn missing(&mut self, service: &ServiceName, what: impl Into<String>) {
        self.missing.push(Reason { service: Some(service.clone()), what: what.into() });
    }

    /// The decision; of no services nothing is known.
    fn gate(self, levels: Vec<Level>, work: Vec<(String, f64)>, services: usize) -> Gate {
        let Self { against, missing, evidence } = self;
        let (outcome, reasons) = match (against.is_empty(), missing.is_empty()) {
            (false, _) => (Outcome::Stop, against),
            (true, true) if services > 0 => (Outcome::Go, missing),
            (true, _) => (Outcome::NotEnough, missing),
        };
        Gate { outcome, reasons, evidence, levels, work }
    }
}

/// Judges all services that have the treatment.
pub fn judge(subjects: &[Subject<'_>], grounds: &Grounds) -> Gate {
    let mut findings = Findings::default();
    standings(subjects, &mut findings);
    failures(subjects, &mut findings);
    let levels = memory::levels(subjects, &mut findings);
    memory::single(&levels, &mut findings);
    memory::together(&levels, &mut findings);
    let work = work::judge(subjects, grounds, &mut findings);
    findings.gate(levels, work, subjects.len())
}

fn standings(subjects: &[Subject<'_>], findings: &mut Findings) {
    let mut well = 0;
    for subject in subjects {
        match subject.standing {
            Standing::Well { .. } => well += 1,
            Standing::Untreated => findings.missing(subject.service, "it does not have the treatment"),
            Standing::NotReady(why) => findings.missing(subject.service, why.clone()),
            Standing::Failed(why) => findings.against(subject.service, why.clone()),
        }
    }
    findings.evidence.push(format!(
        "{well} of {} active, healthy, and proved to run what is rolled out",
        units::counted(subjects.len(), "service")
    ));
}

fn failures(subjects: &[Subject<'_>], findings: &mut Findings) {
    let mut count = 0;
    for subject in subjects {
        let failures = subject.observed.map_or(&[][..], |seen| &seen.failures);
        count += failures.len();
        if !failures.is_empty() {
            findings.against(subject.service, failures.join("; "));
        }
    }
    findings.evidence.push(format!("crashes and OOM kills: {count}"));
}
