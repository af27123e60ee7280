//! Searches whose truth is known.

mod lab;
mod recorded;
mod simulated;
