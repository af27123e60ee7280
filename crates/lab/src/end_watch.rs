//! Every end of a process below this one, as the kernel's process connector reports it.
//!
//! `linux/cn_proc.h`: needs CAP_NET_ADMIN (since Linux 6.6 no longer) in the host's own network, user and process id namespaces.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::netlink::{CONNECTOR, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::time::ClockId;
use serde::{Deserialize, Serialize};

const PROC: u32 = 1;
const LISTEN: u32 = 1;
const FORK: u32 = 1;
const EXEC: u32 = 2;
const EXIT: u32 = 0x8000_0000;
/// Sizes of `nlmsghdr` and `cn_msg`, which stand before each event.
const HEADER: usize = 16;
const CONNECTOR_HEADER: usize = 20;
/// Room for the events of a storm of processes, which come for the whole host.
const BUFFER_BYTES: usize = 16 << 20;
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A process of a service that ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessEnd {
    pub(crate) pid: i32,
    /// Its name (`comm`); empty where it could not be read any more.
    pub(crate) program: String,
    /// Its exit code, if it exited.
    pub(crate) code: Option<i32>,
    /// The signal that killed it, if one did.
    pub(crate) signal: Option<i32>,
    /// When, in microseconds since boot.
    pub(crate) at_boottime_us: i64,
}

/// Watches until it is closed.
#[derive(Debug)]
pub(crate) struct EndWatch {
    until_ns: Arc<AtomicU64>,
    closing: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl EndWatch {
    /// Watches what is started from now on below this process. `None` where the kernel does not allow it.
    pub(crate) fn start(report: impl Fn(ProcessEnd) + Send + 'static) -> Option<Self> {
        let socket = subscribe().ok()?;
        let until_ns = Arc::new(AtomicU64::new(u64::MAX));
        let closing = Arc::new(AtomicBool::new(false));
        let (until, close) = (Arc::clone(&until_ns), Arc::clone(&closing));
        let thread = std::thread::spawn(move || {
            let mut members = Members::of_this_process();
            let mut buffer = vec![0; 4096];
            loop {
                // Asked before reading, so that all that happened until then is reported.
                let last = close.load(Ordering::Acquire);
                match rustix::net::recv(&socket, &mut buffer[..], RecvFlags::DONTWAIT) {
                    Ok((length, _)) => {
                        let end = Event::parse(&buffer[..length]).and_then(|event| members.follow(&event));
                        if let Some((end, _)) = end.filter(|(_, at)| *at < until.load(Ordering::Acquire)) {
                            report(end);
                        }
                    }
                    Err(rustix::io::Errno::AGAIN) if last => return,
                    Err(rustix::io::Errno::AGAIN) => {
                        let _ = poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&PAUSE));
                    }
                    // More happened than the buffer holds, and some of it is lost.
                    Err(rustix::io::Errno::INTR | rustix::io::Errno::NOBUFS) => {}
                    Err(_) => return,
                }
            }
        });
        Some(Self { until_ns, closing, thread })
    }

    /// Ends from now on are not reported: this process causes them.
    pub(crate) fn silence(&self) {
        let now_ns = monotonic_ns();
        self.until_ns.fetch_min(now_ns, Ordering::AcqRel);
    }

    /// Reports what happened before the silence, and ends.
    pub(crate) fn close(self) {
        self.closing.store(true, Ordering::Release);
        let _ = self.thread.join();
    }
}

fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The same moment of the monotonic clock on the one that counts suspends, where there was none since.
fn boottime_us(at_ns: u64) -> i64 {
    let since_ns = monotonic_ns().saturating_sub(at_ns);
    heaptrial_host::Instant::now().boottime_us - (since_ns / 1000) as i64
}

fn subscribe() -> rustix::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    let socket = rustix::net::socket_with(AddressFamily::NETLINK, SocketType::DGRAM, flags, Some(CONNECTOR))?;
    // Without the right to more, the kernel's own limit stands.
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES);
    rustix::net::bind(&socket, &SocketAddrNetlink::new(0, PROC))?;
    let mut message = Vec::with_capacity(HEADER + CONNECTOR_HEADER + 4);
    let length = (HEADER + CONNECTOR_HEADER + 4) as u32;
    // `NLMSG_DONE` as the type; no flags, no sequence number, no port.
    [length, 3, 0, 0].iter().for_each(|word| message.extend(word.to_ne_bytes()));
    // To the process connector, with neither number nor acknowledgement, 4 bytes of content, no flags.
    [PROC, PROC, 0, 0].iter().for_each(|word| message.extend(word.to_ne_bytes()));
    [4_u16, 0].iter().for_each(|half| message.extend(half.to_ne_bytes()));
    message.extend(LISTEN.to_ne_bytes());
    rustix::net::send(&socket, &message, SendFlags::empty())?;
    // The kernel answers before `send` returns; from other namespaces it says nothing at all.
    let mut answer = [0; 256];
    loop {
        let (length, _) = rustix::net::recv(&socket, &mut answer[..], RecvFlags::DONTWAIT)?;
        let words = |at: usize| {
            answer.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes)
        };
        let content = HEADER + CONNECTOR_HEADER;
        // The event `PROC_EVENT_NONE` is the answer; others may have come before it.
        match (words(content), words(content + 16)) {
            (Some(0), Some(0)) if length > content + 16 => return Ok(socket),
            (Some(0), Some(error)) => return Err(rustix::io::Errno::from_raw_os_error(error as i32)),
            _ => {}
        }
    }
}

