//! What is odd about the data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something odd about the data.
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
    /// Hosts of the plan that are not in the data.
    HostsMissing,
    /// Readings of lives that are in the ledger, and not where readings are taken from.
    ReadingsMissing,
    /// Services of a trial have another arm or block than was drawn for them.
    AssignedByHand,
    /// An arm does not do the same on every host.
    DiffersByHost,
    /// A life whose proved identity is not its arm's treatment.
    Contaminated,
    /// A service in two arms.
    InTwoArms,
    /// Half or more of an arm's services behave as those of another arm, and the rest as those of none.
    MostlyAsAnotherArm,
    /// A service whose memory behaves as that of another arm.
    NearerToAnotherArm,
    /// A life that spans a change of treatment.
    SpansTreatmentChange,
    /// Services that are read no more before the end.
    Vanished,
    /// Services that a person took out of a running trial.
    Dropped,
    /// Services that lack readings, or were not read for long.
    LacksSamples,
    /// Services without a known start.
    AgeUnknown,
    /// Arms whose median ages are not equal.
    UnequalAge,
    /// Arms that never ran at the same time.
    NeverConcurrent,
    /// Services that were restarted more often than the control's, which nobody planned.
    RestartedMoreOften,
    /// Services are compared at an age far below that of most.
    ComparedYoung,
    /// Services that are read and in no level, as they were restarted not long ago or not read in time.
    WithoutLevel,
    /// Services of an arm ran several builds, or with several settings.
    SeveralBuilds,
    /// Services have memory in swap that the metric does not count.
    Swapped,
    /// Services reached the memory that they may use.
    LimitReached,
    /// The host's memory runs out if all arms go on growing.
    HostRunsFull,
    /// Some services of an arm bloat, and the arm as a whole does not.
    SomeBloat,
    /// An arm with too few services.
    FewServices,
    /// The identity of services was not proved.
    IdentityNotProved,
    /// Services in blocks, or on servers of an import, without a service of the control: no comparison uses them.
    WithoutControl,
    /// Services crash, are killed or restart by themselves, and more of them than of the control.
    FailsMoreOften,
    /// Services do less work than those of the control.
    WorkBelowControl,
    /// Work of the control is known, and not that of an arm.
    WorkUnknown,
    /// Services lost a flag of their network that those of the control have.
    FlagLost,
    /// The program's own out-of-memory handler freed memory.
    OomHandler,
    /// What came after a time is left out, as asked for.
    LeftOutAfter,
}

impl Finding {
    /// Whether it bears on what is said of an arm: it is about all arms, about this one, or about the control to which it is
    /// compared. That some services of the control bloat says nothing against another arm.
    pub fn bears_on(&self, arm: usize, control: Option<usize>) -> bool {
        let of_control = self.kind != FindingKind::SomeBloat;
        let about = |of: &usize| *of == arm || of_control && Some(*of) == control;
        self.arms.is_empty() || self.arms.iter().any(about)
    }
}
