//! Readings of a life, held by columns.

use heaptrial_store::ImportedSample;

/// What a column has for a reading that was not taken.
const NONE: u64 = u64::MAX;

/// Readings in order of time. What none of them has takes no room: an import may have millions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Samples {
    wall_us: Vec<i64>,
    rss_bytes: Column,
    vsize_bytes: Column,
    hwm_bytes: Column,
    anon_bytes: Column,
    swap_bytes: Column,
    cgroup_current_bytes: Column,
    cpu_us: Column,
}

/// A number for each reading; empty while all are `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Column(Vec<u64>);

impl Column {
    fn push(&mut self, length: usize, number: Option<u64>) {
        if self.0.is_empty() && number.is_some() {
            self.0 = vec![NONE; length];
        }
        if !self.0.is_empty() || number.is_some() {
            self.0.push(number.unwrap_or(NONE));
        }
    }

    fn get(&self, index: usize) -> Option<u64> {
        self.0.get(index).copied().filter(|number| *number != NONE)
    }
}

impl Samples {
    pub fn len(&self) -> usize {
        self.wall_us.len()
    }

    pub fn is_empty(&self) -> bool {
        self.wall_us.is_empty()
    }

    pub fn get(&self, index: usize) -> Option<ImportedSample> {
        Some(ImportedSample {
            wall_us: *self.wall_us.get(index)?,
            rss_bytes: self.rss_bytes.get(index).unwrap_or(0),
            vsize_bytes: self.vsize_bytes.get(index),
            hwm_bytes: self.hwm_bytes.get(index),
            anon_bytes: self.anon_bytes.get(index),
            swap_bytes: self.swap_bytes.get(index),
            cgroup_current_bytes: self.cgroup_current_bytes.get(index),
            cpu_us: self.cpu_us.get(index),
        })
    }

    /// The oldest.
    pub fn first(&self) -> Option<ImportedSample> {
        self.get(0)
    }

    /// The newest.
    pub fn last(&self) -> Option<ImportedSample> {
        self.get(self.len().checked_sub(1)?)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = ImportedSample> + '_ {
        (0..self.len()).map(|index| self.get(index).unwrap_or_default())
    }

    /// Adds one behind the others.
    pub fn push(&mut self, sample: &ImportedSample) {
        let length = self.len();
        self.rss_bytes.push(length, (sample.rss_bytes > 0).then_some(sample.rss_bytes));
        self.vsize_bytes.push(length, sample.vsize_bytes);
        self.hwm_bytes.push(length, sample.hwm_bytes);
        self.anon_bytes.push(length, sample.anon_bytes);
        self.swap_bytes.push(length, sample.swap_bytes);
        self.cgroup_current_bytes.push(length, sample.cgroup_current_bytes);
        self.cpu_us.push(length, sample.cpu_us);
        self.wall_us.push(sample.wall_us);
    }

    /// Gives up the room for more.
    pub fn shrink_to_fit(&mut self) {
        self.wall_us.shrink_to_fit();
        let columns = [
            &mut self.rss_bytes,
            &mut self.vsize_bytes,
            &mut self.hwm_bytes,
            &mut self.anon_bytes,
            &mut self.swap_bytes,
            &mut self.cgroup_current_bytes,
            &mut self.cpu_us,
        ];
        columns.into_iter().for_each(|column| column.0.shrink_to_fit());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(samples: &[ImportedSample]) -> Samples {
        let mut all = Samples::default();
        samples.iter().for_each(|sample| all.push(sample));
        all.shrink_to_fit();
        all
    }

    #[test]
    fn readings_come_back_as_they_were() {
        let plain = |wall_us| ImportedSample { wall_us, rss_bytes: 7, ..ImportedSample::default() };
        let all = [
            plain(1),
            ImportedSample {
                wall_us: 2,
                swap_bytes: Some(0),
                anon_bytes: Some(9),
                ..ImportedSample::default()
            },
            plain(3),
            ImportedSample {
                cpu_us: Some(1),
                hwm_bytes: Some(2),
                vsize_bytes: Some(3),
                cgroup_current_bytes: Some(4),
                ..plain(4)
            },
        ];
        for length in 0..=all.len() {
            let samples = of(&all[..length]);
            assert_eq!(samples.iter().collect::<Vec<_>>(), all[..length]);
            assert_eq!((samples.len(), samples.is_empty()), (length, length == 0));
            let ends = (all[..length].first().copied(), all[..length].last().copied());
            assert_eq!((samples.first(), samples.last()), ends);
        }
        let plain = of(&(0..1000).map(plain).collect::<Vec<_>>());
        assert!(plain.anon_bytes.0.is_empty() && plain.wall_us.capacity() == 1000);
    }
}
