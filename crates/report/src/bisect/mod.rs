//! Which release or commit changed the memory, as a document.

mod chart;
mod forms;
mod sentences;

use heaptrial_search::bisect::Answer;
use serde::{Deserialize, Serialize};

/// The form of [`BisectReport`] as JSON that this version writes.
pub const BISECT_SCHEMA_VERSION: u32 = 1;

/// A search for the change between two builds: `bisect.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BisectReport {
    pub schema_version: u32,
    pub family: String,
    /// The older end, which is the control of every block.
    pub older: String,
    pub newer: String,
    /// Whether the older end is the good one.
    pub older_is_good: bool,
    /// The reading that it is of, in words.
    pub metric: String,
    /// What holds for every build, such as `purge_delay=0`.
    pub settings: Vec<String>,
    /// Seed of the first block.
    pub seed: u64,
    /// The command that repeats it.
    pub command: String,
    /// Positions of the history, both ends counted.
    pub positions: usize,
    /// Commits between the ends that change nothing that is compiled.
    pub left_out: usize,
    /// Where the line to the newer end leaves what it shares with the older end, if that is not on it.
    pub forks_at: Option<String>,
    /// The commit on the line that merges the older end in, in words.
    pub merged_at: Option<String>,
    /// Whether positions are commits; else releases.
    pub of_commits: bool,
    /// The confidence that was asked for.
    pub confidence: f64,
    /// Why there is no more, if the search ended early.
    pub stopped: Option<String>,
    pub answer: Answer,
    /// One for each of the answer's changes: what it is.
    pub changes: Vec<ChangeReport>,
    /// Positions that were measured, in the order of the history.
    pub measured: Vec<MeasuredPosition>,
    /// Positions that could not be measured.
    pub skipped: Vec<SkippedPosition>,
    /// Positions that build the same file as another, which needs no run: name, and that of the other.
    pub same: Vec<(String, String)>,
    /// Size of the noise of one block (standard deviation of the log ratio).
    pub noise: f64,
    /// Blocks in the order of the runs.
    pub blocks: Vec<BlockReport>,
}

/// A change of the level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ChangeReport {
    /// The last position that is still as before.
    pub after: String,
    /// The first position that is sure to be changed.
    pub to: String,
    /// The commits in which the change may be, oldest first; one where it was found.
    pub commits: Vec<CommitReport>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CommitReport {
    pub id: String,
    pub day: String,
    /// The first line of its message.
    pub subject: String,
    pub tags: Vec<String>,
    /// Files that it changed; known of a few commits only.
    pub files: Vec<String>,
    /// Of a merge, how many commits came with it.
    pub merged: Option<usize>,
    /// Why it was not measured, if it could not be.
    pub skipped: Option<String>,
}

/// A position that was measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MeasuredPosition {
    /// Where in the history; 0 is the older end.
    pub position: usize,
    pub name: String,
    pub blocks: usize,
    /// Posterior mean of the log ratio to the older end.
    pub log_ratio: f64,
    pub sd: f64,
}

/// A position that could not be measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SkippedPosition {
    pub position: usize,
    pub name: String,
    pub why: String,
}

/// A block: the older end and a position, same seed and load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BlockReport {
    /// Its number, which is that of its folder.
    pub number: usize,
    pub position: usize,
    pub name: String,
    /// Level of the older end, in bytes.
    pub older_bytes: f64,
    /// Level of the position, in bytes.
    pub bytes: f64,
    /// The log ratio that was measured.
    pub log_ratio: f64,
}

impl BisectReport {
    /// Whether the ends were shown to differ.
    pub fn ends_differ(&self) -> bool {
        !self.answer.changes.is_empty()
    }

    /// Median level of the older end in bytes.
    fn older_bytes(&self) -> Option<f64> {
        let mut levels: Vec<f64> = self.blocks.iter().map(|block| block.older_bytes).collect();
        levels.sort_by(f64::total_cmp);
        levels.get(levels.len() / 2).copied()
    }
}

#[cfg(test)]
mod tests {
    use heaptrial_search::bisect::{Change, Ends};

    use super::*;
    use crate::Document as _;

