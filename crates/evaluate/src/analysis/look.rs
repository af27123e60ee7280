//! An analysis of a running trial at a time fixed in advance.

use heaptrial_stats::{IntervalMethod, holm, student_p_value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::analysis::figures;
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{Analysis, Estimate, RatioToControl, Settings};
use crate::analysis::procedure::analyse;

/// Arms whose memory is shown to be within this factor of the control's need the same.
const SAME: f64 = 1.1;

#[derive(Debug, Clone, PartialEq)]
pub struct Look {
    /// The analysis at the look's own confidence level.
    pub analysis: Analysis,
    /// One for each arm of the fleet.
    pub arms: Vec<LookArm>,
    pub decision: Decision,
}

/// Where an arm stands at a look.
#[derive(Debug, Clone, PartialEq)]
pub struct LookArm {
    pub standing: LookStanding,
    /// p-value adjusted for the number of arms (Holm), to be compared with the look's error.
    pub p_value_adjusted: Option<f64>,
    /// Whether that p-value assumes normality of the logarithms (Student's t): there are too few assignments for a
    /// permutation test at the look's error for so many arms.
    pub assumes_normality: bool,
}

/// Where an arm stands to the control.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LookStanding {
    /// It is the control, or compared to nothing.
    #[default]
    NotCompared,
    /// It is shown to need less.
    Less,
    /// It is shown to need more.
    More,
    /// Shown at the last look to need the same, within 10%.
    Same,
    /// No difference from the control is shown.
    Open,
}

/// What follows from a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Some arm is shown to differ from the control, at this look or an earlier one.
    Difference,
    /// At the last look every arm is shown to need the same as the control, within 10%.
    NoDifference,
    /// Neither a difference nor its absence is shown.
    Inconclusive,
}

/// Looks at a fleet as it is: with `alpha` as the error of this look over all arms, `last` if it is the last one, and
/// the standing that arms had at the look before (empty at the first). What was shown once stays shown: the errors of
/// all looks together are what a trial may err.
///
/// An arm differs from the control where its p-value, adjusted for the number of arms (Holm), is at most `alpha`. The
/// test is that of the assignment within blocks; where a block has so few assignments that it could not reject at
/// `alpha` over the number of arms, Student's t on the logarithms.
pub fn look(fleet: &Fleet, settings: &Settings, alpha: f64, last: bool, before: &[LookStanding]) -> Look {
    let settings = Settings { confidence_level: 1.0 - alpha, ..*settings };
    let analysis = analyse(fleet, &settings);
    let control = fleet.control();
    let is_compared = |arm: usize| Some(arm) != control;
    let compared = (0..fleet.arms.len()).filter(|arm| is_compared(*arm)).count().max(1);
    // For as many arms at once as there are.
    let together = Settings { confidence_level: 1.0 - alpha / compared as f64, ..settings };
    // The ratio to the control of each arm and the p-value of no difference.
    let test = |arm: usize| {
        let control = control.filter(|_| is_compared(arm))?;
        let memory = figures::memory(fleet, &analysis.services, control, arm);
        let (of_control, own) = (analysis.members(control), analysis.members(arm));
        let ratio = figures::ratio_of(fleet, &together, &memory, &of_control, &own)?;
        let by_student = || student_p_value(&figures::blocks(fleet, &memory, &of_control, &own));
        let p_value = ratio.p_value.or_else(by_student);
        Some((ratio, p_value))
    };
    let tests: Vec<Option<(RatioToControl, Option<f64>)>> = (0..fleet.arms.len()).map(test).collect();
    let adjusted = holm(&tests.iter().map(|test| test.as_ref()?.1).collect::<Vec<_>>());
    let arms: Vec<LookArm> = (0..fleet.arms.len())
        .map(|arm| {
            let ratio = tests[arm].as_ref().map(|test| &test.0);
            let standing = match before.get(arm) {
                _ if !is_compared(arm) => LookStanding::NotCompared,
                Some(shown @ (LookStanding::Less | LookStanding::More)) => *shown,
                _ => ratio.map_or(LookStanding::Open, |ratio| {
                    standing(&ratio.estimate, adjusted[arm].is_some_and(|p| p <= alpha), last)
                }),
            };
            LookArm {
                standing,
                p_value_adjusted: adjusted[arm],
                assumes_normality: ratio
                    .is_some_and(|ratio| ratio.method != IntervalMethod::Permutation.as_str()),
            }
        })
        .collect();
    Look { decision: decision(&arms), analysis, arms }
}

/// Where an arm stands whose ratio has an interval that holds for all arms at once.
fn standing(ratio: &Estimate, differs: bool, last: bool) -> LookStanding {
    let same = |(low, high): (f64, f64)| low >= 1.0 / SAME && high <= SAME;
    match differs {
        true if ratio.value < 1.0 => LookStanding::Less,
        true => LookStanding::More,
        false if last && ratio.interval().is_some_and(same) => LookStanding::Same,
        false => LookStanding::Open,
    }
}

fn decision(arms: &[LookArm]) -> Decision {
    let mut compared = arms.iter().map(|arm| arm.standing).filter(|s| *s != LookStanding::NotCompared);
    let some = |wanted: &[LookStanding]| arms.iter().any(|arm| wanted.contains(&arm.standing));
    if some(&[LookStanding::Less, LookStanding::More]) {
        Decision::Difference
    } else if some(&[LookStanding::Same]) && compared.all(|standing| standing == LookStanding::Same) {
        Decision::NoDifference
    } else {
        Decision::Inconclusive
    }
}
