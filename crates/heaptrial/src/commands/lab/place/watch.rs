//! Watching the tasks of a run until all of its blocks are here, by whoever: the process that submits, or a later one.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use heaptrial_lab::{Interrupt, Progress, RunOutcome};
use heaptrial_model::units;
use heaptrial_slurm::{Cluster, Queue, Request, Resources};
use rustix::fs::{FlockOperation, flock};

use super::On;
use super::collect::Collector;
use super::course::{BlockState, Course, GONE_FOR};
use super::kept::{BlockReport, KeptRun, RunFolder, Submission, at};
use crate::commands::lab::{conclude, heeding_signals};
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::progress::LiveProgress;

/// How often results are looked for, and the controller is asked, which all users of a cluster do.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const ASK_EVERY: Duration = Duration::from_secs(5);

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

/// A run under way.
pub(super) struct Watch<'a> {
    cluster: &'a Cluster,
    folder: RunFolder,
    run: KeptRun,
    submitted: Vec<Submission>,
    course: Course,
    collector: Collector,
    /// Blocks that are submitted once more should they have no results.
    again: BTreeSet<u32>,
    told: String,
    /// Held as long as this process collects.
    _lock: File,
}

/// Goes on watching and collecting.
pub fn attach(options: &AttachOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let path = std::path::absolute(&options.folder).map_err(Failure::failed)?;
    let folder = RunFolder(path.clone());
    let run = folder.read_run()?;
    let database = run.database.clone();
    let cluster = Cluster::find()?;
    let interrupt = heeding_signals(On::Slurm)?;
    let mut watch = Watch::begin(&cluster, folder, run)?;
    if options.again {
        watch.again.extend(watch.run.blocks.clone());
    }
    let outcome = watch.to_the_end(&interrupt, &mut LiveProgress::new());
    conclude(&database, &path, outcome, global)
}

impl<'a> Watch<'a> {
    /// Begins with what the folder tells; whatever was submitted is not submitted again.
    pub(super) fn begin(cluster: &'a Cluster, folder: RunFolder, run: KeptRun) -> Result<Self, Failure> {
        let lock = lock(&folder)?;
        let collector = Collector::new(folder.clone(), run.token.clone(), run.database.clone());
        let course = Course::of(&run.blocks);
        let mut submitted = folder.read_submitted()?;
        if submitted.iter().any(|submission| submission.job.is_none()) {
            let queue = cluster.queue()?;
            // The process ended while it submitted: the array is in the queue by its name, or there is none.
            submitted.iter_mut().for_each(|submission| {
                submission.job = submission.job.or_else(|| queue.array_named(&submission.name));
            });
            submitted.retain(|submission| submission.job.is_some());
            folder.write_submitted(&submitted)?;
        }
        Ok(Self {
            cluster,
            folder,
            run,
            submitted,
            course,
            collector,
            again: BTreeSet::new(),
            told: String::new(),
            _lock: lock,
        })
    }

