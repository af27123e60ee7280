//! What findings and objections say: title, short form, consequence and advice of each kind, in one place.

use heaptrial_evaluate::analysis::{FindingKind as Kind, Objection, Reason};

use crate::text::days;
use crate::units;

/// What is said of a kind of finding.
pub(crate) struct FindingText {
    /// A heading.
    pub(crate) title: &'static str,
    /// What it says of an arm: `is compared at a young age`.
    pub(crate) short: &'static str,
    /// What it does to the result.
    pub(crate) consequence: &'static str,
    /// What to do about it; empty where there is nothing to do.
    pub(crate) advice: &'static str,
}

pub(crate) fn of(kind: Kind) -> FindingText {
    let (title, short, consequence, advice) = match kind {
        Kind::HostsMissing => (
            "Hosts are missing",
            "is not measured on every host of the plan",
            "Every figure is of the other hosts only.",
            "gather the hosts that are missing",
        ),
        Kind::ReadingsMissing => (
            "Readings are missing",
            "lacks readings of some hosts",
            "Every figure is of the other hosts only.",
            "gather these hosts again",
        ),
        Kind::AssignedByHand => (
            "Not assigned at random",
            "has services that were not assigned at random",
            "Arms may differ by how services were chosen: no ratio, interval or p-value separates that from what the arms do.",
            "draw a new plan, and leave its arms and blocks as they are",
        ),
        Kind::DiffersByHost => (
            "Differs between hosts",
            "does not do the same on every host",
            "The figure over all hosts is an average of hosts that differ.",
            "",
        ),
        Kind::BuildsByHost => (
            "Other builds on other hosts",
            "runs other builds on other hosts",
            "Where the ratio differs between these hosts, that may come from the build.",
            "",
        ),
        Kind::Contaminated => (
            "Ran something else",
            "has services that ran something else",
            "These services are excluded; figures over all services include them.",
            "",
        ),
        Kind::InTwoArms => (
            "In two arms",
            "shares services with another arm",
            "A service runs one allocator: each arm counts it over all services, and only the arm that it fits without excluded ones.",
            "",
        ),
        Kind::SeparateClusters => (
            "Separate clusters in one arm",
            "has two groups of services",
            "A mean over clusters describes none of its services.",
            "",
        ),
        Kind::MostlyAsAnotherArm => (
            "Most services behave as those of another arm",
            "has a list of which most services behave as those of another arm",
            "Either both arms do the same, or most of the list is wrong. Nothing is excluded, and the figures of the arm are a mixture.",
            "prove what its services run, and correct the list",
        ),
        Kind::NearerToAnotherArm => (
            "Nearer to another arm",
            "has services that behave as those of another arm",
            "These services are excluded: an inference from memory, which their processes would prove or disprove.",
            "",
        ),
        Kind::SpansTreatmentChange => (
            "A process ran across a change of treatment",
            "has processes that ran across a change",
            "If the event changed what they should run, they still run what they ran before.",
            "",
        ),
        Kind::HostsApart => (
            "Hosts started or stopped at different times",
            "ran on hosts at different times",
            "Arms are compared at equal age within each host.",
            "",
        ),
        Kind::StartMoved => (
            "Reported start time changed",
            "has services whose start time changed",
            "They are taken to have run on. If they were restarted, their ages are too high.",
            "",
        ),
        Kind::Appeared => (
            "Appeared late",
            "has services that appeared late",
            "None where they are as old as the others by now: comparisons are at equal age.",
            "",
        ),
        Kind::Vanished => (
            "Vanished",
            "has services that vanished",
            "If memory is why they vanished, the arm looks better than it is.",
            "",
        ),
        Kind::Dropped => (
            "Dropped",
            "has services that were dropped from the trial",
            "What they showed before counts. If their arm is why they were dropped, it looks better than it is.",
            "",
        ),
        Kind::LacksSamples => (
            "Samples are missing",
            "lacks samples",
            "Gaps are not filled: levels and slopes use fewer readings.",
            "",
        ),
        Kind::AgeUnknown => (
            "Age unknown",
            "is compared where services may be older than their readings show",
            "Ages count from the first reading: such a service is older than it seems, and is compared at less than its age.",
            "observe it until services of both arms have been restarted",
        ),
        Kind::UnequalAge => (
            "Arms of unequal age",
            "is of another age",
            "Last readings are of unequal age; levels and ratios are at the matched age.",
            "",
        ),
        Kind::AgeAndTimeDisagree => (
            "Result depends on matching by age or by date",
            "has another result by date than by age",
            "At equal age the load differed, at equal date the age: nothing separates the two.",
            "begin all arms on the same day",
        ),
        Kind::NeverConcurrent => (
            "Arms never ran at the same time",
            "never ran at the same time as an arm it is compared with",
            "Anything that changed in between, such as load, looks like an effect of the arm.",
            "observe the arms over the same days",
        ),
        Kind::RestartedMoreOften => (
            "Restarted more often",
            "was restarted more often",
            "A service that is restarted often uses less memory because it never runs long.",
            "find out why, and compare processes of equal age",
        ),
        Kind::ComparedYoung => (
            "Compared at a young age",
            "is compared at a young age",
            "What memory does later is not compared. Wait, or exclude what came after the restarts (report --until).",
            "observe it longer without restarts",
        ),
        Kind::WithoutLevel => (
            "Without a level",
            "has services without a level",
            "These services are excluded from levels and ratios. If mostly the large ones restarted, the arm looks smaller than it is.",
            "",
        ),
        Kind::Gaps => (
            "Gaps",
            "has gaps in its readings",
            "Nothing is filled in: growth is measured across the gap.",
            "",
        ),
        Kind::OtherHours => (
            "Read at other hours",
            "was read at other hours of the day",
            "Where load has a daily rhythm, a difference may be that of the hours.",
            "",
        ),
        Kind::SeveralBuilds => (
            "Several builds or settings",
            "ran several builds or settings",
            "A build or a setting can matter more than the version: the figures of the arm are a mixture.",
            "",
        ),
        Kind::Swapped => (
            "Memory in swap",
            "has memory in swap, which these figures do not count",
            "Swapped memory belongs to the allocator as well.",
            "compare anonymous memory with swap",
        ),
        Kind::UpAndDown => (
            "Goes up and down",
            "has memory that goes up and down",
            "Their level is the mean of their readings; a shorter --tick sees more.",
            "",
        ),
        Kind::LimitReached => (
            "Reached the memory limit",
            "has services that reached their memory limit",
            "Such a service is slowed down or killed: its level shows what it may have, not what it needs.",
            "raise the limit",
        ),
        Kind::HostRunsFull => (
            "The host runs out of memory",
            "grows with all others until the host is full",
            "The estimate of each arm assumes that only this arm grows. Together they run out sooner.",
            "",
        ),
        Kind::SomeBloat => (
            "Some services bloat",
            "has services that bloat",
            "Medians and ratios of the arm say nothing about them.",
            "find out what distinguishes them",
        ),
        Kind::AllArmsGrow => (
            "Every arm grows",
            "grows, as every arm does",
            "Growth that all arms share may come from rising load. It does not change differences between arms.",
            "",
        ),
        Kind::FewServices => (
            "Few services",
            "is compared over few services",
            "Intervals are wide, assume normality of the logarithms, or are missing.",
            "",
        ),
        Kind::IdentityNotProved => (
            "Identity not proved",
            "has services whose allocator was not proved",
            "They count for their arm; whether they ran its treatment is not known.",
            "",
        ),
        Kind::UnpairedBlocks => (
            "Blocks without the control",
            "has services in blocks without the control",
            "The ratio to the control is without them: services are compared within blocks.",
            "",
        ),
        Kind::ServersWithoutControl => (
            "Servers without the control",
            "has services on servers without the control",
            "The ratio to the control is without them: services are compared within servers.",
            "run both on each server",
        ),
        Kind::FailsMoreOften => (
            "Fails more often",
            "fails more often than the control",
            "A service that fails begins again with little memory, and its work was interrupted.",
            "find out why before a rollout",
        ),
        Kind::WorkBelowControl => (
            "Does less work",
            "does less work than the control",
            "Memory that is saved by doing less is no saving.",
            "compare memory for each unit of work",
        ),
        Kind::WorkUnknown => {
            ("Work unknown", "has no readings of its work", "Less memory may come from less work.", "")
        }
        Kind::FlagLost => (
            "Lost a flag",
            "has fewer services with a flag",
            "Services that are used less need less memory.",
            "its services are used less: find out why",
        ),
        Kind::OomHandler => (
            "Freed memory in distress",
            "freed memory by its own out-of-memory handler",
            "It discards work to stay below its limit (MaxMemInQueues of Tor), which lowers memory.",
            "",
        ),
        Kind::LeftOutAfter => (
            "Later readings are excluded",
            "is read only up to the chosen time",
            "Every figure is of that time.",
            "",
        ),
    };
    FindingText { title, short, consequence, advice }
}

