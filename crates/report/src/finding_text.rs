//! What findings and objections say: title and consequence of each kind, in one place.

use heaptrial_evaluate::analysis::{FindingKind as Kind, Objection, Reason};

use crate::units;

/// Title of a kind of finding, and what it does to the result and what to do about it.
pub(crate) fn of(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::DataMissing => {
            ("Data are missing", "Figures are of the other hosts only. Gather what is missing.")
        }
        Kind::AssignedByHand => (
            "Not assigned at random",
            "Arms may differ by how services were chosen, and no figure separates that from what the arms do. Draw a new plan, and leave its arms and blocks as they are.",
        ),
        Kind::DiffersByHost => {
            ("Differs between hosts", "The figure over all hosts averages hosts that differ.")
        }
        Kind::Contaminated => ("Ran something else", "Excluded. Figures over all services include them."),
        Kind::TreatmentUncertain => (
            "In two arms or treatments",
            "It may have run another treatment than its arm's. A service in two arms counts for the arm that it fits; figures over all services count it in both.",
        ),
        Kind::MostlyAsAnotherArm => (
            "Most services behave as those of another arm",
            "Both arms do the same, or most of the list is wrong; nothing is excluded. Prove what its services run.",
        ),
        Kind::NearerToAnotherArm => (
            "Nearer to another arm",
            "Excluded: an inference from memory, which their processes could prove or disprove.",
        ),
        Kind::EndsEarly => (
            "Readings end early",
            "Figures are of what was read. If an arm is why its services are read no more, it looks better than it is.",
        ),
        Kind::LacksSamples => {
            ("Samples are missing", "Gaps are not filled: levels and slopes use fewer readings.")
        }
        Kind::AgeUnknown => (
            "Age unknown",
            "Such a service is older than it seems, and compared at less than its age. Observe it until it was restarted.",
        ),
        Kind::UnequalAge => (
            "Unequal ages or times",
            "Levels and ratios are of one age, last readings are not. What memory does later is not compared, and what changed between the times of two arms looks like their effect. Observe all arms over the same days.",
        ),
        Kind::NotCompared => (
            "Services are not compared",
            "Excluded from ratios: if mostly the large ones are, the arm looks smaller than it is. Run the control in each block or on each server, and wait for services that restarted.",
        ),
        Kind::SeveralBuilds => {
            ("Several builds or settings", "The figures of the arm are a mixture of them.")
        }
        Kind::Swapped => {
            ("Memory in swap", "It belongs to the allocator as well. Compare anonymous memory with swap.")
        }
        Kind::MemoryRunsShort => (
            "Memory runs short",
            "At a limit a level shows what a service may have, not what it needs: it is slowed down, killed, or discards work. Raise the limit.",
        ),
        Kind::SomeBloat => {
            ("Some services bloat", "Medians and ratios hide them. Find out what distinguishes them.")
        }
        Kind::FewServices => {
            ("Few services", "Intervals are wide, assume normality of logarithms, or are missing.")
        }
        Kind::IdentityNotProved => {
            ("Identity not proved", "They count for their arm, whether or not they ran its treatment.")
        }
        Kind::FailsMoreOften => (
            "Fails or restarts more often",
            "A service that fails or restarts begins again with little memory, and its work stopped. Find out why before a rollout.",
        ),
        Kind::WorkBelowControl => {
            ("Does less work", "That saves memory, and is no saving. Compare memory for each unit of work.")
        }
        Kind::WorkUnknown => ("Work unknown", "Less memory may come from less work."),
        Kind::FlagLost => {
            ("Lost a flag", "Its services are used less, which needs less memory. Find out why.")
        }
    }
}

/// What an objection says after the arm's name: `is bloating`, `is compared at a young age (observe it longer)`.
pub fn objection(objection: &Objection) -> String {
    let text = match &objection.reason {
        Reason::LessWork => "does less work than the control".to_owned(),
        Reason::Bloats => "bloating".to_owned(),
        Reason::SomeBloat { services, of } => format!("{services} of {of} services bloat"),
        Reason::GrowthUnknown => "observed too briefly to measure its growth".to_owned(),
        Reason::ReachesControl { days: in_days, bytes_per_day } => format!(
            "grows by {} a day and needs as much as the control in {}",
            units::memory(*bytes_per_day),
            units::duration(86_400.0 * in_days)
        ),
        Reason::WorseAsAssigned => {
            "its verdict over all services is worse than without the non-compliant ones".to_owned()
        }
        Reason::Finding { kind, of_control, services } => {
            let some = units::counted(*services as usize, "service");
            let about = match (of_control, services) {
                (true, 0) => " (the control)".to_owned(),
                (true, _) => format!(" ({some} of the control)"),
                (false, 0) => String::new(),
                (false, _) => format!(" ({some})"),
            };
            format!("{}{about}", of(*kind).0.to_lowercase())
        }
    };
    match objection.explains {
        Some(factor) => format!("{text}, which could explain a factor of {}", units::ratio(factor)),
        None => text,
    }
}
