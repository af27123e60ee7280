//! How well a lab told what the field showed, as a document.

mod forms;

use std::ops::Deref;

use heaptrial_judgement::score::{Figure, Score, ScoreError, Side};
use heaptrial_model::Metric;
use serde::{Deserialize, Serialize};

/// The form of [`ScoreReport`] as JSON that this version writes.
pub const SCORE_SCHEMA_VERSION: u32 = 1;

/// A lab's runs against a trial in the field: `score.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreReport {
    /// [`SCORE_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What was found.
    #[serde(flatten)]
    pub score: Score,
    /// What to know about the figures.
    pub notes: Vec<String>,
}

impl ScoreReport {
    /// Scores `lab` against `field`, as [`Score::of`] does.
    pub fn of(lab: &Side, field: &Side, ages: &[f64], by_hand: &[String]) -> Result<Self, ScoreError> {
        let score = Score::of(lab, field, ages, by_hand)?;
        let notes = notes(&score);
        Ok(Self { schema_version: SCORE_SCHEMA_VERSION, score, notes })
    }
}

impl Deref for ScoreReport {
    type Target = Score;

    fn deref(&self) -> &Score {
        &self.score
    }
}

fn notes(score: &Score) -> Vec<String> {
    let mut notes = Vec::new();
    let metric = score.lab.first().map(|run| run.metric);
    if let Some(metric) = metric.filter(|metric| *metric != score.field.metric) {
        let of_files = match (metric, score.field.metric) {
            (Metric::Anon, Metric::Rss) => {
                " RSS has the mapped files too, some 28 MiB of a relay, which weigh less in the field's larger relays."
            }
            _ => "",
        };
        notes.push(format!(
            "Memory is {} in the lab and {} in the field.{of_files}",
            metric.describe(),
            score.field.metric.describe()
        ));
    }
    if score.field_ages_are_lower_bounds {
        notes.push(
            "In some arm of the field most starts are unknown: ages there count from the first reading, and its services are \
             older than the lab's relays that they stand beside."
                .to_owned(),
        );
    }
    if score.lab.iter().any(|run| run.rested == Some(false)) {
        notes.push(
            "The lab's consensuses came at an interval, whether relays had rested or not: what an allocator gives back in idle \
             time is missing from its figures."
                .to_owned(),
        );
    }
    let list = |title: &str, names: &[String]| format!("{title}: {}.", names.join(", "));
    if !score.lab_alone.is_empty() {
        notes.push(list("Arms of the lab without a partner in the field", &score.lab_alone));
    }
    if !score.field_alone.is_empty() {
        notes.push(list("Arms of the field without a partner in the lab", &score.field_alone));
    }
    if !score.lab_alone.is_empty() && !score.field_alone.is_empty() {
        notes.push(
            "Settings never match by themselves: --match LAB=FIELD says which of these are the same."
                .to_owned(),
        );
    }
    for age in &score.left_out {
        notes.push(format!("Not compared at {:.0} consensuses: {}.", age.consensuses, age.why));
    }
    for at in &score.ages {
        for without in &at.without {
            let side = if without.in_lab { "lab" } else { "field" };
            let hours = without.hours.map_or_else(
                || "has no reading of it".to_owned(),
                |(first, last)| format!("has readings of it at ages of {first:.0} to {last:.0} h only"),
            );
            let arm = &score.arms[without.arm].lab;
            notes.push(format!(
                "{arm} is not compared at {:.0} consensuses: the {side} {hours}.",
                at.consensuses
            ));
        }
        let few = |side: &'static str, of: fn(&heaptrial_judgement::score::ArmScore) -> &Figure| {
            let told = at.arms.iter().filter(|arm| of(arm).is_of_few()).map(|arm| {
                let Figure { services, of, .. } = of(arm);
                format!("{} ({services} of {of})", score.arms[arm.arm].lab)
            });
            let told: Vec<String> = told.collect();
            (!told.is_empty()).then(|| {
                format!(
                    "At {:.0} consensuses less than half of the {side}'s services are old enough: {}.",
                    at.consensuses,
                    told.join(", ")
                )
            })
        };
        notes.extend(few("lab", |arm| &arm.lab));
        notes.extend(few("field", |arm| &arm.field));
    }
    let several = |arm: &heaptrial_judgement::score::ArmScore| arm.lab.services > 1;
    if !score.ages.iter().flat_map(|at| &at.arms).any(several) {
        notes.push(
            "One relay of each arm in the lab: no intervals, so nothing tells how far another run would be from this one. Score \
             three seeds or more together."
                .to_owned(),
        );
    }
    notes
}
