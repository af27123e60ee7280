//! Data in from CSV files, from a Prometheus and from other hosts, data out as CSV.

mod blocks;
mod claimed;
mod error;
mod export;
mod gather;
mod import;
pub mod lives;
mod measured;
mod packed;
mod problem;
mod prometheus;
pub mod tables;

pub use error::{ExportError, ImportError};
pub use export::export;
pub use gather::{GatheredPart, PartFile, gather, host_of};
pub use import::{ArmSummary, CsvImport, ImportSummary, import_csv};
pub use measured::{MeasuredService, Measurements};
pub use packed::pack;
pub use problem::{DETAILED_PROBLEMS, Problem, ProblemKind, Problems};
pub use prometheus::{Access, Exporter, PrometheusImport, Queries, import_prometheus};
pub use tables::{Mapping, Timezone, Unit};
