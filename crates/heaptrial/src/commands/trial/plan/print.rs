//! A drawn plan as text and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use heaptrial_model::{DrawnPlan, ServiceName, units};
use heaptrial_plan::{Balance, RestartCost, Spread, WORTH_A_WORD, last_look_alpha, smallest_p_value};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::output::table;

/// Differences between arms that are listed, the largest first.
const DIFFERENCES_TOLD: usize = 5;
/// With fewer services an arm, differences worth a word come by chance in most plans.
const FEW_SERVICES: usize = 20;

/// Everything that is shown of a plan.
pub struct Shown<'a> {
    pub plan: &'a DrawnPlan,
    /// Its arms before the trial.
    pub balance: Balance,
    pub cost: RestartCost,
    /// Whether some of its services are Tor relays.
    pub relays: bool,
    /// Services that cannot take part, and why.
    pub left_out: &'a [(ServiceName, String)],
    /// What other parts found out.
    pub further: Vec<Section>,
    pub now: Timestamp,
}

/// What another part found out about a plan.
pub struct Section {
    /// Above it, such as `PREFLIGHT`.
    pub title: String,
    pub text: String,
    pub key: &'static str,
    pub json: Value,
}

impl Shown<'_> {
    pub fn text(&self) -> String {
        let plan = self.plan;
        let mut text = format!(
            "Trial {}: {} in {} arms for {}, seed {}, plan {}\n",
            plan.name,
            units::counted(plan.services.len(), "service"),
            plan.arms.len(),
            plan.duration,
            plan.seed,
            plan.id
        );
        let _ = write!(text, "\nASSIGNMENT in the order of restarts\n{}", self.assignment());
        let _ = write!(text, "\nBALANCE before the trial\n{}{}", self.balance_table(), self.differences());
        let _ = write!(text, "\nRESTARTS\n{}", self.restarts());
        let _ = write!(text, "\nLOOKS if it is started now\n{}", self.looks());
        let _ = write!(text, "\nWHAT IT CAN FIND\n{}", self.resolution());
        for section in &self.further {
            let _ = write!(text, "\n{}\n{}", section.title, section.text);
        }
        text
    }

    /// As JSON, with the file it was written to.
    pub fn json(&self, file: Option<&Path>) -> Value {
        let left_out: Vec<Value> =
            self.left_out.iter().map(|(service, why)| json!({ "service": service, "why": why })).collect();
        let smallest: BTreeMap<&str, f64> = self.smallest_p_values().collect();
        let looks: Vec<Value> = self
            .look_times()
            .map(|(look, at)| json!({ "after": look, "if_started_now": at.to_string() }))
            .collect();
        let mut document = json!({
            "schema_version": 1,
            "file": file,
            "plan": self.plan,
            "balance": self.balance,
            "restarts": self.cost,
            "looks": looks,
            "smallest_p_values": smallest,
            "left_out": left_out,
        });
        for section in &self.further {
            document[section.key] = section.json.clone();
        }
        document
    }

    fn assignment(&self) -> String {
        let services = &self.plan.services;
        let several_hosts = services.iter().any(|assigned| assigned.host != services[0].host);
        let families = services.iter().any(|assigned| assigned.family.is_some());
        let row = |cells: [&str; 6]| -> Vec<String> {
            let [number, service, host, arm, block, stratum] = cells.map(str::to_owned);
            let host = several_hosts.then_some(host);
            [Some(number), Some(service), host, Some(arm), Some(block), Some(stratum)]
                .into_iter()
                .flatten()
                .collect()
        };
        let mut rows = vec![row(["#", "SERVICE", "HOST", "ARM", "BLOCK", "STRATUM"])];
        for (index, assigned) in services.iter().enumerate() {
            let (number, block) = ((index + 1).to_string(), assigned.block.to_string());
            rows.push(row([
                &number,
                assigned.service.as_str(),
                &assigned.host,
                &assigned.arm,
                &block,
                &assigned.stratum,
            ]));
        }
        if families {
            rows[0].push("FAMILY".to_owned());
            for (row, assigned) in rows[1..].iter_mut().zip(services) {
                row.push(assigned.family.clone().unwrap_or_else(|| "–".to_owned()));
            }
        }
        table(&rows)
    }

    fn balance_table(&self) -> String {
        let mut rows =
            vec![["ARM", "SERVICES", "ROLES", "MEMORY", "RANGE", "AGE", "RANGE"].map(str::to_owned).to_vec()];
        let several_hosts = self.balance.arms.iter().any(|arm| arm.hosts.len() > 1);
        if several_hosts {
            rows[0].push("HOSTS".to_owned());
        }
        for arm in &self.balance.arms {
            let control = if arm.control { " (control)" } else { "" };
            let [memory, memories] = spread(arm.baseline_bytes, units::memory);
            let [age, ages] = spread(arm.age_seconds, units::duration);
            let name = format!("{}{control}", arm.arm);
            let mut row =
                vec![name, arm.services.to_string(), counts(&arm.roles), memory, memories, age, ages];
            row.extend(several_hosts.then(|| counts(&arm.hosts)));
            rows.push(row);
        }
        table(&rows)
    }

    fn differences(&self) -> String {
        let large: Vec<_> = self.balance.large().collect();
        let largest = self.balance.differences.first();
        let told = |difference: &heaptrial_plan::Difference| {
            format!("{} of {}: {:+.2}", difference.what, difference.arm, difference.standardised)
        };
        let Some(largest) = largest else { return "The arms are alike in all that is known.\n".to_owned() };
        if large.is_empty() {
            return format!(
                "Largest difference to the control, in standard deviations: {}, below {WORTH_A_WORD}.\n",
                told(largest)
            );
        }
        let some: Vec<String> = large.iter().take(DIFFERENCES_TOLD).map(|found| told(found)).collect();
        let more = large.len().saturating_sub(DIFFERENCES_TOLD);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let least = self.balance.arms.iter().map(|arm| arm.services).min().unwrap_or(0);
        let why = if least < FEW_SERVICES {
            format!("With {least} services an arm that happens by chance. ")
        } else {
            String::new()
        };
        format!(
            "warning: differences to the control beyond {WORTH_A_WORD} standard deviations: {}{more}.\n\
             {why}Do not draw until it pleases: the analysis takes for granted that the first drawing stands.\n",
            some.join("; ")
        )
    }

    fn restarts(&self) -> String {
        let (cost, pace) = (&self.cost, &self.plan.pace);
        let each = cost.downtime_seconds / cost.restarts.max(1) as f64;
        let mut text = format!(
            "{}, once each, the control's as well: about {} down each, {} at once, at least {} from one to the next.\n\
             About {} in all, and as long again when it is reverted.\n",
            units::counted(cost.restarts, "service"),
            units::duration(each),
            cost.at_once,
            pace.pause,
            units::duration(cost.total_seconds)
        );
        if cost.families == 1 && cost.restarts > 1 {
            text.push_str("All services are of one family, so that they are restarted one by one");
            text.push_str(if cost.at_once_asked > 1 { " whatever at_once says.\n" } else { ".\n" });
        } else if cost.at_once < cost.at_once_asked {
            let _ = writeln!(
                text,
                "There are {} families, so that no more are restarted at once.",
                cost.families
            );
        }
        if cost.timer_restarts > 0 {
            let _ = writeln!(
                text,
                "restart_every adds {} until the end.",
                units::counted(cost.timer_restarts as usize, "restart")
            );
        }
        if self.relays {
            text.push_str(
                "A restart closes a relay's circuits and lowers its weighted uptime: Stable and HSDir come back later, \
                 HSDir after 96 h.\n",
            );
        }
        text
    }

    /// Times of looks count from the last restart on.
    fn look_times(&self) -> impl Iterator<Item = (heaptrial_model::HumanDuration, Timestamp)> {
        let restarted = std::time::Duration::from_secs_f64(self.cost.total_seconds.max(0.0));
        let started = self.now.saturating_add(restarted).unwrap_or(self.now);
        self.plan
            .looks
            .iter()
            .map(move |look| (*look, started.saturating_add(look.0).unwrap_or(Timestamp::MAX)))
    }

    fn looks(&self) -> String {
        let last = self.plan.looks.len();
        let lines = self.look_times().enumerate().map(|(index, (look, at))| {
            let end = if index + 1 == last { ", the end" } else { "" };
            format!("after {:<6} {}{end}\n", look.to_string(), at.strftime("%Y-%m-%d %H:%M UTC"))
        });
        lines.collect()
    }

    fn smallest_p_values(&self) -> impl Iterator<Item = (&str, f64)> {
        self.plan
            .arms
            .iter()
            .filter_map(|arm| Some((arm.name.as_str(), smallest_p_value(self.plan, &arm.name)?)))
    }

    fn resolution(&self) -> String {
        let comparisons = self.plan.arms.len() - 1;
        let largest = self.smallest_p_values().map(|(_, p)| p).fold(0.0, f64::max);
        let adjusted = (largest * comparisons as f64).min(1.0);
        let blocks: std::collections::BTreeSet<u32> =
            self.plan.services.iter().map(|assigned| assigned.block).collect();
        let mut text = format!(
            "{}; the smallest p-value that a comparison with the control can have is {}",
            units::counted(blocks.len(), "block"),
            units::p_value(largest)
        );
        if comparisons > 1 {
            let _ = write!(text, ", adjusted for {comparisons} comparisons {}", units::p_value(adjusted));
        }
        text.push_str(".\n");
        let alpha = last_look_alpha(&self.plan.looks);
        if adjusted > alpha {
            let _ = writeln!(
                text,
                "warning: that is more than the {:.2}% that the last look may err with, so that it goes by Student's t, which \
                 assumes that the logarithms of memory are normally distributed: take more services or fewer arms.",
                100.0 * alpha
            );
        }
        text.push_str("`heaptrial trial power` tells from past data how large a difference it would find.\n");
        text
    }
}

