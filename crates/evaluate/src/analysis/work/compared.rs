//! How much of each measure an arm did, and at what cost, in proportion to the control.

use heaptrial_stats::{IntervalMethod, geometric_mean};

use crate::analysis::data::Data;
use crate::analysis::figures;
use crate::analysis::outcome::{MeasureResult, RatioToControl, ServiceWork, WorkStanding};
use crate::analysis::thresholds::ENOUGH;

/// A service that does nothing has this share of what the control's do, so that it has a logarithm.
const LEAST_SHARE: f64 = 1e-3;
/// Less than this share of the control's work is clearly less where services are too few for an interval by permutation.
const CLEARLY_LESS: f64 = 0.5;

/// Arms whose work is compared.
pub(super) struct Compared<'a> {
    pub(super) data: Data<'a>,
    pub(super) members: &'a [Vec<usize>],
}

impl Compared<'_> {
    /// Every measure of the fleet, of an arm.
    pub(super) fn measures(&self, arm: usize) -> Vec<MeasureResult> {
        let mut names: Vec<(&str, bool)> = Vec::new();
        for own in self.members.iter().flatten().flat_map(|index| &self.data.services[*index].work) {
            match names.iter_mut().find(|known| known.0 == own.measure) {
                Some(known) => known.1 |= own.less_is_better,
                None => names.push((&own.measure, own.less_is_better)),
            }
        }
        names.iter().map(|(name, less_is_better)| self.measure(name, *less_is_better, arm)).collect()
    }

    /// The standing by all measures: one that is clearly less decides; one that is not known leaves the whole unknown. A measure by
    /// which the control did nothing decides nothing.
    pub(super) fn together(&self, measures: &[MeasureResult]) -> WorkStanding {
        let counts = |measure: &&MeasureResult| {
            let of_control = self.data.fleet.control().map(|control| self.known(control, &measure.name));
            of_control.is_none_or(|known| known.is_none_or(|known| does(&known)))
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

    fn of(&self, index: usize, name: &str) -> Option<&ServiceWork> {
        self.data.services[index].work.iter().find(|own| own.measure == name)
    }

    fn all(&self, arm: usize, name: &str) -> Vec<&ServiceWork> {
        self.members[arm].iter().filter_map(|index| self.of(*index, name)).collect()
    }

    /// The work of an arm's services; `None` where it is known of too few.
    fn known(&self, arm: usize, name: &str) -> Option<Vec<&ServiceWork>> {
        let all = self.all(arm, name);
        let enough = ENOUGH * self.members[arm].len() as f64;
        (!all.is_empty() && all.len() as f64 >= enough).then_some(all)
    }

    fn measure(&self, name: &str, less_is_better: bool, arm: usize) -> MeasureResult {
        let own = self.all(arm, name);
        let control = self.data.fleet.control().filter(|control| *control != arm);
        let usual = control.and_then(|control| mean_amount(&self.all(control, name)));
        let amount = |index: usize| match self.of(index, name)?.amount {
            // Nothing has no logarithm.
            amount if amount <= 0.0 => usual.map(|usual| LEAST_SHARE * usual),
            amount => Some(amount),
        };
        let Data { fleet, settings, services, .. } = self.data;
        let memory = figures::memory(fleet, services, control.unwrap_or(arm), arm);
        // Work that failed costs memory as well: its memory is by the unit of what was done only.
        let memory_for_each = |index: usize| {
            let counts = |work: &&ServiceWork| work.tried.is_none() && !less_is_better && work.amount > 0.0;
            Some(memory(index)? / self.of(index, name).filter(counts)?.amount)
        };
        let cpu = |index: usize| self.of(index, name)?.cpu_seconds_for_each;
        let faults = |index: usize| self.of(index, name)?.page_faults_for_each;
        let ratio = |value: &dyn Fn(usize) -> Option<f64>| {
            figures::ratio_of(fleet, settings, value, &self.members[control?], &self.members[arm])
        };
        let mean = |value: &dyn Fn(usize) -> Option<f64>| {
            let values = self.members[arm].iter().filter_map(|index| value(*index));
            geometric_mean(&values.filter(|value| *value > 0.0).collect::<Vec<_>>())
        };
        let of_amount = usual.and_then(|_| ratio(&amount));
        MeasureResult {
            name: name.to_owned(),
            services: own.len() as u32,
            of: self.members[arm].len() as u32,
            idle: own.iter().filter(|work| work.amount <= 0.0).count() as u32,
            amount: mean_amount(&own),
            total: own.iter().map(|work| work.counted).sum(),
            tried: tried(&own),
            memory_for_each: mean(&memory_for_each),
            memory_ratio: ratio(&memory_for_each),
            less_is_better,
            cpu_seconds_for_each: mean(&cpu),
            cpu_ratio: ratio(&cpu),
            page_faults_for_each: mean(&faults),
            standing: self.standing(name, less_is_better, (arm, control), of_amount.as_ref()),
            ratio: of_amount,
        }
    }

    fn standing(
        &self,
        name: &str,
        less_is_better: bool,
        (arm, control): (usize, Option<usize>),
        ratio: Option<&RatioToControl>,
    ) -> WorkStanding {
        let Some(own) = self.known(arm, name) else { return WorkStanding::Unknown };
        let Some(control) = control else { return WorkStanding::DoesItsWork };
        if !self.known(control, name).is_some_and(|known| does(&known)) {
            return WorkStanding::Unknown;
        }
        if !does(&own) {
            return WorkStanding::ClearlyLess;
        }
        let Some(ratio) = ratio else { return WorkStanding::Unknown };
        let of_work = if less_is_better { ratio.estimate.inverse() } else { ratio.estimate };
        let margin = self.data.settings.work_margin;
        // Few services have a wide interval, or none.
        let few = ratio.method != IntervalMethod::Permutation.as_str();
        let does_its_work = of_work.value >= margin && of_work.low.is_none_or(|low| low >= CLEARLY_LESS);
        if of_work.high.is_some_and(|high| high < margin) || few && of_work.value < CLEARLY_LESS {
            WorkStanding::ClearlyLess
        } else if does_its_work {
            WorkStanding::DoesItsWork
        } else {
            WorkStanding::Unknown
        }
    }
}

/// Whether some service did something.
fn does(of: &[&ServiceWork]) -> bool {
    of.iter().any(|work| work.amount > 0.0)
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
