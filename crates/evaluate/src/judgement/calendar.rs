//! A fleet over calendar time: memory of arms, services read, and what happened when.

use std::collections::BTreeMap;

use crate::analysis::{Fleet, FleetLife, FleetService, longest_distance};
use heaptrial_model::{EventKind, Reading};
use heaptrial_stats::{median, quantile};
use rayon::prelude::*;

/// Moments at which memory is told, at most.
const MOMENTS: usize = 240;
/// Services of which the distance of readings is looked at.
const SERVICES_TIMED: usize = 200;
/// What happened within so small a share of the whole time is one mark.
const MARKS: f64 = 90.0;
/// A median over fewer than this share of the services of an arm that are read at the time is that of others.
const SHARE_OF_SERVICES: f64 = 0.5;

/// A fleet over calendar time. Times are in seconds since 1970.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Calendar {
    pub span: (f64, f64),
    /// Memory of each arm, in their order, over the services that belong to it: runs without a gap.
    pub arms: Vec<Vec<Vec<Moment>>>,
    /// How many services were read when, in order of time.
    pub read: Vec<Step>,
    /// What happened, in order of time.
    pub marks: Vec<Mark>,
}

/// Memory of an arm at a moment, in bytes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moment {
    /// Mean time of the readings.
    pub at: f64,
    pub low: f64,
    pub median: f64,
    pub high: f64,
}

/// Services that were read from one time to another.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    pub from: f64,
    /// The next round's first reading, or where there is a gap the last of this one.
    pub to: f64,
    pub services: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Happened {
    /// A service was seen to start for the first time.
    Start,
    Restart,
    /// An event of this kind.
    Event(EventKind),
}

/// Alike things that happened at about the same time.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// When the first of them happened.
    pub at: f64,
    pub happened: Happened,
    pub count: u32,
}

/// Spans of time into which readings are put.
enum Rounds {
    /// Of equal length, from a time on.
    Equal { from: f64, seconds: f64 },
    /// From these times on: all services are read at about the same moments, and these are few.
    From(Vec<f64>),
}

/// A round, and of a service the mean time of its readings there, and their median memory.
type InRound = (usize, f64, f64);
/// A round, and the times of a service's first and last reading there.
type Read = (usize, f64, f64);

impl Calendar {
    /// Of `shown`: a service, an arm, and whether the service is off treatment there. Lives that were contaminated, and
    /// off-treatment services, are read but not averaged. `None` without readings.
    pub(crate) fn of(fleet: &Fleet, shown: &[(usize, usize, bool)]) -> Option<Self> {
        let times = || fleet.services.iter().flat_map(|service| &service.lives).filter_map(extent);
        let first = times().map(|extent| extent.0).min_by(f64::total_cmp)?;
        let last = times().map(|extent| extent.1).max_by(f64::total_cmp)?;
        let usual = usual_distance(fleet)?;
        let rounds = Rounds::of(fleet, (first, last), usual);
        let lives = fleet.services.iter().flat_map(|service| &service.lives);
        let rolled_up = lives.map(|life| life.rolled_up_seconds).fold(0.0, f64::max);
        let longest_gap = longest_distance(usual, rolled_up);
        let by_service: Vec<(Vec<InRound>, Vec<Read>)> = fleet
            .services
            .par_iter()
            .map(|service| (rounds.readings(service), rounds.read(service)))
            .collect();
        let arm = |arm: usize| {
            let own = shown.iter().filter(|(_, of, off_treatment)| *of == arm && !off_treatment);
            let own: Vec<&[InRound]> = own.map(|(index, _, _)| by_service[*index].0.as_slice()).collect();
            moments(&own, longest_gap)
        };
        Some(Self {
            span: (first, last),
            arms: (0..fleet.arms.len()).map(arm).collect(),
            read: read(by_service.iter().map(|service| service.1.as_slice()), longest_gap),
            marks: marks(fleet, (first, last)),
        })
    }

    /// Seconds from the first to the last reading.
    pub fn seconds(&self) -> f64 {
        self.span.1 - self.span.0
    }
}

impl Rounds {
    fn of(fleet: &Fleet, (first, last): (f64, f64), usual: f64) -> Self {
        let equal = Self::Equal { from: first, seconds: ((last - first) / MOMENTS as f64).max(1.0) };
        if last - first > 2.0 * MOMENTS as f64 * usual {
            return equal;
        }
        let lives = fleet.services.iter().flat_map(|service| &service.lives);
        let mut times: Vec<f64> =
            lives.flat_map(|life| life.readings.iter().map(move |reading| at(life, reading))).collect();
        times.sort_unstable_by(f64::total_cmp);
        let mut starts: Vec<f64> = Vec::new();
        for time in times {
            if starts.last().is_none_or(|start| time - start > usual / 2.0) {
                starts.push(time);
            }
        }
        if starts.len() > 2 * MOMENTS { equal } else { Self::From(starts) }
    }

