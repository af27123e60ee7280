//! Examining processes in a thread of its own: it takes tens of milliseconds, which a tick must not wait for.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender, channel};

use heaptrial_allocator::Identifier;
use heaptrial_host::{HostRoot, Mapping, Member, Process};
use heaptrial_model::{Identity, LifeKey, Linkage, ServiceName};

/// The files that a process has mapped with code in them: name, device, inode. While they are the same, so is the
/// allocator.
pub(crate) type Signature = BTreeSet<(String, String, u64)>;

#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) name: ServiceName,
    pub(crate) key: LifeKey,
    /// What it had mapped when it was examined last; nothing more is done while that is the same.
    pub(crate) known: Option<Signature>,
    /// What systemd starts its service with, where it was asked.
    pub(crate) passed: Option<Vec<(String, String)>>,
    /// What it was proved to run, and other processes of the service that hold much of its memory.
    pub(crate) others: Option<(Identity, Large)>,
}

/// Processes beside the main one that hold much of a service's memory.
#[derive(Debug)]
pub(crate) struct Large {
    pub(crate) members: Vec<Member>,
    pub(crate) rss_bytes: u64,
}

#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) name: ServiceName,
    pub(crate) key: LifeKey,
    pub(crate) found: Found,
    /// Mapped files that were removed or replaced on disk since.
    pub(crate) replaced: Vec<String>,
    /// A large process of the service that runs something else than its main process, in words.
    pub(crate) foreign: Option<String>,
}

#[derive(Debug)]
pub(crate) enum Found {
    /// The same files as before.
    Same,
    /// This allocator, from these files.
    Identity(Box<Identity>, Signature),
    /// It is unknown, and why.
    Unknown(String),
    Gone,
}

#[derive(Debug)]
pub(crate) struct Examiner {
    requests: Sender<Request>,
    answers: Receiver<Answer>,
}

impl Examiner {
    pub(crate) fn start(root: HostRoot) -> std::io::Result<Self> {
        let (requests, incoming) = channel::<Request>();
        let (outgoing, answers) = channel();
        std::thread::Builder::new().name("examiner".into()).spawn(move || {
            for request in incoming {
                let (found, replaced) = examine(&root, &request);
                let foreign = request
                    .others
                    .as_ref()
                    .and_then(|(main, large)| foreign(&root, &request.key, main, large));
                let answer = Answer { name: request.name, key: request.key, found, replaced, foreign };
                if outgoing.send(answer).is_err() {
                    return;
                }
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

/// Of processes that hold much of a service's memory, one that runs another allocator than its main process does: whose the
/// memory is was not proved by that then.
fn foreign(root: &HostRoot, key: &LifeKey, main: &Identity, large: &Large) -> Option<String> {
    let files = |process: &Process| process.mappings().ok().map(|mappings| signature_of(&mappings));
    let own = files(&Process::new(root, key.pid))?;
    let identifier = Identifier::default();
    large.members.iter().find_map(|member| {
        let process = Process::new(root, member.pid);
        let theirs = files(&process).filter(|theirs| *theirs != own)?;
        let identity = identifier.identify(&process, &|| None).ok()?;
        let runs = differs(main, &identity, &theirs)?;
        // Its number may be another process' by now.
        let same = process.life_key().is_ok_and(|key| key.start_ticks == member.image.0);
        let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
        same.then(|| {
            format!(
                "process {} of it, with {:.0} of its {:.0} MiB, runs {runs} and not {} {OF_MAIN}",
                member.pid,
                mib(member.rss_bytes),
                mib(large.rss_bytes),
                main.label(),
            )
        })
    })
}

/// The end of what is said of a foreign process.
pub(crate) const OF_MAIN: &str = "as its main process does";

/// What a process runs, where that is not what the main process runs. One that is unknown is another
/// allocator still if it has not mapped that of the main process.
fn differs(main: &Identity, other: &Identity, files: &Signature) -> Option<String> {
    let unknown = "unknown";
    if main.family == unknown {
        return None;
    }
    if other.family == unknown {
        let path = main.path.as_ref()?.to_str()?;
        return (!files.iter().any(|(name, ..)| name == path)).then(|| "an unknown allocator".to_owned());
    }
    // The C library of a process that was started after an upgrade is another build of the same.
    let both_own = main.linkage == Linkage::Libc && other.linkage == Linkage::Libc;
    let is_same = main.family == other.family && (both_own || main.is_same_build(other));
    (!is_same).then(|| other.label())
}

fn signature_of(mappings: &[Mapping]) -> Signature {
    let code = mappings.iter().filter(|mapping| mapping.is_file() && mapping.is_executable());
    code.map(|mapping| (mapping.name.clone(), mapping.device.clone(), mapping.inode)).collect()
}

fn examine(root: &HostRoot, request: &Request) -> (Found, Vec<String>) {
    let process = Process::new(root, request.key.pid);
    let same_life = || process.life_key().is_ok_and(|key| key == request.key);
    let mappings = match process.mappings() {
        Ok(mappings) => mappings,
        Err(_) if !same_life() => return (Found::Gone, Vec::new()),
        Err(error) => return (Found::Unknown(error.to_string()), Vec::new()),
    };
    let code = || mappings.iter().filter(|mapping| mapping.is_file() && mapping.is_executable());
    let signature = signature_of(&mappings);
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
    let found = match Identifier::default().identify(&process, &passed) {
        _ if !same_life() => Found::Gone,
        Ok(identity) => Found::Identity(Box::new(identity), signature),
        Err(error) => Found::Unknown(error.to_string()),
    };
    (found, replaced)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(family: &str, sha256: &str, linkage: Linkage) -> Identity {
        let identity = serde_json::json!({
            "family": family, "version": null, "version_range": null, "path": format!("/lib/{family}.so"), "build_id": null,
            "sha256": sha256, "linkage": linkage, "settings": {}, "evidence": [],
        });
        serde_json::from_value(identity).unwrap()
    }

    #[test]
    fn another_allocator_is_distinguished_from_another_build_of_the_c_library() {
        let preloaded = identity("jemalloc", "a", Linkage::Preloaded);
        let maps = |name: &str| Signature::from([(name.to_owned(), String::new(), 1)]);
        let other = |other: &Identity| differs(&preloaded, other, &maps("/lib/x.so"));
        assert_eq!(other(&preloaded), None);
        assert!(other(&identity("jemalloc", "b", Linkage::Preloaded)).is_some(), "another build");
        assert!(other(&identity("glibc", "c", Linkage::Libc)).is_some());
        let libc = identity("glibc", "c", Linkage::Libc);
        assert_eq!(differs(&libc, &identity("glibc", "d", Linkage::Libc), &maps("/lib/x.so")), None);
        // What is unknown is foreign where it has not mapped the file.
        let unknown = identity("unknown", "", Linkage::Libc);
        assert_eq!(differs(&preloaded, &unknown, &maps("/lib/jemalloc.so")), None);
        assert!(differs(&preloaded, &unknown, &maps("/lib/x.so")).is_some());
        assert_eq!(differs(&unknown, &libc, &maps("/lib/x.so")), None);
    }
}
