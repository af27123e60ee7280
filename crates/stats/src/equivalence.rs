//! Where an interval stands to a margin around no effect, and to no effect.

/// What an interval shows of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The whole interval lies inside the margin: equivalence is shown, even if 0 is excluded.
    Inside,
    /// The whole interval lies above 0, and not inside the margin.
    AboveZero,
    /// The whole interval lies below 0, and not inside the margin.
    BelowZero,
    /// Neither: more data are needed.
    Unclear,
}

/// Where the interval `(low, high)` stands to `-margin..margin` and to 0, in any one unit.
///
/// Two one-sided tests at level alpha show equivalence exactly where the interval of confidence
/// 1 - 2 alpha lies inside the margin (D. J. Schuirmann, "A Comparison of the Two One-Sided Tests
/// Procedure and the Power Approach for Assessing the Equivalence of Average Bioavailability", Journal
/// of Pharmacokinetics and Biopharmaceutics 15 (1987)). With an interval of 95% each test is at 2.5%.
/// An end on the margin or on 0 is not beyond it. An interval that is empty or not a number is `Unclear`.
pub fn standing(interval: (f64, f64), margin: f64) -> Standing {
    let (low, high) = interval;
    // Not `low > high`: an end that is not a number has to be caught as well.
    if low.is_nan() || high.is_nan() || low > high {
        Standing::Unclear
    } else if -margin < low && high < margin {
        Standing::Inside
    } else if low > 0.0 {
        Standing::AboveZero
    } else if high < 0.0 {
        Standing::BelowZero
    } else {
        Standing::Unclear
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_position_has_its_name() {
        for (interval, expected) in [
            ((-0.1, 0.3), Standing::Inside),
            ((0.1, 0.3), Standing::Inside),
            ((-0.3, -0.1), Standing::Inside),
            ((0.1, 0.7), Standing::AboveZero),
            ((-0.7, -0.1), Standing::BelowZero),
            ((-0.1, 0.5), Standing::Unclear),
            ((0.0, 0.7), Standing::Unclear),
            ((0.3, 0.1), Standing::Unclear),
            ((f64::NAN, 0.1), Standing::Unclear),
            ((f64::NEG_INFINITY, f64::INFINITY), Standing::Unclear),
        ] {
            assert_eq!(standing(interval, 0.5), expected, "{interval:?}");
        }
        assert_eq!(standing((0.1, 0.2), 0.0), Standing::AboveZero);
    }

    proptest! {
        /// Interval inclusion is the pair of one-sided z-tests.
        #[test]
        fn inside_is_what_two_one_sided_tests_say(
            estimate in -1.0f64..1.0, error in 0.01f64..0.5, margin in 0.1f64..1.0
        ) {
            let z = 1.959_963_984_540_054;
            let both = (estimate + margin) / error > z && (margin - estimate) / error > z;
            let inside = standing((estimate - z * error, estimate + z * error), margin) == Standing::Inside;
            prop_assert_eq!(inside, both);
        }
    }
}