    fn round(&self, time: f64) -> usize {
        match self {
            Self::Equal { from, seconds } => (((time - from) / seconds).max(0.0) as usize).min(MOMENTS - 1),
            Self::From(starts) => starts.partition_point(|start| *start <= time).saturating_sub(1),
        }
    }

    /// Time and memory of a service in each round in which it was read, without contaminated lives.
    fn readings(&self, service: &FleetService) -> Vec<InRound> {
        let lives = service.lives.iter().filter(|life| life.contamination.is_none());
        let all: Vec<(usize, f64, f64)> = lives
            .flat_map(|life| {
                life.readings.iter().map(move |reading| {
                    let time = at(life, reading);
                    (self.round(time), time, f64::from(reading.kib) * 1024.0)
                })
            })
            .collect();
        all.chunk_by(|a, b| a.0 == b.0)
            .filter_map(|chunk| {
                let time = chunk.iter().map(|reading| reading.1).sum::<f64>() / chunk.len() as f64;
                let level = median(&chunk.iter().map(|reading| reading.2).collect::<Vec<_>>())?;
                Some((chunk[0].0, time, level))
            })
            .collect()
    }

    /// The rounds in which a service was read.
    fn read(&self, service: &FleetService) -> Vec<Read> {
        let times =
            service.lives.iter().flat_map(|life| life.readings.iter().map(move |reading| at(life, reading)));
        let times: Vec<(usize, f64)> = times.map(|time| (self.round(time), time)).collect();
        let rounds = times.chunk_by(|a, b| a.0 == b.0);
        rounds.map(|chunk| (chunk[0].0, chunk[0].1, chunk[chunk.len() - 1].1)).collect()
    }
}

fn at(life: &FleetLife, reading: &Reading) -> f64 {
    life.started_at + f64::from(reading.age_seconds)
}

/// Times of the first and the last reading of a life.
fn extent(life: &FleetLife) -> Option<(f64, f64)> {
    Some((at(life, life.readings.first()?), at(life, life.readings.last()?)))
}

/// The usual distance of the readings of a service: the median over services and readings.
fn usual_distance(fleet: &Fleet) -> Option<f64> {
    let every = fleet.services.len().div_ceil(SERVICES_TIMED).max(1);
    let usual = |service: &FleetService| {
        let times: Vec<f64> = service
            .lives
            .iter()
            .flat_map(|life| life.readings.iter().map(move |reading| at(life, reading)))
            .collect();
        median(&times.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>())
    };
    let services: Vec<&FleetService> = fleet.services.iter().step_by(every).collect();
    let distances: Vec<f64> = services.into_par_iter().filter_map(usual).collect();
    median(&distances).filter(|distance| *distance > 0.0)
}

/// Median and quartiles over `services` in each round, where at least half of those that are read both earlier and
/// later have readings; in runs without a gap.
fn moments(services: &[&[InRound]], longest_gap: f64) -> Vec<Vec<Moment>> {
    let from_to: Vec<(usize, usize)> =
        services.iter().filter_map(|service| Some((service.first()?.0, service.last()?.0))).collect();
    let about = |round: usize| from_to.iter().filter(|(from, to)| (*from..=*to).contains(&round)).count();
    let mut rounds: Vec<InRound> = services.iter().flat_map(|service| service.iter().copied()).collect();
    rounds.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.total_cmp(&b.2)));
    let mut runs: Vec<Vec<Moment>> = Vec::new();
    let mut last = f64::NEG_INFINITY;
    for chunk in rounds.chunk_by(|a, b| a.0 == b.0) {
        let levels: Vec<f64> = chunk.iter().map(|reading| reading.2).collect();
        let at = chunk.iter().map(|reading| reading.1).sum::<f64>() / chunk.len() as f64;
        let quartiles = quantile(&levels, 0.25).zip(quantile(&levels, 0.75));
        let Some((median, (low, high))) = median(&levels).zip(quartiles) else { continue };
        if (levels.len() as f64) < SHARE_OF_SERVICES * about(chunk[0].0) as f64 {
            continue;
        }
        let moment = Moment { at, low, median, high };
        match runs.last_mut().filter(|_| at - last <= longest_gap) {
            Some(run) => run.push(moment),
            None => runs.push(vec![moment]),
        }
        last = at;
    }
    runs
}

