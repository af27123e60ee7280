//! From rows to findings.

mod nodes;
mod score;
mod several_hosts;
mod trajectories;
