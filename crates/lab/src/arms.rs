//! Arms that are ready to be started.

use heaptrial_allocator::{Application, Obtained};
use heaptrial_model::Arm;

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
}
