//! How far the blocks of a run are, by what the queue tells. Pure: what is seen goes in, what is to be told comes out.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_model::units;
use heaptrial_slurm::{Ended, QueuedTask, TaskState};

use super::kept::BlockFailure;
use super::task::exit;

/// For how many looks a block may be gone from the queue, or be completed there, before its results are missing: those come
/// over a network file system, which may show a new file a minute late.
pub(super) const GONE_FOR: u32 = 15;

/// For how many looks such a reason has to stand: Slurm tells one for a while after it has gone.
pub(super) const STUCK_FOR: u32 = 8;

/// Reasons of Slurm that no waiting ends: somebody has to do something (squeue(1), "JOB REASON CODES").
const NEEDS_SOMEBODY: [&str; 15] = [
    "AccountNotAllowed",
    "BadConstraints",
    "DependencyNeverSatisfied",
    "InactiveLimit",
    "InvalidAccount",
    "InvalidQOS",
    "JobHeldAdmin",
    "JobHeldUser",
    "JobHoldMaxRequeue",
    "PartitionDown",
    "PartitionInactive",
    "PartitionNodeLimit",
    "PartitionTimeLimit",
    "QOSNotAllowed",
    "QOSTimeLimit",
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum BlockState {
    /// It waits to be submitted, or to be started.
    Waiting,
    Running(String),
    /// Its results are in the database.
    Here,
    /// There will be no results.
    Failed(String),
}

/// All blocks of a run.
#[derive(Debug, Default)]
pub(super) struct Course {
    states: BTreeMap<u32, BlockState>,
    nodes: BTreeMap<u32, String>,
    restarts: BTreeMap<u32, u32>,
    gone: BTreeMap<u32, u32>,
    reasons: BTreeSet<String>,
    stuck_for: u32,
}

impl Course {
    pub(super) fn of(blocks: &[u32]) -> Self {
        Self { states: blocks.iter().map(|block| (*block, BlockState::Waiting)).collect(), ..Self::default() }
    }

    pub(super) fn state(&self, block: u32) -> Option<&BlockState> {
        self.states.get(&block)
    }

    pub(super) fn set(&mut self, block: u32, state: BlockState) {
        self.gone.remove(&block);
        self.states.insert(block, state);
    }

    /// Blocks of which neither results nor their want is known.
    pub(super) fn open(&self) -> Vec<u32> {
        let open = |state: &BlockState| matches!(state, BlockState::Waiting | BlockState::Running(_));
        self.states.iter().filter(|(_, state)| open(state)).map(|(block, _)| *block).collect()
    }

    /// Blocks without results, with why.
    pub(super) fn failed(&self) -> Vec<(u32, &str)> {
        let mut failed = Vec::new();
        for (block, state) in &self.states {
            if let BlockState::Failed(why) = state {
                failed.push((*block, why.as_str()));
            }
        }
        failed
    }

    /// Takes in one look at a block that was submitted; gives what is to be told at once. `patience` is for how many looks a
    /// block may be gone, such as [`GONE_FOR`].
    pub(super) fn see(
        &mut self,
        block: u32,
        task: Option<&QueuedTask>,
        failure: Option<BlockFailure>,
        patience: u32,
    ) -> Option<String> {
        let state = task.and_then(|task| task.state);
        // Where it was until now: one that is started again may run elsewhere already.
        let was_on = self.nodes.get(&block).cloned();
        if let (Some(task), Some(TaskState::Ended(how))) = (task, state) {
            let why = why_ended(how, task, failure);
            let told = format!("block {} has no results: {why}", block + 1);
            self.set(block, BlockState::Failed(why));
            return Some(told);
        }
        match (task, state) {
            (Some(task), Some(TaskState::Running)) => {
                let node = task.node.clone().unwrap_or_else(|| "a node".to_owned());
                self.nodes.insert(block, node.clone());
                self.set(block, BlockState::Running(node));
            }
            (Some(task), Some(TaskState::Waiting)) => {
                self.set(block, BlockState::Waiting);
                if !task.reason.is_empty() {
                    self.reasons.insert(task.reason.clone());
                }
            }
            // Not there, completed, or in a state that no known version has.
            (task, state) => {
                let looks = self.gone.entry(block).or_default();
                *looks += u32::from(task.is_none() || state.is_some());
                if *looks >= patience {
                    let why = match failure {
                        Some(failure) => format!("on {}: {}", failure.node, failure.why),
                        None if task.is_some() => {
                            "its task is completed by Slurm's word, and left nothing".to_owned()
                        }
                        None => "Slurm does not know its task any more".to_owned(),
                    };
                    let told = format!("block {} has no results: {why}", block + 1);
                    self.set(block, BlockState::Failed(why));
                    return Some(told);
                }
            }
        }
        let restarts = task?.restarts;
        let known = self.restarts.insert(block, restarts).unwrap_or(restarts);
        (restarts > known).then(|| {
            let node = was_on.as_deref().unwrap_or("its node");
            format!(
                "block {} is started again by Slurm: {node} died, or was taken from it; what was begun there is discarded",
                block + 1
            )
        })
    }

    /// Ends a look; gives a reason for which blocks wait that no waiting ends, once it has stood for [`STUCK_FOR`] looks.
    pub(super) fn looked(&mut self) -> Option<&str> {
        let waits = self.states.values().any(|state| *state == BlockState::Waiting);
        let runs = self.states.values().any(|state| matches!(state, BlockState::Running(_)));
        let needs = |reason: &&String| {
            let word = reason.split([',', '(', ' ']).next().unwrap_or_default();
            NEEDS_SOMEBODY.contains(&word) || reason.contains("requeued held")
        };
        let found = self.reasons.iter().find(needs).filter(|_| waits && !runs);
        self.stuck_for = if found.is_some() { self.stuck_for + 1 } else { 0 };
        found.map(String::as_str).filter(|_| self.stuck_for >= STUCK_FOR)
    }

    /// Begins a new look: reasons are those that it tells.
    pub(super) fn look(&mut self) {
        self.reasons.clear();
    }

    /// Where all blocks are, in one line.
    pub(super) fn line(&self) -> String {
        let count =
            |wanted: fn(&BlockState) -> bool| self.states.values().filter(|state| wanted(state)).count();
        let nodes: Vec<&str> = self
            .states
            .values()
            .filter_map(|state| match state {
                BlockState::Running(node) => Some(node.as_str()),
                _ => None,
            })
            .collect();
        let mut parts = vec![format!(
            "{} of {} here",
            count(|state| *state == BlockState::Here),
            units::counted(self.states.len(), "block")
        )];
        if !nodes.is_empty() {
            let verb = if nodes.len() == 1 { "runs" } else { "run" };
            parts.push(format!("{} {verb} ({})", nodes.len(), nodes.join(", ")));
        }
        let waiting = count(|state| *state == BlockState::Waiting);
        if waiting > 0 {
            let verb = if waiting == 1 { "waits" } else { "wait" };
            let reasons: Vec<&str> = self.reasons.iter().map(String::as_str).collect();
            let reasons =
                if reasons.is_empty() { String::new() } else { format!(" ({})", reasons.join(", ")) };
            parts.push(format!("{waiting} {verb}{reasons}"));
        }
        let failed = count(|state| matches!(state, BlockState::Failed(_)));
        if failed > 0 {
            parts.push(format!("{failed} failed"));
        }
        parts.join(", ")
    }
}

/// Why a task left nothing.
fn why_ended(how: Ended, task: &QueuedTask, failure: Option<BlockFailure>) -> String {
    let node = task.node.as_deref().unwrap_or("its node");
    if let Some(failure) = failure {
        return format!("on {}: {}", failure.node, failure.why);
    }
    match how {
        Ended::Cancelled => "its task was cancelled".to_owned(),
        Ended::TimeLimit => {
            "it ran into the time limit of its task; --slurm time=MINUTES asks for more".to_owned()
        }
        Ended::OutOfMemory => {
            format!("it needed more memory on {node} than its task had; --slurm mem=SIZE asks for more")
        }
        Ended::NodeFailed => format!("{node} died, and this cluster starts nothing again (JobRequeue)"),
        Ended::Preempted => format!("its task made way for another one on {node}"),
        Ended::Failed => match task.exit_code {
            Some(code) if code == i32::from(exit::NOT_SHARED) => format!(
                "{node} does not see the run's folder: put it with --out on a file system that this host and all nodes share, \
                 such as your home folder"
            ),
            Some(code) if code == i32::from(exit::CANNOT_WRITE) => {
                format!("{node} cannot write to the run's folder: is the disk full, or a quota (`quota -s`)?")
            }
            Some(code @ (126 | 127)) => format!(
                "{node} cannot run the program in the run's folder (exit code {code}): is the file system mounted noexec, or the \
                 node of another architecture?"
            ),
            Some(code) if code != 0 => format!("its task ended with exit code {code} on {node}"),
            _ => {
                let reason = if task.reason.is_empty() { "killed" } else { &task.reason };
                format!("its task ended on {node} ({reason})")
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(state: TaskState, restarts: u32) -> QueuedTask {
        QueuedTask {
            array: 1,
            name: String::new(),
            tasks: vec![0],
            state: Some(state),
            reason: "Resources".to_owned(),
            node: Some("n1".to_owned()),
            restarts,
            exit_code: None,
        }
    }

    #[test]
    fn a_block_that_is_started_again_is_told_once_and_goes_on() {
        let mut course = Course::of(&[0, 1]);
        assert_eq!(course.see(0, Some(&task(TaskState::Running, 0)), None, GONE_FOR), None);
        assert_eq!(course.line(), "0 of 2 blocks here, 1 runs (n1), 1 waits");
        let elsewhere = QueuedTask { node: Some("n2".to_owned()), ..task(TaskState::Running, 1) };
        let told = course.see(0, Some(&elsewhere), None, GONE_FOR).unwrap();
        assert!(told.contains("block 1") && told.contains("n1 died"), "{told}");
        assert_eq!(course.see(0, Some(&task(TaskState::Running, 1)), None, GONE_FOR), None);
        course.set(0, BlockState::Here);
        assert_eq!(course.open(), [1]);
    }

    #[test]
    fn results_of_a_task_that_is_gone_are_waited_for_and_then_missing() {
        let mut course = Course::of(&[0]);
        for _ in 1..GONE_FOR {
            assert_eq!(course.see(0, None, None, GONE_FOR), None);
        }
        assert!(course.see(0, None, None, GONE_FOR).unwrap().contains("does not know"));
        assert!(course.open().is_empty());
        assert_eq!(course.failed().len(), 1);
    }

    #[test]
    fn what_no_waiting_ends_is_found_when_it_stands_and_nothing_runs() {
        let held = QueuedTask { reason: "JobHeldUser".to_owned(), ..task(TaskState::Waiting, 0) };
        let (waits, runs) = (task(TaskState::Waiting, 0), task(TaskState::Running, 0));
        let mut course = Course::of(&[0, 1]);
        let mut look = |first: &QueuedTask, second: &QueuedTask| {
            course.look();
            course.see(0, Some(first), None, GONE_FOR);
            course.see(1, Some(second), None, GONE_FOR);
            course.looked().map(str::to_owned)
        };
        for _ in 1..STUCK_FOR {
            assert_eq!(look(&held, &waits), None);
        }
        assert_eq!(look(&held, &waits).as_deref(), Some("JobHeldUser"));
        // It waits for something else in between, and then another one runs.
        assert_eq!(look(&waits, &waits), None);
        for _ in 0..2 * STUCK_FOR {
            assert_eq!(look(&held, &runs), None);
        }
    }

    #[test]
    fn exit_codes_tell_what_is_wrong_with_the_folder() {
        let ended = |code| QueuedTask { exit_code: Some(code), ..task(TaskState::Ended(Ended::Failed), 0) };
        let why = |code| why_ended(Ended::Failed, &ended(code), None);
        assert!(why(66).contains("n1 does not see the run's folder"));
        assert!(why(73).contains("quota"));
        assert!(why(126).contains("noexec"));
        let failure = BlockFailure { node: "n2".into(), why: "no tor".into() };
        assert_eq!(why_ended(Ended::Failed, &ended(1), Some(failure)), "on n2: no tor");
    }
}
