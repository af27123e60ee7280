//! Axes: from figures to coordinates, and round numbers to label them with.

use crate::units::{self, GIB, MIB};

/// A linear axis that starts at 0.
#[derive(Debug, Clone)]
pub(crate) struct Scale {
    pub(crate) limit: f64,
    /// Coordinates of 0 and of `limit`.
    pub(crate) range: (f64, f64),
    pub(crate) ticks: Vec<Tick>,
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

    pub(crate) fn at(&self, value: f64) -> f64 {
        self.range.0 + (self.range.1 - self.range.0) * (value / self.limit).clamp(0.0, 1.0)
    }
}

/// Decimals that distinguish the multiples of a round step.
fn decimals(step: f64) -> usize {
    let exact = |decimals: &usize| {
        let shifted = step * 10f64.powi(*decimals as i32);
        (shifted - shifted.round()).abs() < 1e-6 * shifted
    };
    (0..12).find(exact).unwrap_or(0)
}

/// The smallest of 1, 2, 2.5, 5 times a power of ten that is at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let digits = [1.0, 2.0, 2.5, 5.0, 10.0];
    digits.into_iter().map(|digit| digit * power).find(|round| *round >= step * (1.0 - 1e-9)).unwrap_or(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels(scale: &Scale) -> Vec<&str> {
        scale.ticks.iter().map(|tick| tick.label.as_str()).collect()
    }

    #[test]
    fn ticks_are_round_numbers_in_a_fitting_unit() {
        let memory = Scale::memory(142.0 * MIB, 5, (0.0, 1.0));
        assert_eq!((labels(&memory), memory.unit), (vec!["0", "50", "100", "150"], "MiB"));
        let memory = Scale::memory(10.44 * GIB, 6, (0.0, 1.0));
        assert_eq!((labels(&memory), memory.unit), (vec!["0", "2", "4", "6", "8", "10", "12"], "GiB"));
        let time = Scale::time(300.0, 7, (0.0, 1.0));
        assert_eq!((labels(&time), time.unit), (vec!["0", "1", "2", "3", "4", "5"], "min"));
        let time = Scale::time(864_000.0, 7, (0.0, 1.0));
        assert_eq!((labels(&time), time.unit), (vec!["0", "2", "4", "6", "8", "10"], "d"));
    }

    proptest! {
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
