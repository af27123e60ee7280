//! What a search found, in sentences.

use heaptrial_search::bisect::Change;

use super::{BisectReport, ChangeReport};
use crate::units;

/// What a commit is compared to.
const BEFORE: &str = "what the one before it does";

/// A probability in percent. None is quite 1.
fn sure(probability: f64) -> String {
    if probability > 0.999 { "above 99.9%".to_owned() } else { format!("{:.1}%", 100.0 * probability) }
}

impl BisectReport {
    pub(super) fn sentences(&self) -> Vec<String> {
        let ends = &self.answer.ends;
        let size = self.times(ends.log_ratio);
        let interval = format!(
            "({}–{} with 95% probability, {})",
            units::ratio(ends.interval[0].exp()),
            units::ratio(ends.interval[1].exp()),
            units::counted(ends.measured, "block")
        );
        let mut sentences = Vec::new();
        if let Some(why) = &self.stopped {
            sentences.push(format!("{why}: this is what there was until then."));
        }
        if self.blocks.is_empty() && self.stopped.is_some() {
            sentences.push("Nothing was measured.".to_owned());
            return sentences;
        }
        if self.answer.same_ends {
            sentences.push(format!(
                "{} and {} build the same library, byte for byte: there is nothing to search for between them.",
                self.older, self.newer
            ));
            return sentences;
        }
        if ends.measured == 0 {
            sentences.push(format!("The newer end, {}, could not be measured.", self.newer));
            return sentences;
        }
        if !self.ends_differ() {
            sentences.push(format!(
                "Good and bad do not differ here: {} {interval}; the probability that there is a difference is {}. There is \
                 nothing to search for under this load.",
                self.compared(&self.newer, &size, &format!("what {} does", self.older)),
                sure(ends.differ)
            ));
            return sentences;
        }
        for (change, report) in self.answer.changes.iter().zip(&self.changes) {
            sentences.push(self.one(change, report));
            if let Some(fork) = self.forks_at.as_ref().filter(|_| change.after == 0 && change.to > 1) {
                sentences.push(format!(
                    "The line to {} starts at {fork}: the change may be what {} alone has, and be none of those commits.",
                    self.newer, self.older
                ));
            }
        }
        let whole = self.compared(&self.newer, &size, &format!("what {} does", self.older));
        sentences.push(format!("Between the ends: {whole} {interval}."));
        let found = self.answer.changes.iter().filter(|change| change.narrowest).count();
        if self.answer.changes.len() > 1 && found == self.answer.changes.len() {
            sentences.push(format!("There are {} changes, not one.", found));
        }
        if !self.answer.found && self.stopped.is_none() {
            sentences.push(format!(
                "It is not narrowed down as far as it could be with the {} asked for: --blocks allows more.",
                sure(self.confidence)
            ));
        }
        sentences
    }

    fn one(&self, change: &Change, report: &ChangeReport) -> String {
        let how_much = self.times(change.log_ratio);
        let sure = format!("probability {}", sure(change.probability));
        if let Some(fork) = self.forks_at.as_ref().filter(|_| change.after == 0 && change.to == 1) {
            return format!(
                "{}, with {sure}. No single commit is to blame: {fork} is where the line to {} leaves what \
                 they share, and {} has all that was only done on its own line.",
                self.compared(fork, &how_much, &format!("what {} does", self.older)),
                self.newer,
                self.older
            );
        }
        match (report.commits.as_slice(), change.narrowest) {
            ([commit], true) => format!(
                "{}, with {sure}: \"{}\" ({}).",
                self.compared(commit.id.get(..12).unwrap_or(&commit.id), &how_much, BEFORE),
                commit.subject,
                commit.day
            ),
            ([], true) => {
                format!(
                    "{}, with {sure}.",
                    self.compared(&report.to, &how_much, &format!("what {} does", report.after))
                )
            }
            (commits, true) => format!(
                "{}, with {sure}; those between cannot be measured.",
                self.compared(
                    &format!("One of {} commits after {} up to {}", commits.len(), report.after, report.to),
                    &how_much,
                    BEFORE
                )
            ),
            (commits, false) => {
                let number = if commits.is_empty() { String::new() } else { format!("{} ", commits.len()) };
                let what = if self.of_commits { "commits" } else { "releases" };
                format!(
                    "The change is among the {number}{what} after {} up to {}, with {sure}: to {how_much}.",
                    report.after, report.to
                )
            }
        }
    }

    /// `X needs 1.31 times what Y does`.
    fn compared(&self, what: &str, how_much: &str, to: &str) -> String {
        format!("{what} needs {how_much} {to}")
    }

    fn times(&self, log_ratio: f64) -> String {
        format!("{} times", units::ratio(log_ratio.exp()))
    }

    /// What is compared, for tables and the chart.
    pub(super) fn figure(&self) -> String {
        format!("{}, in proportion to {}", self.metric, self.older)
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let what = if self.of_commits { "commits" } else { "releases" };
        let mut notes = vec![format!(
            "Each block runs {} and one other build with the same seed and load; a ratio is within a block. Noise of a ratio: \
             {:.1}% (standard deviation), beside runs in another mode.",
            self.older,
            100.0 * self.noise
        )];
        if let Some(fork) = &self.forks_at {
            let (older, newer) = (&self.older, &self.newer);
            let how = match &self.merged_at {
                Some(merge) => {
                    format!("{older} is beside the line to {newer}, and merged into it at {merge}")
                }
                None => format!("{newer} does not come from {older}"),
            };
            notes.push(format!(
                "{how}. The line to {newer} starts at {fork}, where it leaves what they share."
            ));
        }
        if self.left_out > 0 {
            notes.push(format!(
                "{} on the line between the ends change nothing that is compiled, and are no positions.",
                units::counted(self.left_out, "commit")
            ));
        }
        if !self.skipped.is_empty() {
            notes.push(format!(
                "{} of the {what} could not be measured when they were tried.",
                self.skipped.len()
            ));
        }
        notes.push(
            "A change is looked for where the level at the measured positions differs. A rise and a fall of the same size \
             between two neighbours of them leave no trace and are not found."
                .to_owned(),
        );
        for change in &self.answer.smaller {
            notes.push(format!(
                "A smaller step lies after position {} up to {}: {} ({}).",
                change.after,
                change.to,
                self.times(change.log_ratio),
                sure(change.probability)
            ));
        }
        notes
    }
}
