//! What a search found, in sentences.

use heaptrial_search::tune::{Doubt, Figure, Shown};

use super::{Ground, TuneReport, VerifiedArm, noun};
use crate::units;

fn times(log_ratio: f64, interval: Option<(f64, f64)>) -> String {
    let estimate = format!("{} times", units::ratio(log_ratio.exp()));
    match interval {
        Some((low, high)) => {
            format!("{estimate} ({}–{})", units::ratio(low.exp()), units::ratio(high.exp()))
        }
        None => format!("{estimate} (no interval)"),
    }
}

impl TuneReport {
    pub(super) fn sentences(&self) -> Vec<String> {
        let mut sentences = Vec::new();
        if let Some(why) = &self.stopped {
            sentences.push(format!("{why}: this is what there was until then."));
        }
        let Some(verified) = &self.verified else {
            sentences.push(self.nothing());
            return sentences;
        };
        if verified.blocks == 0 {
            sentences.push(
                "The winners of the search were not verified yet; what the search believes is no result."
                    .to_owned(),
            );
            return sentences;
        }
        if verified.blocks < verified.asked {
            sentences.push(format!(
                "{} of {} of the verification are there; no winner is named before all of them are.",
                verified.blocks,
                units::counted(verified.asked, "block")
            ));
            sentences.extend(verified.arms.iter().filter_map(|arm| self.belief(arm)));
            return sentences;
        }
        let winners = self.winners();
        for arm in &winners {
            sentences.push(self.one(arm));
        }
        if winners.is_empty() {
            sentences.push(format!(
                "Nothing is shown to be better than {} by {} on seeds that the search never saw.",
                self.control,
                units::counted(verified.blocks, "block")
            ));
        }
        for arm in &verified.arms {
            sentences.extend(self.belief(arm));
        }
        for arm in verified.arms.iter().filter(|arm| !winners.iter().any(|winner| winner.spec == arm.spec)) {
            sentences.push(self.not_borne_out(arm));
        }
        sentences
    }

    fn nothing(&self) -> String {
        if self.candidates.is_empty() {
            return "Nothing was measured.".to_owned();
        }
        if self.stopped.is_some() {
            return format!(
                "{} measured; none was verified yet.",
                units::counted(self.measured(), "candidate")
            );
        }
        let whole = self.candidates.iter().filter(|one| one.ground.is_none() && one.blocks > 0);
        let (running, beyond) =
            whole.fold(
                (0, 0),
                |(running, beyond), one| {
                    if one.within { (running + 1, beyond) } else { (running, beyond + 1) }
                },
            );
        let mut why = self.grounds(beyond);
        if running > 0 {
            let verb = if running == 1 { "is" } else { "are" };
            why.push(format!("{running} {verb} not believed to be better than {}", self.control));
        }
        let measured = units::counted(self.measured(), "measured candidate");
        format!("None of {measured} is to be verified: {}.", why.join(", "))
    }

    fn measured(&self) -> usize {
        self.candidates.iter().filter(|one| one.blocks > 0).count()
    }

    /// How many are out on each ground, `beyond` beside them that are not out and do not keep the limits.
    fn grounds(&self, beyond: usize) -> Vec<String> {
        let count = |ground| self.candidates.iter().filter(|one| one.ground == Some(ground)).count();
        let limits = self.limits.given();
        let limits = limits.map(|(figure, most)| format!("{} of {}", noun(figure), units::ratio(most.exp())));
        let limits = limits.collect::<Vec<_>>().join(", ");
        let verb = |count: usize, one: &'static str, many: &'static str| if count == 1 { one } else { many };
        let (failed, worse, limit) =
            (count(Ground::Failed), count(Ground::Worse), count(Ground::Limit) + beyond);
        [
            (failed, "failed".to_owned()),
            (
                worse,
                format!("{} worse than {} or no better than another", verb(worse, "is", "are"), self.control),
            ),
            (limit, format!("{} not keep the limits ({limits})", verb(limit, "does", "do"))),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} {what}"))
        .collect()
    }