/// How many services were read in each round, from its first reading to that of the next; to its own last one where
/// then nothing was read for longer than a gap.
fn read<'a>(services: impl Iterator<Item = &'a [Read]>, longest_gap: f64) -> Vec<Step> {
    let mut rounds: BTreeMap<usize, (f64, f64, u32)> = BTreeMap::new();
    for (round, first, last) in services.flatten() {
        let of_round = rounds.entry(*round).or_insert((*first, *last, 0));
        *of_round = (of_round.0.min(*first), of_round.1.max(*last), of_round.2 + 1);
    }
    let rounds: Vec<(f64, f64, u32)> = rounds.into_values().collect();
    let next = rounds.iter().skip(1).map(|next| Some(next.0)).chain([None]);
    let steps = rounds.iter().zip(next).map(|((from, last, services), next)| {
        let to = next.filter(|next| next - last <= longest_gap);
        Step { from: *from, to: to.unwrap_or(*last), services: *services }
    });
    steps.collect()
}

/// What happened between the first and the last reading; alike things together where they are near.
fn marks(fleet: &Fleet, (first, last): (f64, f64)) -> Vec<Mark> {
    let lives = fleet.services.iter().flat_map(|service| service.lives.iter().enumerate());
    let starts = lives.filter_map(|(place, life)| match place {
        // The start of the first life is known, or that life is only what was there.
        0 if !life.age_known() => None,
        0 => Some((Happened::Start, life.started_at)),
        _ => Some((Happened::Restart, life.started_at)),
    });
    let events = fleet.events.iter().map(|event| (Happened::Event(event.kind.clone()), event.at));
    let mut all: Vec<(Happened, f64)> =
        starts.chain(events).filter(|(_, at)| (first..=last).contains(at)).collect();
    all.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let near = (last - first) / MARKS;
    let mut marks: Vec<Mark> = Vec::new();
    for (happened, at) in all {
        match marks.last_mut().filter(|mark| mark.happened == happened && at - mark.at <= near) {
            Some(mark) => mark.count += 1,
            None => marks.push(Mark { at, happened, count: 1 }),
        }
    }
    marks.sort_by(|a, b| a.at.total_cmp(&b.at).then_with(|| a.happened.cmp(&b.happened)));
    marks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::{FleetArm, FleetEvent};
    use heaptrial_model::LifeStart;
    use proptest::prelude::*;

    const HOUR: f64 = 3600.0;
    const BEGIN: f64 = 1_760_000_000.0;

    /// A life that is read at these hours after the first reading of all.
    fn life(started: f64, hours: impl Iterator<Item = f64>, kib: u32) -> FleetLife {
        let reading = |hour: f64| Reading { age_seconds: ((hour - started) * HOUR) as f32, kib };
        FleetLife {
            started_at: BEGIN + started * HOUR,
            start: LifeStart::Observed,
            contamination: None,
            proved: true,
            readings: hours.map(reading).collect(),
            rolled_up_seconds: 0.0,
            peaks: Vec::new(),
            work: Default::default(),
        }
    }

    fn service(lives: Vec<FleetLife>) -> FleetService {
        FleetService { arms: vec![0], lives, ..FleetService::default() }
    }

    fn fleet(services: Vec<FleetService>) -> (Fleet, Vec<(usize, usize, bool)>) {
        let shown = (0..services.len()).map(|index| (index, 0, false)).collect();
        (Fleet { arms: vec![FleetArm::default()], services, ..Fleet::default() }, shown)
    }

    fn hours(from: i32, to: i32) -> impl Iterator<Item = f64> {
        (from..=to).map(f64::from)
    }

    #[test]
    fn a_gap_is_a_gap_and_services_are_counted() {
        let read = || hours(1, 20).chain(hours(60, 80));
        let services: Vec<FleetService> = (1..=3)
            .map(|number| {
                let upto = if number == 3 { 70.0 } else { 80.0 };
                service(vec![life(0.0, read().filter(|hour| *hour <= upto), 1024 * number)])
            })
            .collect();
        let (fleet, shown) = fleet(services);
        let calendar = Calendar::of(&fleet, &shown).unwrap();
        assert_eq!(calendar.span, (BEGIN + HOUR, BEGIN + 80.0 * HOUR));
        let runs = &calendar.arms[0];
        assert_eq!(runs.iter().map(Vec::len).collect::<Vec<_>>(), [20, 21]);
        assert!(runs[0].iter().all(|moment| moment.median == 2.0 * 1_048_576.0));
        assert_eq!(runs[1].last().unwrap().median, 1.5 * 1_048_576.0, "the third is read no more");
        let at = |hour: f64| {
            let time = BEGIN + hour * HOUR;
            let step = calendar.read.iter().find(|step| (step.from..step.to).contains(&time));
            step.map_or(0, |step| step.services)
        };
        assert_eq!([at(5.5), at(19.5), at(40.0), at(65.5), at(75.5)], [3, 3, 0, 3, 2]);
    }

    #[test]
    fn starts_restarts_and_events_are_told_and_grouped() {
        let services: Vec<FleetService> = (0..4)
            .map(|number| {
                let again = 48.0 + f64::from(number) * 0.1;
                service(vec![life(10.0, hours(11, 48), 10), life(again, hours(49, 200), 10)])
            })
            .chain([service(vec![FleetLife { start: LifeStart::Unknown, ..life(0.0, hours(0, 200), 9) }])])
            .collect();
        let (mut fleet, shown) = fleet(services);
        let event = |hour: f64, kind: &str| FleetEvent {
            host: None,
            at: BEGIN + hour * HOUR,
            arm: None,
            service: None,
            kind: EventKind::from(kind),
            changes_treatment: false,
            text: String::new(),
        };
        fleet.events =
            vec![event(-5.0, "before"), event(100.0, "crash"), event(100.5, "crash"), event(150.0, "oom")];
        let marks = Calendar::of(&fleet, &shown).unwrap().marks;
        let told: Vec<(f64, Happened, u32)> = marks
            .into_iter()
            .map(|mark| (((mark.at - BEGIN) / HOUR).round(), mark.happened, mark.count))
            .collect();
        let kind = |kind: &str| Happened::Event(EventKind::from(kind));
        assert_eq!(
            told,
            [
                (10.0, Happened::Start, 4),
                (48.0, Happened::Restart, 4),
                (100.0, kind("crash"), 2),
                (150.0, kind("oom"), 1)
            ]
        );
    }

    #[test]
    fn off_treatment_and_contaminated_lives_are_read_and_not_averaged() {
        let mut services: Vec<FleetService> =
            (0..3).map(|_| service(vec![life(0.0, hours(0, 50), 10)])).collect();
        services.push(service(vec![life(0.0, hours(0, 50), 1000)]));
        let contaminated =
            FleetLife { contamination: Some("other".to_owned()), ..life(0.0, hours(0, 20), 1000) };
        services.push(service(vec![contaminated, life(20.5, hours(21, 50), 10)]));
        let (fleet, mut shown) = fleet(services);
        shown[3].2 = true;
        let calendar = Calendar::of(&fleet, &shown).unwrap();
        assert!(calendar.arms[0].iter().flatten().all(|moment| moment.high == 10.0 * 1024.0));
        assert!(calendar.read.iter().rev().skip(1).all(|step| step.services == 5), "{:?}", calendar.read);
    }

    #[test]
    fn nothing_read_is_no_calendar() {
        let (fleet, shown) = fleet(vec![service(vec![life(0.0, std::iter::empty(), 1)])]);
        assert_eq!(Calendar::of(&fleet, &shown), None);
    }

    proptest! {
        #[test]
        fn few_points_in_order_and_within_what_was_read(
            services in prop::collection::vec((0.0f64..0.9, 30usize..900, 1u32..1_000_000), 1..12),
        ) {
            let services: Vec<FleetService> = services
                .into_iter()
                .map(|(phase, count, kib)| service(vec![life(0.0, (0..count).map(|i| phase + i as f64), kib)]))
                .collect();
            let highest = services.iter().map(|service| service.lives[0].readings[0].kib).max().unwrap();
            let (fleet, shown) = fleet(services);
            let calendar = Calendar::of(&fleet, &shown).unwrap();
            prop_assert_eq!(&calendar, &Calendar::of(&fleet, &shown).unwrap());
            let points = calendar.arms[0].concat();
            prop_assert!((1..=2 * MOMENTS).contains(&points.len()), "{}", points.len());
            prop_assert!(points.windows(2).all(|pair| pair[0].at < pair[1].at));
            for point in &points {
                prop_assert!(point.low <= point.median && point.median <= point.high);
                prop_assert!(point.high <= f64::from(highest) * 1024.0);
                prop_assert!((calendar.span.0 - 1.0..=calendar.span.1 + 1.0).contains(&point.at));
            }
            prop_assert!(calendar.read.windows(2).all(|pair| pair[0].to <= pair[1].from));
            prop_assert!(calendar.read.iter().all(|step| step.services as usize <= fleet.services.len()));
        }
    }
}
