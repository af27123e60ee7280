//! Examining processes in a thread of its own: it takes tens of milliseconds, which a tick must not wait for.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use heaptrial_allocator::Identifier;
use heaptrial_host::{HostRoot, Process};
use heaptrial_model::{Identity, LifeKey, ServiceName};

use crate::session::Wake;

/// The files that a process has mapped with code in them: name, device, inode. While they are the same, so is the
/// allocator.
pub(crate) type Signature = BTreeSet<(String, String, u64)>;

/// What to look at.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) name: ServiceName,
    pub(crate) key: LifeKey,
    /// What it had mapped when it was examined last; nothing more is done while that is the same.
    pub(crate) known: Option<Signature>,
    /// What systemd starts its service with, where it was asked.
    pub(crate) passed: Option<Vec<(String, String)>>,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) name: ServiceName,
    pub(crate) key: LifeKey,
    pub(crate) found: Found,
    /// Mapped files that were removed or replaced on disk since.
    pub(crate) replaced: Vec<String>,
}

/// What a process runs.
#[derive(Debug)]
pub(crate) enum Found {
    /// The same files as before.
    Same,
    /// This allocator, from these files.
    Identity(Box<Identity>, Signature),
    /// It cannot be told, and why.
    Unknown(String),
    /// It is still the service manager's own code, which will become the program in a moment.
    Starting,
    /// It ended meanwhile.
    Gone,
}

/// The thread.
#[derive(Debug)]
pub(crate) struct Examiner {
    requests: Sender<Request>,
    answers: Receiver<Answer>,
}

impl Examiner {
    pub(crate) fn start(root: HostRoot, wake: Arc<Wake>) -> std::io::Result<Self> {
        let (requests, incoming) = channel::<Request>();
        let (outgoing, answers) = channel();
        std::thread::Builder::new().name("examiner".into()).spawn(move || {
            for request in incoming {
                let (found, replaced) = examine(&root, &request);
                let answer = Answer { name: request.name, key: request.key, found, replaced };
                if outgoing.send(answer).is_err() {
                    return;
                }
                wake.wake();
            }
        })?;
        Ok(Self { requests, answers })
    }

    /// Asks for it. The answer comes later.
    pub(crate) fn ask(&self, request: Request) {
        // The thread ends only with this process.
        let _ = self.requests.send(request);
    }

    pub(crate) fn answers(&self) -> Vec<Answer> {
        self.answers.try_iter().collect()
    }
}

fn examine(root: &HostRoot, request: &Request) -> (Found, Vec<String>) {
    let process = Process::new(root, request.key.pid);
    let same_life = || process.life_key().is_ok_and(|key| key == request.key);
    if is_service_manager(root, &process) {
        return (Found::Starting, Vec::new());
    }
    let mappings = match process.mappings() {
        Ok(mappings) => mappings,
        Err(_) if !same_life() => return (Found::Gone, Vec::new()),
        Err(error) => return (Found::Unknown(error.to_string()), Vec::new()),
    };
    let code = || mappings.iter().filter(|mapping| mapping.is_file() && mapping.is_executable());
    let signature: Signature =
        code().map(|mapping| (mapping.name.clone(), mapping.device.clone(), mapping.inode)).collect();
    let replaced: BTreeSet<String> =
        code().filter(|mapping| mapping.deleted).map(|mapping| mapping.name.clone()).collect();
    let replaced: Vec<String> = replaced.into_iter().collect();
    drop(mappings);
    if !same_life() {
        return (Found::Gone, Vec::new());
    }
    if request.known.as_ref() == Some(&signature) {
        return (Found::Same, replaced);
    }
    let passed = || request.passed.clone();
    let found = match Identifier::default().identify_started_with(&process, &passed) {
        _ if !same_life() => Found::Gone,
        Ok(identity) => Found::Identity(Box::new(identity), signature),
        Err(error) => Found::Unknown(error.to_string()),
    };
    (found, replaced)
}

/// systemd names a main process before that has executed the program of the service: until then it is a copy of systemd
/// itself, or from version 255 on its `systemd-executor`.
fn is_service_manager(root: &HostRoot, process: &Process) -> bool {
    let Ok(program) = process.exe() else { return false };
    program.file_name().is_some_and(|name| name == "systemd-executor")
        || Process::new(root, 1).exe().is_ok_and(|manager| manager == program)
}
