//! Watches over simulated fleets.

mod alerts;
mod metrics;
mod simulation;
mod stored;
mod thirty_days;
mod unseen;
