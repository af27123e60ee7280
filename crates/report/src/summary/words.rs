//! What differs in words between kinds of trials: of an import nobody knows what ran, on services it is proved, and in a lab
//! a service that did not do as it should is in no figure.

use crate::document::Kind;

/// Words for one kind of trial.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words {
    /// Services that do not count as treated.
    pub(crate) off_treatment: &'static str,
    /// What is told of one.
    pub(crate) one: &'static str,
    /// What is told of several.
    pub(crate) several: &'static str,
    pub(crate) paragraph: &'static str,
    /// The table of figures with and without them.
    pub(crate) with_and_without: &'static str,
    /// Figures over all services of an arm: how they came into it.
    pub(crate) assigned: &'static str,
    /// Figures over all services of an arm, in tables.
    pub(crate) all_assigned: &'static str,
    /// Figures without off-treatment services, in tables.
    pub(crate) as_treated: &'static str,
    /// Of an arm without any, whose control has some.
    pub(crate) of_control: &'static str,
    /// What the services without them do; of one, and of several.
    pub(crate) belong: [&'static str; 2],
    pub(crate) belongs: &'static str,
    /// Over whom figures as assigned and as treated are.
    pub(crate) two_figures: &'static str,
    /// How off-treatment services are found.
    pub(crate) method: &'static str,
    /// How it is known what ran.
    pub(crate) what_ran: &'static str,
    /// What an arm was given.
    pub(crate) treatment: &'static str,
    /// Where nothing is told of that.
    pub(crate) no_treatment: &'static str,
    /// The parameters of the trial.
    pub(crate) parameters: &'static str,
    /// What to do where nothing was read.
    pub(crate) no_readings: &'static str,
    /// The first of all readings.
    pub(crate) start: &'static str,
}

/// Of lists that operators wrote.
const LISTED: Words = Words {
    off_treatment: "off-treatment services",
    one: "is off treatment",
    several: "are off treatment",
    paragraph: "Wrong lists",
    with_and_without: "With and without off-treatment services",
    assigned: "as listed",
    all_assigned: "all as listed",
    as_treated: "those that belong",
    of_control: "all, the control without its off-treatment services",
    belong: ["belongs", "belong"],
    belongs: "Belongs to it",
    two_figures: "As assigned is over all services of a list, as treated without off-treatment services",
    method: "Off-treatment services: last values that form separate clusters, and trajectories nearer to another arm than to their \
             own; each finding names its test and false alarm rate.",
    what_ran: "The lists claim it; nothing in the data proves it.",
    treatment: "Treatment claimed",
    no_treatment: "not told",
    parameters: "How the data were read",
    no_readings: "Sums over services do not tell what a service needs: import measurements of each service.",
    start: "First reading",
};

/// Of an assignment with a ledger.
const ASSIGNED: Words = Words {
    off_treatment: "contaminated services",
    one: "is contaminated",
    several: "are contaminated",
    paragraph: "Contaminated",
    with_and_without: "With and without contaminated services",
    assigned: "as assigned",
    all_assigned: "all as assigned",
    as_treated: "those that ran its treatment",
    of_control: "all, the control without contaminated services",
    belong: ["ran its treatment", "ran its treatment"],
    belongs: "Ran its treatment",
    two_figures: "As assigned is over all services put into an arm, as treated without contaminated ones",
    method: "Contaminated: a life in which another allocator or other settings were found than its arm's, by reading the \
             running process. Nothing else takes a service out of its arm.",
    what_ran: "Read from the running processes, of every life.",
    treatment: "Treatment",
    no_treatment: "as it was",
    parameters: "Parameters",
    no_readings: "Is the agent running (heaptrial agent)?",
    start: "Start",
};

const STARTED: Words = Words {
    off_treatment: "services that do not count",
    belongs: "Counts",
    method: "An allocator counts as run only where it was proved in the running process. A service that crashed, exited \
             early or ran something else is listed and is in no figure of an arm.",
    parameters: "Parameters of the workload",
    no_readings: "None of its services lived long enough to be read.",
    what_ran: "Read from the running processes, beside what was asked for.",
    ..ASSIGNED
};

/// The words for a kind.
pub(crate) fn words(kind: Kind) -> Words {
    match kind {
        Kind::ImportTorutils | Kind::ImportPrometheus => LISTED,
        Kind::Field | Kind::Host => ASSIGNED,
        Kind::LabCommand | Kind::LabTor => STARTED,
    }
}
