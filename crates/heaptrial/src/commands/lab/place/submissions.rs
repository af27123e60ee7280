//! Arrays of a run that were submitted: written down before `sbatch` is asked, so that nothing is submitted twice.

use heaptrial_model::units;
use heaptrial_slurm::{Cluster, Request, Resources, SlurmError};

use super::kept::{KeptRun, RunFolder, Submission};
use crate::exit::Failure;

/// Arrays of a run, oldest first.
pub(super) struct Submissions {
    folder: RunFolder,
    list: Vec<Submission>,
}

impl Submissions {
    /// Those that the folder tells. Where a process ended while it submitted, the array is in the queue by its name, or there is
    /// none.
    pub(super) fn read(folder: RunFolder, cluster: &Cluster) -> Result<Self, Failure> {
        let mut list = folder.read_submitted()?;
        if list.iter().any(|submission| submission.job.is_none()) {
            let queue = cluster.queue()?;
            list.iter_mut().for_each(|submission| {
                submission.job = submission.job.or_else(|| queue.array_named(&submission.name));
            });
            list.retain(|submission| submission.job.is_some());
            folder.write_submitted(&list)?;
        }
        Ok(Self { folder, list })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(super) fn has(&self, block: u32) -> bool {
        self.list.iter().any(|submission| submission.blocks.contains(&block))
    }

    /// The array that a block is a task of now.
    pub(super) fn of(&self, block: u32) -> Option<&Submission> {
        self.list.iter().rfind(|submission| submission.blocks.contains(&block))
    }

    pub(super) fn jobs(&self) -> Vec<u64> {
        self.list.iter().filter_map(|submission| submission.job).collect()
    }

    /// Cancels whatever of them is in the queue.
    pub(super) fn cancel(&self, cluster: &Cluster) -> Result<(), Failure> {
        for submission in &self.list {
            cluster.cancel(&submission.name)?;
        }
        Ok(())
    }

    /// Writes down what is going to be submitted, submits, and writes down the job. Gives what is to be told.
    pub(super) fn submit(
        &mut self,
        cluster: &Cluster,
        run: &KeptRun,
        blocks: Vec<u32>,
        resources: Option<Resources>,
    ) -> Result<String, Failure> {
        let name = format!("heaptrial-{}-{}", run.token, self.list.len() + 1);
        self.list.push(Submission {
            name: name.clone(),
            blocks: blocks.clone(),
            asked: resources,
            job: None,
        });
        self.folder.write_submitted(&self.list)?;
        let count = units::counted(blocks.len(), "block");
        let request = Request {
            name: name.clone(),
            tasks: blocks,
            script: self.folder.script(),
            resources,
            options: run.options.clone(),
        };
        let job = match cluster.submit(&request) {
            Ok(job) => job,
            Err(error) => self.found_or(cluster, &name, error)?,
        };
        if let Some(last) = self.list.last_mut() {
            last.job = Some(job);
        }
        self.folder.write_submitted(&self.list)?;
        Ok(format!("{count} submitted as job {job}"))
    }

    /// The array of the last submission, which `sbatch` did not tell: an answer that was lost on its way is no refusal. Where the
    /// queue does not answer either, nothing is known yet: what is written down stays, and whoever goes on looks for it.
    fn found_or(&mut self, cluster: &Cluster, name: &str, error: SlurmError) -> Result<u64, Failure> {
        let Ok(queue) = cluster.queue() else { return Err(error.into()) };
        if let Some(job) = queue.array_named(name) {
            return Ok(job);
        }
        self.list.pop();
        self.folder.write_submitted(&self.list)?;
        Err(error.into())
    }
}