/// What an objection says after the arm's name: `is bloating`, `is compared at a young age (observe it longer)`.
pub fn objection(objection: &Objection) -> String {
    let text = match &objection.reason {
        Reason::LessWork => {
            "does less work than the control: compare memory for each unit of work".to_owned()
        }
        Reason::Bloats => "is bloating".to_owned(),
        Reason::SomeBloat { services, of } => format!("has {services} of {of} services that bloat"),
        Reason::GrowthUnknown => "has not been observed long enough to measure its growth".to_owned(),
        Reason::ReachesControl { days: in_days, bytes_per_day } => format!(
            "grows by {} a day and needs as much as the control in {}",
            units::memory(*bytes_per_day),
            days(*in_days)
        ),
        Reason::WorseAsAssigned => {
            "has a worse verdict over all of its services than without the non-compliant ones".to_owned()
        }
        Reason::Finding { kind, of_control, services } => {
            let FindingText { short, advice, .. } = of(*kind);
            let whose = if *of_control { "is compared with a control that " } else { "" };
            let number = match services {
                0 => String::new(),
                services => format!(" ({})", units::counted(*services as usize, "service")),
            };
            let advice = Some(advice).filter(|advice| objection.blocks && !advice.is_empty());
            let advice = advice.map_or(String::new(), |advice| format!("; {advice}"));
            format!("{whose}{short}{number}{advice}")
        }
    };
    match objection.explains {
        Some(factor) => format!("{text} (could explain a factor of {})", units::ratio(factor)),
        None => text,
    }
}
