//! Services that stand out of their arm.

use heaptrial_stats::median;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::outcome::Analysis;

/// Deviations from the median, as median absolute deviations, from which a service stands out,
const DEVIATIONS: f64 = 5.0;
/// and the factor by which it has to differ: where an arm's services are almost alike, small differences are no news.
const FACTOR: f64 = 1.5;
/// The median absolute deviation times this estimates the standard deviation of normal values.
const NORMAL: f64 = 1.4826;
/// In fewer services than these nobody stands out: there is no telling what is usual.
const SERVICES: usize = 5;

/// A service whose memory is far from that of its arm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outlier {
    /// Position of the service.
    pub service: usize,
    /// Position of the arm.
    pub arm: usize,
    /// Its level at the matched age, in bytes.
    pub level_bytes: f64,
    /// Median over the arm's services, without off-treatment services, in bytes.
    pub median_bytes: f64,
    /// Level over median.
    pub factor: f64,
}

/// Services of an arm whose level is more than 5 median absolute deviations (on the log scale, scaled to a standard
/// deviation) and more than a factor of 1.5 from the arm's median, farthest first. Off-treatment services belong to no arm, and are
/// told of by themselves.
///
/// C. Leys et al., "Detecting outliers", Journal of Experimental Social Psychology 49 (2013), on why not the standard
/// deviation: an outlier widens it and hides. By simulation, of arms in which nobody differs (log-normal levels) a
/// service stands out in less than 0.1% where the levels' spread is 10%; where it is 20% in 4% of arms of 5 services, 1.2%
/// of 20 and 0.1% of 80; where it is 40% in 10% of arms of 5, 1.5% of 20 and 0.1% of 80.
pub fn outliers(analysis: &Analysis) -> Vec<Outlier> {
    let mut found: Vec<Outlier> = (0..analysis.arms.len()).flat_map(|arm| of_arm(analysis, arm)).collect();
    let far = |outlier: &Outlier| outlier.factor.ln().abs();
    found.sort_by(|a, b| far(b).total_cmp(&far(a)).then((a.arm, a.service).cmp(&(b.arm, b.service))));
    found
}

fn of_arm(analysis: &Analysis, arm: usize) -> Vec<Outlier> {
    let own: Vec<(usize, f64)> = analysis
        .members(arm)
        .into_iter()
        .filter_map(|index| Some((index, analysis.services[index].level_bytes.filter(|bytes| *bytes > 0.0)?)))
        .collect();
    let levels: Vec<f64> = own.iter().map(|(_, level)| *level).collect();
    let Some((median_bytes, far)) = standing_out(&levels) else { return Vec::new() };
    let outlier = |place: usize| {
        let (service, level_bytes) = own[place];
        Outlier { service, arm, level_bytes, median_bytes, factor: level_bytes / median_bytes }
    };
    far.into_iter().map(outlier).collect()
}

/// The median of positive levels, and the positions of those far from it. `None` of too few.
fn standing_out(levels: &[f64]) -> Option<(f64, Vec<usize>)> {
    if levels.len() < SERVICES {
        return None;
    }
    let logs: Vec<f64> = levels.iter().map(|level| level.ln()).collect();
    let middle = median(&logs)?;
    let deviations: Vec<f64> = logs.iter().map(|log| (log - middle).abs()).collect();
    let usual = NORMAL * median(&deviations)?;
    let limit = (DEVIATIONS * usual).max(FACTOR.ln());
    let far = (0..levels.len()).filter(|place| deviations[*place] > limit);
    Some((middle.exp(), far.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, LogNormal};

    /// Share of arms of `services` alike in which one stands out.
    fn false_alarms(services: usize, spread: f64) -> f64 {
        const ARMS: u32 = 20_000;
        let mut random = ChaCha8Rng::seed_from_u64(services as u64);
        let levels = LogNormal::new(21.0, spread).unwrap();
        let told = (0..ARMS).filter(|_| {
            let arm: Vec<f64> = (0..services).map(|_| levels.sample(&mut random)).collect();
            !standing_out(&arm).unwrap().1.is_empty()
        });
        told.count() as f64 / f64::from(ARMS)
    }

    #[test]
    fn false_alarms_are_as_rare_as_told() {
        // Services, spread of levels, and the share that the description tells.
        for (services, spread, told) in [
            (5, 0.1, 0.001),
            (20, 0.1, 0.001),
            (80, 0.1, 0.001),
            (5, 0.2, 0.04),
            (20, 0.2, 0.012),
            (5, 0.4, 0.10),
            (20, 0.4, 0.015),
            (80, 0.4, 0.001),
        ] {
            let found = false_alarms(services, spread);
            // Two decimals of a share, and what 20,000 draws leave open.
            assert!(found <= 1.1 * told + 0.001, "{services} {spread}: {found}");
        }
        assert!(false_alarms(5, 0.4) > 0.05, "few services of wide spread are not told as certain");
    }

    #[test]
    fn both_sides_and_both_conditions() {
        let alike = [1.0, 1.01, 0.99, 1.02, 0.98, 1.0, 1.01];
        let with = |level: f64| [&alike[..], &[level]].concat();
        assert_eq!(standing_out(&with(1.6)).unwrap().1, [7]);
        assert_eq!(standing_out(&with(0.6)).unwrap().1, [7]);
        assert!(standing_out(&with(1.4)).unwrap().1.is_empty(), "far by deviations, but less than 1.5 times");
        let wide = [1.0, 0.5, 2.0, 0.7, 1.4, 3.0, 0.3];
        assert!(standing_out(&wide).unwrap().1.is_empty(), "a factor of 3 where levels differ that much");
        assert_eq!(standing_out(&alike[..4]), None);
        assert_eq!(standing_out(&[1.0, 1.0, 1.0, 1.0, 9.0]).unwrap().1, [4]);
    }

    proptest! {
        #[test]
        fn units_do_not_matter(levels in prop::collection::vec(0.1f64..100.0, 5..40), unit in 1.0f64..1e9) {
            let scaled: Vec<f64> = levels.iter().map(|level| level * unit).collect();
            let (median, far) = standing_out(&levels).unwrap();
            prop_assert!(2 * far.len() < levels.len());
            for (place, level) in levels.iter().enumerate() {
                let told = far.contains(&place);
                let factor = (level / median).max(median / level);
                prop_assert!(!told || factor > 1.5 * (1.0 - 1e-9));
            }
            // Where nobody is at the limit.
            let (again, far_again) = standing_out(&scaled).unwrap();
            prop_assert!((again / median / unit - 1.0).abs() < 1e-9);
            prop_assert!(far == far_again || far.len().abs_diff(far_again.len()) <= 1);
        }
    }
}
