//! When straight growth reaches a limit.

/// Days until a limit is reached.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FirstPassage {
    /// Days at the growth that was estimated.
    pub estimate: f64,
    /// At the upper end of the interval of growth; `None` without an interval.
    pub earliest: Option<f64>,
    /// At the lower end of the interval; `None` without an interval, or where its lower end does not
    /// grow and the limit may never be reached.
    pub latest: Option<f64>,
}

/// Days until a service at `level` that grows by `growth` per day reaches `limit`, all on one scale
/// (bytes, or logarithms for growth by a constant factor), with the interval of growth carried over.
///
/// `(limit - level) / growth`: the first passage of a straight line (N. R. Draper, H. Smith, "Applied
/// Regression Analysis", 3rd edition (1998), section 3.2, inverse regression with a level that is
/// known). The level's own error and any levelling off are not in it. 0 days where the limit is already
/// reached; `None` where the estimate does not grow or something is not finite.
pub fn first_passage(
    level: f64,
    growth: f64,
    interval: Option<(f64, f64)>,
    limit: f64,
) -> Option<FirstPassage> {
    let way = limit - level;
    if !way.is_finite() || !growth.is_finite() {
        return None;
    }
    if way <= 0.0 {
        return Some(FirstPassage { estimate: 0.0, earliest: Some(0.0), latest: Some(0.0) });
    }
    let days = |growth: f64| (growth > 0.0).then(|| way / growth);
    Some(FirstPassage {
        estimate: days(growth)?,
        earliest: interval.and_then(|(_, high)| days(high)),
        latest: interval.and_then(|(low, _)| days(low)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_from_the_way_and_the_growth() {
        let found = first_passage(4.0, 0.5, Some((0.25, 1.0)), 8.0).unwrap();
        assert_eq!(found, FirstPassage { estimate: 8.0, earliest: Some(4.0), latest: Some(16.0) });
        assert_eq!(first_passage(4.0, 0.5, Some((-0.1, 1.0)), 8.0).unwrap().latest, None);
        assert_eq!(first_passage(4.0, 0.5, None, 8.0).unwrap().earliest, None);
    }

    #[test]
    fn what_does_not_grow_has_no_date_and_what_is_there_has_arrived() {
        assert_eq!(first_passage(4.0, 0.0, Some((-1.0, 1.0)), 8.0), None);
        assert_eq!(first_passage(4.0, f64::NAN, None, 8.0), None);
        assert_eq!(first_passage(9.0, -1.0, None, 8.0).unwrap().estimate, 0.0);
    }
}
