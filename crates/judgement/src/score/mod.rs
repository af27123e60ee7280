//! How well a lab told what the field showed.
//!
//! A relay gets one consensus an hour, so the k-th consensus of the lab is compared with the k-th hour of the field's relays:
//! the order of the arms, each arm's ratio to the control, its growth and its verdict. Both sides come from the one procedure
//! with the same settings.

mod error;
mod partners;
mod side;

use heaptrial_analysis::{ArmAt, Estimate, Growth, LevelsAt, RatioToControl, Verdict};
use heaptrial_stats::kendall;
use serde::{Deserialize, Serialize};

pub use error::ScoreError;
pub use partners::{MatchedBy, Partners};
pub use side::{Scored, Side};

use crate::consensuses::HOUR;

/// Consensuses at which both sides are compared where nobody says otherwise: ends of the first, third and fifth day.
pub const USUAL_AGES: [f64; 3] = [24.0, 72.0, 120.0];
/// An age at which fewer than this share of an arm's services are is told as such.
const MOST_SERVICES: f64 = 0.5;

/// A lab against the field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// The lab's runs, taken as one.
    pub lab: Vec<Scored>,
    /// The trial in the field.
    pub field: Scored,
    /// Of all intervals.
    pub confidence_level: f64,
    /// Arms of one treatment, the control first.
    pub arms: Vec<Partners>,
    /// Arms of the lab that have no partner.
    pub lab_alone: Vec<String>,
    /// Arms of the field that have none.
    pub field_alone: Vec<String>,
    /// One for each age that both reached, ascending.
    pub ages: Vec<AtConsensuses>,
    /// Whether most starts in some arm of the field are unknown, so that ages there count from first readings.
    pub field_ages_are_lower_bounds: bool,
    /// Ages that were asked for and are not compared, with the reason.
    pub left_out: Vec<LeftOut>,
    /// One for each of `arms`.
    pub growth: Vec<GrowthScore>,
}

/// An age that is not compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Consensuses: hours of a relay's life.
    pub consensuses: f64,
    /// Why.
    pub why: String,
}

/// Both sides at one age.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AtConsensuses {
    /// Consensuses of the lab, hours of the field.
    pub consensuses: f64,
    /// Kendall's tau-b of the levels of the arms that both sides have; `None` for fewer than two.
    pub tau_b: Option<f64>,
    /// Pairs of arms,
    pub pairs: u32,
    /// of which both sides order so many alike.
    pub pairs_alike: u32,
    /// The pairs that they do not.
    pub unlike: Vec<UnlikePair>,
    /// One for each arm of [`Score::arms`] that both sides have at this age.
    pub arms: Vec<ArmScore>,
    /// The others, by the side that has no level of them.
    pub without: Vec<WithoutLevel>,
}

/// An arm that one side has no level of at an age.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WithoutLevel {
    /// Position in [`Score::arms`].
    pub arm: usize,
    /// Whether the side is the lab; the field otherwise.
    pub in_lab: bool,
    /// Ages in hours between which that side has readings of the arm's services; `None` where it has none.
    pub hours: Option<(f64, f64)>,
}

/// Two arms that lab and field order otherwise.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct UnlikePair {
    /// Position in [`Score::arms`] of the one that has less in the field.
    pub less: usize,
    /// Position of the one that has more there.
    pub more: usize,
    /// The first in proportion to the second in the field.
    pub field_ratio: Option<Estimate>,
    /// Whether the field's own interval tells them apart.
    pub field_separates: bool,
    /// The first in proportion to the second in the lab.
    pub lab_ratio: Option<Estimate>,
    /// Whether the lab's interval tells them apart.
    pub lab_separates: bool,
}

/// An arm at an age.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmScore {
    /// Position in [`Score::arms`].
    pub arm: usize,
    /// In the lab.
    pub lab: Figure,
    /// In the field.
    pub field: Figure,
    /// Ratio to the control in the lab over that in the field, with the interval that both intervals give; `None` for the
    /// control.
    pub factor: Option<Estimate>,
}

/// An arm's memory on one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Geometric mean of the levels in bytes.
    pub level_bytes: u64,
    /// Services with a level,
    pub services: u32,
    /// of so many that belong to the arm.
    pub of: u32,
    /// In proportion to the control's; `None` for the control.
    pub ratio: Option<Estimate>,
}

/// How an arm grows on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GrowthScore {
    /// Position in [`Score::arms`].
    pub arm: usize,
    /// Bytes for each consensus in the lab.
    pub lab_bytes_per_hour: Option<Estimate>,
    /// Consensuses that they are measured over: median over services.
    pub lab_hours: Option<f64>,
    /// Bytes an hour in the field.
    pub field_bytes_per_hour: Option<Estimate>,
    /// Hours that they are measured over: median over services.
    pub field_hours: Option<f64>,
    /// Lab over field; `None` where the field is not shown to grow or the lab does not.
    pub factor: Option<Estimate>,
    /// The lab's verdict.
    pub lab_verdict: Option<Verdict>,
    /// The field's verdict.
    pub field_verdict: Option<Verdict>,
}

