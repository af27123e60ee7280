//! A trial's status for a person.

use std::fmt;

use heaptrial_change::{TrialStage, TrialState};
use heaptrial_model::{Metric, units};

use super::Status;

impl fmt::Display for Status {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(to, "trial {}: {}", self.prepared.plan.name, stage_words(&self.state))?;
        if let Some(why) = &self.state.interrupted {
            writeln!(to, "  {why}: {}", self.advice())?;
        } else if self.is_cut_short() {
            writeln!(to, "  the process that did that is gone: {}", self.advice())?;
        }
        if let Some(lost) = &self.lost {
            writeln!(to, "  {lost}")?;
        }
        let planned = self.prepared.plan.duration;
        match self.elapsed_seconds() {
            _ if self.open() > 0 => {
                let open = units::counted(self.open(), "service");
                writeln!(
                    to,
                    "  {open} still without treatment: {planned} and looks count from the last one"
                )?;
            }
            Some(elapsed) => writeln!(to, "  {} of {planned}", units::duration(elapsed))?,
            None => {}
        }
        match self.next_look() {
            Some((number, seconds)) if seconds > 0.0 => {
                writeln!(
                    to,
                    "  look {number} of {} in {}{}",
                    self.prepared.plan.looks.len(),
                    units::duration(seconds),
                    if self.has_other_hosts() {
                        " at the earliest: it counts from the last service of all hosts"
                    } else {
                        ""
                    }
                )?;
            }
            Some((number, _)) => {
                writeln!(
                    to,
                    "  look {number} of {} is due: `heaptrial trial look {}`",
                    self.prepared.plan.looks.len(),
                    self.prepared.plan.name
                )?;
            }
            None if !self.looks.is_empty() => writeln!(to, "  all looks were taken")?,
            None => {}
        }
        if let Some(words) = self.reading_words() {
            writeln!(to, "  {words}")?;
        }
        writeln!(to)?;
        self.write_arms(to)?;
        if let Some(why) = &self.untrusted {
            writeln!(to, "not to be trusted: {why}")?;
        }
        for (service, how) in &self.down {
            writeln!(to, "does not run: {service} is {how}")?;
        }
        for (service, path) in &self.changed {
            writeln!(
                to,
                "changed by somebody else: {service}: {} is not as it was written; `heaptrial trial resume {}` writes \
                 again what is gone, and tells how the rest differs",
                path.display(),
                self.prepared.plan.name
            )?;
        }
        for service in &self.state.dropped {
            let how = if self.state.given_up.contains(service) { "given up" } else { "taken out" };
            writeln!(to, "{how}: {service}")?;
        }
        for (service, why) in self.contaminated() {
            writeln!(to, "contaminated: {service}: {why}")?;
        }
        for (service, failures) in &self.failures {
            let how = [(failures.crashes, "by a crash"), (failures.oom_kills, "for want of memory")];
            let how = how.into_iter().filter(|(count, _)| *count > 0);
            let how = how.map(|(count, how)| format!("{} {how}", units::counted(count as usize, "time")));
            writeln!(to, "failed since the start: {service}: {}", how.collect::<Vec<_>>().join(", "))?;
        }
        for (service, why) in self.put_back() {
            writeln!(to, "put back: {service} runs what it ran before the trial: {why}")?;
        }
        for (service, what, why) in self.troubled() {
            writeln!(to, "{service} {what}{}{why}", if why.is_empty() { "" } else { ": " })?;
        }
        Ok(())
    }
}

impl Status {
    fn write_arms(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let arms = self.arms();
        let width =
            arms.iter().map(|arm| arm.arm.chars().count() + usize::from(arm.control) * 10).max().unwrap_or(3);
        // PSS is read too rarely for a status.
        let metric =
            Some(self.prepared.plan.metric).filter(|metric| *metric != Metric::Pss).unwrap_or_default();
        writeln!(
            to,
            "{:width$}  services  in force  contaminated  crashes  OOM kills  {metric} median (range)",
            "arm"
        )?;
        for arm in arms {
            let name = if arm.control { format!("{} (control)", arm.arm) } else { arm.arm.to_owned() };
            let memory = match (arm.median_bytes, arm.lowest_bytes, arm.highest_bytes) {
                (Some(median), Some(low), Some(high)) => format!(
                    "{} ({} to {})",
                    units::memory(median as f64),
                    units::memory(low as f64),
                    units::memory(high as f64)
                ),
                _ => "no reading".to_owned(),
            };
            writeln!(
                to,
                "{name:width$}  {:>8}  {:>8}  {:>12}  {:>7}  {:>9}  {memory}",
                arm.services, arm.committed, arm.contaminated, arm.failures.crashes, arm.failures.oom_kills
            )?;
        }
        Ok(())
    }
}

pub(super) fn stage_words(state: &TrialState) -> &'static str {
    match (state.stage, &state.interrupted) {
        (TrialStage::Planned, _) => "nothing was changed yet",
        (TrialStage::Starting, None) => "being started",
        (TrialStage::Starting, Some(_)) => "not fully started",
        (TrialStage::Running, _) => "running",
        (TrialStage::Reverting, None) => "being reverted",
        (TrialStage::Reverting, Some(_)) => "not fully reverted",
        (TrialStage::Stopped, _) => "ended, services keep what they run",
        (TrialStage::Reverted, _) if !state.given_up.is_empty() => {
            "ended, everything is as before but for services that were given up"
        }
        (TrialStage::Reverted, _) => "ended, everything is as before",
    }
}
