//! Watching the tasks of a run until all of its blocks are here, by whoever: the process that submits, or a later one.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use heaptrial_lab::{Interrupt, Progress, RunOutcome};
use heaptrial_model::units;
use heaptrial_slurm::{Cluster, Queue, Request, Resources, TaskState};
use rustix::fs::{FlockOperation, flock};
use rustix::io::{FdFlags, fcntl_setfd};

use super::collect::Collector;
use super::course::{BlockState, Course, GONE_FOR};
use super::kept::{BlockReport, KeptRun, RunFolder, at};
use super::submissions::Submissions;
use crate::exit::Failure;

/// How often results are looked for, and the controller is asked, which all users of a cluster do.
const LOOK_EVERY: Duration = Duration::from_millis(250);
const ASK_EVERY: Duration = Duration::from_secs(5);

/// A block that kept this share of its processors busy, on average, may have wanted more.
const ALL_BUSY: f64 = 0.9;

/// How often, and for how many times, cancelled tasks are looked for; Slurm kills them after its KillWait, usually 30 s.
const END_EVERY: Duration = Duration::from_secs(1);
const END_LOOKS: u32 = 40;

pub(super) struct Watch<'a> {
    cluster: &'a Cluster,
    folder: RunFolder,
    run: KeptRun,
    submitted: Submissions,
    course: Course,
    collector: Collector,
    /// Blocks that are submitted once more should they have no results.
    again: BTreeSet<u32>,
    told: String,
    /// Held as long as this process collects.
    _lock: File,
}

