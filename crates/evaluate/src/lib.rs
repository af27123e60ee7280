//! From the rows of a database to findings and verdicts: the one procedure.
//!
//! [`analysis`] is pure and knows a fleet of services; [`judgement`] makes that fleet from rows.

pub mod analysis;
pub mod judgement;
