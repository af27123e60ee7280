//! What is odd about the data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    pub kind: FindingKind,
    pub severity: Severity,
    /// Positions of the arms that it is about.
    pub arms: Vec<usize>,
    /// Names of the services that it is about.
    pub services: Vec<String>,
    pub evidence: String,
}

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A figure is wrong if nothing is done about it.
    Grave,
    /// A figure may mislead whoever reads it.
    Caution,
    /// No figure is wrong for it.
    Note,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FindingKind {
    /// Hosts of the plan, or readings of hosts, that are not in the data.
    DataMissing,
    /// Services of a trial have another arm or block than was drawn for them.
    AssignedByHand,
    /// An arm does not do the same on every host.
    DiffersByHost,
    /// A life whose proved identity is not its arm's treatment.
    Contaminated,
    /// A service in two arms, or a life that spans a change of treatment.
    TreatmentUncertain,
    /// Half or more of an arm's services behave as those of another arm, and the rest as those of none.
    MostlyAsAnotherArm,
    /// A service whose memory behaves as that of another arm.
    NearerToAnotherArm,
    /// Services that are read no more before the end, or were taken out; or all that came after a time, as asked for.
    EndsEarly,
    /// Services that lack readings, or were not read for long.
    LacksSamples,
    /// Services without a known start.
    AgeUnknown,
    /// Arms whose ages are not equal, that never ran at the same time, or that are compared far below the age that was reached.
    UnequalAge,
    /// Services in no level, as they are young or were not read in time, or in blocks or on servers without the control.
    NotCompared,
    /// Services of an arm ran several builds, or with several settings.
    SeveralBuilds,
    /// Services have memory in swap that the metric does not count.
    Swapped,
    /// Services reached the memory that they may use, or freed some in distress; or the host's runs out if all arms grow on.
    MemoryRunsShort,
    /// Some services of an arm bloat, and the arm as a whole does not.
    SomeBloat,
    /// An arm with too few services.
    FewServices,
    /// The identity of services was not proved.
    IdentityNotProved,
    /// Services crash, are killed or restarted, which nobody planned, and more of them than of the control.
    FailsMoreOften,
    /// Services do less work than those of the control.
    WorkBelowControl,
    /// Work of the control is known, and not that of an arm.
    WorkUnknown,
    /// Services lost a flag of their network that those of the control have.
    FlagLost,
}

impl Finding {
    /// About all arms, and no service by name.
    pub(crate) fn new(kind: FindingKind, severity: Severity, evidence: String) -> Self {
        Self { kind, severity, arms: Vec::new(), services: Vec::new(), evidence }
    }

    pub(crate) fn of_arm(self, arm: usize) -> Self {
        self.of_arms(vec![arm])
    }

    pub(crate) fn of_arms(self, arms: Vec<usize>) -> Self {
        Self { arms, ..self }
    }

    pub(crate) fn naming(self, services: Vec<String>) -> Self {
        Self { services, ..self }
    }

    /// Whether it bears on what is said of an arm: it is about all arms, about this one, or about the control to which it is
    /// compared. That some services of the control bloat says nothing against another arm.
    pub fn bears_on(&self, arm: usize, control: Option<usize>) -> bool {
        let of_control = self.kind != FindingKind::SomeBloat;
        let about = |of: &usize| *of == arm || of_control && Some(*of) == control;
        self.arms.is_empty() || self.arms.iter().any(about)
    }
}
