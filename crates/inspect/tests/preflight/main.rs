//! Each check is shown to fire, and not to fire, on a fixture tree. That what it refuses really keeps a treatment from
//! taking hold is shown on a real systemd, in `crates/heaptrial/tests/host/preflight.rs`.

mod environment;
mod fixture;
mod library;
mod program;
mod unit;
