//! Measures of work: how much of each an arm did, in proportion to the control.

use std::collections::BTreeMap;

use heaptrial_stats::geometric_mean;

use super::{Counts, Measure};
use crate::age::Ages;
use crate::figures;
use crate::fleet::{Fleet, FleetLife, FleetService};
use crate::outcome::{
    ControlWork, MeasureResult, RatioToControl, ServiceResult, ServiceWork, Settings, WorkReason,
    WorkStanding,
};

/// A rate needs readings over this share of its window.
const COVERED_SHARE: f64 = 0.5;
/// A service that does nothing has this share of what the control's do, so that it has a logarithm.
const LEAST_SHARE: f64 = 1e-3;
/// A measure is known of an arm if it is of this share of its services.
const KNOWN_SHARE: f64 = 0.5;

/// The work of a service by each of its measures, over the time over which its memory is compared.
pub(crate) fn of_service(service: &FleetService, ages: &Ages, settings: &Settings) -> Vec<ServiceWork> {
    let mut names: Vec<&str> = Vec::new();
    for measure in service.lives.iter().flat_map(|life| &life.work.measures) {
        if !names.contains(&measure.name.as_str()) {
            names.push(&measure.name);
        }
    }
    names.iter().filter_map(|name| of_measure(service, name, ages, settings)).collect()
}

fn of_measure(service: &FleetService, name: &str, ages: &Ages, settings: &Settings) -> Option<ServiceWork> {
    let spans: Vec<Span<'_>> = match ages.average_from {
        Some(from) => service
            .lives
            .iter()
            .filter(|life| life.age_known())
            .filter_map(|life| Span::of(life, name, (from - life.started_at).max(0.0), f64::INFINITY))
            .collect(),
        None => {
            let life = service.current().filter(|life| ages.reached(life))?;
            let (from, to) = window(ages, settings)?;
            vec![Span::of(life, name, from, to)?]
        }
    };
    if let Counts::Rate | Counts::Took = spans.first()?.measure.counts {
        return of_readings(name, &spans);
    }
    let (mut counted, mut tried, mut seconds) = (0.0, None, 0.0);
    for Span { measure, from, to, .. } in spans.iter().copied() {
        let Some((risen, over)) = increase(&measure.counter, from, to) else { continue };
        // The first reading is seldom at the very beginning of the window.
        if to.is_finite() && over < COVERED_SHARE * (to - from) {
            continue;
        }
        counted += risen;
        seconds += over;
        if let Counts::Failed { tried: counter } = &measure.counts {
            tried = Some(tried.unwrap_or(0.0) + increase(counter, from, to).map_or(0.0, |own| own.0));
        }
    }
    let amount = match tried {
        // Of what nobody asked for nothing can fail.
        Some(tried) if tried > 0.0 => Some(1.0 - (counted / tried).clamp(0.0, 1.0)),
        Some(_) => None,
        None => (seconds > 0.0).then(|| counted / seconds),
    };
    let work = ServiceWork {
        measure: name.to_owned(),
        amount: amount?,
        counted,
        tried,
        seconds,
        ..ServiceWork::default()
    };
    Some(if tried.is_some() { work } else { with_cost(work, &spans) })
}

/// A stretch of a life over which a measure is taken.
#[derive(Clone, Copy)]
struct Span<'l> {
    life: &'l FleetLife,
    measure: &'l Measure,
    /// Age in seconds.
    from: f64,
    to: f64,
}

impl<'l> Span<'l> {
    fn of(life: &'l FleetLife, name: &str, from: f64, to: f64) -> Option<Self> {
        let measure = life.work.measures.iter().find(|measure| measure.name == name)?;
        Some(Self { life, measure, from, to })
    }
}

