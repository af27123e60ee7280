//! How often something happens, with the error of having looked at some fleets only.

use std::fmt;

use heaptrial_evaluate::analysis::{Analysis, Clock, Settings, analyse};
use rayon::prelude::*;

use super::{Scenario, Simulated, simulate};

/// A share over fleets.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Rate {
    /// Fleets that count.
    pub fleets: u32,
    sum: f64,
    squares: f64,
}

impl Rate {
    fn add(&mut self, share: Option<f64>) {
        if let Some(share) = share {
            self.fleets += 1;
            self.sum += share;
            self.squares += share * share;
        }
    }

    /// The mean over fleets.
    pub fn mean(&self) -> f64 {
        self.sum / f64::from(self.fleets)
    }

    /// Monte Carlo standard error of the mean. The fleet is the unit: arms of one fleet are not independent.
    pub fn standard_error(&self) -> f64 {
        let n = f64::from(self.fleets);
        ((self.squares / n - self.mean().powi(2)).max(0.0) / n).sqrt()
    }
}

/// In percent with its standard error; where all fleets agree, the end of the 95% interval ("rule of three").
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (percent, three) = (100.0 * self.mean(), 300.0 / f64::from(self.fleets));
        if self.fleets == 0 {
            f.write_str("-")
        } else if percent <= 0.0 {
            write!(f, "0 (below {three:.2})")
        } else if percent >= 100.0 {
            write!(f, "100 (above {:.2})", 100.0 - three)
        } else {
            write!(f, "{percent:.1} ± {:.1}", 100.0 * self.standard_error())
        }
    }
}

/// What `measure` says of the analyses of `fleets` fleets: a share for each of its entries, `None` where the
/// fleet does not count. The same seed gives the same rates, however many threads there are.
pub fn rates<const N: usize>(
    scenario: &Scenario,
    fleets: u32,
    seed: u64,
    measure: impl Fn(&Simulated, &Analysis) -> [Option<f64>; N] + Sync,
) -> [Rate; N] {
    rates_by(Clock::Calendar, scenario, fleets, seed, measure)
}

/// The same by another clock.
pub fn rates_by<const N: usize>(
    clock: Clock,
    scenario: &Scenario,
    fleets: u32,
    seed: u64,
    measure: impl Fn(&Simulated, &Analysis) -> [Option<f64>; N] + Sync,
) -> [Rate; N] {
    let shares: Vec<[Option<f64>; N]> = (0..fleets)
        .into_par_iter()
        .map(|number| {
            let mut simulated = simulate(scenario, seed.wrapping_mul(1_000_003) + u64::from(number));
            simulated.fleet.clock = clock;
            measure(&simulated, &analyse(&simulated.fleet, &Settings::default()))
        })
        .collect();
    let mut rates = [Rate::default(); N];
    for shares in shares {
        rates.iter_mut().zip(shares).for_each(|(rate, share)| rate.add(share));
    }
    rates
}
