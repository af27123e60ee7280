//! `heaptrial lab attach`: going on with a run whose submitting process is gone.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use heaptrial_slurm::Cluster;

use super::On;
use super::kept::RunFolder;
use super::watch::Watch;
use crate::commands::lab::{conclude, heeding_signals};
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::progress::LiveProgress;

/// Options of `lab attach`.
#[derive(Debug, Args)]
pub struct AttachOptions {
    /// The folder of a run that was started with --on slurm
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
    /// Submit those blocks again that ended without results; without it nothing is submitted twice
    #[arg(long)]
    again: bool,
}

/// Goes on watching and collecting.
pub fn attach(options: &AttachOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let path = std::path::absolute(&options.folder).map_err(Failure::failed)?;
    let folder = RunFolder(path.clone());
    let run = folder.read_run()?;
    let (database, seed) = (run.database.clone(), run.seed);
    let cluster = Cluster::find()?;
    let interrupt = heeding_signals(On::Slurm)?;
    let mut watch = Watch::begin(&cluster, folder, run)?;
    if options.again {
        watch.carry_out_again();
    }
    let outcome = watch.finish(&interrupt, &mut LiveProgress::new());
    conclude(&database, &path, seed, outcome, global)
}
