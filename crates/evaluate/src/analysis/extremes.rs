//! Which arm needs least and which most, over all arms that have any figure.

use std::collections::BTreeMap;

use heaptrial_stats::{Block, geometric_mean, holm, median, rank_test, separation};

use crate::analysis::age::{Ages, most_kept};
use crate::analysis::fleet::{Fleet, FleetService};
use crate::analysis::outcome::{
    AgeSpan, AgeStanding, ArmPair, ArmPlace, ArmResult, AtAge, Basis, Extremes, Gap, RankComparison,
    ServiceResult, WorkStanding,
};
use crate::analysis::service::memory_at;

/// A figure stands for an arm if so many of its services have it.
const ENOUGH: f64 = 0.5;
/// Median ages closer than this share are taken as equal.
const SAME_AGE: f64 = 0.05;

/// What the order is made from.
struct Arms<'a> {
    fleet: &'a Fleet,
    ages: &'a Ages,
    services: &'a [ServiceResult],
    /// Positions of services by arm, without off-treatment services.
    members: &'a [Vec<usize>],
}

/// One figure of services, by position.
type Figures = BTreeMap<usize, f64>;

/// The order of the arms over `members` (positions of services by arm, without off-treatment services).
pub(crate) fn of_arms(
    fleet: &Fleet,
    ages: &Ages,
    services: &[ServiceResult],
    members: &[Vec<usize>],
    results: &[ArmResult],
) -> Extremes {
    let arms = Arms { fleet, ages, services, members };
    let (read, without_reading): (Vec<usize>, Vec<usize>) =
        (0..fleet.arms.len()).partition(|arm| !arms.last_readings(*arm).is_empty());
    let without_level: Vec<usize> =
        read.iter().copied().filter(|arm| arms.at_one_age(&read, *arm).is_none()).collect();
    let basis = if without_level.is_empty() { arms.one_age(&read) } else { Basis::LastReadings };
    let mut order: Vec<ArmPlace> = read
        .iter()
        .filter_map(|arm| {
            let figures = arms.figures(basis, *arm);
            let values: Vec<f64> = figures.values().copied().collect();
            let bytes = if basis == Basis::LastReadings { median(&values) } else { geometric_mean(&values) };
            let work = results[*arm].work.as_ref().map(|work| work.standing);
            Some(ArmPlace {
                arm: *arm,
                bytes: bytes?,
                services: values.len() as u32,
                of: arms.last_readings(*arm).len() as u32,
                ages: arms.span(figures.keys())?,
                ranked: work != Some(WorkStanding::ClearlyLess),
                work,
            })
        })
        .collect();
    let ratios: Option<BTreeMap<usize, f64>> = order
        .iter()
        .map(|place| Some((place.arm, within_blocks(fleet, basis, place.arm, results)?)))
        .collect();
    let stands_at = |place: &ArmPlace| ratios.as_ref().map_or(place.bytes, |ratios| ratios[&place.arm]);
    order.sort_by(|a, b| stands_at(a).total_cmp(&stands_at(b)).then(a.bytes.total_cmp(&b.bytes)));
    let (least, most) = ends(&order);
    Extremes {
        against_control: arms.against_control(&read),
        separations: arms.separations(&read),
        basis,
        without_level,
        without_reading,
        order,
        least,
        most,
    }
}

/// By what an arm stands in the order where services are compared within blocks: its ratio to the control. An arm with more
/// services on the servers that need much has a high level and may need less than the control all the same.
fn within_blocks(fleet: &Fleet, basis: Basis, arm: usize, results: &[ArmResult]) -> Option<f64> {
    let several = fleet.services.windows(2).any(|pair| pair[0].block != pair[1].block);
    if !matches!(basis, Basis::LevelAtEqualAge { .. }) || !several {
        return None;
    }
    if fleet.arms[arm].control {
        return Some(1.0);
    }
    let result = &results[arm];
    let figures = result.as_treated.as_ref().unwrap_or(&result.as_assigned);
    Some(figures.ratio.as_ref()?.estimate.value)
}

impl Extremes {
    /// Takes an arm's rank: it is neither least nor most, whatever its figure.
    pub fn leave_out(&mut self, arm: usize) {
        for place in self.order.iter_mut().filter(|place| place.arm == arm) {
            place.ranked = false;
        }
        (self.least, self.most) = ends(&self.order);
    }
}

/// The arms with a rank that need least and most; neither where fewer than two have one.
fn ends(order: &[ArmPlace]) -> (Option<usize>, Option<usize>) {
    let mut ranked = order.iter().filter(|place| place.ranked).map(|place| place.arm);
    let (least, most) = (ranked.next(), ranked.next_back());
    (least.filter(|_| most.is_some()), most)
}

