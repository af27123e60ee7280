//! How runs of units ended, by systemd's journal: exit codes, signals and OOM kills, also while no agent ran.
//!
//! Fields and ids are those of systemd 252 (`sd-messages.h`). Every run of a unit has an invocation id of its own. A process
//! that ends with success leaves no exit code, but the end of its run.

use std::collections::HashMap;
use std::process::Command;

use heaptrial_host::{Instant, Scope};
use heaptrial_model::{Ending, ServiceName};
use serde::Deserialize;

const PROCESS_EXIT: &str = "98e322203f7a4ed290d09fe03c09fe15";
const UNIT_SUCCESS: &str = "7ad2d189f7e94e70a38c781354912448";
const UNIT_FAILURE: &str = "d9b373ed55a64feb8242e02dbe79a49c";
const UNIT_STARTING: &str = "7d4958e842da4a758f6c1cdc7b36dcc5";
const UNIT_STOPPING: &str = "de5b426a63be47a7b6ac3eaac82e2f6f";
/// Under control groups v2 only: without them an OOM kill is a crash by SIGKILL.
const UNIT_OUT_OF_MEMORY: &str = "fe6faa94e7774663a0da52717891d8ef";
const OOMD_KILL: &str = "d989611b15e44c9dbf31e3c81256e4ed";

const MESSAGES: [&str; 7] =
    [PROCESS_EXIT, UNIT_SUCCESS, UNIT_FAILURE, UNIT_STARTING, UNIT_STOPPING, UNIT_OUT_OF_MEMORY, OOMD_KILL];
const FIELDS: &str =
    "MESSAGE_ID,UNIT,USER_UNIT,INVOCATION_ID,USER_INVOCATION_ID,EXIT_CODE,EXIT_STATUS,UNIT_RESULT";
/// The newest records of the units in question; a unit that is restarted for ever has no more than these.
const MOST_RECORDS: &str = "2000";

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct End {
    pub(crate) invocation: String,
    pub(crate) at: Instant,
    /// Exit code or signal of its main process; `None` of one that ended with success.
    pub(crate) how: Option<Ending>,
    /// `success`, `exit-code`, `signal`, `core-dump`, `oom-kill`, `timeout`, `watchdog`, ...
    pub(crate) result: String,
    pub(crate) oom: bool,
    /// Whether a job of systemd stopped it: a person, a program or a dependency asked for that.
    pub(crate) by_job: bool,
    /// Whether the trial's restart timer asked for it.
    pub(crate) by_timer: bool,
}

impl End {
    fn new(invocation: &str, at: Instant) -> Self {
        Self {
            invocation: invocation.to_owned(),
            at,
            how: None,
            result: String::new(),
            oom: false,
            by_job: false,
            by_timer: false,
        }
    }
}

impl Record {
    fn at(&self, offset_us: i64) -> Option<Instant> {
        let monotonic_us: i64 = self.monotonic_us.parse().ok()?;
        Some(Instant { wall_us: self.wall_us.parse().ok()?, boottime_us: monotonic_us + offset_us })
    }

    fn exit(&self) -> Option<Ending> {
        let number = self.exit_status.parse().ok()?;
        Some(if self.exit_code == "exited" { Ending::Exited(number) } else { Ending::Signaled(number) })
    }
}

pub(crate) type Ends = HashMap<ServiceName, Vec<End>>;

/// systemd's journal of this boot, by way of journalctl(1).
#[derive(Debug)]
pub(crate) struct SystemdJournal {
    scope: Scope,
    /// Without dashes, as the journal has it.
    boot_id: String,
    said_unreadable: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "UPPERCASE", default)]
struct Record {
    #[serde(rename = "__REALTIME_TIMESTAMP")]
    wall_us: String,
    #[serde(rename = "__MONOTONIC_TIMESTAMP")]
    monotonic_us: String,
    message_id: String,
    #[serde(alias = "USER_UNIT")]
    unit: String,
    #[serde(alias = "USER_INVOCATION_ID")]
    invocation_id: String,
    exit_code: String,
    exit_status: String,
    unit_result: String,
}

impl SystemdJournal {
    pub(crate) fn new(scope: Scope, boot_id: &str) -> Self {
        Self { scope, boot_id: boot_id.replace('-', ""), said_unreadable: false }
    }

    /// Ends of runs of these services in this boot; `None` where the journal cannot be read, which is said once.
    pub(crate) fn ends(&mut self, services: &[ServiceName]) -> Option<Ends> {
        let (unit, manager) = match self.scope {
            Scope::System => ("UNIT", "_PID=1".to_owned()),
            Scope::User => ("USER_UNIT", format!("_UID={}", self.scope.owner())),
        };
        let units = services.iter().flat_map(|name| [Some(name.clone()), restarter(name)]).flatten();
        let mut matches: Vec<String> = units.map(|name| format!("{unit}={name}")).collect();
        matches.extend(MESSAGES.map(|id| format!("MESSAGE_ID={id}")));
        matches.push(manager);
        Some(fold(&self.records(&matches)?, services, monotonic_to_boot_us()))
    }

