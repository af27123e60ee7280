//! Load on the relays under trial: the same for each relay at the same time. Directory clients come and go by a plan;
//! traffic (held connections and circuits) goes on all the time.

mod driver;
mod held;
mod plan;
mod request;
mod traffic;

pub use driver::{LoadDriver, LoadTotals};
pub use plan::LoadParameters;
pub use traffic::{Traffic, TrafficParameters, TrafficTotals};

use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rand::Rng;

/// An address of loopback for a client, whose second byte is one of these.
fn source(random: &mut impl Rng, second: Range<u8>) -> Ipv4Addr {
    Ipv4Addr::new(127, random.random_range(second), random.random_range(0..250), random.random_range(1..251))
}

/// What was counted at one relay, by all that its clients do.
#[derive(Debug, Clone, Default)]
struct Totals<T>(Arc<Mutex<T>>);

impl<T> Totals<T> {
    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts what is there for as long as it is there, however it ends.
struct Present<T> {
    totals: Totals<T>,
    counter: fn(&mut T) -> &mut u64,
}

impl<T: Clone> Present<T> {
    fn new(totals: &Totals<T>, counter: fn(&mut T) -> &mut u64) -> Self {
        *counter(&mut totals.lock()) += 1;
        Self { totals: totals.clone(), counter }
    }
}

impl<T> Drop for Present<T> {
    fn drop(&mut self) {
        *(self.counter)(&mut self.totals.lock()) -= 1;
    }
}
