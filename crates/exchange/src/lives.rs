//! Lives inferred from readings that name no process.
//!
//! See docs/statistics.md for what this answers, and for when it fails.

use std::ops::Range;

use heaptrial_model::{EventKind, KnownEvent, LifeStart};
use heaptrial_store::ImportedSample;

/// RSS and VmSize below this share of the previous reading's are a restart where VmHWM does not show it.
pub const FALLEN_SHARE: f64 = 0.7;

/// The same for RSS where there is neither VmHWM nor VmSize.
pub const FALLEN_SHARE_RSS_ALONE: f64 = 0.3;

/// The same for RSS where VmHWM is not read, but somebody noted that processes were started in between.
pub const FALLEN_SHARE_NOTED: f64 = 0.9;

/// A fall of VmHWM up to this share may be the kernel's counting; see [`is_restart`].
pub const COUNTING_SHARE: f64 = 0.01;

/// An operator's note of a time is not more exact than this.
pub const NOTE_UNCERTAINTY_US: i64 = 60_000_000;

/// Something that operators did which may have started processes again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartEvent {
    pub wall_us: i64,
    pub weight: Weight,
    /// Whether it happened at that time. Else it is only known to lie between the reading before and that time.
    pub dated: bool,
    /// The caller's position of the event.
    pub index: usize,
}

/// What a kind of event says about starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// Something began; a restart may belong to it.
    Change,
    Start,
}

impl Weight {
    /// Of a kind of event; `None` for kinds that say nothing about starts.
    pub fn of(kind: &EventKind) -> Option<Self> {
        match kind.known()? {
            KnownEvent::Restart | KnownEvent::Migration | KnownEvent::ConfigActivated => Some(Self::Start),
            KnownEvent::ConfigChange | KnownEvent::Experiment => Some(Self::Change),
            _ => None,
        }
    }
}

/// A life as far as readings show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InferredLife {
    pub started_wall_us: i64,
    pub start: LifeStart,
    pub samples: Range<usize>,
    /// The event that dates the start, by the caller's position.
    pub event: Option<usize>,
}

/// Whether the process was started again between two readings of one service.
///
/// VmHWM is the peak of VmRSS since the start of a process, so a fall is a restart, and the same value none.
/// One kind of fall is none: the kernel counts RSS on each processor and adds up only now and then, and where the
/// peak is the present RSS, it is not kept but computed at each reading. Such a fall is small, and RSS and VmSize stay.
/// Where VmHWM is missing or has grown, both RSS and VmSize must fall below 70%.
pub fn is_restart(before: &ImportedSample, after: &ImportedSample) -> bool {
    let fell = |before: u64, after: u64, share: f64| (after as f64) < share * before as f64;
    match (before.hwm_bytes, after.hwm_bytes) {
        (Some(was), Some(is)) if is == was => false,
        (Some(was), Some(is)) if is < was => !is_counting(was, is, before, after),
        _ => match (before.vsize_bytes, after.vsize_bytes) {
            (Some(was), Some(is)) => {
                fell(before.rss_bytes, after.rss_bytes, FALLEN_SHARE) && fell(was, is, FALLEN_SHARE)
            }
            _ => fell(before.rss_bytes, after.rss_bytes, FALLEN_SHARE_RSS_ALONE),
        },
    }
}

/// The same, with what operators noted: where VmHWM is not read on both sides, a start that is noted in between needs only
/// a fall of RSS below 90%.
fn is_noted_restart(before: &ImportedSample, after: &ImportedSample, events: &[StartEvent]) -> bool {
    let between = |event: &StartEvent| {
        event.weight == Weight::Start && before.wall_us < event.wall_us && event.wall_us <= after.wall_us
    };
    before.hwm_bytes.and(after.hwm_bytes).is_none()
        && (after.rss_bytes as f64) < FALLEN_SHARE_NOTED * before.rss_bytes as f64
        && events.iter().any(between)
}

fn is_counting(was: u64, is: u64, before: &ImportedSample, after: &ImportedSample) -> bool {
    let close = |a: u64, b: u64| (a.abs_diff(b) as f64) <= COUNTING_SHARE * a as f64;
    let same_size = matches!((before.vsize_bytes, after.vsize_bytes), (Some(a), Some(b)) if close(a, b));
    was == before.rss_bytes && close(was, is) && close(before.rss_bytes, after.rss_bytes) && same_size
}

/// The lives of one service from its readings in order of time, and the events that are about it in any order.
pub fn infer(samples: &[ImportedSample], events: &[StartEvent]) -> Vec<InferredLife> {
    let Some(first) = samples.first() else { return Vec::new() };
    let mut lives = vec![InferredLife {
        started_wall_us: first.wall_us,
        start: LifeStart::Unknown,
        samples: 0..samples.len(),
        event: None,
    }];
    for (index, pair) in samples.windows(2).enumerate() {
        if !is_restart(&pair[0], &pair[1]) && !is_noted_restart(&pair[0], &pair[1], events) {
            continue;
        }
        if let Some(last) = lives.last_mut() {
            last.samples.end = index + 1;
        }
        lives.push(begun_between(pair[0].wall_us, pair[1].wall_us, index + 1..samples.len(), events));
    }
    lives
}

