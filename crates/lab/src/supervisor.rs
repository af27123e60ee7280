//! The supervisor: a small process between the lab and a service that ends the service, and everything
//! the service started, when the lab ends for whatever reason.
//!
//! The lab holds the write end of the supervisor's standard input. A kill -9 of the lab closes it, and the
//! supervisor then kills all its descendants: as their subreaper (prctl(2), PR_SET_CHILD_SUBREAPER) it
//! inherits those whose parents have ended, so that none can escape by forking. Should the supervisor
//! itself be killed, the service gets SIGKILL as its parent-death signal.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use heaptrial_host::{Cgroup, CgroupPlace, HostRoot, OwnCgroup, Process, ProcessTree};
use heaptrial_model::{Ending, LifeKey};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};
use serde::{Deserialize, Serialize};

use crate::end::EndRequest;
use crate::end_watch::{EndWatch, ProcessEnd};
use crate::{Accounting, LabError};

/// The internal command of the binary that runs [`run_supervisor`].
pub const SUPERVISOR_COMMAND: &str = "lab-supervisor";

/// How long the lab waits for the report of an end that it can see already.
const REPORT_PATIENCE: Duration = Duration::from_secs(5);
/// A process that survives SIGKILL for this long belongs to another user or hangs in the kernel.
const KILL_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeptCommand {
    pub(crate) words: Vec<OsString>,
    pub(crate) environment: BTreeMap<String, String>,
    /// Environment variables to leave out.
    pub(crate) removed: Vec<String>,
    /// Where its standard output goes.
    pub(crate) stdout: PathBuf,
    /// Where its standard error goes.
    pub(crate) stderr: PathBuf,
    /// How it is asked to end.
    pub(crate) end: EndRequest,
    /// The control group that it gets, if one can be had.
    pub(crate) cgroup: Option<KeptCgroup>,
}

/// A control group for a service.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeptCgroup {
    /// Where it is made; the supervisor's own group where systemd made one for it.
    pub(crate) place: Option<CgroupPlace>,
    /// How much memory and swap the service may have.
    pub(crate) limit_bytes: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
enum Message {
    Started {
        key: LifeKey,
        /// Whether the kernel reports every end of its processes.
        ends_seen: bool,
        group: Option<Cgroup>,
    },
    NotStarted {
        why: String,
    },
    /// A process that it started, or one of those, has ended by itself.
    ProcessEnded(ProcessEnd),
    MainEnded(MainEnd),
}

/// The end of a service's main process.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct MainEnd {
    end: ProcessEnd,
    /// Processes that it started and that still ran a moment later.
    left: usize,
    /// How many of its processes the kernel killed because memory ran out, where it has a control group.
    oom_kills: u64,
}

/// The lab's end of a supervisor. Dropping it ends the service.
#[derive(Debug)]
pub(crate) struct Supervisor {
    program: PathBuf,
    child: Child,
    lifeline: Option<ChildStdin>,
    messages: Receiver<Message>,
    reader: Option<JoinHandle<()>>,
    ends_seen: bool,
    group: Option<Cgroup>,
    main_end: Option<MainEnd>,
    process_ends: Vec<ProcessEnd>,
    is_lost: bool,
}

impl Supervisor {
    /// Starts a service; returns its supervisor and which process it is.
    pub(crate) fn start(
        program: &Path,
        accounting: &Accounting,
        command: &KeptCommand,
    ) -> Result<(Self, LifeKey), LabError> {
        let fail = |problem: String| LabError::Supervisor { program: program.to_owned(), problem };
        let mut child = accounting
            .command(program)
            .arg(SUPERVISOR_COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| fail(error.to_string()))?;
        let (Some(mut lifeline), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(fail("it has no pipes".to_owned()));
        };
        let mut line = serde_json::to_string(command).map_err(|error| fail(error.to_string()))?;
        line.push('\n');
        lifeline.write_all(line.as_bytes()).map_err(|error| fail(error.to_string()))?;
        let (sender, messages) = channel();
        let reader = std::thread::spawn(move || {
            let lines = BufReader::new(stdout).lines().map_while(Result::ok);
            let mut read = lines.map_while(|line| serde_json::from_str(&line).ok());
            let _ = read.try_for_each(|message| sender.send(message));
        });
        let mut process_ends = Vec::new();
        let started = loop {
            match messages.recv() {
                // The end of a program that ends at once may come before the report of its start.
                Ok(Message::ProcessEnded(end)) => process_ends.push(end),
                message => break message,
            }
        };
        let mut supervisor = Self {
            program: program.to_owned(),
            child,
            lifeline: Some(lifeline),
            messages,
            reader: Some(reader),
            ends_seen: false,
            group: None,
            main_end: None,
            process_ends,
            is_lost: false,
        };
        match started {
            Ok(Message::Started { key, ends_seen, group }) => {
                (supervisor.ends_seen, supervisor.group) = (ends_seen, group);
                Ok((supervisor, key))
            }
            Ok(Message::NotStarted { why }) => Err(fail(why)),
            _ => Err(fail("it ended at once".to_owned())),
        }
    }

