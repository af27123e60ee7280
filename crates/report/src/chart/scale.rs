//! Axes: from figures to coordinates, and round numbers to label them with.

use crate::units::{self, GIB, MIB};

/// A linear axis that starts at 0.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    /// The highest figure that fits.
    pub(crate) limit: f64,
    /// Coordinates of 0 and of `limit`.
    pub(crate) range: (f64, f64),
    pub(crate) ticks: Vec<Tick>,
    /// The unit of the labels.
    pub(crate) unit: &'static str,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

impl Scale {
    /// An axis of memory up to at least `highest` bytes, with about `wanted` labels; ends on a label.
    pub(crate) fn memory(highest: f64, wanted: usize, range: (f64, f64)) -> Self {
        let highest = if highest > 0.0 { highest } else { MIB };
        let (unit, size) = if highest >= 1.5 * GIB { ("GiB", GIB) } else { ("MiB", MIB) };
        let step = round_step(highest / size / wanted as f64);
        let count = (highest / size / step - 1e-9).ceil().max(1.0) as usize;
        let decimals = decimals(step);
        let ticks = (0..=count)
            .map(|i| i as f64 * step)
            .map(|value| Tick { value: value * size, label: format!("{value:.decimals$}") })
            .collect();
        Self { limit: count as f64 * step * size, range, ticks, unit }
    }

    /// An axis of time up to `longest` seconds, with at most `wanted` steps.
    pub(crate) fn time(longest: f64, wanted: usize, range: (f64, f64)) -> Self {
        let mut longest = if longest > 0.0 { longest } else { 1.0 };
        let (unit, size) = match longest {
            seconds if seconds <= 180.0 => ("s", 1.0),
            seconds if seconds <= 3.0 * 3600.0 => ("min", 60.0),
            seconds if seconds <= 4.0 * 86_400.0 => ("h", 3600.0),
            _ => ("d", 86_400.0),
        };
        let units = longest / size;
        let natural: &[f64] = match unit {
            "d" => &[1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0],
            "h" => &[0.5, 1.0, 2.0, 3.0, 6.0, 12.0, 24.0],
            _ => &[0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 20.0, 30.0, 60.0],
        };
        let fits = |step: &&f64| units / **step <= wanted as f64;
        let step = natural.iter().find(fits).copied().unwrap_or_else(|| round_step(units / wanted as f64));
        let decimals = decimals(step);
        // The last reading comes just before the planned end: the axis ends on that round number.
        let end = (units / step).ceil() * step * size;
        if longest > 0.98 * end {
            longest = end;
        }
        let count = (longest / size / step + 1e-9).floor() as usize;
        let ticks = (0..=count)
            .map(|i| i as f64 * step)
            .map(|value| Tick { value: value * size, label: format!("{value:.decimals$}") })
            .collect();
        Self { limit: longest, range, ticks, unit }
    }

    /// An axis of a ratio up to at least `highest`, with about `wanted` labels.
    pub(crate) fn factor(highest: f64, wanted: usize, range: (f64, f64)) -> Self {
        let step = round_step(highest / wanted as f64);
        let count = (highest / step - 1e-9).ceil().max(1.0) as usize;
        let ticks = (0..=count).map(|i| i as f64 * step);
        let ticks = ticks.map(|value| Tick { value, label: units::ratio(value) });
        Self { limit: count as f64 * step, range, ticks: ticks.collect(), unit: "times" }
    }

    /// The coordinate of a figure.
    pub(crate) fn at(&self, value: f64) -> f64 {
        self.range.0 + (self.range.1 - self.range.0) * (value / self.limit).clamp(0.0, 1.0)
    }
}

/// A logarithmic axis of factors.
#[derive(Debug, Clone)]
pub(crate) struct Factors {
    /// The first and the last factor, both labelled.
    limits: (f64, f64),
    range: (f64, f64),
    pub(crate) ticks: Vec<Tick>,
}

impl Factors {
    /// From at most the least of `factors` to at least the greatest, 1 among them; all are above 0.
    pub(crate) fn of(factors: impl Iterator<Item = f64>, range: (f64, f64)) -> Self {
        let (lowest, highest) =
            factors.fold((1.0, 1.0), |(low, high): (f64, f64), factor| (low.min(factor), high.max(factor)));
        let values =
            if highest < 3.0 * lowest { even_steps(lowest, highest) } else { by_decades(lowest, highest) };
        let limits = (values.first().copied().unwrap_or(lowest), values.last().copied().unwrap_or(highest));
        let ticks = values.into_iter().map(|value| Tick { value, label: units::ratio(value) }).collect();
        Self { limits, range, ticks }
    }

    /// The coordinate of a factor.
    pub(crate) fn at(&self, factor: f64) -> f64 {
        let share = (factor / self.limits.0).ln() / (self.limits.1 / self.limits.0).ln();
        self.range.0 + (self.range.1 - self.range.0) * share.clamp(0.0, 1.0)
    }
}

