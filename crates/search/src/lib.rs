//! What to measure next, when every measurement is noisy: pure searches that a lab run answers.

pub mod bisect;
pub mod tune;
