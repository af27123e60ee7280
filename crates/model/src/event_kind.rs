//! What kinds of things happen in a trial.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::word::words;

words! {
    /// The kinds of events that mean something to Heaptrial.
    pub enum KnownEvent: "kind of an event" {
        /// The main process ended by itself with a failure.
        Crash = "crash",
        /// The kernel killed a process for want of memory.
        OomKill = "oom_kill",
        /// A restart that the trial asked for, or its timer.
        RestartPlanned = "restart_planned",
        /// A restart by something that is no part of the trial.
        RestartUnplanned = "restart_unplanned",
        /// It has had no main process for a while.
        ServiceDown = "service_down",
        /// The host was started anew.
        Reboot = "reboot",
        /// Nothing was sampled for a while.
        Gap = "gap",
        /// The wall clock was set.
        ClockJump = "clock_jump",
        /// A life began to run something else.
        IdentityChange = "identity_change",
        /// A life was found not to run its arm's treatment.
        Contaminated = "contaminated",
        /// The file of its allocator was replaced on disk.
        AllocatorReplaced = "allocator_replaced",
        /// Another file of its code was replaced on disk.
        FileReplaced = "file_replaced",
        /// A relay reports nothing of its work.
        RelaySilent = "relay_silent",
        /// From here on events say which services have their treatment.
        TreatmentsRecorded = "treatments_recorded",
        /// A service was proved to have its arm's treatment.
        TreatmentCommitted = "treatment_committed",
        /// A service did not take its arm's treatment.
        TreatmentFailed = "treatment_failed",
        /// A service is as before the trial.
        TreatmentReverted = "treatment_reverted",
        /// A person took a service out of a running trial: nothing after it is of the trial.
        Dropped = "dropped",
        /// A service could not be put back.
        RevertFailed = "revert_failed",
        /// Something to know about a run.
        Note = "note",
        /// Something that may make a run's figures wrong.
        Warning = "warning",
        /// The processors were busy all the time.
        CpuSaturated = "cpu_saturated",
        /// An arm's service failed in a lab run.
        ArmFailed = "arm_failed",
        /// Operators restarted processes, which dates their starts.
        Restart = "restart",
        /// Operators moved services to another group.
        Migration = "migration",
        ConfigChange = "config_change",
        /// A configuration came into force.
        ConfigActivated = "config_activated",
        Experiment = "experiment",
        /// The start that a store reports of a service moved, and nothing shows a restart.
        StartMoved = "start_moved",
        /// An operators' event whose group is no arm: it is about nobody.
        Unattributed = "unattributed",
    }
}

/// The kind of an event.
///
/// Operators' files have kinds of their own; such a kind is kept as it is written, and decides nothing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum EventKind {
    Known(KnownEvent),
    /// Any other, as written: no word of [`KnownEvent`].
    Other(String),
}

impl KnownEvent {
    /// Whether a service failed: by itself, or because memory ran out.
    pub fn is_failure(self) -> bool {
        matches!(self, Self::Crash | Self::OomKill)
    }

    /// Whether it is of the host, and so about every service where it names none.
    pub fn is_of_the_host(self) -> bool {
        matches!(self, Self::Reboot | Self::Gap | Self::ClockJump)
    }

    /// Whether services run something else afterwards, so that a life that spans it is of two treatments.
    pub fn changes_treatment(self) -> bool {
        matches!(self, Self::Migration | Self::ConfigChange | Self::ConfigActivated | Self::Experiment)
    }
}

impl EventKind {
    /// The word in files, tables and the database.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(known) => known.as_str(),
            Self::Other(word) => word,
        }
    }

    /// The kind, if it means something.
    pub fn known(&self) -> Option<KnownEvent> {
        match self {
            Self::Known(known) => Some(*known),
            Self::Other(_) => None,
        }
    }
}

impl From<&str> for EventKind {
    fn from(word: &str) -> Self {
        word.parse().map_or_else(|_| Self::Other(word.to_owned()), Self::Known)
    }
}

impl From<KnownEvent> for EventKind {
    fn from(known: KnownEvent) -> Self {
        Self::Known(known)
    }
}

impl PartialEq<KnownEvent> for EventKind {
    fn eq(&self, other: &KnownEvent) -> bool {
        self.known() == Some(*other)
    }
}

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_word_is_never_another_kind() {
        for known in KnownEvent::ALL {
            let kind = EventKind::from(known.as_str());
            assert_eq!((kind.known(), kind.as_str()), (Some(*known), known.as_str()));
            assert_eq!(serde_json::from_value::<EventKind>(known.as_str().into()).unwrap(), kind);
        }
    }

    #[test]
    fn an_operators_own_word_is_kept_and_decides_nothing() {
        for word in ["Crash", "kernel_upgrade", "", "crash "] {
            let kind = EventKind::from(word);
            assert_eq!((kind.known(), kind.to_string().as_str()), (None, word));
            assert_eq!(serde_json::to_value(&kind).unwrap(), word);
        }
    }
}
