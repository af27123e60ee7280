//! The supervisor: a small process between the lab and a service that ends the service, and everything
//! the service started, when the lab ends for whatever reason.
//!
//! The lab holds the write end of the supervisor's standard input. A kill -9 of the lab closes it, and the
//! supervisor then kills all its descendants: as their subreaper (prctl(2), PR_SET_CHILD_SUBREAPER) it
//! inherits those whose parents have ended, so that none can escape by forking. Should the supervisor
//! itself be killed, the service gets SIGKILL as its parent-death signal.

use std::cell::Cell;
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
use heaptrial_model::LifeKey;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};
use serde::{Deserialize, Serialize};

use crate::end::EndRequest;
use crate::end_watch::{EndWatch, ProcessEnd, Seen};
use crate::{Accounting, LabError};

/// The internal command of the binary that runs [`run_supervisor`].
pub const SUPERVISOR_COMMAND: &str = "lab-supervisor";

/// How long the lab waits to be told of an end that it can see already.
const NEWS_PATIENCE: Duration = Duration::from_secs(5);
/// A process that survives SIGKILL for this long belongs to another user or hangs in the kernel.
const KILL_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct KeptCommand {
    pub(crate) words: Vec<OsString>,
    pub(crate) environment: BTreeMap<String, String>,
    /// Environment variables to leave out.
    pub(crate) removed: Vec<String>,
    pub(crate) working_directory: Option<PathBuf>,
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
pub(crate) enum SupervisorMessage {
    Started {
        key: LifeKey,
        /// Whether the kernel tells of every end of its processes.
        ends_seen: bool,
        /// The control group that was made for it.
        group: Option<Cgroup>,
    },
    /// A process that it started, or one of those, has ended by itself.
    ProcessEnded(ProcessEnd),
    /// Ends of processes may have been missed.
    EndsMissed,
    /// So many processes had not ended when the time was over that they had after they were asked to.
    Outlasted(usize),
    /// The service could not be started.
    NotStarted { why: String },
    /// The service's main process has ended.
    Ended {
        /// Its exit code, if it exited.
        code: Option<i32>,
        /// The signal that killed it, if one did.
        signal: Option<i32>,
        /// When, in microseconds since boot.
        at_boottime_us: i64,
        /// Processes that it started and that still ran a moment later.
        left: usize,
        /// How many of its processes the kernel killed for want of memory, where it has a control group.
        oom_kills: u64,
    },
    /// The supervisor itself is gone, and with it the service.
    Lost,
}

/// The lab's end of a supervisor. Dropping it ends the service.
#[derive(Debug)]
pub(crate) struct Supervisor {
    program: PathBuf,
    child: Child,
    lifeline: Option<ChildStdin>,
    messages: Receiver<SupervisorMessage>,
    process_ends: Receiver<SupervisorMessage>,
    reader: Option<JoinHandle<()>>,
    ends_seen: bool,
    group: Option<Cgroup>,
    oom_kills: Cell<u64>,
    ended_at: Cell<Option<i64>>,
}

impl Supervisor {
    /// Starts a service; gives its supervisor and which process it is.
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
        let (ends_sender, process_ends) = channel();
        let reader = std::thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                let Ok(message) = serde_json::from_str(&line) else { break };
                let to = match message {
                    SupervisorMessage::ProcessEnded(_)
                    | SupervisorMessage::EndsMissed
                    | SupervisorMessage::Outlasted(_) => &ends_sender,
                    _ => &sender,
                };
                if to.send(message).is_err() {
                    break;
                }
            }
        });
        let mut supervisor = Self {
            program: program.to_owned(),
            child,
            lifeline: Some(lifeline),
            messages,
            process_ends,
            reader: Some(reader),
            ends_seen: false,
            group: None,
            oom_kills: Cell::new(0),
            ended_at: Cell::new(None),
        };
        match supervisor.messages.recv() {
            Ok(SupervisorMessage::Started { key, ends_seen, group }) => {
                (supervisor.ends_seen, supervisor.group) = (ends_seen, group);
                Ok((supervisor, key))
            }
            Ok(SupervisorMessage::NotStarted { why }) => Err(fail(why)),
            _ => Err(fail("it ended at once".to_owned())),
        }
    }

    /// Its process id: all processes of the service are below it, also those whose parents have ended.
    pub(crate) fn pid(&self) -> i32 {
        self.child.id() as i32
    }

    /// Whether and how the service has ended by itself.
    pub(crate) fn ended(&self) -> Option<SupervisorMessage> {
        match self.messages.try_recv() {
            Ok(message) => Some(self.noted(message)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(SupervisorMessage::Lost),
        }
    }

    /// The control group that was made for the service, if one was; its processes may have left it.
    pub(crate) fn group(&self) -> Option<&Cgroup> {
        self.group.as_ref()
    }

    /// Whether the kernel tells of every end of the service's processes; otherwise only of those whose parents ended
    /// before them.
    pub(crate) fn ends_seen(&self) -> bool {
        self.ends_seen
    }

    /// What was told of ends of its processes since the last call.
    pub(crate) fn process_ends(&self) -> Vec<SupervisorMessage> {
        self.process_ends.try_iter().collect()
    }

    /// Waits a moment for a service that can no longer be read to be reported as ended.
    pub(crate) fn wait_for_end(&self) -> Option<SupervisorMessage> {
        self.messages.recv_timeout(NEWS_PATIENCE).ok().map(|message| self.noted(message))
    }

    fn noted(&self, message: SupervisorMessage) -> SupervisorMessage {
        if let SupervisorMessage::Ended { oom_kills, at_boottime_us, .. } = message {
            self.oom_kills.set(oom_kills);
            self.ended_at.set(Some(at_boottime_us));
        }
        message
    }

    /// When a service that has ended did so; now where that is not known.
    pub(crate) fn ended_at(&self) -> heaptrial_host::Instant {
        let told = self.ended_at.get().map(heaptrial_host::Instant::at_boottime);
        told.unwrap_or_else(heaptrial_host::Instant::now)
    }

    /// How many processes of a service that has ended the kernel killed for want of memory.
    pub(crate) fn oom_kills(&self) -> u64 {
        self.oom_kills.get()
    }

    /// Asks every process of the service to end, as its command says, without waiting.
    pub(crate) fn ask_to_end(&mut self) {
        if let Some(lifeline) = &mut self.lifeline {
            // A supervisor that is gone has ended its service.
            let _ = lifeline.write_all(b"end\n");
        }
    }

    /// Waits until the service and all it started are gone; gives what was told meanwhile.
    pub(crate) fn close(mut self) -> Result<Vec<SupervisorMessage>, LabError> {
        self.lifeline = None;
        let status = self.child.wait();
        if let Some(reader) = self.reader.take() {
            let _ = reader.join();
        }
        match status {
            Ok(status) if status.success() => {
                Ok(self.process_ends.try_iter().chain(self.messages.try_iter()).collect())
            }
            Ok(status) => Err(LabError::Supervisor {
                program: self.program.clone(),
                problem: format!("it ended with {status}"),
            }),
            Err(error) => {
                Err(LabError::Supervisor { program: self.program.clone(), problem: error.to_string() })
            }
        }
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
    let tell = |message: &SupervisorMessage| {
        let line = serde_json::to_string(message).unwrap_or_default();
        // Without a lab to tell, standard input closes as well.
        let _ = writeln!(std::io::stdout(), "{line}");
    };
    let told = move |seen| {
        tell(&match seen {
            Seen::End(end) => SupervisorMessage::ProcessEnded(end),
            Seen::Lost => SupervisorMessage::EndsMissed,
        });
    };
    // From before the start, so that nothing is missed.
    let watch = EndWatch::start(told);
    match start_kept() {
        Err(why) => {
            tell(&SupervisorMessage::NotStarted { why });
            ExitCode::FAILURE
        }
        Ok(Kept { key, end, orders, cgroup }) => {
            let pid = key.pid;
            let ends_seen = watch.is_some();
            let group = cgroup.as_ref().map(|own| own.cgroup().clone());
            tell(&SupervisorMessage::Started { key, ends_seen, group: group.clone() });
            let reaper = std::thread::spawn(move || {
                // Where the kernel tells, all is told already.
                let orphan = |end| {
                    if !ends_seen {
                        tell(&SupervisorMessage::ProcessEnded(end))
                    }
                };
                let (code, signal) = reap_until_ended(pid, orphan);
                let at_boottime_us = heaptrial_host::Instant::now().boottime_us;
                let left = left_after_a_moment();
                let oom_kills = group.as_ref().and_then(Cgroup::oom_kills).unwrap_or(0);
                tell(&SupervisorMessage::Ended { code, signal, at_boottime_us, left, oom_kills });
                reap_all();
            });
            follow_orders(orders, end, |left| tell(&SupervisorMessage::Outlasted(left)));
            watch.iter().for_each(EndWatch::silence);
            let ended = end_descendants();
            if let Some(watch) = watch {
                watch.close();
            }
            // No child is left to wait for. What it has to tell is told then.
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
    if let Some(folder) = &command.working_directory {
        child.current_dir(folder);
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

/// Collects children until the main process ends; gives its exit code or signal, and tells of the others.
fn reap_until_ended(main: i32, tell_orphan: impl Fn(ProcessEnd)) -> (Option<i32>, Option<i32>) {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) => {
                let pid = pid.as_raw_nonzero().get();
                let status = std::process::ExitStatus::from_raw(status.as_raw());
                let (code, signal) = (status.code(), status.signal());
                if pid == main {
                    return (code, signal);
                }
                let at_boottime_us = heaptrial_host::Instant::now().boottime_us;
                let program = String::new();
                tell_orphan(ProcessEnd { pid, program, code, signal, lived: None, at_boottime_us });
            }
            Ok(None) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return (None, None),
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

fn reap_all() {
    while rustix::process::wait(WaitOptions::empty()).is_ok() {}
}

fn follow_orders(orders: BufReader<std::io::Stdin>, end: EndRequest, outlasted: impl Fn(usize)) {
    for order in orders.lines().map_while(Result::ok) {
        if order == "end" {
            descendants().into_iter().for_each(|pid| signal(pid, end.signal.signal()));
            let started = Instant::now();
            while started.elapsed() < end.grace && !descendants().is_empty() {
                std::thread::sleep(Duration::from_millis(20));
            }
            match descendants().len() {
                0 => {}
                left => outlasted(left),
            }
        }
    }
}

/// Kills everything below this process, also what is started meanwhile; tells whether it succeeded. A
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
