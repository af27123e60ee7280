//! What `squeue --json` and `sacct --json` tell of tasks.
//!
//! Their forms changed with nearly every version (a state is a word or a list of words, a number may be an object with `set`
//! and `number`), so that a record is read by what is looked for, and what is not found is not known.

use serde_json::Value;

use crate::TaskState;

/// A task, or those of an array that wait together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedTask {
    pub array: u64,
    pub name: String,
    /// Numbers of the tasks that it stands for.
    pub tasks: Vec<u32>,
    /// In which state it is; `None` where that is a word that no known version has.
    pub state: Option<TaskState>,
    /// Slurm's reason for that, such as `Resources`; empty where there is none.
    pub reason: String,
    /// The node that it runs on or ran on last.
    pub node: Option<String>,
    /// How often it was started again.
    pub restarts: u32,
    /// Its exit code, where it ended by itself.
    pub exit_code: Option<i32>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Queue {
    pub tasks: Vec<QueuedTask>,
}

impl Queue {
    /// Reads an answer; records that are no tasks of arrays are left out.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let answer: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
        let jobs = answer["jobs"].as_array().ok_or("it has no `jobs`")?;
        Ok(Self { tasks: jobs.iter().filter_map(QueuedTask::of).collect() })
    }

    /// Of a task of the array of that name. Job ids are given out anew when a cluster has run out of them, or is set up anew.
    pub fn task(&self, name: &str, task: u32) -> Option<&QueuedTask> {
        self.tasks.iter().find(|found| found.name == name && found.tasks.contains(&task))
    }

    /// The array of that name.
    pub fn array_named(&self, name: &str) -> Option<u64> {
        self.tasks.iter().filter(|found| found.name == name).map(|found| found.array).max()
    }
}

impl QueuedTask {
    fn of(job: &Value) -> Option<Self> {
        let accounted = &job["array"];
        let array =
            number(&job["array_job_id"]).or_else(|| number(&accounted["job_id"])).filter(|id| *id > 0)?;
        let one = number(&job["array_task_id"]).or_else(|| number(&accounted["task_id"]));
        let waiting =
            job["array_task_string"].as_str().or_else(|| accounted["task"].as_str()).unwrap_or_default();
        let tasks = match one {
            Some(task) => vec![u32::try_from(task).ok()?],
            None => numbers(waiting)?,
        };
        let state = if job["job_state"].is_null() { &job["state"]["current"] } else { &job["job_state"] };
        let reason =
            job["state_reason"].as_str().or_else(|| job["state"]["reason"].as_str()).unwrap_or_default();
        Some(Self {
            array,
            name: job["name"].as_str().unwrap_or_default().to_owned(),
            tasks,
            state: TaskState::of(words(state)),
            reason: if reason == "None" { String::new() } else { reason.to_owned() },
            node: job["nodes"]
                .as_str()
                .filter(|node| !node.is_empty() && *node != "None assigned")
                .map(str::to_owned),
            restarts: number(&job["restart_cnt"]).unwrap_or(0) as u32,
            exit_code: exit_code(&job["exit_code"]),
        })
    }
}

/// A number by itself, or in an object that tells whether it is set.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Object(object) => {
            (object.get("set")? == true).then(|| object.get("number")?.as_u64()).flatten()
        }
        value => value.as_u64(),
    }
}

fn words(value: &Value) -> impl Iterator<Item = &str> {
    let list = value.as_array().map_or(&[][..], Vec::as_slice);
    value.as_str().into_iter().chain(list.iter().filter_map(Value::as_str))
}

/// Of a status as wait(2) gives it, or of an object that has it taken apart.
fn exit_code(value: &Value) -> Option<i32> {
    match value {
        Value::Object(object) => number(object.get("return_code")?).map(|code| code as i32),
        value => value.as_i64().filter(|status| status & 0x7f == 0).map(|status| (status >> 8) as i32 & 0xff),
    }
}

/// Numbers of tasks as Slurm writes them, such as `2-4,7,10-20:5%3`; `None` where they are not.
fn numbers(text: &str) -> Option<Vec<u32>> {
    let text = text.split('%').next()?.trim_matches(['[', ']']);
    let mut found = Vec::new();
    for part in text.split(',') {
        let (range, step) = part.split_once(':').map_or((part, "1"), |(range, step)| (range, step));
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        found.extend((first..=last).step_by(step.parse().ok().filter(|step| *step > 0)?));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ended;

    /// Of Slurm 22.05, with two tasks of an array under way, some that wait, and one that failed; cut to what is read.
    const OF_22_05: &str = include_str!("../tests/squeue-22.05.json");

    #[test]
    fn the_form_of_22_05_is_read() {
        let queue = Queue::parse(OF_22_05).unwrap();
        let running = queue.task("t.sh", 1).unwrap();
        assert_eq!((running.state, running.node.as_deref()), (Some(TaskState::Running), Some("n3")));
        let waiting = queue.task("t.sh", 3).unwrap();
        assert_eq!((waiting.state, waiting.reason.as_str()), (Some(TaskState::Waiting), "Resources"));
        assert_eq!(waiting.tasks, [2, 3, 4]);
        let failed = queue.task("heaptrial-first", 1).unwrap();
        assert_eq!((failed.state, failed.exit_code), (Some(TaskState::Ended(Ended::Failed)), Some(66)));
        assert_eq!(queue.array_named("heaptrial-first"), Some(19));
        assert_eq!(queue.task("heaptrial-third", 0), None);
    }

    #[test]
    fn the_forms_of_later_versions_are_read() {
        // As the parsers v0.0.40 and later have it: lists of words, numbers in objects.
        let text = r#"{"jobs": [{"array_job_id": {"set": true, "infinite": false, "number": 7},
            "array_task_id": {"set": true, "infinite": false, "number": 2}, "array_task_string": "", "name": "x",
            "job_state": ["FAILED"], "state_reason": "NonZeroExitCode", "nodes": "c1", "restart_cnt": 1,
            "exit_code": {"status": ["ERROR"], "return_code": {"set": true, "infinite": false, "number": 73},
                          "signal": {"id": {"set": false, "number": 0}, "name": ""}}},
           {"array_job_id": {"set": true, "number": 7}, "array_task_id": {"set": false, "number": 0},
            "array_task_string": "3-9%4", "name": "x", "job_state": ["PENDING"], "nodes": ""}]}"#;
        let queue = Queue::parse(text).unwrap();
        let failed = queue.task("x", 2).unwrap();
        assert_eq!((failed.exit_code, failed.restarts), (Some(73), 1));
        assert_eq!(queue.task("x", 9).unwrap().state, Some(TaskState::Waiting));
        // Of sacct.
        let text = r#"{"jobs": [{"job_id": 9, "name": "x", "array": {"job_id": 8, "task_id": 1, "task": ""}, "nodes": "c2",
            "state": {"current": "OUT_OF_MEMORY", "reason": "OutOfMemory"}, "exit_code": {"status": "ERROR", "return_code": 0}}]}"#;
        let queue = Queue::parse(text).unwrap();
        assert_eq!(queue.task("x", 1).unwrap().state, Some(TaskState::Ended(Ended::OutOfMemory)));
    }

    #[test]
    fn what_is_no_answer_is_told() {
        assert!(Queue::parse("slurm_load_jobs error").is_err());
        assert!(Queue::parse("{}").unwrap_err().contains("jobs"));
        assert_eq!(numbers("2-4,7,10-20:5%3"), Some(vec![2, 3, 4, 7, 10, 15, 20]));
        assert_eq!(numbers(""), None);
        assert_eq!(numbers("1-9:0"), None);
    }
}
