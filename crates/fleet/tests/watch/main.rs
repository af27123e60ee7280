//! Watches over simulated fleets.

mod alerts;
mod simulation;
mod stored;
mod thirty_days;
mod unseen;
