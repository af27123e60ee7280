//! An array of tasks on a cluster, by Slurm's own programs: submitted by `sbatch`, watched by `squeue`, cancelled by `scancel`.

mod cluster;
mod option;

pub use cluster::{Cluster, Request, SlurmError, Task};
pub use option::{SubmitOption, SubmitOptionError};
