//! Looks at a service's processes while it runs: whether they run the arm's treatment.
//!
//! Start and end of a life tell nothing of a process that lives in between. Each is looked at once for each program that it
//! executes, those with the most memory first.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

use heaptrial_allocator::{Obtained, identify_started_with, prove};
use heaptrial_host::{HostRoot, Member, Process, ServiceSampler, TickCost};
use heaptrial_model::{Linkage, units};

use crate::service::NEGLIGIBLE_SHARE;

/// Looks may take this share of the time, beside what those at a start of several programs take, and this much of a tick.
const SHARE_OF_TIME: f64 = 0.02;
const AT_ONCE: Duration = Duration::from_millis(500);
const TICK_SHARE: Duration = Duration::from_millis(10);
/// How long a wrong allocator is given to become the right one: a process maps its libraries one after the other.
const SETTLED: Duration = Duration::from_millis(100);
/// So often a process is tried that cannot be told.
const TRIES: u32 = 5;

/// What is known of the processes of a service.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    seen: HashMap<i32, Look>,
    /// What proved right: processes that map the same files and were started with the same environment run the same.
    proved: HashSet<Startup>,
    spent: Duration,
    refuted: Option<String>,
}

/// Code that a process has mapped, and its environment.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Startup {
    code: BTreeSet<(String, String, u64)>,
    environment: Vec<(String, String)>,
}

impl Startup {
    fn of(process: &Process) -> Option<Self> {
        let mappings =
            process.mappings().ok()?.into_iter().filter(|one| one.is_executable() && one.is_file());
        let code = mappings.map(|mapping| (mapping.name, mapping.device, mapping.inode)).collect();
        Some(Self { code, environment: process.environ().ok()? })
    }
}

#[derive(Debug)]
struct Look {
    /// Of which the look was.
    image: (u64, u64),
    found: Found,
}

#[derive(Debug)]
enum Found {
    /// Nothing yet, at so many looks.
    Open(u32),
    Treatment,
    Other(Other),
}

#[derive(Debug)]
struct Other {
    why: String,
    first: Instant,
    /// Whether it was no new process when it was looked at.
    settled: bool,
    /// A later look found the same.
    confirmed: bool,
}

impl Looks {
    /// Why the life does not count: processes with a good part of its memory ran something else than the treatment.
    pub(crate) fn refuted(&self) -> Option<&str> {
        self.refuted.as_deref()
    }

    /// Looks at processes as they were sampled last, at an age of the service, so long after the start of the round.
    pub(crate) fn look(
        &mut self,
        root: &HostRoot,
        sampler: &ServiceSampler,
        (obtained, passed): (&Obtained, &[(String, String)]),
        age_seconds: f64,
        elapsed: Duration,
    ) {
        let mut members: Vec<Member> = sampler.members().collect();
        members.sort_unstable_by_key(|member| std::cmp::Reverse(member.rss_bytes));
        let alive = |pid: &i32| members.iter().any(|member| member.pid == *pid);
        self.seen.retain(|pid, _| alive(pid));
        if self.refuted.is_some() || self.spent > AT_ONCE + elapsed.mul_f64(SHARE_OF_TIME) {
            return;
        }
        let ((), cost) = TickCost::measure(|| {
            let begun = Instant::now();
            for member in members.iter().take_while(|_| begun.elapsed() < TICK_SHARE) {
                let mut proved = std::mem::take(&mut self.proved);
                self.take(member, Instant::now(), || {
                    let process = Process::by_living_thread(root, member.pid);
                    let mismatch = match_of(&process, obtained, passed, &mut proved)?.err();
                    let program = || process.exe().map(|path| path.display().to_string()).unwrap_or_default();
                    let told = |why| {
                        format!("process {} ({}) did not run the treatment: {why}", member.pid, program())
                    };
                    Some(mismatch.map_or(Ok(()), |why| Err(told(why))))
                });
                self.proved = proved;
            }
        });
        self.spent += Duration::from_micros(cost.cpu_us);
        self.weigh(&members, age_seconds);
    }

    /// Takes note of a look, where one is due; `identify` gives `None` where nothing can be told yet.
    fn take(&mut self, member: &Member, now: Instant, identify: impl FnOnce() -> Option<Result<(), String>>) {
        let known = self.seen.remove(&member.pid).filter(|look| look.image == member.image);
        let found = match known.map(|look| look.found) {
            Some(Found::Treatment) => Found::Treatment,
            Some(Found::Open(TRIES..)) => Found::Open(TRIES),
            Some(Found::Other(other)) if other.confirmed || now - other.first < SETTLED => {
                Found::Other(other)
            }
            before => match (identify(), before) {
                (Some(Ok(())), _) => Found::Treatment,
                (Some(Err(why)), Some(Found::Other(other))) => {
                    Found::Other(Other { why, confirmed: true, ..other })
                }
                (Some(Err(why)), _) => {
                    let settled = member.age_seconds > SETTLED.as_secs_f64();
                    Found::Other(Other { why, first: now, settled, confirmed: false })
                }
                (None, Some(Found::Open(tries))) => Found::Open(tries + 1),
                (None, _) => Found::Open(1),
            },
        };
        self.seen.insert(member.pid, Look { image: member.image, found });
    }

