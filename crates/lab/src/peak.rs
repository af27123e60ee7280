//! Whether memory rose between two readings to what none of them saw.

use heaptrial_model::{Metric, Sample, units};

/// What rose by less than this, or less than this share of the highest reading, is not told.
const WORTH_TELLING_BYTES: u64 = 2 << 20;
const WORTH_TELLING: f64 = 0.05;

/// The highest reading of what the kernel tells a peak of, and that peak: of a control group all of its memory, else of a single
/// process RSS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Peak {
    highest_bytes: u64,
    peak_bytes: u64,
    of_group: bool,
    /// The peaks of several processes are no peak of their sum.
    several: bool,
}

impl Peak {
    /// Takes note of a sample.
    pub(crate) fn take(&mut self, sample: &Sample) {
        let of_group = sample.cgroup_current_bytes.zip(sample.cgroup_peak_bytes);
        let (now, peak) = of_group.unwrap_or((sample.rss_bytes, sample.hwm_bytes));
        self.of_group |= of_group.is_some();
        self.several |= sample.processes > 1;
        self.highest_bytes = self.highest_bytes.max(now);
        self.peak_bytes = self.peak_bytes.max(peak);
    }

    /// What to say where peaks of the metric are those of readings, and far below what there was.
    pub(crate) fn told(&self, metric: Metric) -> Option<String> {
        let in_tables = match self.of_group {
            true => metric == Metric::Cgroup,
            false => metric == Metric::Rss || self.several,
        };
        let missed = self.peak_bytes.saturating_sub(self.highest_bytes);
        let least = WORTH_TELLING_BYTES.max((WORTH_TELLING * self.highest_bytes as f64) as u64);
        (!in_tables && missed > least).then(|| {
            let (whose, of_files) = match self.of_group {
                true => ("all memory of its control group, in which are cached pages of files as well,", " or such pages"),
                false => ("its RSS", ""),
            };
            format!(
                "{whose} was {} at its peak and {} at the highest reading: memory{of_files} came and went between readings, of \
                 which alone are the peaks in the tables; a shorter --tick sees more",
                units::memory(self.peak_bytes as f64),
                units::memory(self.highest_bytes as f64)
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn peak(readings: &[(u64, u64)], of_group: bool, processes: u32) -> Peak {
        let mut taken = Peak::default();
        for (now, peak) in readings {
            let group = |mib: &u64| of_group.then_some(mib * MIB);
            taken.take(&Sample {
                rss_bytes: now * MIB,
                hwm_bytes: peak * MIB,
                processes,
                cgroup_current_bytes: group(now),
                cgroup_peak_bytes: group(peak),
                ..Sample::default()
            });
        }
        taken
    }

    #[test]
    fn what_came_and_went_between_readings_is_told() {
        let spike = [(20, 20), (20, 150), (20, 150)];
        let told = peak(&spike, true, 1).told(Metric::Anon).unwrap();
        assert!(told.contains("150 MiB at its peak and 20.0 MiB"), "{told}");
        // The tables have it.
        assert_eq!(peak(&spike, true, 1).told(Metric::Cgroup), None);
        assert_eq!(peak(&[(20, 20), (150, 151)], true, 1).told(Metric::Anon), None);
        assert!(peak(&spike, false, 1).told(Metric::Anon).is_some());
        assert_eq!(peak(&spike, false, 3).told(Metric::Anon), None);
    }
}
