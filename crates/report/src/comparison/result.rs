//! What trials say together: who needs the least, and whether they agree on it.

use super::{ArmInTrial, ComparedTreatment, ComparedTrial, Comparison};
use crate::summary::{names, number};

impl Comparison {
    /// Who is best, and whether the trials agree on it.
    pub(super) fn result(&self) -> Vec<String> {
        let mut firsts: Vec<(&str, &str)> = Vec::new();
        for (index, trial) in self.trials.iter().enumerate() {
            let first = self.treatments.iter().find(|treatment| {
                treatment.results[index].as_ref().is_some_and(|result| result.place == Some(1))
            });
            firsts.extend(first.map(|treatment| (trial.name.as_str(), treatment.treatment.as_str())));
        }
        match firsts.split_first() {
            None => vec!["No trial has a figure to compare.".to_owned()],
            Some((first, others)) if others.iter().all(|other| other.1 == first.1) => {
                let agreed = self.agreed(first.1, &firsts);
                std::iter::once(agreed).chain(self.bloating(&firsts)).collect()
            }
            Some(_) => {
                let told = std::iter::once(self.differ(&firsts)).chain(self.among_shared());
                told.chain(self.bloating(&firsts)).collect()
            }
        }
    }

    /// Whether trials that have other treatments first contradict each other: each of two shows that its own needs
    /// less than the other's.
    fn differ(&self, firsts: &[(&str, &str)]) -> String {
        let each = firsts.iter().map(|(trial, best)| format!("{best} ({trial})"));
        let each = each.collect::<Vec<_>>().join("; ");
        let shows = |(trial, best): (&str, &str), other: &str| {
            let index = self.trials.iter().position(|known| known.name == trial);
            index.is_some_and(|index| self.shows_less(best, other, index))
        };
        let contradict = firsts.iter().enumerate().any(|(index, one)| {
            let mut others = firsts[index + 1..].iter().filter(|other| other.1 != one.1);
            others.any(|other| shows(*one, other.1) && shows(*other, one.1))
        });
        match contradict {
            true => format!("The trials do not agree on who needs the least: {each}."),
            false => format!(
                "Trials differ in which treatment has the least, and no two show a contradiction: {each}. In one of \
                 them at least these are not told apart by intervals, or it has no arm of the other's."
            ),
        }
    }

    /// Whether a trial's intervals tell two treatments apart, the first below the second.
    fn shows_less(&self, lower: &str, higher: &str, trial: usize) -> bool {
        let ends = |name: &str| {
            let named = self.treatments.iter().filter(|known| known.treatment == name);
            let result = named.filter_map(|known| known.results[trial].as_ref()).next()?;
            match &result.ratio_to_control {
                Some(ratio) => Some((ratio.low?, ratio.high?)),
                None => result.control.then_some((1.0, 1.0)),
            }
        };
        ends(lower).zip(ends(higher)).is_some_and(|(lower, higher)| lower.1 < higher.0)
    }

    /// The treatments that have the least somewhere and do not stop growing there: what they need now is not what
    /// they come to need.
    fn bloating(&self, firsts: &[(&str, &str)]) -> Vec<String> {
        let mut treatments: Vec<&str> = firsts.iter().map(|first| first.1).collect();
        treatments.sort_unstable();
        treatments.dedup();
        let told = treatments.into_iter().filter_map(|treatment| {
            let known = self.treatments.iter().filter(|known| known.treatment == treatment);
            let results = known.flat_map(|known| known.results.iter().zip(&self.trials));
            let bloats = |result: &ArmInTrial| result.verdict.as_deref() == Some("bloating");
            let bloating = results.filter(|(result, _)| result.as_ref().is_some_and(bloats));
            let trials: Vec<&str> = bloating.map(|(_, trial)| trial.name.as_str()).collect();
            (!trials.is_empty()).then(|| {
                format!(
                    "{treatment} is bloating in {}: what it needs now is not what it comes to need.",
                    names(&trials, trials.len())
                )
            })
        });
        told.collect()
    }

    /// How far trials that have the same treatment first agree: one without an interval tells nothing of it, and
    /// trials that share measurements are one.
    fn agreed(&self, best: &str, firsts: &[(&str, &str)]) -> String {
        let [(only, _)] = firsts else {
            let first = |trial: &&ComparedTrial| firsts.iter().any(|first| first.0 == trial.name);
            let trials: Vec<&ComparedTrial> = self.trials.iter().filter(first).collect();
            if trials.iter().any(|trial| trial.shares_measurements) {
                return format!(
                    "{best} has the least in {}, behind some of which are the same measurements.",
                    number(firsts.len() as u64, "trial")
                );
            }
            let shown = self.trials.iter().enumerate().filter(|(index, _)| self.is_shown(best, *index));
            let shown: Vec<&str> = shown.map(|(_, trial)| trial.name.as_str()).collect();
            return match shown.len() {
                0 => format!("{best} has the least in every trial, but none has an interval to show it."),
                all if all == firsts.len() && all == 2 => format!("{best} needs the least in both trials."),
                all if all == firsts.len() => format!("{best} needs the least in all {all} trials."),
                _ => format!(
                    "{best} needs the least in {}; elsewhere it has the least too, without an interval to show it.",
                    names(&shown, shown.len())
                ),
            };
        };
        format!("{best} needs the least in {only}.")
    }

    /// Whether a trial shows that a treatment needs less than its control, or, of the control, than all that have an
    /// interval.
    fn is_shown(&self, treatment: &str, trial: usize) -> bool {
        let in_trial = |known: &ComparedTreatment| known.results[trial].clone();
        let own = self.treatments.iter().filter(|known| known.treatment == treatment).find_map(in_trial);
        match own {
            Some(result) if result.control => {
                let ratios = self.treatments.iter().filter_map(in_trial).filter_map(|r| r.ratio_to_control);
                let mut lows = ratios.filter_map(|ratio| ratio.low).peekable();
                lows.peek().is_some() && lows.all(|low| low > 1.0)
            }
            Some(result) => {
                result.ratio_to_control.and_then(|ratio| ratio.high).is_some_and(|high| high < 1.0)
            }
            None => false,
        }
    }

    /// Who needs least among the treatments that all trials have, where several are.
    fn among_shared(&self) -> Option<String> {
        let shared: Vec<_> = self
            .treatments
            .iter()
            .filter(|treatment| treatment.results.iter().all(Option::is_some))
            .collect();
        let best = |trial: usize| {
            let place =
                |index: &usize| shared[*index].results[trial].as_ref().and_then(|result| result.place);
            (0..shared.len()).filter(|index| place(index).is_some()).min_by_key(place)
        };
        let bests: Vec<usize> = (0..self.trials.len()).map(best).collect::<Option<_>>()?;
        let independent = !self.trials.iter().any(|trial| trial.shares_measurements);
        let agreed = independent && shared.len() > 1 && bests.windows(2).all(|pair| pair[0] == pair[1]);
        let name = &shared[*bests.first()?].treatment;
        let others = || shared.iter().filter(|other| other.treatment != *name);
        let shown = (0..self.trials.len())
            .all(|trial| others().all(|other| self.shows_less(name, &other.treatment, trial)));
        (agreed && shown).then(|| {
            format!("Of the {} treatments in every trial, {name} needs the least in each.", shared.len())
        })
    }
}