impl Arms<'_> {
    /// The figure by which arms that all have it are compared.
    fn one_age(&self, arms: &[usize]) -> Basis {
        match self.ages.matched {
            _ if arms.iter().any(|arm| self.ages.sawtooth[*arm]) => Basis::AverageOverTime,
            Some(age_seconds) => Basis::LevelAtEqualAge { age_seconds },
            None => Basis::LastReadings,
        }
    }

    /// Figures of an arm at the age, or over the time, that `among` have in common, if enough of its services have them.
    fn at_one_age(&self, among: &[usize], arm: usize) -> Option<Figures> {
        let basis = self.one_age(among);
        let figures = self.figures(basis, arm);
        let enough = figures.len() as f64 >= ENOUGH * self.last_readings(arm).len() as f64;
        (basis != Basis::LastReadings && enough && !figures.is_empty()).then_some(figures)
    }

    fn figures(&self, basis: Basis, arm: usize) -> Figures {
        let value = |service: &ServiceResult| match basis {
            Basis::LevelAtEqualAge { .. } => service.level_bytes,
            Basis::AverageOverTime => service.time_average_bytes,
            Basis::LastReadings => service.final_bytes,
        };
        let own = self.members[arm].iter().map(|index| (*index, value(&self.services[*index])));
        own.filter_map(|(index, bytes)| Some((index, bytes.filter(|bytes| *bytes > 0.0)?))).collect()
    }

    fn last_readings(&self, arm: usize) -> Figures {
        self.figures(Basis::LastReadings, arm)
    }

    fn service(&self, index: usize) -> &FleetService {
        &self.fleet.services[index]
    }

    fn span<'i>(&self, services: impl Iterator<Item = &'i usize> + Clone) -> Option<AgeSpan> {
        let known = |index: &&usize| self.service(**index).current().is_some_and(|life| life.age_known());
        let ages: Vec<f64> = services.clone().filter_map(|i| self.services[*i].age_seconds).collect();
        Some(AgeSpan {
            youngest_seconds: ages.iter().copied().min_by(f64::total_cmp)?,
            median_seconds: median(&ages)?,
            oldest_seconds: ages.iter().copied().max_by(f64::total_cmp)?,
            starts_unknown: services.filter(|index| !known(index)).count() as u32,
        })
    }

    fn against_control(&self, read: &[usize]) -> Vec<ArmPair> {
        let control = read.iter().copied().find(|arm| self.fleet.arms[*arm].control);
        let others = read.iter().copied().filter(|arm| Some(*arm) != control);
        let mut pairs: Vec<ArmPair> = control
            .into_iter()
            .flat_map(|c| others.clone().filter_map(move |arm| self.pair(c, arm)))
            .collect();
        let adjust = |pairs: &mut Vec<ArmPair>, ranks: fn(&mut ArmPair) -> Option<&mut RankComparison>| {
            let p_values: Vec<Option<f64>> =
                pairs.iter_mut().map(|pair| Some(ranks(pair)?.p_value)).collect();
            for (pair, adjusted) in pairs.iter_mut().zip(holm(&p_values)) {
                if let (Some(ranks), Some(adjusted)) = (ranks(pair), adjusted) {
                    ranks.p_value_adjusted = adjusted;
                }
            }
        };
        adjust(&mut pairs, |pair| Some(&mut pair.ranks));
        adjust(&mut pairs, |pair| pair.at_common_age.as_mut().map(|at| &mut at.ranks));
        pairs
    }

    /// All pairs of arms that are apart, with p-values for as many pairs as there are.
    fn separations(&self, read: &[usize]) -> Vec<ArmPair> {
        let pairs = || {
            let later =
                |(place, arm): (usize, &usize)| read[place + 1..].iter().map(|b| (*arm, *b)).collect();
            read.iter().enumerate().flat_map::<Vec<(usize, usize)>, _>(later)
        };
        let count = pairs().count() as f64;
        let apart = |(a, b): (usize, usize)| {
            let (_, [of_a, of_b]) = self.compared(a, b);
            let ends = |of: &Figures| {
                let least = of.values().copied().min_by(f64::total_cmp);
                Some((least?, of.values().copied().max_by(f64::total_cmp)?))
            };
            let (a_ends, b_ends) = (ends(&of_a)?, ends(&of_b)?);
            // The rank test takes its time; most pairs are not apart.
            if a_ends.1 < b_ends.0 || b_ends.1 < a_ends.0 { self.pair(a, b) } else { None }
        };
        let mut found: Vec<ArmPair> = pairs().filter_map(apart).collect();
        for pair in &mut found {
            pair.ranks.p_value_adjusted = (pair.ranks.p_value * count).min(1.0);
            if let Some(at) = &mut pair.at_common_age {
                at.ranks.p_value_adjusted = (at.ranks.p_value * count).min(1.0);
            }
        }
        let factor = |pair: &ArmPair| pair.ranks.gap.map_or(1.0, |gap| gap.factor);
        found.sort_by(|a, b| factor(b).total_cmp(&factor(a)));
        found
    }

    /// The figures by which two arms are compared.
    fn compared(&self, a: usize, b: usize) -> (Basis, [Figures; 2]) {
        match (self.at_one_age(&[a, b], a), self.at_one_age(&[a, b], b)) {
            (Some(of_a), Some(of_b)) => (self.one_age(&[a, b]), [of_a, of_b]),
            _ => (Basis::LastReadings, [self.last_readings(a), self.last_readings(b)]),
        }
    }

    fn pair(&self, a: usize, b: usize) -> Option<ArmPair> {
        let (basis, [of_a, of_b]) = self.compared(a, b);
        let first = self.ranks(&of_a, &of_b)?;
        let ((lower, of_lower), (higher, of_higher), ranks) = if first.pairs_lower >= 0.5 {
            ((a, of_a), (b, of_b), first)
        } else {
            ((b, of_b.clone()), (a, of_a.clone()), self.ranks(&of_b, &of_a)?)
        };
        let last = basis == Basis::LastReadings;
        Some(ArmPair {
            lower,
            higher,
            basis,
            ranks,
            ages: if last { self.age_standing(&of_lower, &of_higher) } else { AgeStanding::Equal },
            at_common_age: if last { self.at_common_age(&of_lower, &of_higher) } else { None },
        })
    }

    fn ranks(&self, lower: &Figures, higher: &Figures) -> Option<RankComparison> {
        let mut blocks: BTreeMap<u32, Block> = BTreeMap::new();
        for (index, bytes) in lower {
            blocks.entry(self.service(*index).block).or_default().treated.push(*bytes);
        }
        for (index, bytes) in higher {
            blocks.entry(self.service(*index).block).or_default().control.push(*bytes);
        }
        let blocks: Vec<Block> = blocks.into_values().collect();
        let test = rank_test(&blocks)?;
        let gap = separation(&blocks).map(|apart| Gap {
            highest_of_lower_bytes: apart.highest_treated,
            lowest_of_higher_bytes: apart.lowest_control,
            factor: apart.gap,
            p_value: apart.p_value,
        });
        Some(RankComparison {
            lower_services: lower.len() as u32,
            higher_services: higher.len() as u32,
            pairs_lower: 1.0 - test.pairs_above / test.pairs,
            p_value: test.p_value(),
            p_value_adjusted: test.p_value(),
            exact: test.exact,
            gap,
        })
    }

    fn age_standing(&self, lower: &Figures, higher: &Figures) -> AgeStanding {
        let known = |of: &Figures| {
            let span = self.span(of.keys())?;
            (2 * span.starts_unknown as usize <= of.len()).then_some(span.median_seconds)
        };
        match (known(lower), known(higher)) {
            (Some(low), Some(high)) if low >= high * (1.0 - SAME_AGE) => AgeStanding::LowerNotYounger,
            (Some(_), Some(_)) => AgeStanding::LowerYounger,
            _ => AgeStanding::Unknown,
        }
    }

    /// Both arms at the age that half of each reached or more.
    fn at_common_age(&self, lower: &Figures, higher: &Figures) -> Option<AtAge> {
        let life = |index: &usize| self.service(*index).current().filter(|life| life.age_known());
        let sorted = |of: &Figures| {
            let mut ages: Vec<f64> = of.keys().filter_map(|index| life(index)?.last_age()).collect();
            ages.sort_unstable_by(f64::total_cmp);
            ages
        };
        let age = most_kept(&[sorted(lower), sorted(higher)]).filter(|age| *age > 0.0)?;
        // Where readings are few they are far apart.
        let at = |index: &usize| {
            let bytes = memory_at(life(index)?, age, f64::INFINITY, SAME_AGE * age)?;
            (bytes > 0.0).then_some((*index, bytes))
        };
        let taken = |of: &Figures| -> Option<Figures> {
            let found: Figures = of.keys().filter_map(at).collect();
            (found.len() as f64 >= ENOUGH * of.len() as f64).then_some(found)
        };
        let ranks = self.ranks(&taken(lower)?, &taken(higher)?)?;
        Some(AtAge { age_seconds: age, ranks })
    }
}
