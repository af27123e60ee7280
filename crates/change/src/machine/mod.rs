//! Which step is next: the transaction over services as a state machine without input and output.
//!
//! What is known is the journal's [`TrialState`], what a [`Machine`] keeps of this run, and the [`Answer`] to the last
//! [`Step`]. From these [`Machine::next`] tells the next step, and nothing else decides. Whoever carries the steps out
//! (`run`) does what they say in the order in which they come. What is true after each:
//!
//! | giving a treatment | what is true after it |
//! |---|---|
//! | `Plan`, then the record `Intent` | the bytes of before and after are saved, and the journal tells both |
//! | `Write`, then `Written` | every file is as it should be after, and on disk |
//! | `Reload`, `AskSettings`, then `Effective` | the next life will have the treatment |
//! | the record `Restarting`, then `Restart` | whatever ran before may be gone |
//! | `AskJob`, `AskHealth`, then `Healthy` | a new life does its work |
//! | `AskStill`, `Prove`, `StartTimer`, then `Committed` | that life runs what the arm wants |
//!
//! | putting back | what is true after it |
//! |---|---|
//! | the record `Reverting`, then `Undo` | every file is as before, and on disk |
//! | `Reload`, `AskLife`, then `Undone` | the next life will be as before, and the journal tells whether this one is |
//! | `Restarting`, `Restart`, `AskJob`, `AskHealth`, `AskStill` | a life without the treatment does its work |
//! | `StartTimersAgain`, then `Reverted` | it is as if nothing had been |
//!
//! A record comes before what cannot be seen afterwards (a restart) and before what it needs to be undone by (a change
//! of files); all else is found out again by looking. That is why each row can be cut short anywhere and begun again.

mod restart;
mod schedule;
mod steps;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use heaptrial_host::systemd::{Job, JobResult, SystemdError};
use heaptrial_model::{Identity, LifeKey, Pace, ServiceName};

use crate::error::ServiceError;
use crate::health::Health;
use crate::journal::{Change, Event};
use crate::prepared::Prepared;
use crate::state::TrialState;
use crate::treatment::ServiceTreatment;

use restart::RestartStep;

/// What is done with services.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Apply,
    /// Give them back what they had.
    Revert,
}

/// What happens where a record cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weight {
    Run,
    Service,
    /// Nothing: the files themselves tell as much, and a full disk is no reason to leave services as they are.
    None,
}

/// What is to be done, or found out, next.
#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    /// Ask whether anybody wants the run to stop.
    AskHalt,
    /// Write a record; what it announces comes after it.
    Record(Event, Weight),
    /// Find out what runs of some services.
    AskLives(Vec<ServiceName>),
    /// Find out which of a service's files have to change, and save the bytes of before and after.
    Plan(ServiceName),
    /// Make the changes that were announced.
    Write(ServiceName),
    /// Put back what was there before.
    Undo(ServiceName),
    /// Have the service manager read all unit files.
    Reload,
    /// Compare the service manager's view with the treatments.
    AskSettings(Vec<ServiceName>),
    /// Find the life that an earlier run started with the treatment, if it runs and proves to have it.
    AskAdoption(ServiceName),
    /// Find out whether the library that a service is about to load is the one that was installed.
    AskLibrary(ServiceName),
    /// Find out what runs of a service that is about to be restarted.
    AskLaunch(ServiceName),
    /// Find out what runs of a service.
    AskLife(ServiceName),
    /// Forget that a service failed, and restart it.
    Restart(ServiceName, Purpose),
    /// Find out how a job ended.
    AskJob(ServiceName, Job),
    /// Find out whether a service does its work.
    AskHealth(ServiceName),
    /// Find out whether a life still runs.
    AskStill(ServiceName, LifeKey),
    /// Prove what a life runs.
    Prove(ServiceName, LifeKey),
    /// Start the timer that restarts a service of which a life was proved, where its arm has one.
    StartTimer(ServiceName, LifeKey, Box<Identity>),
    /// Start the timers that an earlier trial had left on a service.
    StartTimersAgain(ServiceName),
    Tell(Notification),
    /// Let time pass until one of these jobs ends, as long as that.
    Wait(Vec<Job>, Duration),
    /// There is nothing more to do.
    Finish(Outcome),
}

/// What came of a step.
#[derive(Debug)]
pub enum Answer {
    /// Of the very first call.
    Nothing,
    Done,
    /// Whether it could be done, or is as it should be.
    Tried(Result<(), ServiceError>),
    /// To [`Step::AskHalt`]: why the run is to stop.
    Halt(Option<String>),
    /// To [`Step::Plan`]; `None` if the changes were announced by an earlier run.
    Planned(Result<Option<Vec<Change>>, ServiceError>),
    /// To [`Step::AskLives`], in its order.
    Lives(Vec<Running>),
    /// To [`Step::AskSettings`], in its order.
    Settings(Vec<Result<(), ServiceError>>),
    Life(Running),
    Adoption(Option<LifeKey>),
    Queued(Result<Restarting, ServiceError>),
    /// To [`Step::AskJob`]; `None` while it runs.
    Job(Result<Option<JobResult>, SystemdError>),
    Health(Health),
    Still(Still),
    Proof(Result<Identity, ServiceError>),
}

/// What runs of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Running {
    Life(LifeKey),
    /// Nothing at this moment: it failed, or it is on its way up or down.
    Nothing,
    /// Nothing, and nothing is about to start it: somebody stopped it, or it was through with its work.
    Stopped {
        /// Which boot of the host this is.
        boot_id: Option<String>,
    },
}