    /// Until every block is here, or it is known why not; Ctrl-C cancels the rest.
    pub(super) fn to_the_end(
        mut self,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<RunOutcome, Failure> {
        let watched = self.watch(interrupt, progress);
        if let Err(failure) = watched {
            let again = format!(
                "nothing is lost: `heaptrial lab attach {}` goes on, `scancel {}` ends what is under way",
                self.folder.0.display(),
                self.jobs().iter().map(u64::to_string).collect::<Vec<_>>().join(" ")
            );
            if !self.jobs().is_empty() {
                progress.message(&again);
            }
            return Err(failure);
        }
        let interrupted = interrupt.requested() && !self.course.open().is_empty();
        let failed = self.course.failed();
        let word = match (interrupted, failed.is_empty()) {
            (true, _) => "interrupted",
            (false, true) => "completed",
            (false, false) => "failed",
        };
        self.collector.end(word, &failed)?;
        if !failed.is_empty() && !interrupted {
            return Err(self.without_results(&failed));
        }
        let trial_id = self.collector.trial_id().ok_or_else(|| {
            Failure::failed("it was interrupted before any block had come back; its tasks are cancelled")
        })?;
        Ok(RunOutcome { trial_id, interrupted, failed_services: self.collector.failed_services() })
    }

    fn without_results(&self, failed: &[(u32, &str)]) -> Failure {
        let (first, why) = failed[0];
        let log = self.folder.log(first);
        let log = if log.is_file() { format!(" (its log: {})", log.display()) } else { String::new() };
        Failure::failed(format!(
            "no results of {} of {}. Block {}: {why}{log}. What is here is kept; `heaptrial lab attach {} --again` carries out \
             what is missing",
            failed.len(),
            units::counted(self.run.blocks.len(), "block"),
            first + 1,
            self.folder.0.display()
        ))
    }

    fn watch(&mut self, interrupt: &Interrupt, progress: &mut dyn Progress) -> Result<(), Failure> {
        self.take_arrived(progress)?;
        if self.submitted.is_empty() && !self.course.open().is_empty() {
            self.submit_first(progress)?;
        }
        let mut ask_at = Instant::now();
        while !self.course.open().is_empty() {
            if interrupt.requested() {
                progress.message("interrupted: tasks are cancelled; blocks that are here are kept");
                self.cancel()?;
                return self.take_arrived(progress);
            }
            self.take_arrived(progress)?;
            self.submit_rest(progress)?;
            if Instant::now() >= ask_at {
                self.ask(progress)?;
                ask_at = Instant::now() + ASK_EVERY;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn take_arrived(&mut self, progress: &mut dyn Progress) -> Result<(), Failure> {
        for block in self.folder.arrived()? {
            if !self.run.blocks.contains(&block) || self.course.state(block) == Some(&BlockState::Here) {
                continue;
            }
            let report = self.collector.take(block)?;
            self.course.set(block, BlockState::Here);
            progress.message(&format!(
                "block {} is here from {}: {:.0} s, {}, {:.2} processors; {}",
                block + 1,
                report.node,
                report.used.seconds,
                units::memory(report.used.memory_bytes as f64),
                report.used.processors,
                self.course.line()
            ));
        }
        Ok(())
    }

    /// All blocks, where everything that their tasks need is asked for; else the first, which tells what a block needs.
    fn submit_first(&mut self, progress: &mut dyn Progress) -> Result<(), Failure> {
        let open = self.course.open();
        let all = Request::all_asked_for(&self.run.options) || open.len() == 1;
        let first = if all { open } else { open[..1].to_vec() };
        self.submit(first, None)?;
        let follow = if all { "" } else { "; the others follow, and ask for what it used" };
        progress.message(&format!("{}{follow}", self.told_of_last()));
        Ok(())
    }

    /// What was not submitted yet, once a block tells what it needs.
    fn submit_rest(&mut self, progress: &mut dyn Progress) -> Result<(), Failure> {
        let submitted =
            |block: &u32| self.submitted.iter().any(|submission| submission.blocks.contains(block));
        let rest: Vec<u32> = self.course.open().into_iter().filter(|block| !submitted(block)).collect();
        if rest.is_empty() {
            return Ok(());
        }
        if let Some((block, why)) = self.course.failed().first() {
            let (block, why) = (*block, (*why).to_owned());
            rest.iter().for_each(|block| {
                self.course
                    .set(*block, BlockState::Failed("it was not submitted, because that failed".to_owned()));
            });
            progress.message(&format!("block {} failed, and the others are not submitted: {why}", block + 1));
            return Ok(());
        }
        let Some(report) = self.first_report() else { return Ok(()) };
        let resources = asked_by(&report);
        self.submit(rest, Some(resources))?;
        progress.message(&format!(
            "{}; each asks for {} MiB, {} and {} min, what block {} used with a margin",
            self.told_of_last(),
            resources.memory_mib,
            units::counted(resources.processors as usize, "processor"),
            resources.minutes,
            report.block + 1
        ));
        Ok(())
    }

    /// Those that ended without results and may be carried out once more, as tasks of a new array.
    fn submit_again(&mut self, progress: &mut dyn Progress) -> Result<(), Failure> {
        let failed: Vec<u32> = self.course.failed().iter().map(|(block, _)| *block).collect();
        let again: Vec<u32> = failed.into_iter().filter(|block| self.again.remove(block)).collect();
        if again.is_empty() {
            return Ok(());
        }
        for block in &again {
            self.folder.forget_failure(*block);
            self.course.set(*block, BlockState::Waiting);
        }
        let resources = self.first_report().map(|report| asked_by(&report));
        self.submit(again, resources)?;
        progress.message(&self.told_of_last());
        Ok(())
    }

    /// Of a block that is here.
    fn first_report(&self) -> Option<BlockReport> {
        let here = |block: &&u32| self.course.state(**block) == Some(&BlockState::Here);
        self.run.blocks.iter().find(here).and_then(|block| self.folder.read_block(*block).ok())
    }

    /// Writes down what is going to be submitted, submits, and writes down the job.
    fn submit(&mut self, blocks: Vec<u32>, resources: Option<Resources>) -> Result<(), Failure> {
        let name = format!("heaptrial-{}-{}", self.run.token, self.submitted.len() + 1);
        self.submitted.push(Submission {
            name: name.clone(),
            blocks: blocks.clone(),
            asked: resources,
            job: None,
        });
        self.folder.write_submitted(&self.submitted)?;
        let request = Request {
            name,
            tasks: blocks,
            script: self.folder.script(),
            resources,
            options: self.run.options.clone(),
        };
        match self.cluster.submit(&request) {
            Ok(job) => {
                if let Some(last) = self.submitted.last_mut() {
                    last.job = Some(job);
                }
                self.folder.write_submitted(&self.submitted)
            }
            Err(error) => {
                self.submitted.pop();
                self.folder.write_submitted(&self.submitted)?;
                Err(error.into())
            }
        }
    }

    fn told_of_last(&self) -> String {
        let Some(Submission { blocks, job: Some(job), .. }) = self.submitted.last() else {
            return String::new();
        };
        format!("{} submitted as job {job}", units::counted(blocks.len(), "block"))
    }

    /// The array that a block is a task of now.
    fn job_of(&self, block: u32) -> Option<u64> {
        self.submitted.iter().rfind(|submission| submission.blocks.contains(&block))?.job
    }

    fn jobs(&self) -> Vec<u64> {
        self.submitted.iter().filter_map(|submission| submission.job).collect()
    }

    /// Asks the controller how far tasks are.
    fn ask(&mut self, progress: &mut dyn Progress) -> Result<(), Failure> {
        let queue = match self.cluster.queue() {
            Ok(queue) => queue,
            // It may be restarted just now; tasks go on without it.
            Err(error) => {
                self.tell(&format!("Slurm does not answer, and is asked again: {error}"), progress);
                return Ok(());
            }
        };
        self.course.look();
        let arrived = self.folder.arrived()?;
        let mut accounts: Vec<(u64, Option<Queue>)> = Vec::new();
        for block in self.course.open().into_iter().filter(|block| !arrived.contains(block)) {
            let Some(job) = self.job_of(block) else { continue };
            let mut task = queue.task(job, block).cloned();
            if task.is_none() {
                if !accounts.iter().any(|(known, _)| *known == job) {
                    accounts.push((job, self.cluster.accounts(job)));
                }
                let kept = accounts.iter().find(|(known, _)| *known == job);
                task = kept.and_then(|(_, queue)| queue.as_ref()?.task(job, block).cloned());
            }
            let failure = self.folder.read_failure(block);
            let patience = if self.again.contains(&block) { 1 } else { GONE_FOR };
            if let Some(told) = self.course.see(block, task.as_ref(), failure, patience) {
                progress.message(&told);
            }
        }
        self.submit_again(progress)?;
        let line = self.course.line();
        self.tell(&line, progress);
        let job = self.jobs().last().copied().unwrap_or_default();
        match self.course.looked() {
            Some(reason) => Err(Failure::failed(format!(
                "blocks wait in the queue for a reason that no waiting ends: {reason} (`scontrol show job {job}` tells more)"
            ))),
            None => Ok(()),
        }
    }

    /// Something that is told when it changes.
    fn tell(&mut self, text: &str, progress: &mut dyn Progress) {
        if self.told != text {
            progress.message(text);
            self.told = text.to_owned();
        }
    }

    fn cancel(&self) -> Result<(), Failure> {
        Ok(self.cluster.cancel(&self.jobs())?)
    }
}

/// What tasks ask for that do what this block did.
fn asked_by(report: &BlockReport) -> Resources {
    let used = report.used;
    Resources::with_margin(used.memory_bytes, used.processors, Duration::from_secs_f64(used.seconds))
}

/// Two processes would submit twice.
fn lock(folder: &RunFolder) -> Result<File, Failure> {
    let path: &Path = &folder.lock();
    let file = File::create(path).map_err(|error| at(path, error))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => Failure::refused(format!(
            "another process watches the run in {} and collects its results",
            folder.0.display()
        )),
        error => at(path, error.into()),
    })?;
    Ok(file)
}
