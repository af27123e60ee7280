//! The figures of each arm of a lab run that a search compares within a block.

use crate::analysis::{FleetLife, ServiceWork};

use crate::judgement::Judgement;

/// What a search over settings knows of a service: natural logarithms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RunFigures {
    pub level_bytes: f64,
    pub level: f64,
    pub cpu: Option<f64>,
    /// Of the control's work over that of the service, by the measure in which it is worst: a latency 1.1 times the control's
    /// and a rate of 1/1.1 are both ln 1.1. `None` where the control did nothing, and where the service did
    /// nothing of what the control did.
    pub work: Option<f64>,
}

impl Judgement {
    /// The figures of the only service of the arm at `arm`, its work relative to that of the arm at `control`. Why there
    /// are none, if there are none.
    pub fn run_figures(&self, arm: usize, control: usize) -> Result<RunFigures, String> {
        let level_bytes = self.level_of_arm(arm)?;
        let index = self.service_of(arm).ok_or("it was not started")?;
        let cpu = self.services[index].cpu_seconds.filter(|seconds| *seconds > 0.0);
        let work = self.work_lost(index, self.service_of(control));
        Ok(RunFigures { level_bytes, level: level_bytes.ln(), cpu: cpu.map(f64::ln), work })
    }

    fn service_of(&self, arm: usize) -> Option<usize> {
        self.analysis.services.iter().position(|service| service.arms.contains(&arm))
    }

    fn work_lost(&self, service: usize, control: Option<usize>) -> Option<f64> {
        let work = |index: usize| self.analysis.services[index].work.as_slice();
        lost(work(control?), work(service))
    }

    /// The level of the only service of the arm at `arm`, in bytes; why there is none, if there is none.
    fn level_of_arm(&self, arm: usize) -> Result<f64, String> {
        let index = self.service_of(arm).ok_or("it was not started")?;
        if let Some(why) = &self.services[index].excluded {
            return Err(why.clone());
        }
        let life = self.fleet.services[index].current().ok_or("it has no readings")?;
        Ok(self.level_of(life).ok_or("it has no readings after warm-up")?)
    }

    /// The median from the end of warm-up to the age that all that count reached, in bytes. Unlike the level of an analysis it
    /// asks for no number of readings: noise is the search's business.
    fn level_of(&self, life: &FleetLife) -> Option<f64> {
        let counted =
            self.fleet.services.iter().zip(&self.services).filter(|(_, facts)| facts.excluded.is_none());
        let ages = counted.filter_map(|(service, _)| service.current()?.last_age());
        let age = ages.fold(f64::INFINITY, f64::min);
        let level = life.median_between(self.analysis.settings.level_from(age), age);
        level.filter(|bytes| *bytes > 0.0)
    }
}

/// The worst of what is missing of the work of a control; `None` where it did nothing, or where nothing of
/// one of its measures was done.
fn lost(control: &[ServiceWork], own: &[ServiceWork]) -> Option<f64> {
    let measures = control.iter().filter(|work| work.amount > 0.0).map(|work| {
        let own = own.iter().find(|own| own.measure == work.measure && own.amount > 0.0)?;
        let log = (work.amount / own.amount).ln();
        Some(if work.less_is_better { -log } else { log }).filter(|log| log.is_finite())
    });
    let all = measures.collect::<Option<Vec<f64>>>()?;
    all.into_iter().max_by(f64::total_cmp)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn did(measure: &str, amount: f64, less_is_better: bool) -> ServiceWork {
        ServiceWork { measure: measure.to_owned(), amount, less_is_better, ..ServiceWork::default() }
    }

    #[test]
    fn who_does_nothing_of_a_measure_has_no_figure_whatever_it_does_of_others() {
        let control = [did("pages", 100.0, false), did("latency", 2.0, true)];
        let slower = [did("pages", 100.0, false), did("latency", 2.5, true)];
        assert!((lost(&control, &slower).unwrap() - 1.25_f64.ln()).abs() < 1e-12);
        assert_eq!(lost(&control, &[did("pages", 0.0, false), did("latency", 1.0, true)]), None);
        assert_eq!(lost(&control, &control[..1]), None);
        assert_eq!(lost(&control, &control), Some(0.0));
        // What the control did not do either shows nothing.
        assert_eq!(lost(&[did("pages", 0.0, false)], &control), None);
        assert_eq!(
            lost(&[did("pages", 0.0, false), did("latency", 2.0, true)], &slower[1..]).map(f64::exp),
            Some(1.25)
        );
    }
}
