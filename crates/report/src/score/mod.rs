//! How well a lab told what the field showed, as a document.

mod forms;

use std::ops::Deref;

use heaptrial_judgement::score::{Figure, GrowthScore, Partners, Score, ScoreError, Side};
use heaptrial_model::{Metric, units};
use serde::{Deserialize, Serialize};

/// The form of [`ScoreReport`] as JSON that this version writes.
pub const SCORE_SCHEMA_VERSION: u32 = 1;

/// Growth that was measured over so many times as long on one side is told.
const SPANS_APART: f64 = 2.0;

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
    if let Some(first) = score.arms.first() {
        let own = |side: &str, control: &str, arm: &str| {
            (control != arm).then(|| format!("The {side}'s own control is {control}; ratios are to {arm}."))
        };
        notes.extend(own("lab", &score.lab_control, &first.lab));
        notes.extend(own("field", &score.field_control, &first.field));
    }
    notes.extend(score.alone.iter().map(|arm| format!("{arm}.")));
    for pair in &score.arms {
        let Partners { lab, field, unread, lab_left_out, field_left_out, .. } = pair;
        notes.extend(unread.as_ref().map(|words| {
            format!("{field} of the field is taken for {lab} of the lab: `{words}` in its name is passed over. If that is a setting, they are two treatments.")
        }));
        for (side, arm, count) in [("lab", lab, *lab_left_out), ("field", field, *field_left_out)] {
            if count > 0 {
                notes.push(format!(
                    "{} of {arm} in the {side} {} in no figure: not running what {} should, ended early or not read. The {side}'s own \
                     report names them.",
                    units::counted(count as usize, "service"),
                    if count == 1 { "is" } else { "are" },
                    if count == 1 { "it" } else { "they" },
                ));
            }
        }
    }
    let spans = |growth: &GrowthScore| growth.lab_hours.zip(growth.field_hours);
    let apart = |(lab, field): &(f64, f64)| lab.max(*field) > SPANS_APART * lab.min(*field);
    if score.growth.iter().filter_map(spans).any(|spans| apart(&spans)) {
        notes.push(
            "Growth is measured over much longer on one side than on the other: where it bends or comes in steps, that is not the \
             same growth."
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
