//! How well a lab run predicted the field, as a document.

use heaptrial_evaluate::analysis::{Estimate, Verdict};
use heaptrial_evaluate::judgement::score::{AtConsensuses, Figure, Score, ScoreError, Side};
use heaptrial_model::{AllocatorSpec, Arm, FAMILIES, Treatment};
use serde::{Deserialize, Serialize};

use crate::chart::ArmStyles;
use crate::forms::Document;
use crate::page::{Block, Section};
use crate::table::{Detail, Emphasis, NOTHING, Row, Table, figure, optional, row, text};
use crate::units::{self, Pace};

/// The form of [`ScoreReport`] as JSON that this version writes.
pub const SCORE_SCHEMA_VERSION: u32 = 1;
/// An age at which fewer than this share of an arm's services have a level is named.
const MOST_SERVICES: f64 = 0.5;

/// A lab run against a trial in the field: `score.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreReport {
    pub schema_version: u32,
    #[serde(flatten)]
    pub score: Score,
}

impl ScoreReport {
    /// As [`Score::of`].
    pub fn of(lab: &Side, field: &Side, ages: &[f64], by_hand: &[String]) -> Result<Self, ScoreError> {
        Ok(Self { schema_version: SCORE_SCHEMA_VERSION, score: Score::of(lab, field, ages, by_hand)? })
    }

    fn name(&self, arm: usize) -> &str {
        &self.score.arms[arm].lab
    }

    fn sentences(&self) -> Vec<String> {
        let order = self.score.ages.iter().map(|at| {
            let tau = at.tau_b.map_or_else(String::new, |tau| format!(" (Kendall's tau-b {tau:.2})"));
            let tied = if at.pairs_tied > 0 { format!(", {} tied", at.pairs_tied) } else { String::new() };
            format!(
                "At {:.0} consensuses lab and field order {} of {} pairs of arms alike{tau}{tied}.",
                at.consensuses, at.pairs_alike, at.pairs
            )
        });
        order.chain(self.worst()).collect()
    }

    fn worst(&self) -> Option<String> {
        let factors = self.score.ages.iter().flat_map(|at| {
            at.arms.iter().filter_map(|arm| Some((at.consensuses, arm.arm, arm.factor?.value)))
        });
        let (consensuses, arm, factor) = factors.max_by(|a, b| a.2.ln().abs().total_cmp(&b.2.ln().abs()))?;
        Some(format!(
            "The ratio of {} is furthest from the field's: {} times it at {consensuses:.0} consensuses.",
            self.name(arm),
            units::ratio(factor)
        ))
    }

    fn arms_at(&self, at: &AtConsensuses) -> Table {
        let columns = [
            text("Arm"),
            figure("Lab"),
            figure("Field"),
            figure("Ratio in the lab"),
            figure("Ratio in the field"),
            figure("Factor"),
            figure("Services (lab, field)"),
        ];
        let services = |figure: &Figure| format!("{} of {}", figure.services, figure.of);
        let rows = at.arms.iter().map(|arm| {
            let to_first = |estimate| if arm.arm == 0 { "1".to_owned() } else { ratio(estimate) };
            let cells = vec![
                self.name(arm.arm).to_owned(),
                units::memory(arm.lab.level_bytes as f64),
                units::memory(arm.field.level_bytes as f64),
                to_first(arm.lab.ratio),
                to_first(arm.field.ratio),
                ratio(arm.factor),
                format!("{}, {}", services(&arm.lab), services(&arm.field)),
            ];
            arm_row(arm.arm, cells)
        });
        Table { rows: rows.collect(), columns: columns.into() }
    }

    fn growing(&self) -> Table {
        let columns = [
            text("Arm"),
            figure("Lab, each consensus"),
            figure("Field, each hour"),
            figure("Factor"),
            text("Lab's verdict"),
            text("Field's verdict"),
        ];
        let verdict =
            |verdict: &Option<Verdict>| optional(verdict.as_ref(), |verdict| verdict.as_str().to_owned());
        let rows = self.score.growth.iter().enumerate().map(|(arm, growth)| {
            let cells = vec![
                self.name(arm).to_owned(),
                rate(growth.lab_bytes_per_hour),
                rate(growth.field_bytes_per_hour),
                ratio(growth.factor),
                verdict(&growth.lab_verdict),
                verdict(&growth.field_verdict),
            ];
            arm_row(arm, cells)
        });
        Table { rows: rows.collect(), columns: columns.into() }
    }

    fn runs(&self) -> Table {
        let columns = [text("Run"), text("Kind"), figure("Seed"), figure("Consensuses"), text("Memory")];
        let rows = [&self.score.lab, &self.score.field].into_iter().map(|run| {
            row(vec![
                run.name.clone(),
                run.kind.describe().to_owned(),
                optional(run.seed, |seed| seed.to_string()),
                optional(run.consensuses, |count| count.to_string()),
                run.metric.describe().to_owned(),
            ])
        });
        Table { rows: rows.collect(), columns: columns.into() }
    }