impl Score {
    /// Scores `lab` against `field`, at these numbers of consensuses (hours of life) or, without any, at the
    /// [`USUAL_AGES`] that both have. `by_hand` pairs arms by name, each as `LAB=FIELD`.
    pub fn of(lab: &Side, field: &Side, ages: &[f64], by_hand: &[String]) -> Result<Self, ScoreError> {
        let pairs = pairs(lab, field, by_hand)?;
        let places: Vec<(usize, usize)> = pairs.iter().map(|(lab, field, _)| (*lab, *field)).collect();
        let compared = Compared { lab, field, places: &places };
        let (ages, left_out) = compared.ages(ages)?;
        let named = |(lab_arm, field_arm, by): &(usize, usize, MatchedBy)| Partners {
            lab: lab.arms[*lab_arm].name.clone(),
            field: field.arms[*field_arm].name.clone(),
            by: *by,
        };
        let alone = |side: &Side, taken: Vec<usize>| {
            let present = (0..side.arms.len()).filter(|arm| side.fleet.arms[*arm].earlier_list_of.is_none());
            present.filter(|arm| !taken.contains(arm)).map(|arm| side.arms[arm].name.clone()).collect()
        };
        Ok(Self {
            growth: (0..places.len()).map(|arm| compared.growth(arm)).collect(),
            arms: pairs.iter().map(named).collect(),
            lab_alone: alone(lab, places.iter().map(|place| place.0).collect()),
            field_alone: alone(field, places.iter().map(|place| place.1).collect()),
            confidence_level: lab.analysis.settings.confidence_level,
            lab: lab.trials.clone(),
            field: field.trials[0].clone(),
            ages,
            field_ages_are_lower_bounds: field.analysis.ages_are_lower_bounds,
            left_out,
        })
    }
}

/// Positions of arms of one treatment, the controls first. Earlier lists are compared to nothing.
fn pairs(lab: &Side, field: &Side, by_hand: &[String]) -> Result<Vec<(usize, usize, MatchedBy)>, ScoreError> {
    let present: Vec<usize> =
        (0..field.arms.len()).filter(|arm| field.fleet.arms[*arm].earlier_list_of.is_none()).collect();
    let listed: Vec<_> = present.iter().map(|arm| field.arms[*arm].clone()).collect();
    let mut pairs: Vec<(usize, usize, MatchedBy)> = partners::find(&lab.arms, &listed, by_hand)?
        .into_iter()
        .map(|(l, f, by)| (l, present[f], by))
        .collect();
    let control = |side: &Side| side.arms.iter().position(|arm| arm.control);
    let (of_lab, of_field) = (control(lab), control(field));
    let name =
        |side: &Side, arm: Option<usize>| arm.map_or_else(String::new, |arm| side.arms[arm].name.clone());
    let Some(place) = pairs.iter().position(|(l, f, _)| Some(*l) == of_lab && Some(*f) == of_field) else {
        return Err(ScoreError::Controls { lab: name(lab, of_lab), field: name(field, of_field) });
    };
    pairs[..=place].rotate_right(1);
    if pairs.len() < 2 {
        let names = |arms: &[heaptrial_model::Arm]| arms.iter().map(|arm| arm.name.clone()).collect();
        return Err(ScoreError::NoPartners { lab: names(&lab.arms), field: names(&listed) });
    }
    Ok(pairs)
}

/// Both sides with the positions of their partners, the controls first.
struct Compared<'a> {
    lab: &'a Side,
    field: &'a Side,
    places: &'a [(usize, usize)],
}

