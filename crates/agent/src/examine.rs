//! Examining processes in a thread of its own: it takes tens of milliseconds, which a tick must not wait for.

use std::collections::BTreeSet;

use heaptrial_allocator::Identifier;
use heaptrial_host::{HostRoot, Member, Process};
use heaptrial_model::{Identity, LifeKey, ServiceName};

use crate::AgentError;
use crate::worker::Worker;

/// Mapped files with code: name, device, inode. While they are the same, so is the allocator.
pub(crate) type Signature = BTreeSet<(String, String, u64)>;

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) name: ServiceName,
    pub(crate) key: LifeKey,
    /// What it had mapped when it was examined last; nothing more is done while that is the same.
    pub(crate) known: Option<Signature>,
    pub(crate) passed: Option<Vec<(String, String)>>,
    /// The process that holds most of the service's memory, where that is not the main one: the figures are about it.
    pub(crate) larger: Option<Member>,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) name: ServiceName,
    pub(crate) key: LifeKey,
    pub(crate) found: Found,
    /// Mapped files that were removed or replaced on disk since.
    pub(crate) replaced: Vec<String>,
}

#[derive(Debug)]
pub(crate) enum Found {
    Same,
    Identity(Box<Identity>, Signature),
    Unknown(String),
    Gone,
}

pub(crate) type Examiner = Worker<Request, Answer>;

/// A thread that examines processes.
pub(crate) fn examiner(root: HostRoot) -> Result<Examiner, AgentError> {
    let identifier = Identifier::default();
    Worker::start("examiner", move |request: Request| {
        let (found, replaced) = examine(&root, &identifier, &request);
        Answer { name: request.name, key: request.key, found, replaced }
    })
}

fn examine(root: &HostRoot, identifier: &Identifier, request: &Request) -> (Found, Vec<String>) {
    let main = Process::new(root, request.key.pid);
    let own = (request.key.pid, request.key.start_ticks);
    let (pid, image) = request.larger.as_ref().map_or(own, |member| (member.pid, member.image.0));
    let process = Process::new(root, pid);
    // Their numbers may be other processes' by now.
    let same_lives = || {
        main.life_key().is_ok_and(|key| key == request.key)
            && process.life_key().is_ok_and(|key| key.start_ticks == image)
    };
    let mappings = match process.mappings() {
        Ok(mappings) => mappings,
        Err(_) if !same_lives() => return (Found::Gone, Vec::new()),
        Err(error) => return (Found::Unknown(error.to_string()), Vec::new()),
    };
    let code = || mappings.iter().filter(|mapping| mapping.is_file() && mapping.is_executable());
    let signature: Signature =
        code().map(|mapping| (mapping.name.clone(), mapping.device.clone(), mapping.inode)).collect();
    let replaced: BTreeSet<String> =
        code().filter(|mapping| mapping.deleted).map(|mapping| mapping.name.clone()).collect();
    let replaced: Vec<String> = replaced.into_iter().collect();
    drop(mappings);
    if !same_lives() {
        return (Found::Gone, Vec::new());
    }
    if request.known.as_ref() == Some(&signature) {
        return (Found::Same, replaced);
    }
    let passed = || request.passed.clone();
    let found = match identifier.identify(&process, &passed) {
        _ if !same_lives() => Found::Gone,
        Ok(identity) => Found::Identity(Box::new(identity), signature),
        Err(error) => Found::Unknown(error.to_string()),
    };
    (found, replaced)
}
