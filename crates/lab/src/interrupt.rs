use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A request to end the run early; children are ended and what was measured is kept. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Interrupt(Arc<AtomicBool>);

impl Interrupt {
    /// Whether the run has to end.
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// The flag itself, for a signal handler to set.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}