    fn records(&mut self, matches: &[String]) -> Option<Vec<Record>> {
        let mut command = Command::new("journalctl");
        command.args(["--output=json", "--all", "--quiet", "--no-pager", "--lines", MOST_RECORDS]);
        command
            .args([format!("--output-fields={FIELDS}"), format!("_BOOT_ID={}", self.boot_id)])
            .args(matches);
        let why = match command.output() {
            Ok(output) if output.status.success() => {
                let lines = output.stdout.split(|byte| *byte == b'\n');
                // A field that is no text comes as numbers, and belongs to no record of systemd.
                return Some(lines.filter_map(|line| serde_json::from_slice(line).ok()).collect());
            }
            Ok(output) => String::from_utf8_lossy(&output.stderr).trim().to_owned(),
            Err(error) => error.to_string(),
        };
        if !std::mem::replace(&mut self.said_unreadable, true) {
            eprintln!("journalctl cannot be used ({why}): why processes end stays unknown");
        }
        None
    }
}

/// The unit that a trial's timer starts to restart a service.
fn restarter(service: &ServiceName) -> Option<ServiceName> {
    let stem = service.as_str().strip_suffix(".service")?.replace('@', "\\x40");
    format!("heaptrial-restart-{stem}.service").parse().ok()
}

/// What the clock of the journal, which stands still in a suspend, is behind the boot clock.
fn monotonic_to_boot_us() -> i64 {
    let monotonic = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    Instant::now().boottime_us - (monotonic.tv_sec * 1_000_000 + monotonic.tv_nsec / 1_000)
}

fn fold(records: &[Record], services: &[ServiceName], offset_us: i64) -> Ends {
    services.iter().map(|service| (service.clone(), ends_of(service, records, offset_us))).collect()
}

fn ends_of(service: &ServiceName, records: &[Record], offset_us: i64) -> Vec<End> {
    let timer = restarter(service);
    let mut timer_at_work = false;
    // Each with whether it has ended.
    let mut runs: Vec<(End, bool)> = Vec::new();
    for record in records {
        let id = record.message_id.as_str();
        if timer.as_ref().is_some_and(|timer| timer.as_str() == record.unit) {
            timer_at_work = id == UNIT_STARTING;
        }
        let Some(at) = record.at(offset_us).filter(|_| record.unit == service.as_str()) else { continue };
        let known = runs.iter().position(|(run, _)| run.invocation == record.invocation_id);
        let index = known.unwrap_or_else(|| {
            runs.push((End::new(&record.invocation_id, at), false));
            runs.len() - 1
        });
        let (run, ended) = &mut runs[index];
        match id {
            UNIT_STOPPING => (run.by_job, run.by_timer) = (true, timer_at_work),
            UNIT_OUT_OF_MEMORY | OOMD_KILL => run.oom = true,
            PROCESS_EXIT => run.how = run.how.take().or_else(|| record.exit()),
            // What comes after the end of a run, as a start that was refused, has its invocation id as well.
            UNIT_SUCCESS | UNIT_FAILURE if run.result.is_empty() => {
                run.result = if id == UNIT_SUCCESS { "success" } else { &record.unit_result }.to_owned();
                run.oom |= run.result == "oom-kill";
            }
            _ => {}
        }
        if matches!(id, PROCESS_EXIT | UNIT_SUCCESS | UNIT_FAILURE) && !std::mem::replace(ended, true) {
            run.at = at;
        }
    }
    runs.into_iter().filter(|(_, ended)| *ended).map(|(run, _)| run).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn end(result: &str, how: Option<Ending>, at: Instant) -> End {
        End { how, result: result.to_owned(), oom: result == "oom-kill", ..End::new("", at) }
    }

    /// Records of systemd 252 on Debian 12, without their cursors.
    const RECORDS: &str = include_str!("systemd_journal_records.jsonl");

    fn recorded(units: &[&str]) -> Ends {
        let records: Vec<Record> = RECORDS.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let services: Vec<ServiceName> = units.iter().map(|unit| unit.parse().unwrap()).collect();
        fold(&records, &services, 0)
    }

    fn shown(ends: &Ends, unit: &str) -> Vec<(Option<Ending>, String, bool)> {
        let ends = &ends[&unit.parse().unwrap()];
        ends.iter().map(|end| (end.how.clone(), end.result.clone(), end.by_job)).collect()
    }

    #[test]
    fn every_end_is_read_with_its_code_or_signal() {
        let ends = recorded(&["e3.service", "slp.service", "clean.service"]);
        let exited = (Some(Ending::Exited(3)), "exit-code".to_owned(), false);
        // The refused third start, whose record has the id of the second run, is no end.
        assert_eq!(shown(&ends, "e3.service"), [exited.clone(), exited]);
        let success = |by_job| (None, "success".to_owned(), by_job);
        assert_eq!(shown(&ends, "clean.service"), [success(false), success(false)]);
        let killed = |number| (Some(Ending::Signaled(number)), "signal".to_owned(), false);
        // ABRT, KILL, TERM by hand, a restart, a stop.
        let expected = [killed(6), killed(9), success(false), success(true), success(true)];
        assert_eq!(shown(&ends, "slp.service"), expected);
        let of_kill = &ends[&"slp.service".parse().unwrap()][1];
        assert_eq!(of_kill.at, Instant { wall_us: 1_795_828_676_675_257, boottime_us: 13_108_082_664 });
    }
}
