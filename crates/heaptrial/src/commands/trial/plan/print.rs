//! A drawn plan as text and as JSON.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use heaptrial_model::{Assignment, DrawnPlan, HumanDuration, ServiceName, units};
use heaptrial_plan::{
    Balance, Difference, RestartCost, Spread, WORTH_A_WORD, last_look_alpha, smallest_p_value,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::options::command;
use crate::output::{Table, some, with_reasons};

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
    pub now: Timestamp,
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
        text
    }

    pub fn json(&self) -> Value {
        let looks: Vec<Value> = self
            .look_times()
            .map(|(look, at)| json!({ "after": look, "if_started_now": at.to_string() }))
            .collect();
        json!({
            "plan": self.plan,
            "balance": self.balance,
            "restarts": self.cost,
            "looks": looks,
            "smallest_p_values": self.smallest_p_values().collect::<BTreeMap<&str, f64>>(),
            "left_out": with_reasons(self.left_out),
        })
    }

    fn assignment(&self) -> String {
        let mut table = Table::new(&["#", "SERVICE", "HOST", "ARM", "BLOCK", "STRATUM", "FAMILY"]);
        for (index, assigned) in self.plan.services.iter().enumerate() {
            let Assignment { service, host, arm, block, stratum, family, .. } = assigned;
            let family = family.as_deref().unwrap_or_default();
            table.row(&[&(index + 1), service, host, arm, block, stratum, &family]);
        }
        table.to_string()
    }

    fn balance_table(&self) -> String {
        let mut table = Table::new(&["ARM", "SERVICES", "ROLES", "MEMORY", "RANGE", "AGE", "RANGE", "HOSTS"]);
        for arm in &self.balance.arms {
            let name = format!("{}{}", arm.arm, if arm.control { " (control)" } else { "" });
            let (roles, hosts) = (counts(&arm.roles), counts(&arm.hosts));
            let [memory, memories] = spread(arm.baseline_bytes, units::memory);
            let [age, ages] = spread(arm.age_seconds, units::duration);
            table.row(&[&name, &arm.services, &roles, &memory, &memories, &age, &ages, &hosts]);
        }
        table.to_string()
    }

    fn differences(&self) -> String {
        let one = |difference: &Difference| {
            format!("{} of {}: {:+.2}", difference.what, difference.arm, difference.standardised)
        };
        let large: Vec<String> = self.balance.large().map(one).collect();
        match self.balance.differences.first() {
            None => "The arms are alike in all that is known.\n".to_owned(),
            Some(largest) if large.is_empty() => format!(
                "Largest difference to the control, in standard deviations: {}, below {WORTH_A_WORD}.\n",
                one(largest)
            ),
            Some(_) => format!(
                "warning: differences to the control beyond {WORTH_A_WORD} standard deviations: {}.\n\
                 With few services an arm that happens by chance. The analysis is of the first drawing: do not draw again because \
                 of it.\n",
                some(large)
            ),
        }
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
        if cost.timer_restarts > 0 {
            let restarts = units::counted(cost.timer_restarts as usize, "restart");
            let _ = writeln!(text, "restart_every adds {restarts} until the end.");
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
    fn look_times(&self) -> impl Iterator<Item = (HumanDuration, Timestamp)> {
        let restarted = std::time::Duration::from_secs_f64(self.cost.total_seconds.max(0.0));
        let started = self.now.saturating_add(restarted).unwrap_or(self.now);
        self.plan
            .looks
            .iter()
            .map(move |look| (*look, started.saturating_add(look.0).unwrap_or(Timestamp::MAX)))
    }

    fn looks(&self) -> String {
        let line = |(look, at): (HumanDuration, Timestamp)| {
            format!("after {:<6} {}\n", look.to_string(), at.strftime("%Y-%m-%d %H:%M UTC"))
        };
        self.look_times().map(line).collect()
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
        let blocks: BTreeSet<u32> = self.plan.services.iter().map(|assigned| assigned.block).collect();
        let mut text = format!(
            "{}; the smallest p-value that a comparison with the control can have is {}, adjusted for {} {}.\n",
            units::counted(blocks.len(), "block"),
            units::p_value(largest),
            units::counted(comparisons, "comparison"),
            units::p_value(adjusted)
        );
        let alpha = last_look_alpha(&self.plan.looks);
        if adjusted > alpha {
            let _ = writeln!(
                text,
                "warning: that is more than the {:.2}% that the last look may err with, so that it goes by Student's t, which \
                 assumes that the logarithms of memory are normally distributed: take more services or fewer arms.",
                100.0 * alpha
            );
        }
        let _ = writeln!(
            text,
            "{} shows from past data how large a difference it would find.",
            command("trial power")
        );
        text
    }
}

fn spread(spread: Option<Spread>, show: impl Fn(f64) -> String) -> [String; 2] {
    let Some(spread) = spread else { return ["not known".to_owned(), String::new()] };
    [show(spread.mean), format!("{} to {}", show(spread.low), show(spread.high))]
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

    fn candidate(number: usize) -> Candidate {
        Candidate {
            service: format!("tor@r{number:02}.service").parse().unwrap(),
            host: ["alpha", "beta"][usize::from(number % 4 == 3)].to_owned(),
            system: String::new(),
            role: ["relay", "exit"][usize::from(number % 5 == 2)].to_owned(),
            family: (number < 2).then(|| "family 0A1B2C3D".to_owned()),
            baseline_bytes: Some((1200 + 173 * (number as u64 * 31 % 23)) << 20),
            age_seconds: Some(86_400.0 * (1 + number * 7 % 20) as f64),
            restart_seconds: 35.0,
        }
    }

    #[test]
    fn a_fleet_on_two_hosts() {
        let (candidates, builds): (Vec<Candidate>, _) = ((0..26).map(candidate).collect(), BTreeMap::new());
        let mut trial = TrialPlan::from_toml(TRIAL).unwrap();
        trial.pace.at_once = 2;
        let (trial, candidates, builds) = (&trial, &candidates, &builds);
        let plan = draw(&DrawRequest { trial, candidates, builds, seed: 4, tool_version: "1.2.3" }).unwrap();
        let shown = Shown {
            balance: balance(&plan, candidates),
            cost: restart_cost(&plan, candidates),
            plan: &plan,
            relays: true,
            left_out: &[("tor@down.service".parse().unwrap(), "it is inactive (dead)".to_owned())],
            now: "2026-03-01T12:00:00Z".parse().unwrap(),
        };
        insta::assert_snapshot!(shown.text());
        let json = shown.json();
        assert_eq!(json["looks"][2]["after"], "10d");
        assert!(json["smallest_p_values"]["mimalloc@2.0.9"].as_f64().unwrap() < 0.05);
    }
}
