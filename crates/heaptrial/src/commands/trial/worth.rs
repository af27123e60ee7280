//! What an arm is worth to the services of its trial, and what it costs them.

use heaptrial_evaluate::analysis::{Estimate, RatioToControl};
use heaptrial_evaluate::judgement::Judgement;
use heaptrial_fleet::rollout::{Savings, Verdict, savings};
use heaptrial_model::units;
use heaptrial_store::Store;

use crate::commands::rollout::mitigations;
use crate::exit::Failure;
use crate::output::{Table, interval};

pub(super) struct Worth {
    pub(super) hosts: Vec<Savings>,
    pub(super) cpu: Option<RatioToControl>,
}

impl Worth {
    /// By the readings of the trial.
    pub(super) fn of(store: &Store, judgement: &Judgement, verdict: &Verdict) -> Result<Self, Failure> {
        let rows = &judgement.rows;
        let ratios = judgement.analysis.arms.iter().zip(&rows.arms).map(|(result, record)| {
            let figures = result.as_treated.as_ref().unwrap_or(&result.as_assigned);
            match record.arm.control {
                true => Some(Estimate::bare(1.0)),
                false => figures.ratio.as_ref().map(|ratio| ratio.estimate),
            }
        });
        let ratios: Vec<Option<Estimate>> = ratios.collect();
        let arm = rows.arms.iter().position(|record| record.arm.name == verdict.arm.name).unwrap_or_default();
        Ok(Self { hosts: savings(&judgement.fleet, arm, &ratios), cpu: judgement.cpu_ratio(store, arm)? })
    }

    /// For people; empty where there is no ratio to go by.
    pub(super) fn text(&self, verdict: &Verdict) -> String {
        let Some(all) = self.hosts.last() else { return String::new() };
        let heads = ["HOST", "SERVICES", "NOW", &verdict.control, &verdict.arm.name, "FREED"];
        let mut table = Table::new(&heads);
        for found in &self.hosts {
            let host = found.host.as_deref().unwrap_or("all");
            let [now, control, arm] =
                [found.now_bytes, found.control_bytes, found.arm_bytes].map(units::memory);
            let freed = signed(found.freed_bytes) + &interval(found.freed_interval, signed);
            table.row(&[&host, &found.services, &now, &control, &arm, &freed]);
        }
        format!("\n{table}\nIt costs {}.", self.costs(verdict, all))
    }

    fn costs(&self, verdict: &Verdict, all: &Savings) -> String {
        let cpu = match &self.cpu {
            Some(RatioToControl { estimate, .. }) => {
                let interval = interval(estimate.interval(), |end| format!("{end:.2}"));
                format!("{:.2}{interval} of the processor time of {}", estimate.value, verdict.control)
            }
            None => "processor time that is not known".to_owned(),
        };
        let restarts = format!("a restart of each of {}", units::counted(all.services as usize, "service"));
        let mut costs = vec![restarts, cpu];
        if let Some(to) = &verdict.arm.treatment.allocator {
            costs.extend(mitigations::warnings(verdict.control_allocator.as_slice(), to));
        }
        costs.join("; ")
    }
}

fn signed(bytes: f64) -> String {
    format!("{}{}", if bytes < 0.0 { "-" } else { "" }, units::memory(bytes.abs()))
}
