//! A lab run of relays against a trial in the field.
//!
//! A relay gets one consensus an hour, so the k-th consensus of the lab is compared with the k-th hour of the field's relays:
//! the order of the arms, each arm's ratio to one of them, and its growth. Both sides come from the
//! one procedure with the same settings.

mod side;

use std::collections::BTreeMap;

use crate::analysis::{ArmAt, Estimate, LevelsAt, Verdict};
use heaptrial_model::units::HOUR;
use heaptrial_model::{AllocatorSpec, Arm, Classified, ErrorClass, FAMILIES};
use heaptrial_stats::{kendall, quotient};
use serde::{Deserialize, Serialize};

pub use self::side::{Scored, Side};
use crate::judgement::JudgementError;

/// Consensuses at which both sides are compared by default: ends of the first, third and fifth day.
pub const USUAL_AGES: [f64; 3] = [24.0, 72.0, 120.0];

/// A lab against the field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score {
    /// Its runs, scored as repeats of one.
    pub lab: Vec<Scored>,
    pub field: Scored,
    /// Arms of one treatment. All ratios are to the first: the field's control, else the lab's, else any.
    pub arms: Vec<Partners>,
    /// Arms of the lab without a partner.
    pub only_in_lab: Vec<String>,
    pub only_in_field: Vec<String>,
    pub ages: Vec<AtConsensuses>,
    /// Ages that are not compared, in consensuses, with the reason.
    pub not_compared: Vec<(f64, String)>,
    /// One for each of `arms`.
    pub growth: Vec<GrowthScore>,
    /// Whether most starts in some arm of the field are unknown, so that ages there count from first readings.
    pub field_ages_are_lower_bounds: bool,
    /// Grave findings on `arms`, in words.
    pub findings: Vec<String>,
}

/// An arm of the lab and the same one of the field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Partners {
    pub lab: String,
    pub field: String,
}

/// Both sides at one age.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AtConsensuses {
    /// Consensuses of the lab, hours of the field.
    pub consensuses: f64,
    /// Kendall's tau-b of the arms' ratios on both sides.
    pub tau_b: Option<f64>,
    /// Pairs of arms with a ratio on both sides,
    pub pairs: u32,
    /// of which both sides order so many alike,
    pub pairs_alike: u32,
    /// and of which so many have the same level on one side or on both.
    pub pairs_tied: u32,
    /// Arms with levels on both sides, by their ratios in the lab.
    pub arms: Vec<ArmScore>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmScore {
    pub arm: usize,
    pub lab: Figure,
    pub field: Figure,
    /// Ratio in the lab over that in the field.
    pub factor: Option<Estimate>,
}

/// An arm's memory on one side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Geometric mean of the levels in bytes.
    pub level_bytes: u64,
    pub services: u32,
    /// Services of the arm, with a level there or without.
    pub of: u32,
    /// To the first of [`Score::arms`], within repeats of the lab and servers of the field; `None` for itself, and for an arm
    /// that shares none with it.
    pub ratio: Option<Estimate>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GrowthScore {
    pub lab_bytes_per_hour: Option<Estimate>,
    pub field_bytes_per_hour: Option<Estimate>,
    /// Lab over field; `None` where the field is not shown to grow, or its verdict is inconclusive.
    pub factor: Option<Estimate>,
    pub lab_verdict: Option<Verdict>,
    pub field_verdict: Option<Verdict>,
}

#[derive(Debug, thiserror::Error)]
pub enum ScoreError {
    #[error(transparent)]
    Judgement(#[from] JudgementError),
    /// A match that names no arms, or one twice.
    #[error("--match {0}")]
    Match(String),
    #[error("{0}")]
    Refused(String),
}

impl Classified for ScoreError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Judgement(error) => error.class(),
            Self::Match(_) => ErrorClass::Usage,
            Self::Refused(_) => ErrorClass::Refused,
        }
    }
}

