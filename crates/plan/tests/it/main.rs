//! Assignments and the plan file.

mod assignment;
mod cost_and_balance;
mod file;
mod support;