impl Compared<'_> {
    fn ages(&self, asked: &[f64]) -> Result<(Vec<AtConsensuses>, Vec<LeftOut>), ScoreError> {
        let ages = if asked.is_empty() { &USUAL_AGES } else { asked };
        let (mut found, mut left_out) = (Vec::new(), Vec::new());
        for consensuses in ages {
            match self.at(*consensuses) {
                Ok(at) => found.push(at),
                Err(why) => left_out.push(LeftOut { consensuses: *consensuses, why }),
            }
        }
        // A short run is compared at the age that it reached.
        if found.is_empty() && asked.is_empty() {
            let reached = self.lab.analysis.matched_age_seconds.map(|age| (age / HOUR).floor());
            found.extend(reached.filter(|hours| *hours >= 1.0).and_then(|hours| self.at(hours).ok()));
        }
        if found.is_empty() {
            let told = |age: &LeftOut| format!("{:.0} consensuses: {}", age.consensuses, age.why);
            return Err(ScoreError::NoAge { left_out: left_out.iter().map(told).collect() });
        }
        found.sort_by(|a, b| a.consensuses.total_cmp(&b.consensuses));
        Ok((found, left_out))
    }

    /// Both sides at an age, or why not.
    fn at(&self, consensuses: f64) -> Result<AtConsensuses, String> {
        let lab = LevelsAt::of(&self.lab.fleet, &self.lab.analysis, consensuses * HOUR);
        let field = LevelsAt::of(&self.field.fleet, &self.field.analysis, consensuses * HOUR);
        let both: Vec<(usize, ArmAt, ArmAt)> = (0..self.places.len())
            .filter_map(|arm| Some((arm, lab.arm(self.places[arm].0)?, field.arm(self.places[arm].1)?)))
            .collect();
        let (of_lab, of_field) = self.places[0];
        let missing = |side: &str, hours: Option<(f64, f64)>| {
            let oldest = hours.map_or(0.0, |(_, last)| last.floor());
            format!("the control of the {side} has no level there (its oldest relay reached {oldest:.0} h)")
        };
        if lab.arm(of_lab).is_none() {
            return Err(missing("lab", hours_read(self.lab, of_lab)));
        }
        if field.arm(of_field).is_none() {
            return Err(missing("field", hours_read(self.field, of_field)));
        }
        let without = self.places.iter().enumerate().filter_map(|(arm, (l, f))| {
            let in_lab = lab.arm(*l).is_none();
            let hours = if in_lab { hours_read(self.lab, *l) } else { hours_read(self.field, *f) };
            (in_lab || field.arm(*f).is_none()).then_some(WithoutLevel { arm, in_lab, hours })
        });
        let without = without.collect();
        if both.len() < 2 {
            return Err("no arm beside the control has a level there on both sides".to_owned());
        }
        let ratio = |levels: &LevelsAt<'_>, arm: usize, control: usize| {
            levels.ratio(arm, control).map(|ratio| ratio.estimate).filter(|_| arm != control)
        };
        let arms = both.iter().map(|(arm, in_lab, in_field)| {
            let place = self.places[*arm];
            let lab = figure(in_lab, ratio(&lab, place.0, of_lab));
            let field = figure(in_field, ratio(&field, place.1, of_field));
            ArmScore {
                arm: *arm,
                factor: lab.ratio.zip(field.ratio).and_then(|(a, b)| factor(a, b)),
                lab,
                field,
            }
        });
        let in_lab: Vec<f64> = both.iter().map(|arm| self.in_the_labs_order(&lab, arm)).collect();
        let in_field: Vec<f64> = both.iter().map(|arm| arm.2.level_bytes).collect();
        let order = kendall(&in_lab, &in_field);
        Ok(AtConsensuses {
            consensuses,
            tau_b: order.and_then(|order| order.tau_b),
            pairs: (both.len() * (both.len() - 1) / 2) as u32,
            pairs_alike: order.map_or(0, |order| order.concordant as u32),
            unlike: self.unlike(&both, &lab, &field),
            arms: arms.collect(),
            without,
        })
    }

    /// By what an arm of the lab is ordered: its ratio to the control of its own blocks, as arms need not be in the same ones.
    fn in_the_labs_order(&self, lab: &LevelsAt<'_>, (arm, in_lab, _): &(usize, ArmAt, ArmAt)) -> f64 {
        let (own, control) = (self.places[*arm].0, self.places[0].0);
        if own == control {
            return 1.0;
        }
        let ratio = lab.ratio(own, control).map(|ratio| ratio.estimate.value);
        let of_all = || in_lab.level_bytes / lab.arm(control).map_or(f64::NAN, |control| control.level_bytes);
        ratio.unwrap_or_else(of_all)
    }

    fn unlike(
        &self,
        both: &[(usize, ArmAt, ArmAt)],
        lab: &LevelsAt<'_>,
        field: &LevelsAt<'_>,
    ) -> Vec<UnlikePair> {
        let mut unlike = Vec::new();
        for (place, a) in both.iter().enumerate() {
            for b in &both[..place] {
                let (less, more) = if a.2.level_bytes <= b.2.level_bytes { (a, b) } else { (b, a) };
                let in_lab = |arm| self.in_the_labs_order(lab, arm);
                if less.2.level_bytes < more.2.level_bytes && in_lab(less) < in_lab(more) {
                    continue;
                }
                let (under, over) = (self.places[less.0], self.places[more.0]);
                let (lab, field) = (lab.ratio(under.0, over.0), field.ratio(under.1, over.1));
                unlike.push(UnlikePair {
                    less: less.0,
                    more: more.0,
                    field_separates: separates(field.as_ref()),
                    lab_separates: separates(lab.as_ref()),
                    field_ratio: field.map(|ratio| ratio.estimate),
                    lab_ratio: lab.map(|ratio| ratio.estimate),
                });
            }
        }
        unlike
    }

    fn growth(&self, arm: usize) -> GrowthScore {
        let (lab, field) = self.places[arm];
        let (lab, field) = (&self.lab.analysis.arms[lab], &self.field.analysis.arms[field]);
        let rate = |growth: &Growth| per_hour(growth.bytes_per_day);
        let (in_lab, in_field) = (lab.growth.as_ref().map(rate), field.growth.as_ref().map(rate));
        let grows = |rate: &Estimate| rate.low.is_some_and(|low| low > 0.0);
        GrowthScore {
            arm,
            factor: in_lab.zip(in_field.filter(grows)).and_then(|(lab, field)| factor(lab, field)),
            lab_bytes_per_hour: in_lab,
            lab_hours: lab.growth.as_ref().map(|growth| 24.0 * growth.days),
            field_bytes_per_hour: in_field,
            field_hours: field.growth.as_ref().map(|growth| 24.0 * growth.days),
            lab_verdict: lab.verdict.clone(),
            field_verdict: field.verdict.clone(),
        }
    }
}

