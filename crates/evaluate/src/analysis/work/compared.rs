//! How much of each measure an arm did, in proportion to the control.

use std::collections::BTreeMap;

use heaptrial_stats::geometric_mean;

use crate::analysis::age::Ages;
use crate::analysis::figures;
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{
    ControlWork, MeasureResult, RatioToControl, ServiceResult, ServiceWork, Settings, WorkReason,
    WorkStanding,
};

/// A service that does nothing has this share of what the control's do, so that it has a logarithm.
const LEAST_SHARE: f64 = 1e-3;
/// A measure is known of an arm if it is of this share of its services.
const KNOWN_SHARE: f64 = 0.5;

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
        let all = || self.members.iter().flatten().filter_map(|index| self.of(*index, name));
        let less_is_better = all().any(|work| work.less_is_better);
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
        // Little is told as it is; nothing has no logarithm.
        let amount_of = |work: &ServiceWork| if work.amount > 0.0 { work.amount } else { least };
        let ratio = compared
            .and_then(|control| self.ratio(control, arm, &|index| Some(amount_of(self.of(index, name)?))));
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
        let to_control =
            |value: &dyn Fn(usize) -> Option<f64>| other.and_then(|control| self.ratio(control, arm, value));
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
            memory_for_each: mean(&for_each),
            memory_ratio: to_control(&for_each),
            less_is_better,
            cpu_seconds_for_each: mean(&cpu),
            cpu_ratio: to_control(&cpu),
            page_faults_for_each: mean(&faults),
            page_faults_ratio: to_control(&faults),
            ratio,
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
        let (margin, half) = (self.settings.work_margin, self.settings.work_half);
        if !does(arm) {
            return (WorkStanding::ClearlyLess, WorkReason::NothingDone);
        }
        let Some(ratio) = ratio else {
            return (WorkStanding::Unknown, WorkReason::NotMeasured);
        };
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