impl Score {
    /// Scores `lab` against `field`, at these numbers of consensuses or, without any, at the [`USUAL_AGES`] that both have.
    /// Arms of equal specs are one treatment; `by_hand` pairs others by name, each as `LAB=FIELD`.
    pub fn of(lab: &Side, field: &Side, ages: &[f64], by_hand: &[String]) -> Result<Self, ScoreError> {
        let places = partners(lab, field, by_hand)?;
        let name = |side: &Side, arm: usize| side.arms[arm].name.clone();
        let rest = |side: &Side, taken: Vec<usize>| -> Vec<String> {
            (0..side.arms.len()).filter(|arm| !taken.contains(arm)).map(|arm| name(side, arm)).collect()
        };
        let of_lab: Vec<usize> = places.iter().map(|place| place.0).collect();
        let of_field: Vec<usize> = places.iter().map(|place| place.1).collect();
        let only_in_lab = rest(lab, of_lab.clone());
        let only_in_field = rest(field, of_field.clone());
        if places.len() < 2 {
            return Err(ScoreError::Refused(format!(
                "{} of the arms have the same allocator, version and settings in lab and field, and a score needs two: \
                 --match LAB=FIELD pairs arms by name. In the lab: {}. In the field: {}.",
                places.len(),
                only_in_lab.join(", "),
                only_in_field.join(", ")
            )));
        }
        let (ages, not_compared) = at_ages(lab, field, &places, ages)?;
        Ok(Self {
            lab: lab.trials.clone(),
            field: field.trials[0].clone(),
            arms: places
                .iter()
                .map(|(l, f)| Partners { lab: name(lab, *l), field: name(field, *f) })
                .collect(),
            only_in_lab,
            only_in_field,
            ages,
            not_compared,
            growth: places.iter().map(|(l, f)| growth(lab, *l, field, *f)).collect(),
            field_ages_are_lower_bounds: field.analysis.ages_are_lower_bounds,
            findings: lab.grave("lab", &of_lab).into_iter().chain(field.grave("field", &of_field)).collect(),
        })
    }
}

/// Positions of partners in lab and field, first the pair that ratios are to.
fn partners(lab: &Side, field: &Side, by_hand: &[String]) -> Result<Vec<(usize, usize)>, ScoreError> {
    let mut found: BTreeMap<usize, usize> = BTreeMap::new();
    for text in by_hand {
        let named = |(one, other): (&str, &str)| {
            let at = |arms: &[Arm], name: &str| arms.iter().position(|arm| arm.name == name);
            Some((at(&lab.arms, one)?, at(&field.arms, other)?))
        };
        // Names of arms may have an equals sign themselves.
        let mut splits = text.match_indices('=').map(|(at, _)| (&text[..at], &text[at + 1..]));
        let (of_lab, of_field) = splits.find_map(named).ok_or_else(|| {
            let names =
                |side: &Side| side.arms.iter().map(|arm| arm.name.clone()).collect::<Vec<_>>().join(", ");
            ScoreError::Match(format!(
                "{text}: it names no arm of the lab ({}) and one of the field ({})",
                names(lab),
                names(field)
            ))
        })?;
        if found.values().any(|known| *known == of_field) || found.insert(of_lab, of_field).is_some() {
            return Err(ScoreError::Match(format!("{text}: each arm can be matched once")));
        }
    }
    let of_spec = |side: &Side, spec: &AllocatorSpec| -> Vec<usize> {
        let is_same = |arm: &usize| spec_of(&side.arms[*arm]).is_some_and(|own| own.is_same(spec));
        (0..side.arms.len()).filter(is_same).collect()
    };
    for (at, arm) in lab.arms.iter().enumerate() {
        let Some(spec) = spec_of(arm).filter(|_| !found.contains_key(&at)) else { continue };
        if let ([_], [partner]) = (&of_spec(lab, &spec)[..], &of_spec(field, &spec)[..]) {
            if !found.values().any(|known| known == partner) {
                found.insert(at, *partner);
            }
        }
    }
    let mut pairs: Vec<(usize, usize)> = found.into_iter().collect();
    let of_control =
        |pair: &(usize, usize)| (Some(pair.1) != field.fleet.control(), Some(pair.0) != lab.fleet.control());
    if let Some(first) = (0..pairs.len()).min_by_key(|at| of_control(&pairs[*at])) {
        pairs[..=first].rotate_right(1);
    }
    Ok(pairs)
}

/// The allocator of an arm; of an import it is the arm's name.
fn spec_of(arm: &Arm) -> Option<AllocatorSpec> {
    let by_name =
        || arm.name.parse().ok().filter(|spec: &AllocatorSpec| FAMILIES.contains(&spec.family.as_str()));
    arm.treatment.allocator.clone().or_else(by_name)
}

type Ages = (Vec<AtConsensuses>, Vec<(f64, String)>);

fn at_ages(lab: &Side, field: &Side, places: &[(usize, usize)], asked: &[f64]) -> Result<Ages, ScoreError> {
    let mut ages = if asked.is_empty() { USUAL_AGES.to_vec() } else { asked.to_vec() };
    ages.sort_by(f64::total_cmp);
    ages.dedup();
    let (mut found, mut not_compared) = (Vec::new(), Vec::new());
    let mut compare =
        |consensuses: f64, found: &mut Vec<AtConsensuses>| match at(lab, field, places, consensuses) {
            Ok(at) => found.push(at),
            Err(why) => not_compared.push((consensuses, why)),
        };
    ages.into_iter().for_each(|age| compare(age, &mut found));
    // A short run or a short trial is compared at the age that both reached.
    if found.is_empty() && asked.is_empty() {
        let reached = |side: &Side| side.analysis.matched_age_seconds.map(|age| (age / HOUR).floor());
        let both = reached(lab).zip(reached(field)).map(|(lab, field)| lab.min(field));
        both.filter(|hours| *hours >= 1.0).into_iter().for_each(|age| compare(age, &mut found));
    }
    if found.is_empty() {
        let why: Vec<String> =
            not_compared.iter().map(|(age, why)| format!("{age:.0} consensuses: {why}")).collect();
        return Err(ScoreError::Refused(format!("there is no age to compare at: {}", why.join("; "))));
    }
    Ok((found, not_compared))
}

