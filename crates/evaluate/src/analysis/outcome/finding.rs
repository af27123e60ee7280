//! What is odd about the data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Something odd about the data.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// What was looked for.
    pub kind: FindingKind,
    /// How grave.
    pub severity: Severity,
    /// Positions of the arms that it is about.
    pub arms: Vec<usize>,
    /// Names of the services that it is about.
    pub services: Vec<String>,
    /// What was found.
    pub evidence: String,
}

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A figure is wrong if nothing is done about it.
    Grave,
    /// A figure may mislead.
    Caution,
    /// To know.
    Note,
}

/// What was looked for.
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
    /// Last values of an arm form separate clusters.
    SeparateClusters,
    /// Most services of an arm behave as those of another arm, and the rest as those of none.
    MostlyAsAnotherArm,
    /// A service whose memory behaves as that of another arm.
    NearerToAnotherArm,
    /// A life that spans a change of treatment.
    SpansTreatmentChange,
    /// Hosts that were begun or ended one after the other.
    HostsApart,
    /// Services whose told start moved, without a restart that shows.
    StartMoved,
    /// Services that appear late.
    Appeared,
    /// Services that vanish.
    Vanished,
    /// Services that a person took out of a running trial.
    Dropped,
    /// Services that lack samples.
    LacksSamples,
    /// Services without a known start.
    AgeUnknown,
    /// Arms of unequal age.
    UnequalAge,
    /// An arm that began on another day than the control, and whose ratio to it is another one at an equal time than at an equal age.
    AgeAndTimeDisagree,
    /// Arms that never ran at the same time.
    NeverConcurrent,
    /// Services that were restarted more often than the control's, which nobody planned.
    RestartedMoreOften,
    /// Services are compared at an age far below that of most.
    ComparedYoung,
    /// Services that are read and in no level, as they were restarted not long ago or not read in time.
    WithoutLevel,
    /// Nothing was read for long.
    Gaps,
    /// An arm's level is of other hours of the day than the control's.
    OtherHours,
    /// Services of a lab run whose memory goes up and down, so that their level is a mean.
    UpAndDown,
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
    /// Every arm grows.
    AllArmsGrow,
    /// An arm with too few services.
    FewServices,
    /// The identity of services was not proved.
    IdentityNotProved,
    /// Services in blocks without a service of the control, which no comparison uses.
    UnpairedBlocks,
    /// Services of an import on servers without a service of the control, which no comparison uses.
    ServersWithoutControl,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_bears_on_its_arms_those_compared_to_them_and_on_all_where_it_names_none() {
        let finding = |kind, arms: &[usize]| Finding {
            kind,
            severity: Severity::Grave,
            arms: arms.to_vec(),
            services: Vec::new(),
            evidence: String::new(),
        };
        // Of three arms the first is the control.
        let bears = |finding: &Finding| [0, 1, 2].map(|arm| finding.bears_on(arm, Some(0)));
        assert_eq!(bears(&finding(FindingKind::SomeBloat, &[1])), [false, true, false]);
        assert_eq!(bears(&finding(FindingKind::NeverConcurrent, &[1, 2])), [false, true, true]);
        assert_eq!(bears(&finding(FindingKind::Contaminated, &[0])), [true, true, true]);
        assert_eq!(bears(&finding(FindingKind::Gaps, &[])), [true, true, true]);
        // Those that leave the control leave what bloats.
        assert_eq!(bears(&finding(FindingKind::SomeBloat, &[0])), [true, false, false]);
    }
}
