//! Commands that need no root and no container.

#[path = "../../../report/tests/it/fixture/mod.rs"]
mod fixture;
#[path = "../support/mod.rs"]
mod support;
#[path = "../../../report/tests/it/trial/mod.rs"]
mod trial;

mod allocators;
mod bad_input;
mod bug_report;
mod docs;
mod explain;
mod field_import;
mod import_headline;
mod lab_bisect;
mod lab_load;
mod lab_run;
mod lab_tune;
mod prometheus_exporters;
mod reading_during_import;
mod rollup_report;
mod serve;
mod trial_look;
mod verdict;
