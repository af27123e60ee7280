//! What findings and objections say: title and consequence of each kind, in one place.

use heaptrial_evaluate::analysis::{FindingKind as Kind, Objection, Reason};

use crate::text::days;
use crate::units;

/// Title of a kind of finding, and what it does to the result and what to do about it.
pub(crate) fn of(kind: Kind) -> (&'static str, &'static str) {
    match kind {
        Kind::HostsMissing => (
            "Hosts are missing",
            "Every figure is of the other hosts only. Gather the hosts that are missing.",
        ),
        Kind::ReadingsMissing => {
            ("Readings are missing", "Every figure is of the other hosts only. Gather these hosts again.")
        }
        Kind::AssignedByHand => (
            "Not assigned at random",
            "Arms may differ by how services were chosen: no ratio, interval or p-value separates that from what the arms do. Draw a new plan, and leave its arms and blocks as they are.",
        ),
        Kind::DiffersByHost => {
            ("Differs between hosts", "The figure over all hosts is an average of hosts that differ.")
        }
        Kind::Contaminated => {
            ("Ran something else", "These services are excluded; figures over all services include them.")
        }
        Kind::InTwoArms => (
            "In two arms",
            "A service runs one allocator: each arm counts it over all services, and only the arm that it fits without excluded ones.",
        ),
        Kind::MostlyAsAnotherArm => (
            "Most services behave as those of another arm",
            "Either both arms do the same, or most of the list is wrong. Nothing is excluded, and the figures of the arm are a mixture. Prove what its services run, and correct the list.",
        ),
        Kind::NearerToAnotherArm => (
            "Nearer to another arm",
            "These services are excluded: an inference from memory, which their processes would prove or disprove.",
        ),
        Kind::SpansTreatmentChange => (
            "A process ran across a change of treatment",
            "If the event changed what they should run, they still run what they ran before.",
        ),
        Kind::Vanished => ("Vanished", "If memory is why they vanished, the arm looks better than it is."),
        Kind::Dropped => (
            "Dropped",
            "What they showed before counts. If their arm is why they were dropped, it looks better than it is.",
        ),
        Kind::LacksSamples => {
            ("Samples are missing", "Gaps are not filled: levels and slopes use fewer readings.")
        }
        Kind::AgeUnknown => (
            "Age unknown",
            "Ages count from the first reading: such a service is older than it seems, and is compared at less than its age. Observe it until services of both arms have been restarted.",
        ),
        Kind::UnequalAge => (
            "Arms of unequal age",
            "Last readings are of unequal age; levels and ratios are at the matched age.",
        ),
        Kind::NeverConcurrent => (
            "Arms never ran at the same time",
            "Anything that changed in between, such as load, looks like an effect of the arm. Observe the arms over the same days.",
        ),
        Kind::RestartedMoreOften => (
            "Restarted more often",
            "A service that is restarted often uses less memory because it never runs long. Find out why, and compare processes of equal age.",
        ),
        Kind::ComparedYoung => (
            "Compared at a young age",
            "What memory does later is not compared. Wait, or exclude what came after the restarts (report --until). Observe it longer without restarts.",
        ),
        Kind::WithoutLevel => (
            "Without a level",
            "These services are excluded from levels and ratios. If mostly the large ones restarted, the arm looks smaller than it is.",
        ),
        Kind::SeveralBuilds => (
            "Several builds or settings",
            "A build or a setting can matter more than the version: the figures of the arm are a mixture.",
        ),
        Kind::Swapped => (
            "Memory in swap",
            "Swapped memory belongs to the allocator as well. Compare anonymous memory with swap.",
        ),
        Kind::LimitReached => (
            "Reached the memory limit",
            "Such a service is slowed down or killed: its level shows what it may have, not what it needs. Raise the limit.",
        ),
        Kind::HostRunsFull => (
            "The host runs out of memory",
            "The estimate of each arm assumes that only this arm grows. Together they run out sooner.",
        ),
        Kind::SomeBloat => (
            "Some services bloat",
            "Medians and ratios of the arm say nothing about them. Find out what distinguishes them.",
        ),
        Kind::FewServices => {
            ("Few services", "Intervals are wide, assume normality of the logarithms, or are missing.")
        }
        Kind::IdentityNotProved => {
            ("Identity not proved", "They count for their arm; whether they ran its treatment is not known.")
        }
        Kind::WithoutControl => (
            "Blocks without the control",
            "The ratio to the control is without them: services are compared within blocks and servers. Run both on each server.",
        ),
        Kind::FailsMoreOften => (
            "Fails more often",
            "A service that fails begins again with little memory, and its work was interrupted. Find out why before a rollout.",
        ),
        Kind::WorkBelowControl => (
            "Does less work",
            "Memory that is saved by doing less is no saving. Compare memory for each unit of work.",
        ),
        Kind::WorkUnknown => ("Work unknown", "Less memory may come from less work."),
        Kind::FlagLost => (
            "Lost a flag",
            "Services that are used less need less memory. Its services are used less: find out why.",
        ),
        Kind::OomHandler => (
            "Freed memory in distress",
            "It discards work to stay below its limit (MaxMemInQueues of Tor), which lowers memory.",
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
            days(*in_days)
        ),
        Reason::WorseAsAssigned => {
            "its verdict over all services is worse than without the non-compliant ones".to_owned()
        }
        Reason::Finding { kind, of_control, services } => {
            let about = [
                of_control.then(|| "control".to_owned()),
                (*services > 0).then(|| units::counted(*services as usize, "service")),
            ];
            let about: Vec<String> = about.into_iter().flatten().collect();
            let about = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
            format!("{}{about}", of(*kind).0.to_lowercase())
        }
    };
    match objection.explains {
        Some(factor) => format!("{text}, which could explain a factor of {}", units::ratio(factor)),
        None => text,
    }
}