impl Figure {
    /// Whether so few of the arm's services reached the age that they may not stand for it.
    pub fn is_of_few(&self) -> bool {
        f64::from(self.services) < MOST_SERVICES * f64::from(self.of)
    }
}

/// Ages in hours from the first reading of any of an arm's services to the last.
fn hours_read(side: &Side, arm: usize) -> Option<(f64, f64)> {
    let members = side.analysis.members(arm);
    let lives = members.iter().filter_map(|index| side.fleet.services[*index].current());
    let ages = lives.flat_map(|life| &life.readings).map(|reading| f64::from(reading.age_seconds) / HOUR);
    ages.fold(None, |range, age| {
        let (first, last) = range.unwrap_or((age, age));
        Some((f64::min(first, age), f64::max(last, age)))
    })
}

fn figure(at: &ArmAt, ratio: Option<Estimate>) -> Figure {
    Figure { level_bytes: at.level_bytes.round() as u64, services: at.services, of: at.of, ratio }
}

fn separates(ratio: Option<&RatioToControl>) -> bool {
    let interval = ratio.and_then(|ratio| ratio.estimate.interval());
    interval.is_some_and(|(low, high)| low > 1.0 || high < 1.0)
}

fn per_hour(per_day: Estimate) -> Estimate {
    let hours = |bytes: f64| bytes / 24.0;
    Estimate { value: hours(per_day.value), low: per_day.low.map(hours), high: per_day.high.map(hours) }
}

/// One positive estimate over another, independent of it. The distances of both to their ends are added as squares on the
/// log scale (as errors of independent estimates are: the "MOVER" of A. Donner and G. Y. Zou, Statistical Methods in Medical
/// Research 21 (2012)). `None` where one is not positive; an end that is not positive leaves that end open.
fn factor(over: Estimate, under: Estimate) -> Option<Estimate> {
    if !(over.value > 0.0 && under.value > 0.0) {
        return None;
    }
    let value = over.value / under.value;
    let distance = |estimate: &Estimate, end: Option<f64>| {
        Some((end.filter(|end| *end > 0.0)? / estimate.value).ln().powi(2))
    };
    let together = |a: Option<f64>, b: Option<f64>| Some((a? + b?).sqrt());
    let down = together(distance(&over, over.low), distance(&under, under.high));
    let up = together(distance(&over, over.high), distance(&under, under.low));
    Some(Estimate { value, low: down.map(|down| value * (-down).exp()), high: up.map(|up| value * up.exp()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_factor_has_the_errors_of_both() {
        let estimate = |value, low, high| Estimate { value, low: Some(low), high: Some(high) };
        let sharp = estimate(2.0, 2.0, 2.0);
        let found = factor(estimate(1.0, 0.5, 2.0), sharp).unwrap();
        assert!((found.low.unwrap() - 0.25).abs() < 1e-12 && (found.high.unwrap() - 1.0).abs() < 1e-12);
        let found = factor(estimate(1.0, 0.5, 2.0), estimate(1.0, 0.5, 2.0)).unwrap();
        let reach = (2f64.sqrt() * 2f64.ln()).exp();
        assert!(
            (found.high.unwrap() - reach).abs() < 1e-12 && (found.low.unwrap() - 1.0 / reach).abs() < 1e-12
        );
        assert_eq!(factor(Estimate::bare(-1.0), sharp), None);
        let open = factor(estimate(1.0, -0.5, 2.0), sharp).unwrap();
        assert_eq!((open.value, open.low), (0.5, None));
        assert_eq!(factor(Estimate::bare(1.0), sharp).unwrap().interval(), None);
    }
}
