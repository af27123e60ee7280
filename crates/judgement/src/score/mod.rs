//! How well a lab told what the field showed.
//!
//! A relay gets one consensus an hour, so the k-th consensus of the lab is compared with the k-th hour of the field's relays:
//! the order of the arms, each arm's ratio to the control, its growth and its verdict. Both sides come from the one procedure
//! with the same settings.

mod error;
mod partners;
mod side;

use heaptrial_analysis::{Analysis, ArmAt, Estimate, Growth, LevelsAt, RatioToControl, Verdict};
use heaptrial_stats::{kendall, quotient};
use serde::{Deserialize, Serialize};

pub use error::ScoreError;
pub use partners::{Alone, LeftOut, MatchedBy, Partners, WhyAlone};
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
    pub confidence_level: f64,
    /// Arms of one treatment. All ratios are to the first: the field's control, or where that has no partner the lab's, or else
    /// any.
    pub arms: Vec<Partners>,
    /// Name of the lab's own control.
    pub lab_control: String,
    pub field_control: String,
    /// Arms that have no partner.
    pub alone: Vec<Alone>,
    /// One for each age that both reached, ascending.
    pub ages: Vec<AtConsensuses>,
    /// Whether most starts in some arm of the field are unknown, so that ages there count from first readings.
    pub field_ages_are_lower_bounds: bool,
    /// Ages that were asked for and are not compared, with the reason.
    pub left_out: Vec<AgeLeftOut>,
    /// One for each of `arms`.
    pub growth: Vec<GrowthScore>,
    /// Grave findings on arms of `arms` in the lab's data,
    pub grave_in_lab: Vec<String>,
    pub grave_in_field: Vec<String>,
}

/// An age that is not compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AgeLeftOut {
    /// Consensuses: hours of a relay's life.
    pub consensuses: f64,
    pub why: String,
}

/// Both sides at one age.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AtConsensuses {
    /// Consensuses of the lab, hours of the field.
    pub consensuses: f64,
    /// Kendall's tau-b of the arms that both sides have, ordered by their ratios to each side's control; `None` for fewer than
    /// two.
    pub tau_b: Option<f64>,
    pub pairs: u32,
    /// of which both sides order so many alike,
    pub pairs_alike: u32,
    /// and of which so many have the same level on one side or on both.
    pub pairs_tied: u32,
    /// The pairs that they order otherwise.
    pub unlike: Vec<UnlikePair>,
    /// Positions in [`Score::arms`] from least to most in the lab; those of the same level together.
    pub order_in_lab: Vec<Vec<usize>>,
    /// The same in the field.
    pub order_in_field: Vec<Vec<usize>>,
    /// One for each arm of [`Score::arms`] that both sides have at this age.
    pub arms: Vec<ArmScore>,
    /// The field's order and ratios with the services in their arms that an inference from memory leaves out; `None` where none is.
    pub as_listed: Option<AsListed>,
    /// Positions of those that are in no order: of one side they have no ratio to the control, for instance because they share
    /// no server with it.
    pub unordered: Vec<usize>,
    /// The others, by the side that has no level of them.
    pub without: Vec<WithoutLevel>,
}

/// The field with all services in the arms that list them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AsListed {
    pub order: Vec<Vec<usize>>,
    /// Positions in [`Score::arms`] with their ratio to the first, of those that have another one so.
    pub ratios: Vec<(usize, f64)>,
}

/// An arm that one side has no level of at an age.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct WithoutLevel {
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
    pub arm: usize,
    pub lab: Figure,
    pub field: Figure,
    /// Ratio in the lab over that in the field, with the interval that both intervals give; `None` for the arm that ratios are
    /// to.
    pub factor: Option<Estimate>,
}

/// An arm's memory on one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Geometric mean of the levels in bytes.
    pub level_bytes: u64,
    pub services: u32,
    /// of so many that belong to the arm.
    pub of: u32,
    /// In proportion to that of the first of [`Score::arms`]; `None` for itself.
    pub ratio: Option<Estimate>,
}