fn spread(spread: Option<Spread>, told: impl Fn(f64) -> String) -> [String; 2] {
    let Some(spread) = spread else { return ["not known".to_owned(), String::new()] };
    [told(spread.mean), format!("{} to {}", told(spread.low), told(spread.high))]
}

fn counts(counts: &BTreeMap<String, usize>) -> String {
    counts.iter().map(|(name, count)| format!("{count} {name}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use heaptrial_model::TrialPlan;
    use heaptrial_plan::{Candidate, DrawRequest, balance, draw, restart_cost};

    use super::*;

    const TRIAL: &str = r#"
        name = "five-way"
        duration = "10d"
        [[arm]]
        name = "glibc"
        control = true
        allocator = "glibc"
        [[arm]]
        name = "mimalloc@2.0.9"
        allocator = "mimalloc@2.0.9"
        [[arm]]
        name = "glibc, restarted every 2d"
        allocator = "glibc"
        restart_every = "2d"
    "#;

    fn candidates(services: usize) -> Vec<Candidate> {
        (0..services)
            .map(|number| Candidate {
                service: format!("tor@r{number:02}.service").parse().unwrap(),
                host: ["alpha", "beta"][usize::from(number % 4 == 3 && services > 10)].to_owned(),
                system: String::new(),
                role: ["relay", "exit"][usize::from(number % 5 == 2)].to_owned(),
                family: (services < 10 || number < 2).then(|| "family 0A1B2C3D".to_owned()),
                baseline_bytes: Some((1200 + 173 * (number as u64 * 31 % 23)) << 20),
                age_seconds: Some(86_400.0 * (1 + number * 7 % 20) as f64),
                restart_seconds: 35.0,
            })
            .collect()
    }

    fn shown<T>(candidates: &[Candidate], at_once: u32, with: impl FnOnce(Shown<'_>) -> T) -> T {
        let mut trial = TrialPlan::from_toml(TRIAL).unwrap();
        trial.pace.at_once = at_once;
        let builds = BTreeMap::new();
        let request =
            DrawRequest { trial: &trial, candidates, builds: &builds, seed: 4, tool_version: "1.2.3" };
        let plan = draw(&request).unwrap();
        let left_out = [("tor@down.service".parse().unwrap(), "it is inactive (dead)".to_owned())];
        with(Shown {
            balance: balance(&plan, candidates),
            cost: restart_cost(&plan, candidates),
            plan: &plan,
            relays: true,
            left_out: &left_out,
            further: vec![Section {
                title: "PREFLIGHT".to_owned(),
                text: "nothing found\n".to_owned(),
                key: "preflight",
                json: json!([]),
            }],
            now: "2026-03-01T12:00:00Z".parse().unwrap(),
        })
    }

    #[test]
    fn a_fleet_on_two_hosts() {
        insta::assert_snapshot!(shown(&candidates(26), 2, |shown| shown.text()));
    }

    #[test]
    fn a_few_services_of_one_family() {
        insta::assert_snapshot!(shown(&candidates(6), 2, |shown| shown.text()));
    }

    #[test]
    fn json_has_the_plan_and_all_that_is_told_of_it() {
        let json = shown(&candidates(26), 1, |shown| shown.json(Some(Path::new("five-way.plan.toml"))));
        assert_eq!(json["schema_version"], 1);
        assert_eq!(json["file"], "five-way.plan.toml");
        assert_eq!(json["plan"]["services"].as_array().unwrap().len(), 26);
        assert_eq!(json["restarts"]["total_seconds"], 26.0 * 38.0);
        assert_eq!(json["looks"][2]["after"], "10d");
        assert_eq!(json["left_out"][0]["service"], "tor@down.service");
        assert!(json["smallest_p_values"]["mimalloc@2.0.9"].as_f64().unwrap() < 0.05);
        assert_eq!(json["preflight"], json!([]));
    }
}
