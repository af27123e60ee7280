//! What findings and objections say: title and consequence of each kind, in one place.

use heaptrial_evaluate::analysis::{FindingKind as Kind, Objection, Reason};

use crate::units;

/// Title of a kind of finding, and what it does to the result and what to do about it.
pub(crate) fn of(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::HostsMissing => {
            ("Hosts are missing", "Figures are of the other hosts only. Gather these hosts.")
        }
        Kind::ReadingsMissing => {
            ("Readings are missing", "Figures are of the other hosts only. Gather these again.")
        }
        Kind::AssignedByHand => (
            "Not assigned at random",
            "Arms may differ by how services were chosen, and no figure separates that from what the arms do. Draw a new plan, and leave its arms and blocks as they are.",
        ),
        Kind::DiffersByHost => {
            ("Differs between hosts", "The figure over all hosts averages hosts that differ.")
        }
        Kind::Contaminated => ("Ran something else", "Excluded. Figures over all services include them."),
        Kind::InTwoArms => (
            "In two arms",
            "A service runs one allocator: it counts for the arm that it fits; figures over all services count it in both.",
        ),
        Kind::MostlyAsAnotherArm => (
            "Most services behave as those of another arm",
            "Both arms do the same, or most of the list is wrong; nothing is excluded. Prove what its services run.",
        ),
        Kind::NearerToAnotherArm => (
            "Nearer to another arm",
            "Excluded: an inference from memory, which their processes could prove or disprove.",
        ),
        Kind::SpansTreatmentChange => (
            "A process ran across a change of treatment",
            "If the event changed what it should run, it still ran what it ran before.",
        ),
        Kind::Vanished => ("Vanished", "If memory is why they vanished, the arm looks better than it is."),
        Kind::Dropped => ("Dropped", "If their arm is why they were dropped, it looks better than it is."),
        Kind::LacksSamples => {
            ("Samples are missing", "Gaps are not filled: levels and slopes use fewer readings.")
        }
        Kind::AgeUnknown => (
            "Age unknown",
            "Such a service is older than it seems, and compared at less than its age. Observe it until it was restarted.",
        ),
        Kind::UnequalAge => {
            ("Arms of unequal age", "Last readings are of unequal age; levels and ratios are not.")
        }
        Kind::NeverConcurrent => (
            "Arms never ran at the same time",
            "What changed in between, such as load, looks like an effect of the arm. Observe the arms over the same days.",
        ),
        Kind::RestartedMoreOften => (
            "Restarted more often",
            "A service that never runs long needs less memory. Find out why, and compare processes of equal age.",
        ),
        Kind::ComparedYoung => (
            "Compared at a young age",
            "What memory does later is not compared. Wait, or exclude what came after the restarts (report --until).",
        ),
        Kind::WithoutLevel => (
            "Without a level",
            "Excluded from levels and ratios: if mostly the large ones restarted, the arm looks smaller than it is.",
        ),
        Kind::SeveralBuilds => {
            ("Several builds or settings", "The figures of the arm are a mixture of them.")
        }
        Kind::Swapped => {
            ("Memory in swap", "It belongs to the allocator as well. Compare anonymous memory with swap.")
        }
        Kind::LimitReached => (
            "Reached the memory limit",
            "Its level shows what it may have, not what it needs: it is slowed down or killed. Raise the limit.",
        ),
        Kind::HostRunsFull => (
            "The host runs out of memory",
            "The estimate of each arm assumes that only this arm grows. Together they run out sooner.",
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
        Kind::WithoutControl => (
            "Blocks without the control",
            "The ratio to the control is without them: services are compared within blocks. Run both on each server.",
        ),
        Kind::FailsMoreOften => (
            "Fails more often",
            "A service that fails begins again with little memory, and its work stopped. Find out why before a rollout.",
        ),
        Kind::WorkBelowControl => {
            ("Does less work", "That saves memory, and is no saving. Compare memory for each unit of work.")
        }
        Kind::WorkUnknown => ("Work unknown", "Less memory may come from less work."),
        Kind::FlagLost => {
            ("Lost a flag", "Its services are used less, which needs less memory. Find out why.")
        }
        Kind::OomHandler => (
            "Freed memory in distress",
            "Discarding work to stay below its limit (MaxMemInQueues) lowers memory.",
        ),
        Kind::LeftOutAfter => ("Later readings are excluded", "Every figure is of that time."),
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