/// A life that began after `from` and not later than `to`.
fn begun_between(from: i64, to: i64, samples: Range<usize>, events: &[StartEvent]) -> InferredLife {
    let within = || events.iter().filter(|event| event.dated && from < event.wall_us && event.wall_us <= to);
    let noted = within().max_by_key(|event| (event.weight, event.wall_us));
    match noted {
        Some(event) => {
            // Several notes of one restart: it lies between the first and the last of them.
            let first =
                within().filter(|other| other.weight == event.weight).map(|other| other.wall_us).min();
            let spread = event.wall_us - first.unwrap_or(event.wall_us);
            InferredLife {
                started_wall_us: event.wall_us,
                start: LifeStart::Inferred { uncertainty_us: spread.max(NOTE_UNCERTAINTY_US) },
                samples,
                event: Some(event.index),
            }
        }
        None => {
            let half = (to - from) / 2;
            InferredLife {
                started_wall_us: to - half,
                start: LifeStart::Inferred { uncertainty_us: half },
                samples,
                event: None,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;

    fn sample(hours: i64, rss: u64, vsize: u64, hwm: u64) -> ImportedSample {
        let some = |bytes: u64| (bytes > 0).then_some(bytes);
        ImportedSample {
            wall_us: hours * HOUR,
            rss_bytes: rss,
            vsize_bytes: some(vsize),
            hwm_bytes: some(hwm),
            ..ImportedSample::default()
        }
    }

    fn start(hours: i64, kind: &str, index: usize) -> StartEvent {
        StartEvent { wall_us: hours * HOUR, weight: Weight::of(&kind.into()).unwrap(), dated: true, index }
    }

    #[test]
    fn a_falling_peak_is_a_restart_and_the_first_start_is_unknown() {
        let samples = [sample(0, 500, 900, 600), sample(10, 510, 900, 600), sample(20, 300, 800, 310)];
        let lives = infer(&samples, &[]);
        assert_eq!(lives.len(), 2);
        assert_eq!(
            (lives[0].start, lives[0].started_wall_us, lives[0].samples.clone()),
            (LifeStart::Unknown, 0, 0..2)
        );
        assert_eq!(lives[1].started_wall_us, 15 * HOUR);
        assert_eq!(lives[1].start, LifeStart::Inferred { uncertainty_us: 5 * HOUR });
        assert_eq!(lives[1].samples, 2..3);
    }

    #[test]
    fn an_event_dates_the_start() {
        let samples = [sample(0, 500, 900, 600), sample(20, 300, 800, 310)];
        let events = [
            start(0, "restart", 0), // at the earlier reading: before it
            start(4, "restart", 1),
            start(6, "migration", 2),
            start(9, "experiment", 3),
            start(21, "restart", 4),
        ];
        let life = &infer(&samples, &events)[1];
        assert_eq!((life.started_wall_us, life.event), (6 * HOUR, Some(2)));
        assert_eq!(life.start, LifeStart::Inferred { uncertainty_us: 2 * HOUR });
        let life = &infer(&samples, &events[3..])[1];
        assert_eq!((life.started_wall_us, life.event), (9 * HOUR, Some(3)));
        assert_eq!(life.start, LifeStart::Inferred { uncertainty_us: NOTE_UNCERTAINTY_US });
        let life = &infer(&samples, &[start(20, "restart", 0)])[1];
        assert_eq!(life.started_wall_us, 20 * HOUR);
    }

    #[test]
    fn without_a_peak_that_shows_it_both_sizes_must_fall() {
        let before = sample(0, 1000, 2000, 1000);
        for (after, restart) in [
            (sample(1, 600, 1300, 1100), true), // grown: a new process outgrew the old one
            (sample(1, 600, 1900, 1100), false), // memory given back
            (sample(1, 600, 1300, 1000), false), // the same peak is the same process
            (sample(1, 600, 1300, 0), true),    // no peak
            (sample(1, 600, 0, 0), false),      // RSS alone: not enough
            (sample(1, 290, 0, 0), true),       // RSS alone: enough
        ] {
            assert_eq!(is_restart(&before, &after), restart, "{after:?}");
        }
    }

    #[test]
    fn a_peak_that_is_the_present_rss_may_waver() {
        // 10 MB in 6.3 GB, as seen on a relay that kept running.
        let before = sample(0, 6_328_644, 10_258_200, 6_328_644);
        assert!(!is_restart(&before, &sample(4, 6_318_628, 10_258_908, 6_318_628)));
        // A peak that was kept does not waver; and a regrown process has another size.
        assert!(is_restart(
            &sample(0, 6_000_000, 10_258_200, 6_328_644),
            &sample(4, 6_000_000, 10_258_200, 6_318_628)
        ));
        assert!(is_restart(&before, &sample(4, 6_318_628, 9_000_000, 6_318_628)));
    }

    #[test]
    fn a_noted_start_is_believed_where_no_peak_could_contradict_it() {
        let noted = [start(4, "migration", 0)];
        let fallen = |hwm: u64| [sample(0, 1000, 0, hwm), sample(10, 600, 0, hwm), sample(20, 610, 0, hwm)];
        let lives = infer(&fallen(0), &noted);
        assert_eq!((lives.len(), lives[1].started_wall_us), (2, 4 * HOUR));
        assert_eq!(infer(&fallen(0), &[]).len(), 1);
        assert_eq!(infer(&fallen(1100), &noted).len(), 1, "the same peak is the same process");
        assert_eq!(
            infer(&fallen(0), &[start(4, "config_change", 0)]).len(),
            1,
            "that starts nothing by itself"
        );
        let risen = [sample(0, 1000, 0, 0), sample(10, 990, 0, 0)];
        assert_eq!(infer(&risen, &noted).len(), 1, "a new process needs less at first");
    }
}
