//! A search for a terminal, as Markdown and as a page.

use heaptrial_search::bisect::Change;

use super::{BisectReport, ChangeReport, CommitReport, MeasuredPosition, SkippedPosition};
use crate::chart::{ArmStyles, Chart};
use crate::forms::Document;
use crate::page::{Block, Section, section};
use crate::table::{Columns, Detail, Table, table_section};
use crate::text::names;
use crate::units;

/// Files of a commit, and commits of a range, that are listed.
const LISTED: usize = 40;
/// Characters of the reason why a position was not measured.
const REASON: usize = 300;

/// A probability in percent. None is quite 1.
fn probability(probability: f64) -> String {
    if probability > 0.999 { "above 99.9%".to_owned() } else { format!("{:.1}%", 100.0 * probability) }
}

fn ratio_of(log_ratio: f64) -> String {
    units::ratio(log_ratio.exp())
}

impl BisectReport {
    fn lead(&self) -> Vec<String> {
        let (older, newer, ends) = (&self.older, &self.newer, &self.answer.ends);
        let mut sentences = self.run.sentences();
        let figures = format!(
            "{} ({} to {} with 95% probability, {})",
            ratio_of(ends.log_ratio),
            ratio_of(ends.interval[0]),
            ratio_of(ends.interval[1]),
            units::counted(ends.measured, "block")
        );
        sentences.push(match () {
            () if self.run.blocks.is_empty() && self.run.stopped.is_some() => "Nothing was measured.".to_owned(),
            () if self.answer.same_ends => format!(
                "{older} and {newer} build the same library, byte for byte: there is nothing to search for between them."
            ),
            () if ends.measured == 0 => format!("The newer end, {newer}, could not be measured."),
            () if !self.ends_differ() => format!(
                "{newer} and {older} do not differ under this load: the ratio is {figures}, the probability of a difference {}.",
                probability(ends.differ)
            ),
            () => format!("{newer} needs {figures} times the {} of {older}.", self.run.metric),
        });
        if self.ends_differ() && !self.answer.found && self.run.stopped.is_none() {
            sentences.push(format!(
                "The change is not located with the confidence of {} asked for: --blocks allows more.",
                probability(self.confidence)
            ));
        }
        sentences
    }

    /// The changes, the largest first.
    fn changes_table(&self) -> Option<Table> {
        Columns::of("Change", |(report, _): &(&ChangeReport, &Change)| report.what())
            .figure("Ratio", |(_, change)| Some(ratio_of(change.log_ratio)))
            .figure("Probability", |(_, change)| Some(probability(change.probability)))
            .text("Located", |(_, change)| {
                Some(
                    if change.narrowest { "yes" } else { "no: positions between can be measured" }.to_owned(),
                )
            })
            .table(self.changes.iter().zip(&self.answer.changes))
    }

    fn positions_table(&self) -> Option<Table> {
        Columns::of("Build", |at: &&MeasuredPosition| at.name.clone())
            .figure("Position", |at| Some(at.position.to_string()))
            .figure("Blocks", |at| {
                Some(if at.position == 0 { "all".to_owned() } else { at.blocks.to_string() })
            })
            .figure("Ratio", |at| Some(units::ratio(at.ratio())))
            .figure("± 2 sd", |at| {
                let [low, high] = at.interval().map(units::ratio);
                Some(format!("{low} to {high}"))
            })
            .text("Builds the same", |at| {
                let same = self.same.iter().filter(|(_, with)| *with == at.name);
                let same: Vec<&str> = same.map(|(name, _)| name.as_str()).collect();
                (!same.is_empty()).then(|| names(&same, LISTED))
            })
            .table(&self.measured)
    }

    fn skipped_table(&self) -> Option<Table> {
        let why = |skipped: &&SkippedPosition| {
            let why = skipped.why.split_whitespace().collect::<Vec<_>>().join(" ");
            Some(why.chars().take(REASON).collect())
        };
        Columns::of("Build", |skipped: &&SkippedPosition| skipped.name.clone())
            .figure("Position", |skipped| Some(skipped.position.to_string()))
            .text("Why", why)
            .table(&self.skipped)
    }

    /// What is compared, for tables and the chart.
    pub(super) fn figure(&self) -> String {
        format!("{} in proportion to {}", self.run.metric, self.older)
    }

