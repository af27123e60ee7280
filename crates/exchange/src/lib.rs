//! Data in from the Tor operators' scripts, from a Prometheus and from other hosts, data out as CSV.

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
pub mod torutils;

pub use error::{ExportError, ImportError};
pub use export::export;
pub use gather::{GatherError, GatheredPart, PartFile, gather, host_of};
pub use import::{ArmSummary, ImportSummary, TorUtilsImport, import_torutils};
pub use measured::{MeasuredService, Measurements};
pub use packed::pack;
pub use problem::{Column, DETAILED_PROBLEMS, Problem, ProblemKind, Problems};
pub use prometheus::{
    Access, Exporter, PrometheusError, PrometheusImport, PrometheusSummary, Queries, import_prometheus,
};
pub use torutils::Timezone;
