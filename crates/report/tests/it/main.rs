//! Reports of real rows, in every form.

use heaptrial_report::{Document as _, Options, Report};

mod bisect;
mod charts;
mod comparison;
mod document;
mod field;
mod fixture;
mod fleet;
mod forms;
mod page;
mod running;
mod schema;
mod trial;
mod tune;

/// The report of a lab run, with charts.
fn lab(fixture: &fixture::Fixture) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let (store, trial) = fixture.write(&folder.path().join("trial.db"));
    read_again(Report::with_charts(&store, trial, &Options::default()).unwrap())
}

/// The report of an import, with charts.
fn import(trial: &fleet::Listed, options: &Options) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let (store, id) = fleet::write(trial, &folder.path().join("fleet.db"));
    read_again(Report::with_charts(&store, id, options).unwrap())
}

/// JSON has no infinite figures: it would hold null in their place, and could not be read.
fn read_again(report: Report) -> Report {
    serde_json::from_str::<Report>(&report.json().unwrap()).unwrap();
    report
}