    /// `X needs 0.71 times (0.66–0.77) the memory of glibc and 0.95 times (0.91–0.99) that of Y, at 1.02 times ... CPU time.`
    fn one(&self, arm: &VerifiedArm) -> String {
        let own = arm.against(None, Figure::Level);
        let own = own.map_or("no figure".to_owned(), |own| times(own.log_ratio, own.interval));
        let mut memory = format!("needs {own} the memory of {}", self.control);
        for other in self.beside() {
            if let Some(against) = arm.against(Some(other), Figure::Level) {
                let ratio = times(against.log_ratio, against.interval);
                let open = if against.shown() == Shown::NotTold { " (no difference shown)" } else { "" };
                memory.push_str(&format!(", {ratio} the memory of {other}{open}"));
            }
        }
        let cpu = arm.against(None, Figure::Cpu).map_or(String::new(), |cpu| {
            format!(", at {} the CPU time of {}", times(cpu.log_ratio, cpu.interval), self.control)
        });
        let open = self.open_limits(arm);
        let open = open.map(|(figure, most)| format!("{} ({})", noun(figure), units::ratio(most.exp())));
        let open = match open.collect::<Vec<_>>().as_slice() {
            [] => String::new(),
            open => format!(" That the limit of {} is kept is not shown.", open.join(" and of ")),
        };
        format!("{} {memory}{cpu}.{open}", arm.spec)
    }

    fn belief(&self, arm: &VerifiedArm) -> Option<String> {
        let (believed, _) = arm.believed?;
        let shown = arm.against(None, Figure::Level)?;
        Some(format!(
            "{}: predicted {}, measured {} on fresh seeds ({:+.1}%).",
            arm.spec,
            units::ratio(believed.exp()),
            units::ratio(shown.log_ratio.exp()),
            100.0 * (shown.log_ratio - believed).exp_m1()
        ))
    }

    fn not_borne_out(&self, arm: &VerifiedArm) -> String {
        if let Some(why) = &arm.failed {
            return format!("{} failed while it was verified: {why}.", arm.spec);
        }
        let ratio = |figure: Figure| {
            let own = arm.against(None, figure);
            own.map_or("no figure".to_owned(), |own| times(own.log_ratio, own.interval))
        };
        match self.doubt(arm) {
            Some(Doubt::Missing { figure, blocks }) => format!(
                "{} is no winner: of {}, which has a limit, there is a figure of it and of {} in {blocks} of {} only.",
                arm.spec,
                noun(figure),
                self.control,
                units::counted(self.verified.as_ref().map_or(0, |verified| verified.blocks), "block")
            ),
            Some(Doubt::BreaksLimit { figure, most }) => format!(
                "{} is shown to break the limit of {} of {}: {}.",
                arm.spec,
                units::ratio(most.exp()),
                noun(figure),
                ratio(figure)
            ),
            Some(Doubt::Worse) => format!(
                "{} is shown to need more memory than {}: {}.",
                arm.spec,
                self.control,
                ratio(Figure::Level)
            ),
            Some(Doubt::WithinMargin) => format!(
                "{} is better than {} by less than {:.1}%, which counts as nothing (--margin): {}.",
                arm.spec,
                self.control,
                100.0 * self.margin.exp_m1(),
                ratio(Figure::Level)
            ),
            Some(Doubt::NotBetter) | None => format!(
                "{} is not shown to be better than {}: {}.",
                arm.spec,
                self.control,
                ratio(Figure::Level)
            ),
        }
    }

    pub(super) fn beside(&self) -> impl Iterator<Item = &str> {
        self.verified.iter().flat_map(|verified| verified.beside.iter().map(String::as_str))
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let out = self.candidates.iter().filter(|one| one.out.is_some()).count();
        let grounds = self.grounds(0).join(", ");
        let grounds = if grounds.is_empty() { grounds } else { format!(" ({grounds})") };
        let possible = self.possible.map_or("more than can be counted".to_owned(), |count| count.to_string());
        let mut notes = vec![
            format!(
                "Measured {} of {possible} candidates in {}; {out} are out{grounds}. What is like none of them was not looked at.",
                self.measured(),
                units::counted(self.blocks.iter().filter(|block| !block.fresh).count(), "block"),
            ),
            format!(
                "A candidate is dropped when it is shown not to beat another by more than {:.1}%; the probability that the best \
                 of the measured was dropped is below {:.0}%, if noise is normal and of one size. What the search believes is \
                 a model's, and no result.",
                100.0 * self.margin.exp_m1(),
                100.0 * self.error
            ),
        ];
        if let Some(verified) = &self.verified {
            notes.push(format!(
                "Intervals are Student's over {} on seeds that the search never saw, with {:.0}% confidence for all winners together.",
                units::counted(verified.blocks, "block"),
                100.0 * verified.level
            ));
            for (spec, times, why) in &verified.failed {
                notes.push(format!(
                    "{spec} failed in {times} of {}, which are not in what is compared with it: {why}.",
                    units::counted(verified.blocks, "block")
                ));
            }
        }
        if let Some((noise, freedom)) = self.noise {
            notes.push(format!(
                "Runs of a block repeat to {:.1}% (standard deviation, {freedom} degrees of freedom).",
                100.0 * noise
            ));
        }
        for (name, why) in &self.left_out {
            notes.push(format!("{name} was left out: {why}."));
        }
        notes
    }
}
