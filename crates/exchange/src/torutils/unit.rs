//! Whether figures can be what they are read as: a file in another unit is told, and not taken for a fleet of giants or dwarfs.

use std::ops::RangeInclusive;

use heaptrial_model::units;

use super::number::MemoryUnit;
use super::table::Table;
use crate::ImportError;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// No process of a service has less: the libraries of a program that does nothing take more.
const LEAST: u64 = 100 << 10;
/// No service of which there are many has more.
const MOST: u64 = 1 << 40;
/// Outside of this a reader is asked whether the unit is right.
const USUAL: RangeInclusive<u64> = 16 * MIB..=64 * GIB;
/// So many figures that no process has are a mistake of one row.
const MISTAKES: u64 = 1;

/// Refuses a file with rows that no process has: without them the arms that need most would be told too low.
pub(super) fn check_too_large(table: &Table<'_>, unit: MemoryUnit) -> Result<(), ImportError> {
    if table.too_large <= MISTAKES {
        return Ok(());
    }
    let what = format!("{} of {} rows have more than 4 TiB in one process", table.too_large, table.rows);
    let likely = smaller(unit);
    Err(ImportError::Unit { file: table.file.to_owned(), what, unit, likely })
}

/// What is told of the readings of an import whose unit nobody named.
#[derive(Debug)]
pub(crate) struct Plausible<'a> {
    pub file: &'a str,
    pub unit: MemoryUnit,
    /// Memory of the host, where it is known and one.
    pub host_bytes: Option<u64>,
}

impl Plausible<'_> {
    /// Refuses readings half of which no service has; gives a sentence where they are unusual ones.
    pub(crate) fn check(&self, mut readings: Vec<u64>) -> Result<Option<String>, ImportError> {
        if readings.is_empty() {
            return Ok(None);
        }
        let middle = readings.len() / 2;
        let median = *readings.select_nth_unstable(middle).1;
        let refuse = |what: String, likely: MemoryUnit| {
            Err(ImportError::Unit { file: self.file.to_owned(), what, unit: self.unit, likely })
        };
        let shown = units::memory(median as f64);
        let host = self.host_bytes.filter(|host| median > *host);
        if let Some(host) = host {
            let host = units::memory(host as f64);
            return refuse(
                format!("half of the readings are above {shown}, and the host has {host}"),
                self.below(median),
            );
        }
        if median > MOST {
            return refuse(format!("half of the readings are above {shown}"), self.below(median));
        }
        if median < LEAST {
            let kib = median / 1024;
            return refuse(format!("half of the readings are below {} KiB", kib + 1), self.above(median));
        }
        let (which, likely) = match median {
            median if USUAL.contains(&median) => return Ok(None),
            median if median < *USUAL.start() => ("below", self.above(median)),
            _ => ("above", self.below(median)),
        };
        Ok((likely != self.unit).then(|| {
            format!(
                "half of the readings are {which} {shown}, read as {}: if the files are in {likely}, import them with --unit {likely} \
                 under another --name",
                self.unit
            )
        }))
    }

    /// The next larger unit in which a median would be a usual one, or the next at all.
    fn above(&self, median: u64) -> MemoryUnit {
        let number = median / self.unit.bytes();
        let usual = |unit: &MemoryUnit| USUAL.contains(&number.saturating_mul(unit.bytes()));
        let larger = [MemoryUnit::Kib, MemoryUnit::Mib, MemoryUnit::Gib];
        let mut larger = larger.into_iter().filter(|unit| unit.bytes() > self.unit.bytes());
        larger.clone().find(usual).or_else(|| larger.next()).unwrap_or(self.unit)
    }

    fn below(&self, median: u64) -> MemoryUnit {
        let number = median / self.unit.bytes();
        let usual = |unit: &MemoryUnit| USUAL.contains(&number.saturating_mul(unit.bytes()));
        let smaller_ones = [MemoryUnit::Mib, MemoryUnit::Kib, MemoryUnit::Bytes];
        let mut units = smaller_ones.into_iter().filter(|unit| unit.bytes() < self.unit.bytes());
        units.find(usual).unwrap_or_else(|| smaller(self.unit))
    }
}

fn smaller(unit: MemoryUnit) -> MemoryUnit {
    match unit {
        MemoryUnit::Gib => MemoryUnit::Mib,
        MemoryUnit::Mib => MemoryUnit::Kib,
        MemoryUnit::Kib | MemoryUnit::Bytes => MemoryUnit::Bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(unit: MemoryUnit, host_bytes: Option<u64>, median: u64) -> Result<Option<String>, ImportError> {
        Plausible { file: "m.csv", unit, host_bytes }.check(vec![median; 5])
    }

    #[test]
    fn usual_figures_pass_unusual_ones_are_told_and_impossible_ones_refused() {
        let kib = |host, median| told(MemoryUnit::Kib, host, median);
        assert_eq!(kib(None, 300 * MIB).unwrap(), None);
        // 5 GiB, written as MiB.
        let note = kib(None, 5000 << 10).unwrap().unwrap();
        assert!(note.contains("below 4.88 MiB") && note.contains("--unit MiB"), "{note}");
        // 5 GiB, written as GiB.
        let error = kib(None, 5 << 10).unwrap_err().to_string();
        assert!(error.contains("below 6 KiB") && error.contains("--unit GiB"), "{error}");
        // 1.3 GiB, written as bytes.
        let error = kib(None, 1300 << 30).unwrap_err().to_string();
        assert!(error.contains("above 1300 GiB") && error.contains("--unit B, or --unit KiB"), "{error}");
        // 100 MiB, written as bytes.
        assert!(kib(None, 100 << 30).unwrap().unwrap().contains("--unit B"));
        assert!(kib(Some(64 << 30), 100 << 30).unwrap_err().to_string().contains("the host has 64.0 GiB"));
        // Days of 5000 MiB in place of GiB.
        assert!(told(MemoryUnit::Gib, None, 5000 << 30).unwrap_err().to_string().contains("--unit MiB"));
    }
}
