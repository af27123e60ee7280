//! What to measure next, when every measurement is noisy: pure searches that a lab run answers.

pub mod bisect;
mod measured;
pub mod tune;

pub use measured::{MeasuredArm, MeasuredBlock};
