//! How much of each measure an arm did, in proportion to the control.

use heaptrial_stats::{IntervalMethod, geometric_mean};

use crate::analysis::age::Ages;
use crate::analysis::figures;
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{
    MeasureResult, RatioToControl, ServiceResult, ServiceWork, Settings, WorkStanding,
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

    /// The standing by all measures: one that is clearly less decides; one that is not known leaves the whole unknown. A measure by
    /// which the control did nothing decides nothing.
    pub(super) fn together(&self, measures: &[MeasureResult]) -> WorkStanding {
        let control = self.control();
        let counts = |measure: &&MeasureResult| {
            control.is_none_or(|control| {
                !self.is_known(control, &measure.name) || self.does(control, &measure.name)
            })
        };
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

    fn control(&self) -> Option<usize> {
        self.fleet.arms.iter().position(|arm| arm.control)
    }

    fn of(&self, index: usize, name: &str) -> Option<&ServiceWork> {
        self.services[index].work.iter().find(|own| own.measure == name)
    }

    fn known(&self, arm: usize, name: &str) -> Vec<&ServiceWork> {
        self.members[arm].iter().filter_map(|index| self.of(*index, name)).collect()
    }

    fn is_known(&self, arm: usize, name: &str) -> bool {
        let known = self.known(arm, name).len() as f64;
        known > 0.0 && known >= KNOWN_SHARE * self.members[arm].len() as f64
    }

    /// Whether some service of an arm did something.
    fn does(&self, arm: usize, name: &str) -> bool {
        self.known(arm, name).iter().any(|work| work.amount > 0.0)
    }

    fn measure(&self, name: &str, arm: usize) -> MeasureResult {
        let own = self.known(arm, name);
        let control = self.control().filter(|control| *control != arm);
        let usual = control.and_then(|control| mean_amount(&self.known(control, name)));
        let amount = |index: usize| match self.of(index, name)?.amount {
            // Nothing has no logarithm.
            amount if amount <= 0.0 => usual.map(|usual| LEAST_SHARE * usual),
            amount => Some(amount),
        };
        let ratio = usual.and_then(|_| self.ratio(control?, arm, &amount));
        let memory = figures::compared(self.ages, control.unwrap_or(arm), arm);
        // Work that failed costs memory as well: its memory is by the unit of what was done only.
        let memory_for_each = |index: usize| {
            let counts =
                |work: &&ServiceWork| work.tried.is_none() && !work.less_is_better && work.amount > 0.0;
            let work = self.of(index, name).filter(counts)?;
            Some(memory(&self.services[index])? / work.amount)
        };
        let cpu = |index: usize| self.of(index, name)?.cpu_seconds_for_each;
        let faults = |index: usize| self.of(index, name)?.page_faults_for_each;
        let to_control = |value: &dyn Fn(usize) -> Option<f64>| self.ratio(control?, arm, value);
        let mean = |value: &dyn Fn(usize) -> Option<f64>| {
            let values = self.members[arm].iter().filter_map(|index| value(*index));
            geometric_mean(&values.filter(|value| *value > 0.0).collect::<Vec<_>>())
        };
        MeasureResult {
            name: name.to_owned(),
            services: own.len() as u32,
            of: self.members[arm].len() as u32,
            idle: own.iter().filter(|work| work.amount <= 0.0).count() as u32,
            amount: mean_amount(&own),
            total: own.iter().map(|work| work.counted).sum(),
            tried: tried(&own),
            memory_for_each: mean(&memory_for_each),
            memory_ratio: to_control(&memory_for_each),
            less_is_better: self.less_is_better(name),
            cpu_seconds_for_each: mean(&cpu),
            cpu_ratio: to_control(&cpu),
            page_faults_for_each: mean(&faults),
            standing: self.standing(name, arm, control, ratio.as_ref()),
            ratio,
        }
    }

    fn less_is_better(&self, name: &str) -> bool {
        let all = self.members.iter().flatten();
        all.filter_map(|index| self.of(*index, name)).any(|work| work.less_is_better)
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
    ) -> WorkStanding {
        if !self.is_known(arm, name) {
            return WorkStanding::Unknown;
        }
        let Some(control) = control else { return WorkStanding::DoesItsWork };
        if !self.is_known(control, name) || !self.does(control, name) {
            return WorkStanding::Unknown;
        }
        if !self.does(arm, name) {
            return WorkStanding::ClearlyLess;
        }
        let Some(ratio) = ratio else { return WorkStanding::Unknown };
        let of_work = if self.less_is_better(name) { ratio.estimate.inverse() } else { ratio.estimate };
        let (margin, half) = (self.settings.work_margin, self.settings.work_half);
        // Few services have a wide interval, or none.
        let few = ratio.method != IntervalMethod::Permutation.as_str();
        let does_its_work = of_work.value >= margin && of_work.low.is_none_or(|low| low >= half);
        if of_work.high.is_some_and(|high| high < margin) || few && of_work.value < half {
            WorkStanding::ClearlyLess
        } else if does_its_work {
            WorkStanding::DoesItsWork
        } else {
            WorkStanding::Unknown
        }
    }
}

/// Over the services that did something.
fn mean_amount(of: &[&ServiceWork]) -> Option<f64> {
    let amounts = of.iter().map(|work| work.amount).filter(|amount| *amount > 0.0);
    geometric_mean(&amounts.collect::<Vec<_>>())
}

/// What was tried, where failures are counted.
fn tried(of: &[&ServiceWork]) -> Option<f64> {
    let all: Vec<f64> = of.iter().filter_map(|work| work.tried).collect();
    (!all.is_empty()).then(|| all.iter().sum())
}
