//! What an arm is worth to the services of its trial, and what it costs them.

use heaptrial_analysis::{FindingKind, RatioToControl};
use heaptrial_judgement::Judgement;
use heaptrial_model::{AllocatorSpec, units};
use heaptrial_rollout::{Compared, Verdict, Worth, Worths, worths};
use heaptrial_store::Store;
use serde_json::Value as Json;

use crate::commands::rollout::mitigations;
use crate::exit::Failure;
use crate::output::table;

/// What the arm is worth to the services of the trial, and what it costs them.
pub(super) struct Capacity {
    worths: Worths,
    cpu: Option<RatioToControl>,
}

impl Capacity {
    /// By the readings of the trial.
    pub(super) fn of(store: &Store, judgement: &Judgement, verdict: &Verdict) -> Result<Self, Failure> {
        let (rows, analysis, fleet) = (&judgement.rows, &judgement.analysis, &judgement.fleet);
        let arms: Vec<bool> = analysis
            .arms
            .iter()
            .zip(&rows.arms)
            .map(|(result, record)| {
                let figures = result.as_treated.as_ref().unwrap_or(&result.as_assigned);
                record.arm.control || figures.ratio.is_some()
            })
            .collect();
        let by_host = analysis.findings.iter().any(|finding| finding.kind == FindingKind::DiffersByHost);
        let arm = rows.arms.iter().position(|record| record.arm.name == verdict.arm.name).unwrap_or_default();
        Ok(Self {
            worths: worths(fleet, arm, Compared { arms: &arms, by_host }, &verdict.kinds),
            cpu: judgement.cpu_ratio(store, arm).map_err(Failure::failed)?,
        })
    }

    pub(super) fn json(&self) -> Json {
        serde_json::json!({
            "worth": self.worths.hosts,
            "not_read": self.worths.not_read,
            "unlike": self.worths.unlike,
            "cpu_ratio": self.cpu.as_ref().map(|ratio| ratio.estimate),
        })
    }

    /// For people; nothing where there is no ratio to go by. `from` is what the control runs.
    pub(super) fn text(&self, verdict: &Verdict, from: &[AllocatorSpec]) -> String {
        let in_no_sum = in_no_sum(&self.worths, verdict);
        match self.worths.hosts.is_empty() {
            true => in_no_sum,
            false => format!(
                "\n{}\n{in_no_sum}It costs {}.",
                table(&rows_of(&self.worths.hosts, verdict)),
                costs(verdict, from, self)
            ),
        }
    }
}

/// Services that the sums are without, and why; a line for each reason.
fn in_no_sum(worths: &Worths, verdict: &Verdict) -> String {
    let told = |count: u32, why: String| match count {
        0 => String::new(),
        _ => format!("In no sum: {}, {why}.\n", units::counted(count as usize, "service")),
    };
    let not_read = "not read under the treatment of their arm at the end of the trial".to_owned();
    let unlike = format!(
        "of which it is not known what they would use under {} or {}: too few that are like them ran both",
        verdict.control, verdict.arm.name
    );
    told(worths.not_read, not_read) + &told(worths.unlike, unlike)
}

fn rows_of(worth: &[Worth], verdict: &Verdict) -> Vec<Vec<String>> {
    let heads = ["HOST", "SERVICES", "NOW", &verdict.control, &verdict.arm.name, "FREED"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let signed = |bytes: f64| format!("{}{}", if bytes < 0.0 { "-" } else { "" }, units::memory(bytes.abs()));
    for found in worth {
        let interval = found.freed_interval.map_or_else(
            || " (too few services for an interval)".to_owned(),
            |(least, most)| format!(" ({} to {})", signed(least), signed(most)),
        );
        rows.push(vec![
            found.host.clone().unwrap_or_else(|| "all".into()),
            found.services.to_string(),
            units::memory(found.now_bytes),
            units::memory(found.control_bytes),
            units::memory(found.arm_bytes),
            signed(found.freed_bytes) + &interval,
        ]);
    }
    rows
}

/// What it costs to get there.
fn costs(verdict: &Verdict, from: &[AllocatorSpec], capacity: &Capacity) -> String {
    let services = capacity.worths.hosts.last().map_or(0, |all| all.services as usize);
    let cpu = match &capacity.cpu {
        Some(ratio) => {
            let interval = ratio.estimate.interval();
            let interval =
                interval.map(|(low, high)| format!(" ({low:.2} to {high:.2})")).unwrap_or_default();
            format!("{:.2}{interval} of the processor time of {}", ratio.estimate.value, verdict.control)
        }
        None => "processor time that is not known".to_owned(),
    };
    let mut costs = vec![format!("a restart of each of {}", units::counted(services, "service")), cpu];
    if let Some(to) = &verdict.arm.treatment.allocator {
        costs.extend(mitigations::warnings(from, to));
    }
    costs.join("; ")
}