/// Both sides at an age, or why not.
fn at(
    lab: &Side,
    field: &Side,
    places: &[(usize, usize)],
    consensuses: f64,
) -> Result<AtConsensuses, String> {
    let in_lab = LevelsAt::of(&lab.fleet, &lab.analysis, consensuses * HOUR);
    let in_field = LevelsAt::of(&field.fleet, &field.analysis, consensuses * HOUR);
    let (lab_first, field_first) = places[0];
    for (word, levels, side, arm) in
        [("lab", &in_lab, lab, lab_first), ("field", &in_field, field, field_first)]
    {
        if levels.arm(arm).is_none() {
            return Err(format!("{} of the {word} has too few readings near that age", side.arms[arm].name));
        }
    }
    let ratio = |levels: &LevelsAt<'_>, arm: usize, first: usize| {
        levels.ratio(arm, first).map(|ratio| ratio.estimate).filter(|_| arm != first)
    };
    let mut arms: Vec<ArmScore> = (0..places.len())
        .filter_map(|arm| {
            let (l, f) = places[arm];
            let own = figure(&in_lab.arm(l)?, ratio(&in_lab, l, lab_first));
            let other = figure(&in_field.arm(f)?, ratio(&in_field, f, field_first));
            let factor = own.ratio.zip(other.ratio).and_then(|(a, b)| factor(a, b));
            Some(ArmScore { arm, factor, lab: own, field: other })
        })
        .collect();
    if arms.len() < 2 {
        return Err("only one arm has a level there on both sides".to_owned());
    }
    // To nine digits: rounding of logarithms makes no order.
    let place = |arm: usize, figure: &Figure| match figure.ratio {
        _ if arm == 0 => Some(0.0),
        ratio => ratio.map(|ratio| (ratio.value.ln() * 1e9).round()),
    };
    let ordered =
        arms.iter().filter_map(|one| Some((place(one.arm, &one.lab)?, place(one.arm, &one.field)?)));
    let (of_lab, of_field): (Vec<f64>, Vec<f64>) = ordered.unzip();
    let alike = kendall(&of_lab, &of_field);
    arms.sort_by(|a, b| {
        let own = |one: &ArmScore| place(one.arm, &one.lab).unwrap_or(f64::INFINITY);
        own(a).total_cmp(&own(b))
    });
    Ok(AtConsensuses {
        consensuses,
        tau_b: alike.and_then(|alike| alike.tau_b),
        pairs: (of_lab.len() * of_lab.len().saturating_sub(1) / 2) as u32,
        pairs_alike: alike.map_or(0, |alike| alike.concordant as u32),
        pairs_tied: alike.map_or(0, |alike| alike.tied as u32),
        arms,
    })
}

fn figure(at: &ArmAt, ratio: Option<Estimate>) -> Figure {
    Figure { level_bytes: at.level_bytes.round() as u64, services: at.services, of: at.of, ratio }
}

fn growth(lab: &Side, in_lab: usize, field: &Side, in_field: usize) -> GrowthScore {
    let (lab, field) = (&lab.analysis.arms[in_lab], &field.analysis.arms[in_field]);
    let per_hour = |per_day: Estimate| {
        let hours = |bytes: f64| bytes / 24.0;
        Estimate { value: hours(per_day.value), low: per_day.low.map(hours), high: per_day.high.map(hours) }
    };
    let of_lab = lab.growth.as_ref().map(|growth| per_hour(growth.bytes_per_day));
    let of_field = field.growth.as_ref().map(|growth| per_hour(growth.bytes_per_day));
    // While its verdict is inconclusive, a relay may still fill its caches.
    let is_clear =
        field.verdict.as_ref().is_some_and(|verdict| !matches!(verdict, Verdict::Inconclusive { .. }));
    let grows = |rate: &Estimate| is_clear && rate.low.is_some_and(|low| low > 0.0);
    GrowthScore {
        factor: of_lab.zip(of_field.filter(grows)).and_then(|(lab, field)| factor(lab, field)),
        lab_bytes_per_hour: of_lab,
        field_bytes_per_hour: of_field,
        lab_verdict: lab.verdict.clone(),
        field_verdict: field.verdict.clone(),
    }
}

/// One estimate over another, as [`quotient`] has it.
fn factor(over: Estimate, under: Estimate) -> Option<Estimate> {
    let bounded = |estimate: Estimate| (estimate.value, estimate.low, estimate.high);
    quotient(bounded(over), bounded(under)).map(|(value, low, high)| Estimate { value, low, high })
}
