//! Readings of a service, held by columns.

use std::io;
use std::ops::Range;

use heaptrial_store::ImportedSample;

use super::error::PrometheusError;
use super::spool::{Piece, Spool};

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

    /// Whether any has CPU time.
    pub fn have_cpu(&self) -> bool {
        !self.cpu_us.0.is_empty()
    }

    /// Times at which they were taken, in microseconds since 1970.
    pub fn times(&self) -> &[i64] {
        &self.wall_us
    }

    pub fn first(&self) -> Option<ImportedSample> {
        self.get(0)
    }

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

    fn columns(&mut self) -> [&mut Column; 7] {
        [
            &mut self.rss_bytes,
            &mut self.vsize_bytes,
            &mut self.hwm_bytes,
            &mut self.anon_bytes,
            &mut self.swap_bytes,
            &mut self.cgroup_current_bytes,
            &mut self.cpu_us,
        ]
    }

    /// Puts them into a spool.
    pub fn put(mut self, spool: &mut Spool) -> Result<SpooledSamples, PrometheusError> {
        let times = spool.put(self.wall_us.iter().map(|at| *at as u64))?;
        let mut columns = [Piece::default(); 7];
        for (piece, column) in columns.iter_mut().zip(self.columns()) {
            *piece = spool.put(column.0.iter().copied())?;
        }
        Ok(SpooledSamples { times, columns })
    }
}

/// Readings of a service that are in a spool.
#[derive(Debug, Clone, Copy)]
pub(super) struct SpooledSamples {
    times: Piece,
    columns: [Piece; 7],
}

impl SpooledSamples {
    pub fn all(&self, spool: &Spool) -> Result<Samples, PrometheusError> {
        self.get(spool, 0..usize::MAX).map_err(|source| spool.lost(source))
    }

    pub fn get(&self, spool: &Spool, range: Range<usize>) -> io::Result<Samples> {
        let times = spool.get(self.times.part(range.clone()))?;
        let mut samples =
            Samples { wall_us: times.into_iter().map(|at| at as i64).collect(), ..Samples::default() };
        for (piece, column) in self.columns.iter().zip(samples.columns()) {
            column.0 = spool.get(piece.part(range.clone()))?;
        }
        Ok(samples)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(samples: &[ImportedSample]) -> Samples {
        let mut all = Samples::default();
        samples.iter().for_each(|sample| all.push(sample));
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
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::beside(&folder.path().join("any.db")).unwrap();
        let put = of(&all).put(&mut spool).unwrap();
        for range in [0..0, 0..2, 1..3, 2..4, 0..4] {
            let got = put.get(&spool, range.clone()).unwrap();
            assert_eq!(got.iter().collect::<Vec<_>>(), all[range]);
        }
        let plain = of(&(0..1000).map(plain).collect::<Vec<_>>());
        assert!(plain.anon_bytes.0.is_empty());
    }
}