    /// What bears on the figures.
    fn notes(&self) -> Vec<String> {
        let score = &self.score;
        let mut notes = score.findings.clone();
        let metric = score.lab.metric;
        if metric != score.field.metric {
            notes.push(format!(
                "Memory is {} in the lab and {} in the field; --metric changes the lab's.",
                metric.describe(),
                score.field.metric.describe()
            ));
        }
        if score.field_ages_are_lower_bounds {
            notes.push(
                "Most starts in the field are unknown: its services are older than their ages here."
                    .to_owned(),
            );
        }
        for (side, names) in [("lab", &score.only_in_lab), ("field", &score.only_in_field)] {
            if !names.is_empty() {
                notes.push(format!(
                    "Not compared, without an equal spec on the other side: {} of the {side} (--match LAB=FIELD pairs them).",
                    names.join(", ")
                ));
            }
        }
        notes.extend(
            score
                .arms
                .iter()
                .filter(|pair| pair.lab != pair.field)
                .map(|pair| format!("{} of the lab is compared with {} of the field.", pair.lab, pair.field)),
        );
        notes.extend(
            score
                .not_compared
                .iter()
                .map(|(age, why)| format!("Not compared at {age:.0} consensuses: {why}.")),
        );
        for at in &score.ages {
            let few = |figure: &Figure| f64::from(figure.services) < MOST_SERVICES * f64::from(figure.of);
            let names: Vec<&str> = at
                .arms
                .iter()
                .filter(|arm| few(&arm.lab) || few(&arm.field))
                .map(|arm| self.name(arm.arm))
                .collect();
            if !names.is_empty() {
                notes.push(format!(
                    "At {:.0} consensuses fewer than half of the services have a level: {}.",
                    at.consensuses,
                    names.join(", ")
                ));
            }
        }
        let has_interval = |at: &AtConsensuses| {
            at.arms.iter().any(|arm| arm.lab.ratio.is_some_and(|ratio| ratio.low.is_some()))
        };
        if !score.ages.iter().any(has_interval) {
            notes.push(
                "One relay an arm in the lab gives no intervals: give the run --repeat 3 or more.".to_owned(),
            );
        }
        notes
    }
}

impl Document for ScoreReport {
    const NAME: &'static str = "score";

    fn title(&self) -> String {
        format!("Lab against field: {}", self.score.field.name)
    }

    fn sections(&self, _: Detail) -> Vec<Section> {
        let section = |id, title, blocks| Section { id, title, blocks };
        let mut ratios = vec![Block::Legend(format!(
            "By ratio to {} in the lab, within repeats of the lab and servers of the field; factor: the lab's ratio over the field's.",
            self.name(0)
        ))];
        for at in &self.score.ages {
            let title =
                format!("At {:.0} consensuses, {}", at.consensuses, units::duration(3600.0 * at.consensuses));
            ratios.extend([Block::Heading(title.clone()), Block::Table(title, self.arms_at(at))]);
        }
        let growth = "Growth after warm-up; factor: lab over field, where the field is shown to grow.";
        let runs = vec![
            Block::Table("Runs".to_owned(), self.runs()),
            Block::Command(self.score.lab.command.clone()),
        ];
        let notes = self.notes();
        let mut sections = vec![
            section("result", "Result", vec![Block::Lead(self.sentences())]),
            section("ratios", "Ratios", ratios),
            section(
                "growth",
                "Growth and verdicts",
                vec![
                    Block::Legend(growth.to_owned()),
                    Block::Table("Growth and verdicts".to_owned(), self.growing()),
                ],
            ),
            section("runs", "Runs", runs),
        ];
        if !notes.is_empty() {
            sections.insert(3, section("notes", "What to mind", vec![Block::List(notes)]));
        }
        sections
    }

    /// As in reports of the lab.
    fn styles(&self) -> ArmStyles {
        let arm = |(index, pair): (usize, &heaptrial_evaluate::judgement::score::Partners)| {
            let spec: Option<AllocatorSpec> = pair.lab.parse().ok();
            let allocator = spec.filter(|spec| FAMILIES.contains(&spec.family.as_str()));
            Arm {
                name: pair.lab.clone(),
                control: index == 0,
                treatment: Treatment { allocator, ..Treatment::default() },
            }
        };
        let arms: Vec<Arm> = self.score.arms.iter().enumerate().map(arm).collect();
        ArmStyles::of(arms.iter().map(|arm| (arm, None)))
    }
}

fn arm_row(arm: usize, cells: Vec<String>) -> Row {
    Row { arm: Some(arm), emphasis: if arm == 0 { Emphasis::Control } else { Emphasis::None }, cells }
}

fn ratio(estimate: Option<Estimate>) -> String {
    optional(estimate, |estimate| with_interval(estimate, units::ratio))
}

fn rate(estimate: Option<Estimate>) -> String {
    let bytes = |bytes: f64| units::growth(bytes, Pace::Hour).trim_end_matches("/h").to_owned();
    estimate.map_or(NOTHING.to_owned(), |estimate| with_interval(estimate, bytes))
}

fn with_interval(estimate: Estimate, text: impl Fn(f64) -> String) -> String {
    match estimate.interval() {
        Some((low, high)) => format!("{} ({} to {})", text(estimate.value), text(low), text(high)),
        None => text(estimate.value),
    }
}
