//! What an arm is worth to the services of its trial, and what it costs them.

use heaptrial_analysis::{FindingKind, RatioToControl};
use heaptrial_judgement::Judgement;
use heaptrial_model::{AllocatorSpec, units};
use heaptrial_rollout::{Bound, Compared, Further, Verdict, WorstDay, Worth, Worths, worst_day, worths};
use heaptrial_store::Store;
use serde_json::Value as Json;

use super::verdict::hosts;
use crate::commands::rollout::mitigations;
use crate::exit::Failure;
use crate::output::table;

/// What the arm is worth to the services of the trial, and what it costs them.
pub(super) struct Capacity {
    worths: Worths,
    /// The kind of a further service, with its upper limit in bytes and the age of which that is.
    further: Option<(String, (f64, f64))>,
    worst_day: Option<WorstDay>,
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
        let hosts = hosts(judgement);
        let host_bytes = |name: Option<&str>| {
            let own = hosts.iter().find(|(host, _)| name.is_none_or(|name| name == host));
            own.map(|(_, facts)| facts.ram_bytes as f64)
        };
        let arm = rows.arms.iter().position(|record| record.arm.name == verdict.arm.name).unwrap_or_default();
        let worst_day = worst_day(fleet, arm);
        let further =
            Further { kinds: &verdict.kinds, worst_day: worst_day.as_ref(), host_bytes: &host_bytes };
        Ok(Self {
            worths: worths(fleet, arm, Compared { arms: &arms, by_host }, further),
            further: further.kind().and_then(|kind| Some((kind.name(), kind.upper()?))),
            worst_day,
            cpu: judgement.cpu_ratio(store, arm).map_err(Failure::failed)?,
        })
    }

    pub(super) fn json(&self) -> Json {
        serde_json::json!({
            "worth": self.worths.hosts,
            "not_read": self.worths.not_read,
            "unlike": self.worths.unlike,
            "further_bytes": self.further.as_ref().map(|(_, (bytes, _))| bytes),
            "worst_day": self.worst_day,
            "cpu_ratio": self.cpu.as_ref().map(|ratio| ratio.estimate),
        })
    }

    /// For people; nothing where there is no ratio to go by. `from` is what the control runs.
    pub(super) fn text(&self, verdict: &Verdict, from: &[AllocatorSpec]) -> String {
        let in_no_sum = in_no_sum(&self.worths, verdict);
        match self.worths.hosts.is_empty() {
            true => in_no_sum,
            false => format!(
                "\n{}\n{in_no_sum}{}\nIt costs {}.",
                table(&rows_of(&self.worths.hosts, verdict)),
                how_many(self, verdict),
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
    let heads = ["HOST", "SERVICES", "NOW", &verdict.control, &verdict.arm.name, "FREED", "FURTHER SERVICES"];
    let mut rows = vec![heads.map(str::to_owned).to_vec()];
    let signed = |bytes: f64| format!("{}{}", if bytes < 0.0 { "-" } else { "" }, units::memory(bytes.abs()));
    for found in worth {
        let interval = found.freed_interval.map_or_else(
            || " (too few services for an interval)".to_owned(),
            |(least, most)| format!(" ({} to {})", signed(least), signed(most)),
        );
        let bound = match found.bound {
            Some(Bound::HostMemory) => " (memory of the host)",
            Some(Bound::MemoryMax) => " (MemoryMax)",
            Some(Bound::Freed) | None => "",
        };
        rows.push(vec![
            found.host.clone().unwrap_or_else(|| "all".into()),
            found.services.to_string(),
            units::memory(found.now_bytes),
            units::memory(found.control_bytes),
            units::memory(found.arm_bytes),
            signed(found.freed_bytes) + &interval,
            found.further.map_or_else(|| "not known".into(), |further| format!("{further}{bound}")),
        ]);
    }
    rows
}

/// How the number of further services was got, or why there is none.
fn how_many(capacity: &Capacity, verdict: &Verdict) -> String {
    let least = |worth: &Worth| worth.freed_interval.map(|(least, _)| least);
    match capacity.worths.hosts.iter().map(least).collect::<Option<Vec<f64>>>() {
        None => {
            return "How many further services fit is not known: there are too few services for an interval of what is freed."
                .to_owned();
        }
        Some(least) if least.iter().all(|bytes| *bytes <= 0.0) => {
            return "No further service fits: that anything is freed is not shown.".to_owned();
        }
        Some(_) => {}
    }
    let Some((kind, (upper_bytes, age_seconds))) = &capacity.further else {
        return "How many further services fit is not known: there is no forecast of the arm.".to_owned();
    };
    let Some(day) = capacity.worst_day else {
        return format!(
            "How many further services fit is not known: of no service of {} the highest readings of a whole day are known, so that nothing is of its worst one.",
            verdict.arm.name
        );
    };
    let date = jiff::Timestamp::from_second(day.at as i64).map(|at| at.strftime("%Y-%m-%d").to_string());
    format!(
        "A further service is one of {kind}, at {} (95% limit of the forecast for an age of {}, which half of the arm's reached) times {:.2}: on the worst of {} ({}), the highest readings \
         of {} of {} were that much above their levels. As much is kept for those that are there.",
        units::memory(*upper_bytes),
        units::duration(*age_seconds),
        day.factor,
        units::counted(day.days as usize, "day"),
        date.unwrap_or_default(),
        units::counted(day.services as usize, "service"),
        verdict.arm.name
    )
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
