//! Arms that are ready to be started.

use heaptrial_allocator::{Application, Expected, Obtained};
use heaptrial_model::{Arm, Identity};

/// An arm with the allocator that was obtained and verified for it.
#[derive(Debug, Clone)]
pub struct PreparedArm {
    pub arm: Arm,
    /// The allocator it runs under; the host's C library where the treatment names none.
    pub obtained: Obtained,
}

impl PreparedArm {
    pub(crate) fn application(&self) -> Application {
        self.obtained.application()
    }

    /// What a process of its services must run: of an arm that names no allocator, what the program has.
    pub(crate) fn expected(&self, found: &Identity) -> Expected {
        if self.arm.treatment.allocator.is_some() {
            return self.obtained.expected();
        }
        let given = &self.arm.treatment.environment;
        let own = found.settings.iter().filter(|(name, value)| given.get(*name) == Some(*value));
        Expected::as_it_is(own.map(|(name, value)| (name.clone(), value.clone())).collect())
    }
}
