//! Which services are changed together.

use std::str::FromStr;

use heaptrial_model::ServiceName;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_chacha::ChaCha8Rng;

/// Sizes of waves: a canary of so many services, then so many percent of all, those before included. The last is 100.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaveSizes {
    pub canary: u32,
    /// Percent of all services that have the treatment after each further wave, ascending, the last 100.
    pub percent: Vec<u32>,
}

impl Default for WaveSizes {
    fn default() -> Self {
        Self { canary: 1, percent: vec![5, 25, 100] }
    }
}

impl FromStr for WaveSizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "`{text}` is no list of waves; expected ascending percentages that end with 100%, such as 5%,25%,100%"
            )
        };
        let number = |part: &str| part.trim().strip_suffix('%').unwrap_or(part.trim()).parse::<u32>();
        let percent: Vec<u32> = text.split(',').map(number).collect::<Result<_, _>>().map_err(|_| wrong())?;
        let ascends = percent.windows(2).all(|pair| pair[0] < pair[1]);
        if !ascends || percent.first() == Some(&0) || percent.last() != Some(&100) {
            return Err(wrong());
        }
        Ok(Self { percent, ..Self::default() })
    }
}

/// The waves, none of them empty, in an order drawn from `seed`.
pub fn split(services: &[ServiceName], sizes: &WaveSizes, seed: u64) -> Vec<Vec<ServiceName>> {
    let mut order = services.to_vec();
    order.sort();
    order.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let count = order.len();
    let share = |percent: &u32| (count * *percent as usize).div_ceil(100);
    let ends = std::iter::once(sizes.canary as usize).chain(sizes.percent.iter().map(share)).chain([count]);
    let mut waves = Vec::new();
    let mut done = 0;
    for end in ends {
        let end = end.min(count);
        if end > done {
            waves.push(order[done..end].to_vec());
            done = end;
        }
    }
    waves
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn services(count: usize) -> Vec<ServiceName> {
        (0..count).map(|number| format!("tor@r{number}.service").parse().unwrap()).collect()
    }

    fn lengths(count: usize, sizes: &WaveSizes) -> Vec<usize> {
        split(&services(count), sizes, 1).iter().map(Vec::len).collect()
    }

    #[test]
    fn waves_grow_and_small_fleets_have_fewer() {
        let usual = WaveSizes::default();
        assert_eq!(lengths(200, &usual), [1, 9, 40, 150]);
        assert_eq!(lengths(40, &usual), [1, 1, 8, 30]);
        assert_eq!(lengths(3, &usual), [1, 2]);
        assert_eq!(lengths(1, &usual), [1]);
        assert!(lengths(0, &usual).is_empty());
        assert_eq!(lengths(10, &WaveSizes { canary: 20, ..usual }), [10]);
        for wrong in ["", "5%", "50%,25%,100%", "0%,100%", "5%,200%", "a"] {
            assert!(wrong.parse::<WaveSizes>().is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn every_service_is_in_exactly_one_wave(count in 0_usize..300, canary in 1_u32..9, seed: u64) {
            let all = services(count);
            let waves = split(&all, &WaveSizes { canary, ..WaveSizes::default() }, seed);
            let mut found = waves.concat();
            prop_assert!(waves.iter().all(|wave| !wave.is_empty()));
            prop_assert_eq!(split(&all, &WaveSizes { canary, ..WaveSizes::default() }, seed).concat(), found.clone());
            found.sort();
            let mut sorted = all;
            sorted.sort();
            prop_assert_eq!(found, sorted);
        }
    }
}
