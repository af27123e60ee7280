//! A file without a name for what an import has to keep and cannot write into the database yet: what comes later decides of which
//! life a reading is, and whether all is refused.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::error::PrometheusError;
use super::series::Values;

/// Columns of numbers, gone with the process, however that ends.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    folder: PathBuf,
    end: u64,
}

/// Where numbers are in a spool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Piece {
    offset: u64,
    numbers: usize,
}

impl Piece {
    /// A part of it, by positions of numbers.
    pub fn part(self, part: Range<usize>) -> Self {
        let (start, end) = (part.start.min(self.numbers), part.end.min(self.numbers));
        Self { offset: self.offset + 8 * start as u64, numbers: end.saturating_sub(start) }
    }
}

impl Spool {
    /// In the folder of the database, which has to have room for the readings anyway.
    pub fn beside(database: &Path) -> Result<Self, PrometheusError> {
        let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        match tempfile::tempfile_in(&folder) {
            Ok(file) => Ok(Self { file, folder, end: 0 }),
            Err(source) => Err(PrometheusError::Spool { folder, source }),
        }
    }

    /// The error where this is not kept.
    pub fn lost(&self, source: io::Error) -> PrometheusError {
        PrometheusError::Spool { folder: self.folder.clone(), source }
    }

    pub fn put(&mut self, numbers: impl Iterator<Item = u64>) -> Result<Piece, PrometheusError> {
        let bytes: Vec<u8> = numbers.flat_map(u64::to_le_bytes).collect();
        let piece = Piece { offset: self.end, numbers: bytes.len() / 8 };
        let put = self.file.write_all_at(&bytes, self.end);
        put.map_err(|source| self.lost(source))?;
        self.end += bytes.len() as u64;
        Ok(piece)
    }

    pub fn get(&self, piece: Piece) -> io::Result<Vec<u64>> {
        let mut bytes = vec![0; 8 * piece.numbers];
        self.file.read_exact_at(&mut bytes, piece.offset)?;
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        Ok(bytes.chunks_exact(8).map(number).collect())
    }

    pub fn put_values(&mut self, values: &[(i64, f64)]) -> Result<Piece, PrometheusError> {
        self.put(values.iter().flat_map(|(at, value)| [*at as u64, value.to_bits()]))
    }

    pub fn values(&self, piece: Piece) -> Result<Values, PrometheusError> {
        let numbers = self.get(piece).map_err(|source| self.lost(source))?;
        Ok(numbers.chunks_exact(2).map(|pair| (pair[0] as i64, f64::from_bits(pair[1]))).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_comes_back_and_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut spool = Spool::beside(&folder.path().join("any.db")).unwrap();
        let values: Values = [(-5, 1.5), (7, f64::NEG_INFINITY), (i64::MAX, -0.0)].to_vec();
        let first = spool.put_values(&values).unwrap();
        let none = spool.put(std::iter::empty()).unwrap();
        let last = spool.put(10..20).unwrap();
        assert_eq!(spool.values(first).unwrap(), values);
        assert_eq!(spool.get(none).unwrap(), Vec::<u64>::new());
        assert_eq!(spool.get(last.part(3..5)).unwrap(), [13, 14]);
        assert_eq!(spool.get(last.part(8..99)).unwrap(), [18, 19]);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
