//! What is stored of a trial, joined with what is new.

use std::collections::HashMap;

use heaptrial_store::{AggregateRow, ImportSource, ImportedLife, ImportedService, ImportedTrial};

use crate::ImportError;
use crate::problem::{Place, ProblemKind, Problems};

/// Sums that were stored come first.
pub(super) fn join_aggregates(
    new: Vec<AggregateRow>,
    stored: Option<&ImportedTrial>,
    problems: &mut Problems,
) -> Result<(Vec<AggregateRow>, u64), ImportError> {
    let mut rows = stored.map(|stored| stored.aggregates.clone()).unwrap_or_default();
    let known: HashMap<(i64, String), usize> =
        rows.iter().enumerate().map(|(index, row)| ((row.wall_us, row.server.clone()), index)).collect();
    let mut added = 0;
    for row in new {
        match known.get(&(row.wall_us, row.server.clone())) {
            None => {
                rows.push(row);
                added += 1;
            }
            Some(index) if rows[*index] != row => {
                let what = "the database has other sums of this server at this time; those were kept";
                let place = Place { value: row.server.as_bytes(), ..Place::of_file("database") };
                problems.report(place, ProblemKind::ConflictingReading, what)?;
            }
            Some(_) => {}
        }
    }
    rows.sort_by(|a, b| (a.wall_us, &a.server).cmp(&(b.wall_us, &b.server)));
    Ok((rows, added))
}

/// Of a file that was imported before in the same role, its present content counts.
pub(super) fn join_sources(new: Vec<ImportSource>, stored: Option<&ImportedTrial>) -> Vec<ImportSource> {
    let mut sources = stored.map(|stored| stored.sources.clone()).unwrap_or_default();
    for source in new {
        match sources.iter_mut().find(|known| known.file == source.file && known.role == source.role) {
            Some(known) => *known = source,
            None => sources.push(source),
        }
    }
    sources
}

/// Whether a trial is not as it is stored.
pub(super) fn differs(trial: &ImportedTrial, stored: &ImportedTrial) -> bool {
    let same_service = |a: &ImportedService, b: &ImportedService| {
        let same_life = |(a, b): (&ImportedLife, &ImportedLife)| {
            a.started_wall_us == b.started_wall_us && a.start == b.start && a.samples == b.samples
        };
        a.name == b.name
            && a.block == b.block
            && a.attributes == b.attributes
            && a.lives.len() == b.lives.len()
            && a.lives.iter().zip(&b.lives).all(same_life)
    };
    trial.services.len() != stored.services.len()
        || !trial.services.iter().zip(&stored.services).all(|(a, b)| same_service(a, b))
        || trial.lists != stored.lists
        || trial.events != stored.events
        || trial.aggregates != stored.aggregates
        || trial.sources != stored.sources
        || trial.plan.host_facts != stored.plan.host_facts
        || trial.plan.parameters != stored.plan.parameters
}
