//! What kinds of trials call their services: an import does not know what ran, on hosts it is proved, and a lab run excludes what
//! did not run as planned.

use heaptrial_model::TrialKind;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Services that do not count as treated.
    pub(crate) excluded: &'static str,
    /// Figures over all services of an arm: how they came into it.
    pub(crate) assigned: &'static str,
    /// How services that do not count are found.
    pub(crate) method: &'static str,
    pub(crate) what_ran: &'static str,
    /// What to do where nothing was read.
    pub(crate) no_readings: &'static str,
}

const IMPORT: Terms = Terms {
    excluded: "suspected non-compliant services",
    assigned: "as listed",
    method: "Suspected non-compliant services: trajectories at least three times nearer to another arm than to their own.",
    what_ran: "The lists claim it; nothing in the data proves it.",
    no_readings: "Sums over services do not show what a service needs: import measurements of each service.",
};

const FIELD: Terms = Terms {
    excluded: "non-compliant services",
    assigned: "as assigned",
    method: "Non-compliant services: a process in which another allocator or other settings were found than its arm's, by reading \
             the running process. Nothing else excludes a service from its arm.",
    what_ran: "Read from the running processes, of every process lifetime.",
    no_readings: "Is the agent running (heaptrial agent)?",
};

const LAB: Terms = Terms {
    excluded: "excluded services",
    assigned: "as started",
    method: "An allocator counts as run only where it was proved in the running process. A service that crashed, exited early or \
             ran something else is listed and excluded from all figures.",
    what_ran: "Read from the running processes.",
    no_readings: "None of its services lived long enough to be read.",
};

pub(crate) fn terms(kind: TrialKind) -> Terms {
    match kind {
        kind if kind.is_import() => IMPORT,
        kind if kind.is_lab() => LAB,
        _ => FIELD,
    }
}
