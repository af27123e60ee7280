//! Each check is shown to fire, and not to fire, on a fixture tree. That what it refuses really keeps a treatment from
//! taking hold is shown on a real systemd, in `crates/heaptrial/tests/host/preflight.rs`.

mod environment;
mod library;
mod program;
mod unit;

use crate::preflight::fixture::Fixture;

#[test]
fn nothing_speaks_against_a_plain_service() {
    Fixture::new().is_fine();
    let mut own = Fixture::new();
    own.own_c_library();
    own.is_fine();
}