/// Some five multiples of a round step around a range within a factor of 3.
fn even_steps(lowest: f64, highest: f64) -> Vec<f64> {
    // Labels have two decimals.
    let step = round_step((highest - lowest) / 5.0).max(0.05);
    let (first, last) = ((lowest / step + 1e-9).floor(), (highest / step - 1e-9).ceil());
    let last = last.max(first + 1.0);
    (first as u64..=last as u64).map(|count| count as f64 * step).collect()
}

/// 1, 2 and 5 times powers of ten around a range.
fn by_decades(lowest: f64, highest: f64) -> Vec<f64> {
    let powers = lowest.log10().floor() as i32..=highest.log10().ceil() as i32;
    let all: Vec<f64> =
        powers.flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(power))).collect();
    let first = all.iter().rposition(|value| *value <= lowest * (1.0 + 1e-9)).unwrap_or(0);
    let last = all.iter().position(|value| *value >= highest * (1.0 - 1e-9)).unwrap_or(all.len() - 1);
    all[first..=last].to_vec()
}

/// Decimals that tell the multiples of a round step apart.
fn decimals(step: f64) -> usize {
    let exact = |decimals: &usize| {
        let shifted = step * 10f64.powi(*decimals as i32);
        (shifted - shifted.round()).abs() < 1e-6 * shifted
    };
    (0..12).find(exact).unwrap_or(0)
}

/// The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `step`.
pub(super) fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let digits = [1.0, 2.0, 2.5, 5.0, 10.0];
    digits.into_iter().map(|digit| digit * power).find(|round| *round >= step * (1.0 - 1e-9)).unwrap_or(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(scale: &Scale) -> Vec<&str> {
        texts(&scale.ticks)
    }

    fn texts(ticks: &[Tick]) -> Vec<&str> {
        ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers_in_a_fitting_unit() {
        let memory = Scale::memory(142.0 * MIB, 5, (0.0, 1.0));
        assert_eq!((labels(&memory), memory.unit), (vec!["0", "50", "100", "150"], "MiB"));
        let memory = Scale::memory(10.44 * GIB, 6, (0.0, 1.0));
        assert_eq!((labels(&memory), memory.unit), (vec!["0", "2", "4", "6", "8", "10", "12"], "GiB"));
        let memory = Scale::memory(0.9 * MIB, 5, (0.0, 1.0));
        assert_eq!(labels(&memory), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        let time = Scale::time(300.0, 7, (0.0, 1.0));
        assert_eq!((labels(&time), time.unit), (vec!["0", "1", "2", "3", "4", "5"], "min"));
        let time = Scale::time(864_000.0, 7, (0.0, 1.0));
        assert_eq!((labels(&time), time.unit), (vec!["0", "2", "4", "6", "8", "10"], "d"));
        let time = Scale::time(59.7, 7, (0.0, 1.0));
        assert_eq!((labels(&time), time.unit), (vec!["0", "10", "20", "30", "40", "50", "60"], "s"));
    }

    #[test]
    fn factors_stand_by_their_logarithm_between_labels() {
        let wide = Factors::of([0.52, 5.5].into_iter(), (0.0, 100.0));
        assert_eq!(texts(&wide.ticks), ["0.50", "1.00", "2.00", "5.00", "10.00"]);
        assert_eq!((wide.at(0.5), wide.at(10.0)), (0.0, 100.0));
        assert!((wide.at(1.0) - wide.at(0.5) - (wide.at(2.0) - wide.at(1.0))).abs() < 1e-9);
        let narrow = Factors::of([0.91, 1.08].into_iter(), (100.0, 0.0));
        assert_eq!(texts(&narrow.ticks), ["0.90", "0.95", "1.00", "1.05", "1.10"]);
        assert_eq!((narrow.at(0.9), narrow.at(1.1)), (100.0, 0.0));
        assert_eq!(texts(&Factors::of([1.0].into_iter(), (0.0, 1.0)).ticks), ["1.00", "1.05"]);
    }

    proptest! {
        #[test]
        fn every_factor_is_within_its_axis(factors in prop::collection::vec(1e-4f64..1e4, 1..20)) {
            let axis = Factors::of(factors.iter().copied(), (0.0, 700.0));
            prop_assert!((2..=30).contains(&axis.ticks.len()), "{:?}", axis.ticks);
            prop_assert!(axis.ticks.windows(2).all(|pair| axis.at(pair[0].value) < axis.at(pair[1].value)));
            for factor in factors.iter().chain([&1.0]) {
                prop_assert!(axis.limits.0 <= factor * (1.0 + 1e-6) && *factor <= axis.limits.1 * (1.0 + 1e-6));
            }
        }

        #[test]
        fn every_figure_lies_inside_and_ticks_are_few(highest in 1.0f64..1e15, longest in 0.1f64..1e9) {
            let memory = Scale::memory(highest, 5, (400.0, 0.0));
            prop_assert!(memory.limit >= highest * (1.0 - 1e-6));
            prop_assert!((2..=8).contains(&memory.ticks.len()), "{memory:?}");
            let time = Scale::time(longest, 7, (0.0, 700.0));
            prop_assert!((1..=9).contains(&time.ticks.len()), "{time:?}");
            for scale in [&memory, &time] {
                let mut labels = labels(scale);
                let all = labels.len();
                labels.dedup();
                prop_assert_eq!(labels.len(), all);
            }
        }
    }
}
