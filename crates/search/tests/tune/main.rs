//! Searches whose truth is known.

mod comparison;
mod lab;
mod recorded;
mod simulated;
mod space;
mod verified;