    fn report(subject: &str) -> BisectReport {
        let commit = CommitReport {
            id: "0123456789abcdef0123456789abcdef01234567".to_owned(),
            day: "2024-05-21".to_owned(),
            subject: subject.to_owned(),
            tags: Vec::new(),
            files: vec!["src/arena.c".to_owned()],
            merged: Some(3),
            skipped: None,
        };
        let at = |position: usize, name: &str, log_ratio: f64| MeasuredPosition {
            position,
            name: name.to_owned(),
            blocks: 2,
            log_ratio,
            sd: 0.02,
        };
        let change = Change { after: 4, to: 5, probability: 0.987, log_ratio: 0.405, narrowest: true };
        BisectReport {
            schema_version: BISECT_SCHEMA_VERSION,
            family: "mimalloc".to_owned(),
            older: "v2.1.7".to_owned(),
            newer: "v3.0.1".to_owned(),
            older_is_good: true,
            metric: "anonymous memory".to_owned(),
            settings: Vec::new(),
            seed: 7,
            command: "heaptrial lab bisect".to_owned(),
            positions: 9,
            left_out: 2,
            forks_at: None,
            merged_at: None,
            of_commits: true,
            confidence: 0.95,
            stopped: None,
            answer: Answer {
                found: true,
                same_ends: false,
                ends: Ends { differ: 0.999, log_ratio: 0.41, interval: [0.38, 0.44], measured: 3 },
                changes: vec![change],
                smaller: Vec::new(),
                blocks: 9,
            },
            changes: vec![ChangeReport {
                after: "aaaaaaaaaaaa".to_owned(),
                to: "0123456789ab".to_owned(),
                commits: vec![commit],
            }],
            measured: vec![at(0, "v2.1.7", 0.0), at(4, "aaaaaaaaaaaa", 0.01), at(8, "v3.0.1", 0.41)],
            skipped: vec![SkippedPosition {
                position: 2,
                name: "bbbbbbbbbbbb".to_owned(),
                why: "does not build".to_owned(),
            }],
            same: vec![("cccccccccccc".to_owned(), "aaaaaaaaaaaa".to_owned())],
            noise: 0.02,
            blocks: vec![BlockReport {
                number: 1,
                position: 8,
                name: "v3.0.1".to_owned(),
                older_bytes: 1e8,
                bytes: 1.5e8,
                log_ratio: 0.405,
            }],
        }
    }

    #[test]
    fn every_form_tells_the_commit_its_size_and_how_sure_it_is() {
        let found = report("Keep arenas");
        let page = found.html();
        for text in [found.terminal(false), found.markdown(), page.clone()] {
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for told in [
                "0123456789ab",
                "Keep arenas",
                "1.50 times",
                "98.7%",
                "src/arena.c",
                "does not build",
                "3 commits",
                "aaaaaaaaaaaa (cccccccccccc builds the same)",
                "fits all blocks together",
            ] {
                assert!(text.contains(told), "{told}: {text}");
            }
        }
        assert!(page.contains("<svg") && page.contains("From v2.1.7 to v3.0.1"));
        assert_eq!(serde_json::from_str::<BisectReport>(&found.json().unwrap()).unwrap(), found);
    }

    #[test]
    fn a_message_of_a_commit_cannot_act_on_a_terminal_or_a_page() {
        let found = report("\u{1b}[2Jgone <script>alert(1)</script>");
        assert!(!found.terminal(false).contains('\u{1b}'));
        assert!(!found.html().contains("<script>"));
    }

    #[test]
    fn an_end_beside_the_line_is_told_and_no_commit_is_blamed_for_what_it_lacks() {
        let unfolded = |found: &BisectReport| {
            let text = found.terminal(false);
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let mut found = report("Keep arenas");
        found.forks_at = Some("9c544aba41e6".to_owned());
        found.merged_at = Some("e96af1dba075 \"Merge it\" (2023-04-05)".to_owned());
        let merged = unfolded(&found);
        assert!(merged.contains("merged into it at e96af1dba075 \"Merge it\""), "{merged}");
        assert!(!merged.contains("does not come from"), "{merged}");
        found.answer.changes[0] = Change { after: 0, to: 1, ..found.answer.changes[0] };
        found.changes[0].commits.clear();
        let own = unfolded(&found);
        assert!(own.contains("No single commit is to blame: 9c544aba41e6 is where"), "{own}");
        found.answer.changes[0].to = 3;
        let beside = unfolded(&found);
        assert!(beside.contains("may be what v2.1.7 alone has"), "{beside}");
    }

    #[test]
    fn ends_that_are_the_same_library_are_told_so() {
        let mut found = report("");
        found.answer = Answer::same_ends();
        found.changes.clear();
        found.blocks.clear();
        let text = found.terminal(false);
        assert!(
            text.contains("build the same library") && !text.contains("could not be measured."),
            "{text}"
        );
    }

    #[test]
    fn ends_that_do_not_differ_are_told_with_their_figures() {
        let mut found = report("");
        found.answer.changes.clear();
        found.changes.clear();
        found.answer.found = false;
        let text = found.terminal(false);
        assert!(text.contains("do not differ here") && text.contains("1.46"), "{text}");
    }
}
