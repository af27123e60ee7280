//! Hosts of the test bed.

mod base;
mod hosts;
