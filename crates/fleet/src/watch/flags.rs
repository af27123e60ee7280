//! Flags that a relay had and has no more, though it ran on.

use heaptrial_model::TorFlag;

/// Flags whose loss takes work from a relay.
pub(crate) const WATCHED: [TorFlag; 3] = [TorFlag::Guard, TorFlag::HSDir, TorFlag::V2Dir];
/// A relay may miss a consensus, of which there is one an hour.
const CONSENSUSES: f64 = 3.0 * 3600.0;

/// Since when, in seconds of age, a life has lost a flag, by readings of 1 and 0 in order of age; `None` where it has it, never had
/// it in this life, or was without it for less than three consensuses. A restart takes flags for days, and is no loss.
pub(crate) fn lost_since(readings: &[(f64, f64)]) -> Option<f64> {
    let last = readings.last()?.0;
    let had = readings.iter().rposition(|(_, has)| *has > 0.5)?;
    let (since, _) = *readings.get(had + 1)?;
    (last - since >= CONSENSUSES).then_some(since)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(readings: &[(f64, f64)]) -> Option<f64> {
        let readings: Vec<(f64, f64)> = readings.iter().map(|(hour, has)| (hour * 3600.0, *has)).collect();
        lost_since(&readings).map(|since| since / 3600.0)
    }

    #[test]
    fn a_flag_is_lost_when_it_was_there_and_stays_away() {
        assert_eq!(hours(&[(1.0, 0.0), (100.0, 1.0), (101.0, 0.0), (104.0, 0.0)]), Some(101.0));
        for kept in [
            &[][..],
            &[(1.0, 0.0), (100.0, 0.0)],
            &[(1.0, 1.0), (100.0, 1.0)],
            &[(1.0, 1.0), (100.0, 0.0), (102.9, 0.0)],
            &[(1.0, 1.0), (100.0, 0.0), (104.0, 1.0)],
            &[(1.0, 1.0), (100.0, 0.0), (102.0, 1.0), (103.0, 0.0), (105.0, 0.0)],
        ] {
            assert_eq!(hours(kept), None, "{kept:?}");
        }
    }
}