/// An event of the connector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Event {
    what: u32,
    at_ns: u64,
    /// The first four words of what it says.
    words: [u32; 4],
}

impl Event {
    fn parse(message: &[u8]) -> Option<Self> {
        let event = message.get(HEADER + CONNECTOR_HEADER..)?;
        let word = |at: usize| Some(u32::from_ne_bytes(event.get(at..at + 4)?.try_into().ok()?));
        let at_ns = u64::from_ne_bytes(event.get(8..16)?.try_into().ok()?);
        // `EXEC` says two words only; the kernel sends the whole union.
        let words = [word(16)?, word(20)?, word(24).unwrap_or(0), word(28).unwrap_or(0)];
        Some(Self { what: word(0)?, at_ns, words })
    }
}

/// The processes below this one, by their ids.
struct Members(HashMap<u32, Member>);

struct Member {
    name: String,
    /// A process ends with the last of them. Its first one may end before that, also when another one executes a program.
    threads: u32,
}

impl Member {
    fn new(name: String) -> Self {
        Self { name, threads: 1 }
    }
}

impl Members {
    fn of_this_process() -> Self {
        Self(HashMap::from([(std::process::id(), Member::new(String::new()))]))
    }

    /// Takes note of an event; gives an end of a member with its time.
    fn follow(&mut self, event: &Event) -> Option<(ProcessEnd, u64)> {
        match (event.what, event.words) {
            // Parent's thread and process, child's thread and process.
            (FORK, [_, parent, thread, child]) if thread == child => {
                let name = self.0.get(&parent)?.name.clone();
                self.0.insert(child, Member::new(name));
                None
            }
            (FORK, [_, _, _, process]) => {
                self.0.get_mut(&process)?.threads += 1;
                None
            }
            (EXEC, [_, process, ..]) => {
                let name = std::fs::read_to_string(format!("/proc/{process}/comm"));
                self.0.get_mut(&process)?.name = name.unwrap_or_default().trim_end().to_owned();
                None
            }
            (EXIT, [_, process, status, _]) => {
                let member = self.0.get_mut(&process)?;
                member.threads -= 1;
                if member.threads > 0 {
                    return None;
                }
                let program = self.0.remove(&process)?.name;
                let (code, signal) = taken_apart(status);
                let at_boottime_us = boottime_us(event.at_ns);
                let end = ProcessEnd { pid: process as i32, program, code, signal, at_boottime_us };
                Some((end, event.at_ns))
            }
            _ => None,
        }
    }
}

/// Exit code or signal of a status as wait(2) has it.
fn taken_apart(status: u32) -> (Option<i32>, Option<i32>) {
    use std::os::unix::process::ExitStatusExt;
    let status = std::process::ExitStatus::from_raw(status as i32);
    (status.code(), status.signal())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(what: u32, at_ns: u64, words: [u32; 4]) -> Event {
        let mut message = vec![0; HEADER + CONNECTOR_HEADER];
        message.extend(what.to_ne_bytes());
        message.extend(7_u32.to_ne_bytes());
        message.extend(at_ns.to_ne_bytes());
        words.iter().for_each(|word| message.extend(word.to_ne_bytes()));
        Event::parse(&message).unwrap()
    }

    #[test]
    fn ends_of_members_are_reported_and_of_others_and_of_threads_not() {
        let mut members = Members(HashMap::from([(10, Member::new("server".to_owned()))]));
        assert_eq!(members.follow(&event(FORK, 5, [10, 10, 11, 11])), None);
        assert_eq!(members.follow(&event(FORK, 5, [11, 11, 12, 11])), None);
        assert_eq!(members.follow(&event(FORK, 5, [90, 90, 91, 91])), None);
        assert_eq!(members.follow(&event(EXIT, 7, [12, 11, 0, 17])), None);
        assert_eq!(members.follow(&event(EXIT, 7, [91, 91, 6, 17])), None);
        // A dumped core is bit 7.
        let (end, at) = members.follow(&event(EXIT, 9, [11, 11, 0x86, 17])).unwrap();
        assert_eq!((end.pid, end.code, end.signal, at), (11, None, Some(6), 9));
        assert_eq!(end.program, "server");
        let (end, _) = members.follow(&event(EXIT, 9, [10, 10, 0x300, 17])).unwrap();
        assert_eq!((end.code, end.signal), (Some(3), None));
    }

    #[test]
    fn a_process_ends_with_its_last_thread() {
        let mut members = Members(HashMap::from([(10, Member::new("server".to_owned()))]));
        assert_eq!(members.follow(&event(FORK, 1, [10, 10, 11, 10])), None);
        assert_eq!(members.follow(&event(FORK, 1, [10, 10, 12, 10])), None);
        // The first thread ends; then another one executes a program, which ends the third and gives it the process' id.
        assert_eq!(members.follow(&event(EXIT, 2, [10, 10, 0, 17])), None);
        assert_eq!(members.follow(&event(EXIT, 3, [12, 10, 9, 17])), None);
        assert_eq!(members.follow(&event(EXEC, 3, [10, 10, 0, 0])), None);
        let (end, _) = members.follow(&event(EXIT, 9, [10, 10, 0x86, 17])).unwrap();
        assert_eq!((end.pid, end.code, end.signal), (10, None, Some(6)));
    }
}
