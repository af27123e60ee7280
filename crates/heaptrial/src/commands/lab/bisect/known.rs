//! What the blocks of a search over a history say of its builds.

use heaptrial_search::MeasuredArm;

use crate::commands::lab::search::{Record, Step};

/// Failures of a build before it is given up.
const TRIES: usize = 3;

/// The build whose last failure is one too many, and why: since it was measured last it failed often, or twice in the same way.
pub(super) fn given_up(record: &Record) -> Option<(&MeasuredArm, &str)> {
    let Some(Step::Measured(last)) = record.steps.last() else { return None };
    let arm = last.arms.first()?;
    let why = arm.figures.as_ref().err()?;
    let own = record.blocks().rev().flat_map(|block| &block.arms).filter(|other| other.at == arm.at);
    let since: Vec<&String> = own.map_while(|arm| arm.figures.as_ref().err()).collect();
    let gives_up = since.len() >= TRIES || since.iter().filter(|other| **other == why).count() >= 2;
    gives_up.then_some((arm, why))
}

/// The nearest position that is known to build the same file as this one; that of the older end is `older`.
pub(super) fn same_build(record: &Record, older: Option<&str>, at: usize, sha256: &str) -> Option<usize> {
    let measured = record.blocks().flat_map(|block| &block.arms).filter(|arm| arm.figures.is_ok());
    let measured = measured.map(|arm| (arm.at, arm.sha256.as_str()));
    let known: Vec<(usize, &str)> = older
        .map(|digest| (0, digest))
        .into_iter()
        .chain(measured)
        .filter(|(other, _)| *other != at)
        .collect();
    let same = known.iter().filter(|(_, digest)| *digest == sha256).map(|(other, _)| *other);
    // Where another build lies between, it was changed and changed back.
    let next_to = |other: &usize| {
        let (from, to) = (*other.min(&at), *other.max(&at));
        known.iter().all(|(between, digest)| *digest == sha256 || *between < from || *between > to)
    };
    same.filter(next_to).min_by_key(|other| other.abs_diff(at))
}

#[cfg(test)]
mod tests {
    use heaptrial_search::MeasuredBlock;
    use heaptrial_search::tune::ArmFigures;

    use super::*;

    #[test]
    fn a_build_that_only_some_seeds_crash_is_not_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let mut record = Record::open(folder.path(), "steps").unwrap();
        let mut given_up = |at: usize, figures: Result<(), &str>| {
            let figures = figures.map(|()| ArmFigures::default()).map_err(str::to_owned);
            let arm = MeasuredArm { at, name: String::new(), sha256: String::new(), figures };
            let control = ArmFigures::default();
            let block = MeasuredBlock { number: 1, seconds: 1.0, fresh: false, control, arms: vec![arm] };
            record.enter(Step::Measured(block)).unwrap();
            given_up(&record).is_some()
        };
        assert!(!given_up(4, Err("crash")));
        assert!(!given_up(3, Err("crash")));
        assert!(!given_up(4, Ok(())));
        assert!(!given_up(4, Err("crash")));
        assert!(!given_up(4, Err("another")));
        assert!(given_up(4, Err("crash")));
    }
}