/// How an arm grows on both sides.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GrowthScore {
    pub arm: usize,
    /// Bytes for each consensus in the lab.
    pub lab_bytes_per_hour: Option<Estimate>,
    /// Consensuses that they are measured over: median over services.
    pub lab_hours: Option<f64>,
    /// Bytes an hour in the field.
    pub field_bytes_per_hour: Option<Estimate>,
    /// Hours that they are measured over: median over services.
    pub field_hours: Option<f64>,
    /// Lab over field; `None` where the field is not shown to grow, or its verdict is inconclusive.
    pub factor: Option<Estimate>,
    pub lab_verdict: Option<Verdict>,
    pub field_verdict: Option<Verdict>,
}

impl Score {
    /// Scores `lab` against `field`, at these numbers of consensuses (hours of life) or, without any, at the
    /// [`USUAL_AGES`] that both have. `by_hand` pairs arms by name, each as `LAB=FIELD`.
    pub fn of(lab: &Side, field: &Side, ages: &[f64], by_hand: &[String]) -> Result<Self, ScoreError> {
        let (pairs, alone) = pairs(lab, field, by_hand)?;
        let places: Vec<(usize, usize)> = pairs.iter().map(|(lab, field, _)| (*lab, *field)).collect();
        let as_listed = field.as_listed();
        let compared = Compared { lab, field, places: &places, as_listed: as_listed.as_ref() };
        let (ages, left_out) = compared.ages(ages)?;
        let named = |(lab_arm, field_arm, by): &(usize, usize, MatchedBy)| Partners {
            lab: lab.arms[*lab_arm].name.clone(),
            field: field.arms[*field_arm].name.clone(),
            by: *by,
            versions: partners::other_versions(&lab.arms[*lab_arm], &field.arms[*field_arm]),
            unread: partners::unread(&field.arms[*field_arm]).filter(|_| *by != MatchedBy::Hand),
            lab_left_out: lab.left_out(*lab_arm),
            field_left_out: field.left_out(*field_arm),
        };
        let control =
            |side: &Side| side.control().map_or_else(String::new, |arm| side.arms[arm].name.clone());
        Ok(Self {
            grave_in_lab: lab.grave(&places.iter().map(|place| place.0).collect::<Vec<_>>()),
            grave_in_field: field.grave(&places.iter().map(|place| place.1).collect::<Vec<_>>()),
            growth: (0..places.len()).map(|arm| compared.growth(arm)).collect(),
            arms: pairs.iter().map(named).collect(),
            lab_control: control(lab),
            field_control: control(field),
            alone,
            confidence_level: lab.analysis.settings.confidence_level,
            lab: lab.trials.clone(),
            field: field.trials[0].clone(),
            ages,
            field_ages_are_lower_bounds: field.analysis.ages_are_lower_bounds,
            left_out,
        })
    }
}

type Pair = (usize, usize, MatchedBy);

/// Positions of arms of one treatment, first the one that ratios are to, and who has no partner.
fn pairs(lab: &Side, field: &Side, by_hand: &[String]) -> Result<(Vec<Pair>, Vec<Alone>), ScoreError> {
    let found = partners::find(&lab.arms, &field.arms, by_hand)?;
    let alone = partners::alone(&lab.arms, &field.arms, &found);
    if found.len() < 2 {
        return Err(ScoreError::TooFewPartners { found: found.len(), alone });
    }
    let mut pairs: Vec<Pair> = found;
    let (of_lab, of_field) = (lab.control(), field.control());
    let of_both = pairs.iter().position(|pair| Some(pair.1) == of_field);
    let first = of_both.or_else(|| pairs.iter().position(|pair| Some(pair.0) == of_lab)).unwrap_or(0);
    pairs[..=first].rotate_right(1);
    Ok((pairs, alone))
}

/// For each level how many are below it. Levels that agree to nine digits are the same: rounding of their logarithms would
/// order them.
fn ranks(levels: &[f64]) -> Vec<usize> {
    let places: Vec<f64> = levels.iter().map(|level| (level.ln() * 1e9).round()).collect();
    places.iter().map(|place| places.iter().filter(|other| *other < place).count()).collect()
}

/// The arms of these ranks from least to most.
fn order(arms: &[usize], ranks: &[usize]) -> Vec<Vec<usize>> {
    let of = |rank| arms.iter().zip(ranks).filter(|(_, own)| **own == rank).map(|(arm, _)| *arm).collect();
    (0..arms.len()).map(of).filter(|arms: &Vec<usize>| !arms.is_empty()).collect()
}

