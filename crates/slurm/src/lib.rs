//! Arrays of tasks on a cluster, by Slurm's own tools.
//!
//! A [`Request`] is one `sbatch` of an array, [`Cluster::queue`] what `squeue --json` (and `sacct --json`, where the cluster
//! keeps accounts) tells of it. What a task does, and whether it did it, is none of this crate's concern: it knows how Slurm
//! calls things, and how that changed between its versions.

mod cluster;
mod error;
mod option;
mod queue;
mod request;
mod state;

pub use cluster::Cluster;
pub use error::SlurmError;
pub use option::{SubmitOption, SubmitOptionError};
pub use queue::{Queue, QueuedTask};
pub use request::{Request, Resources};
pub use state::{Ended, TaskState};