    /// Its process id: all processes of the service are below it, also those whose parents have ended.
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// The control group that was made for the service, if one was; its processes may have left it.
    pub(crate) fn group(&self) -> Option<&Cgroup> {
        self.group.as_ref()
    }

    /// Whether the kernel reports every end of the service's processes; otherwise that of the main one alone is seen.
    pub(crate) fn ends_seen(&self) -> bool {
        self.ends_seen
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::ProcessEnded(end) => self.process_ends.push(end),
            Message::MainEnded(end) => self.main_end = Some(end),
            Message::Started { .. } | Message::NotStarted { .. } => {}
        }
    }

    fn read(&mut self) {
        loop {
            match self.messages.try_recv() {
                Ok(message) => self.take(message),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.is_lost = true;
                    return;
                }
            }
        }
    }

    /// Whether and how the service has ended by itself.
    pub(crate) fn ended(&mut self) -> Option<Ending> {
        self.read();
        match &self.main_end {
            Some(MainEnd { end, left: 1.., .. }) if end.code == Some(0) => Some(Ending::ForkedAway),
            Some(MainEnd { end, .. }) => Some(match (end.code, end.signal) {
                (_, Some(signal)) => Ending::Signaled(signal),
                (code, None) => Ending::Exited(code.unwrap_or(-1)),
            }),
            // The service got SIGKILL as its parent-death signal.
            None => self.is_lost.then_some(Ending::Signaled(9)),
        }
    }

    /// Waits a moment for a service that can no longer be read to be reported as ended.
    pub(crate) fn wait_for_end(&mut self) -> Option<Ending> {
        let until = Instant::now() + REPORT_PATIENCE;
        loop {
            if let Some(ending) = self.ended() {
                return Some(ending);
            }
            let left = until.saturating_duration_since(Instant::now());
            let message = self.messages.recv_timeout(left).ok()?;
            self.take(message);
        }
    }

    /// Ends of its processes since the last call, without that of the main one.
    pub(crate) fn process_ends(&mut self, main: i32) -> Vec<ProcessEnd> {
        self.read();
        std::mem::take(&mut self.process_ends).into_iter().filter(|end| end.pid != main).collect()
    }

    /// When a service that has ended did so; now where that is not known.
    pub(crate) fn ended_at(&self) -> heaptrial_host::Instant {
        let at = |main: &MainEnd| heaptrial_host::Instant::at_boottime(main.end.at_boottime_us);
        self.main_end.as_ref().map_or_else(heaptrial_host::Instant::now, at)
    }

    /// How many processes of a service that has ended were OOM-killed.
    pub(crate) fn oom_kills(&self) -> u64 {
        self.main_end.as_ref().map_or(0, |main| main.oom_kills)
    }

    /// Asks every process of the service to end, as its command says, without waiting.
    pub(crate) fn ask_to_end(&mut self) {
        if let Some(lifeline) = &mut self.lifeline {
            // A supervisor that is gone has ended its service.
            let _ = lifeline.write_all(b"end\n");
        }
    }

    /// Waits until the service and all it started are gone; returns the ends that were reported meanwhile.
    pub(crate) fn close(mut self) -> Result<Vec<ProcessEnd>, LabError> {
        self.lifeline = None;
        let status = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        let problem = match status {
            Ok(status) if status.success() => {
                self.read();
                let main = self.main_end.take().map(|main| main.end);
                return Ok(main.into_iter().chain(std::mem::take(&mut self.process_ends)).collect());
            }
            Ok(status) => format!("it ended with {status}"),
            Err(error) => error.to_string(),
        };
        Err(LabError::Supervisor { program: self.program.clone(), problem })
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.lifeline = None;
        // Collects it; after `close` this does nothing.
        let _ = self.child.wait();
    }
}