impl<'a> Watch<'a> {
    /// Begins with what the folder tells; whatever was submitted is not submitted again.
    pub(super) fn begin(cluster: &'a Cluster, folder: RunFolder, run: KeptRun) -> Result<Self, Failure> {
        let lock = lock(&folder)?;
        let collector = Collector::new(folder.clone(), run.token.clone(), run.database.clone());
        let course = Course::of(&run.blocks);
        let submitted = Submissions::read(folder.clone(), cluster)?;
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

    /// Has blocks without results submitted once more.
    pub(super) fn carry_out_again(&mut self) {
        self.again.extend(self.run.blocks.iter().copied());
    }

    /// Until every block is here, or it is known why not; Ctrl-C cancels the rest.
    pub(super) fn finish(
        mut self,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<RunOutcome, Failure> {
        self.carry_on(interrupt, progress)?
    }

    /// The same of a run that was left behind; `None` where not all of its blocks give results. With the seconds of the longest.
    pub(super) fn take_up(
        mut self,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<Option<(RunOutcome, f64)>, Failure> {
        if self.submitted.is_empty() && self.folder.arrived()?.is_empty() {
            return Ok(None);
        }
        progress.message(&format!("what was under way in {} is taken up", self.folder.0.display()));
        match self.carry_on(interrupt, progress)? {
            Ok(outcome) => {
                let reports = self.run.blocks.iter().filter_map(|block| self.folder.read_block(*block).ok());
                Ok(Some((outcome, reports.map(|report| report.used.seconds).fold(0.0, f64::max))))
            }
            Err(failure) => {
                progress.message(&format!("{failure}. It is carried out anew"));
                Ok(None)
            }
        }
    }

    /// The inner error is that blocks gave no results.
    fn carry_on(
        &mut self,
        interrupt: &Interrupt,
        progress: &mut dyn Progress,
    ) -> Result<Result<RunOutcome, Failure>, Failure> {
        let watched = self.watch(interrupt, progress);
        if let Err(failure) = watched {
            let jobs: Vec<String> = self.submitted.jobs().iter().map(u64::to_string).collect();
            if !jobs.is_empty() {
                progress.message(&format!("`scancel {}` ends what is under way", jobs.join(" ")));
                let folder = self.folder.0.display();
                return Err(failure.hint(format!("nothing is lost: `heaptrial lab attach {folder}` goes on")));
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
            return Ok(Err(self.without_results(&failed)));
        }
        let trial_id = self.collector.trial_id().ok_or_else(|| {
            Failure::failed("it was interrupted before any block had come back; its tasks are cancelled")
        })?;
        // A block whose services were killed for want of memory gave no results.
        Ok(Ok(RunOutcome {
            trial_id,
            interrupted,
            failed_services: self.collector.failed_services(),
            out_of_memory: 0,
            work_read: self.collector.work_read().clone(),
        }))
    }

    fn without_results(&self, failed: &[(u32, &str)]) -> Failure {
        let (first, why) = failed[0];
        let log = self.folder.log(first);
        let log = if log.is_file() { format!(" (its log: {})", log.display()) } else { String::new() };
        Failure::failed(format!(
            "no results of {} of {}. Block {}: {why}{log}",
            failed.len(),
            units::counted(self.run.blocks.len(), "block"),
            first + 1,
        ))
        .hint(format!(
            "what is here is kept; `heaptrial lab attach {} --again` carries out what is missing",
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
                return self.cancel(progress);
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

    /// Cancels all tasks and waits until they have ended: one that is just delivering its block still does.
    fn cancel(&mut self, progress: &mut dyn Progress) -> Result<(), Failure> {
        progress.message("interrupted: tasks are cancelled; blocks that are here are kept");
        self.submitted.cancel(self.cluster)?;
        for _ in 0..END_LOOKS {
            let queue = self.cluster.queue()?;
            let runs = |block: &u32| {
                let task = self.submitted.of(*block).and_then(|array| queue.task(&array.name, *block));
                task.is_some_and(|task| task.state == Some(TaskState::Running))
            };
            if !self.course.open().iter().any(runs) {
                break;
            }
            std::thread::sleep(END_EVERY);
        }
        self.take_arrived(progress)
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
        let told = self.submit(first, None)?;
        let follow = if all { "" } else { "; the others follow, and ask for what it used" };
        progress.message(&format!("{told}{follow}"));
        Ok(())
    }

    /// What was not submitted yet, once a block tells what it needs.
    fn submit_rest(&mut self, progress: &mut dyn Progress) -> Result<(), Failure> {
        let submitted = |block: &u32| self.submitted.has(*block);
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
        let given = report.facts.cpu_count;
        if report.used.processors >= ALL_BUSY * f64::from(given)
            && !Request::asks_for_processors(&self.run.options)
        {
            progress.message(&format!(
                "block {} kept the {} of its task busy, and may have wanted more: --slurm cpus-per-task=N asks for them, for all blocks",
                report.block + 1,
                units::counted(given as usize, "processor")
            ));
        }
        let told = self.submit(rest, Some(resources))?;
        progress.message(&format!(
            "{told}; each asks for {} MiB, {} and {} min, what block {} used with a margin",
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
        let told = self.submit(again, resources)?;
        progress.message(&told);
        Ok(())
    }

    /// Of a block that is here.
    fn first_report(&self) -> Option<BlockReport> {
        let here = |block: &&u32| self.course.state(**block) == Some(&BlockState::Here);
        self.run.blocks.iter().find(here).and_then(|block| self.folder.read_block(*block).ok())
    }

    /// Gives what is to be told.
    fn submit(&mut self, blocks: Vec<u32>, resources: Option<Resources>) -> Result<String, Failure> {
        self.submitted.submit(self.cluster, &self.run, blocks, resources)
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
            let Some(array) = self.submitted.of(block) else { continue };
            let Some(job) = array.job else { continue };
            let mut task = queue.task(&array.name, block).cloned();
            if task.is_none() {
                if !accounts.iter().any(|(known, _)| *known == job) {
                    accounts.push((job, self.cluster.accounts(job)));
                }
                let kept = accounts.iter().find(|(known, _)| *known == job);
                task = kept.and_then(|(_, queue)| queue.as_ref()?.task(&array.name, block).cloned());
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
        let job = self.submitted.jobs().last().copied().unwrap_or_default();
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
}

/// What tasks ask for that do what this block did.
fn asked_by(report: &BlockReport) -> Resources {
    let used = report.used;
    Resources::with_margin(used.memory_bytes, used.processors, Duration::from_secs_f64(used.seconds))
}

/// Two processes would submit twice. Children inherit the lock: an `sbatch` that outlives this process still holds it, until
/// what it submits is in the queue.
fn lock(folder: &RunFolder) -> Result<File, Failure> {
    let path: &Path = &folder.lock();
    let file = File::create(path).map_err(|error| at(path, error))?;
    fcntl_setfd(&file, FdFlags::empty()).map_err(|error| at(path, error.into()))?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => Failure::refused(format!(
            "another process watches the run in {} and collects its results, or an sbatch of it still waits for the controller",
            folder.0.display()
        )),
        error => at(path, error.into()),
    })?;
    Ok(file)
}
