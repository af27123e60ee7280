//! Watches over simulated fleets.

mod causes;
mod metrics;
mod simulation;
mod stored;
mod thirty_days;
mod unseen;