/// The mean of readings in the window. Tools tell some numbers once, of all the time until then: where none lies in the
/// window, the first after it stands for it, which the window is a part of, or else the last before it.
fn of_readings(name: &str, spans: &[Span<'_>]) -> Option<ServiceWork> {
    let mut values = Vec::new();
    // What was done in that time, and at what cost: a load that ended in the window did nothing after it.
    let mut told_of = Vec::new();
    // Where warm-up is longer than what all arms have in common, nothing is left of it.
    for span in spans.iter().filter(|span| span.from <= span.to) {
        let readings = &span.measure.counter;
        let begin = readings.partition_point(|point| f64::from(point.0) < span.from);
        let end = readings.partition_point(|point| f64::from(point.0) <= span.to);
        let (begin, end) = match begin == end {
            true if end < readings.len() => (end, end + 1),
            true => (begin.saturating_sub(1), begin),
            false => (begin, end),
        };
        let Some(last) = readings[begin..end].last() else { continue };
        values.extend(readings[begin..end].iter().map(|point| point.1));
        // A number is of the time since the one before it.
        let from = begin.checked_sub(1).map_or(0.0, |before| f64::from(readings[before].0));
        told_of.push(Span { from, to: f64::from(last.0), ..*span });
    }
    let less_is_better = spans.iter().any(|span| span.measure.counts == Counts::Took);
    let amount = values.iter().sum::<f64>() / values.len() as f64;
    // Nothing takes no time at all: such a number is too coarse to compare.
    if values.is_empty() || (less_is_better && amount <= 0.0) {
        return None;
    }
    let seconds = told_of.iter().map(|span| span.to - span.from).sum();
    let counted = if less_is_better { amount } else { amount * seconds };
    let work = ServiceWork {
        measure: name.to_owned(),
        amount,
        less_is_better,
        counted,
        seconds,
        ..Default::default()
    };
    Some(if less_is_better { work } else { with_cost(work, &told_of) })
}

/// With what the host gave for each unit over the same time.
fn with_cost(work: ServiceWork, spans: &[Span<'_>]) -> ServiceWork {
    let for_each = |counter: fn(&FleetLife) -> &[(f32, f64)]| {
        let risen = spans.iter().filter_map(|span| increase(counter(span.life), span.from, span.to));
        let (risen, seconds) = risen.fold((0.0, 0.0), |sum, own| (sum.0 + own.0, sum.1 + own.1));
        (seconds > 0.0 && work.amount > 0.0).then(|| risen / seconds / work.amount)
    };
    let cpu_seconds_for_each = for_each(|life| &life.work.spent.cpu_seconds);
    let page_faults_for_each = for_each(|life| &life.work.spent.page_faults);
    ServiceWork { cpu_seconds_for_each, page_faults_for_each, ..work }
}

/// The ages over which a service's level is taken.
pub(crate) fn window(ages: &Ages, settings: &Settings) -> Option<(f64, f64)> {
    let to = ages.matched?;
    Some((settings.level_from(to), to * 1.01))
}

/// By how much a counter rose between two ages, and over how many seconds. Between two readings it rose evenly. One that falls
/// began anew somewhere between them: by how much it rose there nobody knows, so that their time does not count either. `None`
/// where no two readings lie on the way.
fn increase(counter: &[(f32, f64)], from: f64, to: f64) -> Option<(f64, f64)> {
    let first = counter.partition_point(|point| f64::from(point.0) <= from).saturating_sub(1);
    let (mut risen, mut seconds) = (0.0, 0.0);
    for pair in counter.get(first..)?.windows(2) {
        let (begin, end) = (f64::from(pair[0].0), f64::from(pair[1].0));
        if begin >= to {
            break;
        }
        let own = pair[1].1 - pair[0].1;
        let over = end.min(to) - begin.max(from);
        if end > begin && over > 0.0 && own >= 0.0 {
            risen += own * over / (end - begin);
            seconds += over;
        }
    }
    (seconds > 0.0 && risen.is_finite()).then_some((risen, seconds))
}

/// Arms whose work is compared.
pub(super) struct Compared<'a> {
    pub(super) fleet: &'a Fleet,
    pub(super) settings: &'a Settings,
    pub(super) ages: &'a Ages,
    pub(super) services: &'a [ServiceResult],
    pub(super) members: &'a [Vec<usize>],
}

impl Compared<'_> {
    /// Every measure of the fleet, of an arm.
    pub(super) fn measures(&self, arm: usize) -> Vec<MeasureResult> {
        let mut names: Vec<&str> = Vec::new();
        let all = self.members.iter().flatten().flat_map(|index| &self.services[*index].work);
        for own in all {
            if !names.contains(&own.measure.as_str()) {
                names.push(&own.measure);
            }
        }
        names.iter().map(|name| self.measure(name, arm)).collect()
    }

    fn of(&self, index: usize, name: &str) -> Option<&ServiceWork> {
        self.services[index].work.iter().find(|own| own.measure == name)
    }

    fn known(&self, arm: usize, name: &str) -> Vec<&ServiceWork> {
        self.members[arm].iter().filter_map(|index| self.of(*index, name)).collect()
    }

    fn measure(&self, name: &str, arm: usize) -> MeasureResult {
        let own = self.known(arm, name);
        let less_is_better = self
            .members
            .iter()
            .flatten()
            .any(|index| self.of(*index, name).is_some_and(|work| work.less_is_better));
        let amounts: Vec<f64> = own.iter().map(|work| work.amount).filter(|amount| *amount > 0.0).collect();
        let sum = |of: &[&ServiceWork], value: fn(&ServiceWork) -> f64| {
            of.iter().map(|work| value(work)).sum::<f64>()
        };
        let tried = |of: &[&ServiceWork]| {
            of.iter().any(|work| work.tried.is_some()).then(|| sum(of, |work| work.tried.unwrap_or(0.0)))
        };
        let control = self.fleet.arms.iter().position(|arm| arm.control);
        let other = control.filter(|control| *control != arm);
        let of_control = other.map(|control| self.known(control, name));
        let least = of_control.as_ref().map_or(0.0, |of| {
            let some: Vec<f64> = of.iter().map(|work| work.amount).filter(|amount| *amount > 0.0).collect();
            LEAST_SHARE * geometric_mean(&some).unwrap_or(0.0)
        });
        let compared = other.filter(|_| least > 0.0);
        let ratio = compared.and_then(|control| {
            self.ratio(control, arm, &|index| Some(self.of(index, name)?.amount.max(least)))
        });
        let (standing, reason) = self.standing(name, arm, other, ratio.as_ref());
        let memory = figures::compared(self.ages, control.unwrap_or(arm), arm);
        // Work that failed costs memory as well: it is told for each unit of what was done only.
        let for_each = |index: usize| {
            let counts =
                |work: &&ServiceWork| work.tried.is_none() && !work.less_is_better && work.amount > 0.0;
            let work = self.of(index, name).filter(counts)?;
            Some(memory(&self.services[index])? / work.amount)
        };
        let cpu = |index: usize| self.of(index, name)?.cpu_seconds_for_each;
        let faults = |index: usize| self.of(index, name)?.page_faults_for_each;
        let mean = |value: &dyn Fn(usize) -> Option<f64>| {
            let values: Vec<f64> = self.members[arm]
                .iter()
                .filter_map(|index| value(*index))
                .filter(|value| *value > 0.0)
                .collect();
            geometric_mean(&values)
        };
        MeasureResult {
            name: name.to_owned(),
            services: own.len() as u32,
            of: self.members[arm].len() as u32,
            idle: own.iter().filter(|work| work.amount <= 0.0).count() as u32,
            amount: geometric_mean(&amounts),
            total: sum(&own, |work| work.counted),
            tried: tried(&own),
            of_control: of_control
                .filter(|of| !of.is_empty())
                .map(|of| ControlWork { total: sum(&of, |work| work.counted), tried: tried(&of) }),
            ratio,
            memory_for_each: mean(&for_each),
            memory_ratio: other.and_then(|control| self.ratio(control, arm, &for_each)),
            less_is_better,
            cpu_seconds_for_each: mean(&cpu),
            cpu_ratio: other.and_then(|control| self.ratio(control, arm, &cpu)),
            page_faults_for_each: mean(&faults),
            page_faults_ratio: other.and_then(|control| self.ratio(control, arm, &faults)),
            standing,
            reason,
        }
    }

    fn ratio(
        &self,
        control: usize,
        arm: usize,
        value: &dyn Fn(usize) -> Option<f64>,
    ) -> Option<RatioToControl> {
        figures::ratio_of(self.fleet, self.settings, value, &self.members[control], &self.members[arm])
    }

    fn standing(
        &self,
        name: &str,
        arm: usize,
        control: Option<usize>,
        ratio: Option<&RatioToControl>,
    ) -> (WorkStanding, WorkReason) {
        let enough = |arm: usize| {
            let known = self.known(arm, name).len() as f64;
            known > 0.0 && known >= KNOWN_SHARE * self.members[arm].len() as f64
        };
        let Some(control) = control else {
            return if enough(arm) {
                (WorkStanding::DoesItsWork, WorkReason::IsControl)
            } else {
                (WorkStanding::Unknown, WorkReason::NotMeasured)
            };
        };
        let does = |of: usize| self.known(of, name).iter().any(|work| work.amount > 0.0);
        if !enough(control) {
            return (WorkStanding::Unknown, WorkReason::ControlNotMeasured);
        }
        if !enough(arm) {
            return (WorkStanding::Unknown, WorkReason::NotMeasured);
        }
        if !does(control) {
            return (WorkStanding::Unknown, WorkReason::ControlDidNothing);
        }
        if !does(arm) {
            return (WorkStanding::ClearlyLess, WorkReason::NothingDone);
        }
        let Some(ratio) = ratio else { return (WorkStanding::Unknown, WorkReason::NotMeasured) };
        let (margin, half) = (self.settings.work_margin, self.settings.work_half);
        let permuted = ratio.method == heaptrial_stats::IntervalMethod::Permutation.as_str();
        let less_is_better = self.known(arm, name).iter().any(|work| work.less_is_better);
        let of_work = if less_is_better { ratio.estimate.inverse() } else { ratio.estimate };
        match of_work.interval() {
            Some((_, high)) if high < margin => (WorkStanding::ClearlyLess, WorkReason::IntervalBelowMargin),
            _ if !permuted && self.all_below(name, control, arm, half) => {
                (WorkStanding::ClearlyLess, WorkReason::AllFarBelow)
            }
            Some((low, _)) if of_work.value >= margin && low >= half => {
                (WorkStanding::DoesItsWork, WorkReason::AboveMargin)
            }
            None if of_work.value >= margin => (WorkStanding::DoesItsWork, WorkReason::AboveMargin),
            _ => (WorkStanding::Unknown, WorkReason::IntervalTooWide),
        }
    }

    /// Whether each service of an arm did less than a share of what every service of the control in its block did.
    fn all_below(&self, name: &str, control: usize, arm: usize, share: f64) -> bool {
        let done = |work: &ServiceWork| if work.less_is_better { 1.0 / work.amount } else { work.amount };
        let mut least: BTreeMap<u32, f64> = BTreeMap::new();
        for index in &self.members[control] {
            if let Some(work) = self.of(*index, name) {
                let block = least.entry(self.fleet.services[*index].block).or_insert(f64::INFINITY);
                *block = block.min(done(work));
            }
        }
        let pairs: Vec<bool> = self.members[arm]
            .iter()
            .filter_map(|index| {
                let control = least.get(&self.fleet.services[*index].block)?;
                Some(done(self.of(*index, name)?) < share * control)
            })
            .collect();
        !pairs.is_empty() && pairs.iter().all(|below| *below)
    }
}

/// The standing by all measures: one that is clearly less decides; one that is not known leaves the whole unknown.
pub(super) fn together(measures: &[MeasureResult]) -> WorkStanding {
    let counts = |measure: &&MeasureResult| measure.reason != WorkReason::ControlDidNothing;
    let standings: Vec<WorkStanding> =
        measures.iter().filter(counts).map(|measure| measure.standing).collect();
    if standings.contains(&WorkStanding::ClearlyLess) {
        WorkStanding::ClearlyLess
    } else if standings.is_empty() || standings.contains(&WorkStanding::Unknown) {
        WorkStanding::Unknown
    } else {
        WorkStanding::DoesItsWork
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_begins_anew_loses_no_work() {
        // 20 a second, read each second, beginning anew every 2.5 s.
        let counter: Vec<(f32, f64)> =
            (0..40).map(|age| (age as f32, (20.0 * (f64::from(age) % 2.5)).floor())).collect();
        let (risen, seconds) = increase(&counter, 0.0, 39.0).unwrap();
        assert_eq!(risen / seconds, 20.0);
        assert_eq!(increase(&[(0.0, 5.0), (1.0, 3.0)], 0.0, 1.0), None);
    }
}