/// Body of the supervisor process. Reads the command from its standard input, starts it, and ends it and
/// everything below it when standard input closes.
pub fn run_supervisor() -> ExitCode {
    let report = |message: &Message| {
        let line = serde_json::to_string(message).unwrap_or_default();
        // Where the lab is gone, standard input closes as well.
        let _ = writeln!(std::io::stdout(), "{line}");
    };
    // From before the start, so that nothing is missed.
    let watch = EndWatch::start(move |end| report(&Message::ProcessEnded(end)));
    match start_kept() {
        Err(why) => {
            report(&Message::NotStarted { why });
            ExitCode::FAILURE
        }
        Ok(Kept { key, end, orders, cgroup }) => {
            let pid = key.pid;
            let group = cgroup.as_ref().map(|own| own.cgroup().clone());
            report(&Message::Started { key, ends_seen: watch.is_some(), group: group.clone() });
            let reaper = std::thread::spawn(move || {
                let end = reap_until_ended(pid);
                let left = left_after_a_moment();
                let oom_kills = group.as_ref().and_then(Cgroup::oom_kills).unwrap_or(0);
                report(&Message::MainEnded(MainEnd { end, left, oom_kills }));
                while rustix::process::wait(WaitOptions::empty()).is_ok() {}
            });
            follow_orders(orders, end);
            watch.iter().for_each(EndWatch::silence);
            let ended = end_descendants();
            if let Some(watch) = watch {
                watch.close();
            }
            // No child is left to wait for, and the reaper has reported.
            if ended {
                let _ = reaper.join();
            }
            drop(cgroup);
            if ended { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}

struct Kept {
    key: LifeKey,
    end: EndRequest,
    orders: BufReader<std::io::Stdin>,
    cgroup: Option<OwnCgroup>,
}

fn start_kept() -> Result<Kept, String> {
    let mut orders = BufReader::new(std::io::stdin());
    let mut line = String::new();
    orders.read_line(&mut line).map_err(|error| error.to_string())?;
    let command: KeptCommand = serde_json::from_str(&line).map_err(|error| error.to_string())?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|error| error.to_string())?;
    let file = |path: &Path| File::create(path).map_err(|error| format!("{}: {error}", path.display()));
    let (program, arguments) = command.words.split_first().ok_or("no program")?;
    let mut child = Command::new(program);
    child
        .args(arguments)
        .envs(&command.environment)
        .stdin(Stdio::null())
        .stdout(file(&command.stdout)?)
        .stderr(file(&command.stderr)?)
        .process_group(0);
    for name in &command.removed {
        child.env_remove(name);
    }
    let die_with_parent = || {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        Ok(())
    };
    // SAFETY: between fork and exec the closure makes one system call and allocates nothing.
    unsafe { child.pre_exec(die_with_parent) };
    let cgroup = command.cgroup.as_ref().map(make_cgroup).transpose()?;
    if let Some(cgroup) = &cgroup {
        cgroup.enter_before_exec(&mut child)?;
    }
    let child = child.spawn().map_err(|error| format!("{}: {error}", Path::new(program).display()))?;
    // Even if it has ended already: nobody has collected it yet.
    let key = Process::new(&HostRoot::default(), child.id() as i32).life_key();
    Ok(Kept { key: key.map_err(|error| error.to_string())?, end: command.end, orders, cgroup })
}

fn make_cgroup(wanted: &KeptCgroup) -> Result<OwnCgroup, String> {
    let root = HostRoot::default();
    let place = match &wanted.place {
        Some(place) => place.clone(),
        None => CgroupPlace::delegated(&root)?,
    };
    OwnCgroup::create(&root, &place, wanted.limit_bytes)
}

/// Collects children until the main process ends.
fn reap_until_ended(main: i32) -> ProcessEnd {
    let end = |code, signal| {
        let at_boottime_us = heaptrial_host::Instant::now().boottime_us;
        ProcessEnd { pid: main, program: String::new(), code, signal, at_boottime_us }
    };
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid.as_raw_nonzero().get() == main => {
                let status = std::process::ExitStatus::from_raw(status.as_raw());
                return end(status.code(), status.signal());
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return end(None, None),
        }
    }
}

/// How many processes outlive the main one: helpers that notice its end get a moment to follow it.
fn left_after_a_moment() -> usize {
    for _ in 0..10 {
        reap_ended();
        if descendants().is_empty() {
            return 0;
        }
        std::thread::sleep(Duration::from_millis(30));
    }
    descendants().len()
}

fn reap_ended() {
    while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
}

fn follow_orders(orders: BufReader<std::io::Stdin>, end: EndRequest) {
    for order in orders.lines().map_while(Result::ok) {
        if order == "end" {
            descendants().into_iter().for_each(|pid| signal(pid, end.signal.signal()));
            let started = Instant::now();
            while started.elapsed() < end.grace && !descendants().is_empty() {
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// Kills everything below this process, also what is started meanwhile; returns whether it succeeded. A
/// scan of `/proc` can miss a process, so only the kernel's word that no child is left ends it: as a
/// subreaper this process is the parent of every orphan below it.
fn end_descendants() -> bool {
    let deadline = Instant::now() + KILL_PATIENCE;
    while Instant::now() < deadline {
        descendants().into_iter().for_each(|pid| signal(pid, Signal::KILL));
        reap_ended();
        let left = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        if matches!(rustix::process::waitid(WaitId::All, left), Err(rustix::io::Errno::CHILD)) {
            return true;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    false
}

fn descendants() -> Vec<i32> {
    let own = rustix::process::getpid().as_raw_nonzero().get();
    ProcessTree::scan(&HostRoot::default()).map_or(Vec::new(), |tree| tree.descendants(own))
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        // It may have ended meanwhile.
        let _ = rustix::process::kill_process(pid, signal);
    }
}