/// Both sides with the positions of their partners, first those that ratios are to.
struct Compared<'a> {
    lab: &'a Side,
    field: &'a Side,
    places: &'a [(usize, usize)],
    /// The field's analysis with the services in their arms that an inference from memory leaves out, where there are any.
    as_listed: Option<&'a Analysis>,
}

impl Compared<'_> {
    fn ages(&self, asked: &[f64]) -> Result<(Vec<AtConsensuses>, Vec<AgeLeftOut>), ScoreError> {
        let mut ages = if asked.is_empty() { USUAL_AGES.to_vec() } else { asked.to_vec() };
        ages.sort_by(f64::total_cmp);
        ages.dedup();
        let (mut found, mut left_out) = (Vec::new(), Vec::new());
        for consensuses in ages {
            match self.at(consensuses) {
                Ok(at) => found.push(at),
                Err(why) => left_out.push(AgeLeftOut { consensuses, why }),
            }
        }
        // A short run or a short trial is compared at the age that both reached.
        if found.is_empty() && asked.is_empty() {
            let reached = |side: &Side| side.analysis.matched_age_seconds.map(|age| (age / HOUR).floor());
            let both = reached(self.lab).zip(reached(self.field)).map(|(lab, field)| lab.min(field));
            if let Some(consensuses) = both.filter(|hours| *hours >= 1.0) {
                match self.at(consensuses) {
                    Ok(at) => found.push(at),
                    Err(why) => left_out.push(AgeLeftOut { consensuses, why }),
                }
            }
        }
        if found.is_empty() {
            let told = |age: &AgeLeftOut| format!("{:.0} consensuses: {}", age.consensuses, age.why);
            return Err(ScoreError::NoAge { left_out: left_out.iter().map(told).collect() });
        }
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
        for (word, levels, side, arm) in
            [("lab", &lab, self.lab, of_lab), ("field", &field, self.field, of_field)]
        {
            if levels.arm(arm).is_none() {
                let oldest = hours_read(side, arm).map_or(0.0, |hours| hours.1);
                let why = match oldest >= consensuses {
                    true => "too few readings near that age".to_owned(),
                    false => format!("its oldest relay reached {:.0} h", oldest.floor()),
                };
                return Err(format!("{} of the {word} has no level there ({why})", side.arms[arm].name));
            }
        }
        let without = self.places.iter().enumerate().filter_map(|(arm, (l, f))| {
            let in_lab = lab.arm(*l).is_none();
            let hours = if in_lab { hours_read(self.lab, *l) } else { hours_read(self.field, *f) };
            (in_lab || field.arm(*f).is_none()).then_some(WithoutLevel { arm, in_lab, hours })
        });
        let without = without.collect();
        if both.len() < 2 {
            return Err("only one arm has a level there on both sides".to_owned());
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
        let ordered: Vec<(usize, f64, f64)> = both
            .iter()
            .filter_map(|(arm, ..)| {
                let (l, f) = self.places[*arm];
                Some((
                    *arm,
                    relative(&lab, l, [self.lab.control(), Some(of_lab)])?,
                    relative(&field, f, [self.field.control(), Some(of_field)])?,
                ))
            })
            .collect();
        let present: Vec<usize> = ordered.iter().map(|arm| arm.0).collect();
        let in_lab = ranks(&ordered.iter().map(|arm| arm.1).collect::<Vec<_>>());
        let in_field = ranks(&ordered.iter().map(|arm| arm.2).collect::<Vec<_>>());
        let numbers = |ranks: &[usize]| ranks.iter().map(|rank| *rank as f64).collect::<Vec<_>>();
        let alike = kendall(&numbers(&in_lab), &numbers(&in_field));
        Ok(AtConsensuses {
            consensuses,
            tau_b: alike.and_then(|alike| alike.tau_b),
            pairs: (ordered.len() * ordered.len().saturating_sub(1) / 2) as u32,
            pairs_alike: alike.map_or(0, |alike| alike.concordant as u32),
            pairs_tied: alike.map_or(0, |alike| alike.tied as u32),
            unlike: self.unlike(&present, (&in_lab, &in_field), (&lab, &field)),
            as_listed: self.as_listed.map(|analysis| self.listed(analysis, &field, &present, consensuses)),
            order_in_lab: order(&present, &in_lab),
            order_in_field: order(&present, &in_field),
            arms: arms.collect(),
            unordered: both.iter().map(|arm| arm.0).filter(|arm| !present.contains(arm)).collect(),
            without,
        })
    }

    /// The field by another analysis: order and ratios of `arms`, beside those that it has at an age.
    fn listed(
        &self,
        analysis: &Analysis,
        field: &LevelsAt<'_>,
        arms: &[usize],
        consensuses: f64,
    ) -> AsListed {
        let all = LevelsAt::of(&self.field.fleet, analysis, consensuses * HOUR);
        let first = self.places[0].1;
        let known: Vec<(usize, f64)> = arms
            .iter()
            .filter_map(|arm| {
                Some((*arm, relative(&all, self.places[*arm].1, [self.field.control(), Some(first)])?))
            })
            .collect();
        let value = |levels: &LevelsAt<'_>, arm| Some(levels.ratio(arm, first)?.estimate.value);
        let ratio = |arm: &usize| {
            let place = self.places[*arm].1;
            let own = value(&all, place).filter(|_| place != first)?;
            (Some(own) != value(field, place)).then_some((*arm, own))
        };
        let present: Vec<usize> = known.iter().map(|arm| arm.0).collect();
        AsListed {
            order: order(&present, &ranks(&known.iter().map(|arm| arm.1).collect::<Vec<_>>())),
            ratios: arms.iter().filter_map(ratio).collect(),
        }
    }

    /// Of `arms`, with their ranks and levels in lab and field, the pairs that both order otherwise.
    fn unlike(
        &self,
        arms: &[usize],
        (in_lab, in_field): (&[usize], &[usize]),
        (lab, field): (&LevelsAt<'_>, &LevelsAt<'_>),
    ) -> Vec<UnlikePair> {
        let turned =
            |less: usize, more: usize| in_field[less] < in_field[more] && in_lab[less] > in_lab[more];
        let pair = |(less, more): (usize, usize)| {
            let (less, more) = (arms[less], arms[more]);
            let (under, over) = (self.places[less], self.places[more]);
            let (lab, field) = (lab.ratio(under.0, over.0), field.ratio(under.1, over.1));
            UnlikePair {
                less,
                more,
                field_separates: separates(field.as_ref()),
                lab_separates: separates(lab.as_ref()),
                field_ratio: field.map(|ratio| ratio.estimate),
                lab_ratio: lab.map(|ratio| ratio.estimate),
            }
        };
        let all = (0..arms.len()).flat_map(|less| (0..arms.len()).map(move |more| (less, more)));
        all.filter(|(less, more)| turned(*less, *more)).map(pair).collect()
    }

    fn growth(&self, arm: usize) -> GrowthScore {
        let (lab, field) = self.places[arm];
        let (lab, field) = (&self.lab.analysis.arms[lab], &self.field.analysis.arms[field]);
        let rate = |growth: &Growth| per_hour(growth.bytes_per_day);
        let (in_lab, in_field) = (lab.growth.as_ref().map(rate), field.growth.as_ref().map(rate));
        // Of a verdict that is inconclusive growth may be that of a relay that still fills its caches.
        let tells = |verdict: &Option<Verdict>| {
            verdict.as_ref().is_some_and(|verdict| !matches!(verdict, Verdict::Inconclusive { .. }))
        };
        let grows = |rate: &Estimate| rate.low.is_some_and(|low| low > 0.0) && tells(&field.verdict);
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

/// By what an arm is ordered: its ratio to the first of `controls` that has a level, within their blocks, as arms need not be in
/// the same ones.
fn relative(levels: &LevelsAt<'_>, arm: usize, controls: [Option<usize>; 2]) -> Option<f64> {
    let control = controls.into_iter().flatten().find(|control| levels.arm(*control).is_some())?;
    if arm == control { Some(1.0) } else { Some(levels.ratio(arm, control)?.estimate.value) }
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

/// One estimate over another, as [`quotient`] has it.
fn factor(over: Estimate, under: Estimate) -> Option<Estimate> {
    let bounded = |estimate: Estimate| (estimate.value, estimate.low, estimate.high);
    quotient(bounded(over), bounded(under)).map(|(value, low, high)| Estimate { value, low, high })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_that_agree_but_for_rounding_have_no_order() {
        let same = [0.1 + 0.2, 0.3, 0.2, 0.300_001];
        assert_eq!(ranks(&same), [1, 1, 0, 3]);
        assert_eq!(order(&[4, 5, 6, 7], &ranks(&same)), [vec![6], vec![4, 5], vec![7]]);
    }
}
