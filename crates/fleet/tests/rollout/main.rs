//! Gates of rollouts, and what they hold services to.

mod expected;
mod gate;
mod trial;
