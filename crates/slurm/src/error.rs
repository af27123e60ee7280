use heaptrial_model::{Classified, ErrorClass};

/// Why Slurm could not be asked, or said no.
#[derive(Debug, thiserror::Error)]
pub enum SlurmError {
    /// A program of Slurm is not here.
    #[error(
        "`{program}` is not in PATH: this host submits nothing to Slurm; run it on a login node of the cluster, or without \
         --on slurm"
    )]
    Missing { program: &'static str },
    /// It could not be started.
    #[error("cannot start `{program}`: {source}")]
    Start { program: &'static str, source: std::io::Error },
    /// What was to be submitted was not taken.
    #[error("Slurm did not take the blocks (`sbatch {arguments}`): {said}{advice}")]
    NotTaken {
        /// What it was asked for.
        arguments: String,
        said: String,
        advice: &'static str,
    },
    /// Another of its programs failed.
    #[error("`{command}` failed: {said}")]
    Failed { command: String, said: String },
    /// An answer that is not what any known version gives.
    #[error(
        "the answer of `{command}` cannot be read: {problem}; Slurm 20.11 or newer is needed, with its JSON plugin"
    )]
    Answer {
        command: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl Classified for SlurmError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Missing { .. } | Self::NotTaken { .. } => ErrorClass::Refused,
            Self::Start { .. } | Self::Failed { .. } | Self::Answer { .. } => ErrorClass::Failed,
        }
    }
}
