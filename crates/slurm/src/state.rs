//! In which state a task is, by Slurm's words.

/// In which state a task is (squeue(1), "JOB STATE CODES").
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TaskState {
    /// It waits to be started, also after it was requeued.
    Waiting,
    /// It runs, or is being started or cleaned up after.
    Running,
    /// It ended with exit code 0.
    Completed,
    /// It ended otherwise, and Slurm does not start it again.
    Ended(Ended),
}

/// How a task ended that did not complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With another exit code than 0, or it could not be launched.
    Failed,
    Cancelled,
    /// It ran into its time limit.
    TimeLimit,
    /// It needed more memory than it had asked for.
    OutOfMemory,
    /// Its node died, and it was not requeued.
    NodeFailed,
    /// It made way for another one, and was not requeued.
    Preempted,
}

impl TaskState {
    /// Of the words of a record: a state, in newer versions with flags such as `COMPLETING` or `REQUEUED`. Words that no
    /// known version has say nothing. `None` where none says anything.
    pub(crate) fn of<'a>(words: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut found = None;
        for word in words {
            let state = match word.trim_end_matches('+').split(' ').next().unwrap_or_default() {
                // Whatever else is told: it will run again.
                "PENDING" | "REQUEUED" | "REQUEUE_HOLD" | "REQUEUE_FED" | "SPECIAL_EXIT"
                | "RESV_DEL_HOLD" => {
                    return Some(Self::Waiting);
                }
                "RUNNING" | "COMPLETING" | "CONFIGURING" | "SUSPENDED" | "STOPPED" | "SIGNALING"
                | "STAGE_OUT" | "RESIZING" => Self::Running,
                "COMPLETED" => Self::Completed,
                "CANCELLED" | "REVOKED" => Self::Ended(Ended::Cancelled),
                "TIMEOUT" | "DEADLINE" => Self::Ended(Ended::TimeLimit),
                "OUT_OF_MEMORY" => Self::Ended(Ended::OutOfMemory),
                "NODE_FAIL" => Self::Ended(Ended::NodeFailed),
                "PREEMPTED" => Self::Ended(Ended::Preempted),
                "FAILED" | "BOOT_FAIL" | "LAUNCH_FAILED" => Self::Ended(Ended::Failed),
                _ => continue,
            };
            // The base state comes first.
            found.get_or_insert(state);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_all_versions_are_known() {
        let of = |words: &[&str]| TaskState::of(words.iter().copied());
        assert_eq!(of(&["RUNNING"]), Some(TaskState::Running));
        assert_eq!(of(&["COMPLETED", "COMPLETING"]), Some(TaskState::Completed));
        assert_eq!(of(&["NODE_FAIL", "REQUEUED"]), Some(TaskState::Waiting));
        assert_eq!(of(&["CANCELLED by 1000"]), Some(TaskState::Ended(Ended::Cancelled)));
        assert_eq!(of(&["OUT_OF_MEMORY"]), Some(TaskState::Ended(Ended::OutOfMemory)));
        assert_eq!(of(&["SOMETHING_NEW"]), None);
    }
}
