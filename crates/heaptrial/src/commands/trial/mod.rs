//! `heaptrial trial`: a randomised trial on the services of a fleet.

pub(super) mod findings;
pub(super) mod in_database;
mod leave_out;