    /// Refutes the life where processes that run something else have a good part of its memory. One that is seen for the first
    /// time counts as well if it was old enough: it may be gone at the next look.
    fn weigh(&mut self, members: &[Member], age_seconds: f64) {
        let whole: u64 = members.iter().map(|member| member.rss_bytes).sum();
        let other = |member: &Member| match &self.seen.get(&member.pid)?.found {
            Found::Other(other) if other.confirmed || other.settled => {
                Some((member.rss_bytes, other.why.clone()))
            }
            _ => None,
        };
        let others: Vec<(u64, String)> = members.iter().filter_map(other).collect();
        let elsewhere: u64 = others.iter().map(|(rss_bytes, _)| rss_bytes).sum();
        let Some((_, why)) = others.into_iter().next() else { return };
        if elsewhere as f64 >= NEGLIGIBLE_SHARE * whole as f64 {
            let (elsewhere, whole) = (units::memory(elsewhere as f64), units::memory(whole as f64));
            self.refuted = Some(format!(
                "at an age of {age_seconds:.1} s, with {elsewhere} of the {whole} of RSS in processes that run something else: {why}"
            ));
        }
    }
}

/// Whether a process runs the treatment, and why not; `None` before its libraries are mapped: it runs no allocator yet.
fn match_of(
    process: &Process,
    obtained: &Obtained,
    passed: &[(String, String)],
    proved: &mut HashSet<Startup>,
) -> Option<Result<(), String>> {
    let startup = Startup::of(process)?;
    if proved.contains(&startup) {
        return Some(Ok(()));
    }
    let identity = identify_started_with(process, passed).ok()?;
    if identity.linkage == Linkage::Unknown {
        return None;
    }
    let found = prove(&obtained.expected(), &identity).map_err(|mismatch| mismatch.to_string());
    // What is wrong now may be right in a moment: the second look decides.
    if found.is_ok() {
        proved.insert(startup);
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn member(pid: i32, mib: u64, age_seconds: f64) -> Member {
        Member { pid, rss_bytes: mib * MIB, image: (5, 7), age_seconds }
    }

    fn wrong() -> Option<Result<(), String>> {
        Some(Err("it ran glibc".to_owned()))
    }

    #[test]
    fn who_lives_in_between_is_looked_at_once_for_each_program() {
        let (mut looks, now) = (Looks::default(), Instant::now());
        looks.take(&member(1, 30, 9.0), now, || Some(Ok(())));
        looks.take(&member(1, 30, 9.0), now, || panic!("it was looked at"));
        looks.take(&member(2, 1, 9.0), now, wrong);
        looks.weigh(&[member(1, 30, 9.0), member(2, 1, 9.0)], 3.0);
        assert_eq!(looks.refuted(), None);
        looks.weigh(&[member(1, 30, 9.0), member(2, 60, 9.0)], 4.0);
        let why = looks.refuted().unwrap();
        assert!(
            why.contains("4.0 s") && why.contains("60.0 MiB of the 90.0 MiB") && why.contains("glibc"),
            "{why}"
        );
        // Another program of the same process.
        let mut asked = false;
        looks.take(&Member { image: (5, 8), ..member(1, 30, 9.0) }, now, || {
            asked = true;
            None
        });
        assert!(asked);
    }

    #[test]
    fn who_has_just_begun_may_become_right() {
        let (mut looks, now) = (Looks::default(), Instant::now());
        let new = member(1, 30, 0.01);
        looks.take(&new, now, wrong);
        looks.weigh(&[new], 1.0);
        looks.take(&new, now + SETTLED / 2, || panic!("it was looked at again too soon"));
        assert_eq!(looks.refuted(), None);
        looks.take(&new, now + SETTLED, wrong);
        looks.weigh(&[new], 2.0);
        assert!(looks.refuted().is_some());
        let mut looks = Looks::default();
        looks.take(&new, now, wrong);
        looks.take(&new, now + SETTLED, || Some(Ok(())));
        looks.weigh(&[new], 2.0);
        assert_eq!(looks.refuted(), None);
    }
}
