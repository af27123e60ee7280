//! Measures of work of a service.

use super::{Counts, Measure};
use crate::analysis::age::Ages;
use crate::analysis::fleet::{FleetLife, FleetService};
use crate::analysis::outcome::{ServiceWork, Settings};
use crate::analysis::thresholds::ENOUGH;

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
        if to.is_finite() && over < ENOUGH * (to - from) {
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
    from: f64,
    to: f64,
}

impl<'l> Span<'l> {
    fn of(life: &'l FleetLife, name: &str, from: f64, to: f64) -> Option<Self> {
        let measure = life.work.measures.iter().find(|measure| measure.name == name)?;
        Some(Self { life, measure, from, to })
    }
}

/// The mean of readings in the window. Tools print some numbers once, of all the time until then: where none lies in the
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