    pub(super) fn builds(&self) -> &'static str {
        if self.of_commits { "commits" } else { "releases" }
    }

    fn notes(&self) -> Vec<String> {
        let (older, newer) = (&self.older, &self.newer);
        let fork = self.forks_at.as_ref().map(|fork| {
            format!(
                "{newer} does not descend from {older}: the line to it starts at {fork}, their merge base. A change right after \
                 {older} may be what {older} alone has, and none of the commits."
            )
        });
        let excluded = (self.left_out > 0).then(|| {
            let commits = units::counted(self.left_out, "commit");
            format!("{commits} between the ends change nothing that is compiled, and are no positions.")
        });
        let always = [
            format!(
                "Each block runs {older} and one other build with the same seed and load; a ratio is within a block. Noise of a \
                 ratio: {:.1}% (standard deviation).",
                100.0 * self.noise
            ),
            "A change is searched where the level of measured positions differs: a rise and a fall of the same size between two \
             of them are not found."
                .to_owned(),
        ];
        always.into_iter().chain(fork).chain(excluded).collect()
    }
}

impl ChangeReport {
    /// `0123456789ab Keep arenas (2024-05-21)`, or the range that holds the change.
    fn what(&self) -> String {
        match self.commits.as_slice() {
            [commit] => format!("{} {} ({})", commit.short(), commit.subject, commit.day),
            [] => format!("after {} up to {}", self.after, self.to),
            several => format!("after {} up to {} ({} commits)", self.after, self.to, several.len()),
        }
    }

    /// The commit, or those of the range.
    fn details(&self) -> Vec<Block> {
        match self.commits.as_slice() {
            [] => Vec::new(),
            [commit] => {
                let pairs = [
                    ("day", Some(commit.day.clone())),
                    ("tags", Some(commit.tags.join(", ")).filter(|tags| !tags.is_empty())),
                    ("files", Some(names(&commit.files, LISTED))),
                ];
                let pairs = pairs.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
                let heading = Block::Heading(format!("{} {}", commit.id, commit.subject));
                vec![heading, Block::Pairs(pairs.collect())]
            }
            several => {
                let item = |commit: &CommitReport| {
                    let skipped = commit.skipped.as_ref().map_or("", |_| " (could not be measured)");
                    format!("{} {} {}{skipped}", commit.short(), commit.day, commit.subject)
                };
                let more = several.len().saturating_sub(LISTED);
                let more = (more > 0).then(|| format!("and {more} more"));
                let items = several.iter().take(LISTED).map(item).chain(more).collect();
                vec![Block::Heading(self.what()), Block::List(items)]
            }
        }
    }
}

impl CommitReport {
    fn short(&self) -> &str {
        self.id.get(..12).unwrap_or(&self.id)
    }
}

impl Document for BisectReport {
    const NAME: &'static str = "bisect";

    fn title(&self) -> String {
        let settings = match self.settings.is_empty() {
            true => String::new(),
            false => format!(", with {}", self.settings.join(", ")),
        };
        format!("{}: what changed from {} to {}{settings}", self.family, self.older, self.newer)
    }

    fn sections(&self, _: Detail) -> Vec<Section> {
        let mut result = vec![Block::Lead(self.lead())];
        result.extend(self.changes_table().map(|table| Block::Table("Changes".to_owned(), table)));
        if !self.measured.is_empty() {
            result.push(Block::Chart("history"));
        }
        let positions = format!(
            "{}, fitted to all blocks together: the ratios of a position's own blocks may differ.",
            self.figure()
        );
        let details: Vec<Block> = self.changes.iter().flat_map(ChangeReport::details).collect();
        let sections = [
            Some(section("result", "Result", result)),
            Some(section("changes", "What changed", details)).filter(|section| !section.blocks.is_empty()),
            table_section(
                "positions",
                "Positions that were measured",
                Some(positions),
                self.positions_table(),
            ),
            table_section("skipped", "What could not be measured", None, self.skipped_table()),
            Some(section("notes", "Caveats", vec![Block::List(self.notes())])),
        ];
        sections.into_iter().chain(self.run.sections()).flatten().collect()
    }

    fn styles(&self) -> ArmStyles {
        ArmStyles::of_treatments([(self.family.as_str(), false)])
    }

    fn charts(&self) -> Vec<Chart> {
        vec![self.chart()]
    }
}
