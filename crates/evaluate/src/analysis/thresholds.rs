//! Thresholds that several steps share.

/// This share is enough to stand for the whole: of the services of an arm, of the time of a service.
pub(crate) const ENOUGH: f64 = 0.5;
/// What this share does not exceed is usual, and the rest are exceptions.
pub(crate) const USUAL_SHARE: f64 = 0.9;
/// Fewer services of an arm are single cases.
pub(crate) const FEWEST_OF_A_GROUP: usize = 3;
/// Nothing read for this share of a time is a gap worth a word.
pub(crate) const SILENT_SHARE: f64 = 0.1;