impl Running {
    /// The life, if there is one.
    pub fn life(self) -> Option<LifeKey> {
        if let Self::Life(life) = self { Some(life) } else { None }
    }
}

/// A service that is being restarted, or was.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Restarting {
    pub before: Option<LifeKey>,
    /// The job, where its end will be heard.
    pub job: Option<Job>,
}

/// Whether a life still runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Still {
    Runs,
    /// It does not: its service is stopped.
    Stopped,
    /// It does not; how it ended, where that is known.
    Ended(Option<String>),
}

/// What happens to a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notification {
    /// It is about to be restarted.
    Restarting(ServiceName),
    /// It runs what its arm wants.
    Committed(ServiceName, LifeKey),
    /// It does not, and is put back.
    Failed(ServiceName, String),
    Reverted(ServiceName),
    /// It could not be put back.
    RevertFailed(ServiceName, String),
    /// Nothing happens for a moment: so many are done of so many.
    Waiting(usize, usize),
    /// Something that nobody asked for, and that a person should know.
    Warning(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Services that are as wanted, also from earlier runs.
    pub done: usize,
    /// Services that failed in this run, with the reason.
    pub failed: Vec<(ServiceName, String)>,
    /// Services that could not be put back and were given up, with the reason.
    pub given_up: Vec<(ServiceName, String)>,
    /// Services that could not be put back, with the reason.
    pub stuck: Vec<(ServiceName, String)>,
    /// Services that had their treatment and of which somebody changed a file since, with the difference.
    pub drifted: Vec<(ServiceName, String)>,
    /// Services that were not reached.
    pub remaining: usize,
    /// Why the run stopped before its end.
    pub stopped: Option<String>,
}

impl Outcome {
    /// Whether everything is as it was wanted.
    pub fn is_complete(&self) -> bool {
        let all = self.failed.is_empty() && self.stuck.is_empty() && self.drifted.is_empty();
        all && self.remaining == 0 && self.stopped.is_none()
    }
}

/// What a run must know of a service.
#[derive(Debug, Clone)]
struct Member {
    arm: String,
    /// Services of one family are never down together.
    family: Option<String>,
    /// Whether asking for its health asks the program itself.
    is_asked: bool,
}

/// Services whose files are being changed together, since the service manager reads all unit files at once.
#[derive(Debug, Default)]
struct Batch {
    lives: BTreeMap<ServiceName, Running>,
    changed: Vec<ServiceName>,
    failed: Vec<(ServiceName, ServiceError)>,
}

/// Where a round over the services is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Round {
    Begin,
    Launch,
    Look,
    End,
}

/// A run over services: a few are prepared together, restarted at the plan's pace, watched, proved and committed; what
/// fails is put back.
#[derive(Debug)]
pub struct Machine {
    purpose: Purpose,
    pace: Pace,
    members: BTreeMap<ServiceName, Member>,
    queue: VecDeque<ServiceName>,
    batch: Option<Batch>,
    /// With changed files, waiting for their restart.
    ready: VecDeque<ServiceName>,
    restarts: Vec<RestartStep>,
    /// Those of them that are yet to be looked at in this round.
    to_look: VecDeque<ServiceName>,
    todo: VecDeque<Step>,
    /// What the next answer is to.
    asked: Option<Step>,
    round: Round,
    stop: Option<String>,
    /// Whether anything happened in this round.
    moved: bool,
    /// Whether committed services were looked at once more.
    checked: bool,
    now: Duration,
    first_launch: Option<Duration>,
    last_launch: Option<Duration>,
    launches: u32,
    failures: u32,
    total: usize,
    outcome: Outcome,
}

impl Machine {
    /// A run over the services of a queue.
    pub fn new(
        purpose: Purpose,
        pace: Pace,
        queue: VecDeque<ServiceName>,
        prepared: &Prepared,
        state: &TrialState,
    ) -> Self {
        let member = |treatment: &ServiceTreatment| Member {
            arm: treatment.arm.clone(),
            family: treatment.family.clone(),
            is_asked: treatment.relay.as_ref().is_some_and(crate::edges::can_be_asked),
        };
        let members = prepared.services.iter().map(|found| (found.service.clone(), member(found))).collect();
        Self {
            purpose,
            pace,
            members,
            total: queue.len(),
            queue,
            batch: None,
            ready: VecDeque::new(),
            restarts: Vec::new(),
            to_look: VecDeque::new(),
            todo: VecDeque::new(),
            asked: None,
            round: Round::Begin,
            stop: None,
            moved: false,
            checked: false,
            now: Duration::ZERO,
            first_launch: None,
            last_launch: None,
            launches: 0,
            failures: state.failures,
            outcome: Outcome::default(),
        }
    }

    /// The next step, by what came of the last one. `state` is what the journal tells, all records so far included;
    /// `now` never goes back.
    pub fn next(&mut self, state: &TrialState, now: Duration, answer: Answer) -> Step {
        self.now = now;
        if let Some(asked) = self.asked.take() {
            self.take(state, asked, answer);
        }
        loop {
            if let Some(step) = self.todo.pop_front() {
                self.asked = Some(step.clone());
                return step;
            }
            if let Some(outcome) = self.schedule(state) {
                return Step::Finish(outcome);
            }
        }
    }
}
