//! How well a lab run predicted the field, as a document.

use heaptrial_evaluate::analysis::{Estimate, Verdict};
use heaptrial_evaluate::judgement::score::{
    ArmScore, AtConsensuses, Figure, Score, ScoreError, Scored, Side,
};
use serde::{Deserialize, Serialize};

use crate::chart::ArmStyles;
use crate::forms::Document;
use crate::page::{Block, Section, section};
use crate::table::{Columns, Detail, Emphasis, Table, table_section};
use crate::units::{self, Pace};

/// The form of [`ScoreReport`] as JSON that this version writes.
pub const SCORE_SCHEMA_VERSION: u32 = 1;

/// A lab run against a trial in the field: `score.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreReport {
    pub schema_version: u32,
    #[serde(flatten)]
    pub score: Score,
}

impl ScoreReport {
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
        order.collect()
    }

    fn arms_at(&self, at: &AtConsensuses) -> Option<Table> {
        let services = |figure: &Figure| format!("{} of {}", figure.services, figure.of);
        let to_first =
            |arm: &&ArmScore, ratio| if arm.arm == 0 { Some("1".to_owned()) } else { of_ratio(ratio) };
        Columns::of("Arm", |arm: &&ArmScore| self.name(arm.arm).to_owned())
            .figure("Lab", |arm| Some(units::memory(arm.lab.level_bytes as f64)))
            .figure("Field", |arm| Some(units::memory(arm.field.level_bytes as f64)))
            .figure("Ratio in the lab", move |arm| to_first(arm, arm.lab.ratio))
            .figure("Ratio in the field", move |arm| to_first(arm, arm.field.ratio))
            .figure("Factor", |arm| of_ratio(arm.factor))
            .figure("Services (lab, field)", move |arm| {
                Some(format!("{}, {}", services(&arm.lab), services(&arm.field)))
            })
            .table_of_arms(&at.arms, |arm| about(arm.arm))
    }

    fn growing(&self) -> Option<Table> {
        let growth = |arm: &usize| &self.score.growth[*arm];
        let word = |verdict: &Option<Verdict>| verdict.as_ref().map(|verdict| verdict.as_str().to_owned());
        Columns::of("Arm", |arm: &usize| self.name(*arm).to_owned())
            .figure("Lab, each consensus", move |arm| of_rate(growth(arm).lab_bytes_per_hour))
            .figure("Field, each hour", move |arm| of_rate(growth(arm).field_bytes_per_hour))
            .figure("Factor", move |arm| of_ratio(growth(arm).factor))
            .text("Lab's verdict", move |arm| word(&growth(arm).lab_verdict))
            .text("Field's verdict", move |arm| word(&growth(arm).field_verdict))
            .table_of_arms(0..self.score.growth.len(), |arm| about(*arm))
    }

    fn runs(&self) -> Option<Table> {
        Columns::of("Run", |run: &&Scored| run.name.clone())
            .text("Kind", |run| Some(run.kind.describe().to_owned()))
            .figure("Seed", |run| Some(run.seed?.to_string()))
            .figure("Consensuses", |run| Some(run.consensuses?.to_string()))
            .text("Memory", |run| Some(run.metric.describe().to_owned()))
            .table(self.score.lab.iter().chain([&self.score.field]))
    }

    fn caveats(&self) -> Vec<String> {
        let score = &self.score;
        let metrics = [score.lab[0].metric, score.field.metric].map(heaptrial_model::Metric::describe);
        let unmatched = |side: &str, names: &[String]| {
            (!names.is_empty()).then(|| {
                let names = names.join(", ");
                format!("Not compared, without an equal spec on the other side: {names} of the {side} (--match LAB=FIELD pairs them).")
            })
        };
        let has_interval = |at: &AtConsensuses| {
            at.arms.iter().any(|arm| arm.lab.ratio.is_some_and(|ratio| ratio.low.is_some()))
        };
        let single = [
            (metrics[0] != metrics[1]).then(|| {
                let [lab, field] = metrics;
                format!("Memory is {lab} in the lab and {field} in the field; --metric changes the lab's.")
            }),
            score.field_ages_are_lower_bounds.then(|| {
                "Most starts in the field are unknown: its services are older than their ages here."
                    .to_owned()
            }),
            unmatched("lab", &score.only_in_lab),
            unmatched("field", &score.only_in_field),
            (!score.ages.iter().any(has_interval)).then(|| {
                "One relay an arm in the lab gives no intervals: give the run --repeat 3 or more, or score three seeds \
                 together."
                    .to_owned()
            }),
        ];
        let pairs = score.arms.iter().filter(|pair| pair.lab != pair.field);
        let pairs = pairs
            .map(|pair| format!("{} of the lab is compared with {} of the field.", pair.lab, pair.field));
        let missing = score.not_compared.iter();
        let missing = missing.map(|(age, why)| format!("Not compared at {age:.0} consensuses: {why}."));
        score
            .findings
            .iter()
            .cloned()
            .chain(single.into_iter().flatten())
            .chain(pairs)
            .chain(missing)
            .collect()
    }
}

impl Document for ScoreReport {
    const NAME: &'static str = "score";

    fn title(&self) -> String {
        format!("Lab against field: {}", self.score.field.name)
    }

    fn sections(&self, _: Detail) -> Vec<Section> {
        let mut ratios = vec![Block::Legend(format!(
            "By ratio to {} in the lab, within repeats of the lab and servers of the field; factor: the lab's ratio over the field's.",
            self.name(0)
        ))];
        for at in &self.score.ages {
            let title =
                format!("At {:.0} consensuses, {}", at.consensuses, units::duration(3600.0 * at.consensuses));
            ratios.push(Block::Heading(title.clone()));
            ratios.extend(self.arms_at(at).map(|table| Block::Table(title, table)));
        }
        let growth = "Growth after warm-up; factor: lab over field, where the field is shown to grow.";
        let commands = self.score.lab.iter().map(|run| Block::Command(run.command.clone()));
        let sections = [
            Some(section("result", "Result", vec![Block::Lead(self.sentences())])),
            Some(section("ratios", "Ratios", ratios)),
            table_section("growth", "Growth and verdicts", Some(growth.to_owned()), self.growing()),
            Some(section("caveats", "Caveats", vec![Block::List(self.caveats())])),
            table_section("runs", "Runs", None, self.runs()),
            Some(section("again", "Again", commands.collect())),
        ];
        sections.into_iter().flatten().collect()
    }

    fn styles(&self) -> ArmStyles {
        let pairs = self.score.arms.iter().enumerate();
        ArmStyles::of_treatments(pairs.map(|(index, pair)| (pair.lab.as_str(), index == 0)))
    }
}

fn about(arm: usize) -> (Option<usize>, Emphasis) {
    (Some(arm), if arm == 0 { Emphasis::Control } else { Emphasis::None })
}

fn of_ratio(estimate: Option<Estimate>) -> Option<String> {
    Some(crate::text::estimate(&estimate?, units::ratio))
}

fn of_rate(rate: Option<Estimate>) -> Option<String> {
    let bytes = |bytes: f64| units::growth(bytes, Pace::Hour).trim_end_matches("/h").to_owned();
    Some(crate::text::estimate(&rate?, bytes))
}
