//! How well a lab told what the field showed, as a document.

mod forms;

use std::ops::Deref;

use heaptrial_judgement::score::{
    AtConsensuses, Figure, GrowthScore, LeftOut, Partners, Score, ScoreError, Side,
};
use heaptrial_model::{Metric, units};
use serde::{Deserialize, Serialize};

/// The form of [`ScoreReport`] as JSON that this version writes.
pub const SCORE_SCHEMA_VERSION: u32 = 2;

/// Growth that was measured over so many times as long on one side is told.
const SPANS_APART: f64 = 2.0;
/// Services that are in no figure are named up to so many.
const NAMED: usize = 6;

/// A lab's runs against a trial in the field: `score.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScoreReport {
    pub schema_version: u32,
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
                " RSS has the mapped files too, which weigh less in the field's larger relays; --metric rss takes RSS in the lab too."
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
    if let Some(first) = score.arms.first() {
        let own = |side: &str, control: &str, arm: &str| {
            (control != arm).then(|| format!("The {side}'s own control is {control}; ratios are to {arm}."))
        };
        notes.extend(own("lab", &score.lab_control, &first.lab));
        notes.extend(own("field", &score.field_control, &first.field));
    }
    let grave = |side: &'static str, told: &[String]| -> Vec<String> {
        told.iter().map(|finding| format!("Grave in the {side}'s data: {finding}.")).collect()
    };
    notes.extend(grave("lab", &score.grave_in_lab));
    notes.extend(grave("field", &score.grave_in_field));
    notes.extend(score.alone.iter().map(|arm| format!("{arm}.")));
    for pair in &score.arms {
        let Partners { lab, field, unread, versions, lab_left_out, field_left_out, .. } = pair;
        notes.extend(versions.as_ref().map(|(in_lab, in_field)| {
            format!("{lab} is of version {in_lab} in the lab and {field} of {in_field} in the field.")
        }));
        notes.extend(unread.as_ref().map(|words| {
            format!("{field} of the field is taken for {lab} of the lab: `{words}` in its name is passed over. If that is a setting, they are two treatments.")
        }));
        notes.extend(in_no_figure("lab", lab, lab_left_out));
        notes.extend(in_no_figure("field", field, field_left_out));
    }
    notes.extend(score.ages.iter().filter_map(|at| as_listed(score, at)));
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
                |(first, last)| match (first..=last).contains(&at.consensuses) {
                    true => "has too few readings of it near that age".to_owned(),
                    false => format!("has readings of it at ages of {first:.0} to {last:.0} h only"),
                },
            );
            let arm = &score.arms[without.arm].lab;
            notes.push(format!(
                "{arm} is not compared at {:.0} consensuses: the {side} {hours}.",
                at.consensuses
            ));
        }
        for arm in &at.unordered {
            notes.push(format!(
                "{} is in no order at {:.0} consensuses: on one side nothing is beside the control on the same server or in the same run.",
                score.arms[*arm].lab, at.consensuses
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
                    "At {:.0} consensuses less than half of the {side}'s services have a level: {}.",
                    at.consensuses,
                    told.join(", ")
                )
            })
        };
        notes.extend(few("lab", |arm| &arm.lab));
        notes.extend(few("field", |arm| &arm.field));
    }
    let has_interval =
        |arm: &heaptrial_judgement::score::ArmScore| arm.lab.ratio.is_some_and(|ratio| ratio.low.is_some());
    if !score.ages.iter().flat_map(|at| &at.arms).any(has_interval) {
        notes.push(
            "One relay of each arm beside a control in the lab: no intervals, so nothing tells how far another run would be from this one. Score \
             three seeds or more together."
                .to_owned(),
        );
    }
    notes
}

/// Which services of an arm are in no figure, and why.
fn in_no_figure(side: &str, arm: &str, left_out: &LeftOut) -> Vec<String> {
    let is = |count: usize| if count == 1 { "is" } else { "are" };
    let told = |count: usize, why: String| {
        format!(
            "{} of {arm} in the {side} {} in no figure: {why}.",
            units::counted(count, "service"),
            is(count)
        )
    };
    let mut notes = Vec::new();
    if !left_out.proved.is_empty() {
        let why = format!("proved to run something else ({})", some_of(left_out.proved.iter()));
        notes.push(told(left_out.proved.len(), why));
    }
    let mut likes: Vec<&Option<String>> = left_out.inferred.iter().map(|service| &service.1).collect();
    likes.sort();
    likes.dedup();
    for like in likes {
        let own = left_out.inferred.iter().filter(|service| service.1 == *like).map(|service| &service.0);
        let count = own.clone().count();
        let behave = match (like, count) {
            (Some(like), 1) => format!("its memory goes as {like}'s"),
            (Some(like), _) => format!("their memory goes as {like}'s"),
            (None, 1) => "its memory goes as no other's of the arm".to_owned(),
            (None, _) => "their memory goes as no other's of the arm".to_owned(),
        };
        let why = format!("{behave}, which is a hint and no proof of what runs ({})", some_of(own));
        notes.push(told(count, why));
    }
    if left_out.not_read > 0 {
        notes.push(told(left_out.not_read as usize, "ended early or not read".to_owned()));
    }
    notes
}

/// What the field tells where services of which memory alone hints that they run something else count for the arms that list them.
fn as_listed(score: &Score, at: &AtConsensuses) -> Option<String> {
    let listed = at.as_listed.as_ref()?;
    let order = match listed.order == at.order_in_field {
        true => "the field's order is the same".to_owned(),
        false => {
            let names = |arms: &Vec<usize>| {
                arms.iter().map(|arm| score.arms[*arm].lab.as_str()).collect::<Vec<_>>().join(" = ")
            };
            let order: Vec<String> = listed.order.iter().map(names).collect();
            format!("the field's order is another ({})", order.join(" < "))
        }
    };
    let without = |arm: usize| at.arms.iter().find(|own| own.arm == arm)?.field.ratio;
    let ratios: Vec<String> = listed
        .ratios
        .iter()
        .filter_map(|(arm, ratio)| {
            let (ratio, without) = (units::ratio(*ratio), units::ratio(without(*arm)?.value));
            Some(format!("{} {ratio} in place of {without}", score.arms[*arm].lab))
        })
        .collect();
    let ratios = match ratios.is_empty() {
        true => String::new(),
        false => format!("; its ratios: {}", ratios.join(", ")),
    };
    Some(format!(
        "At {:.0} consensuses, with the services that memory alone hints at in the arms that list them, {order}{ratios}.",
        at.consensuses
    ))
}

/// Services by name, those behind the first ones as a number.
fn some_of<'a>(names: impl Iterator<Item = &'a String> + Clone) -> String {
    let more = names.clone().count().saturating_sub(NAMED);
    let told: Vec<&str> = names.take(NAMED).map(String::as_str).collect();
    match more {
        0 => told.join(", "),
        more => format!("{} and {more} more", told.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_in_no_figure_are_named_with_what_leaves_them_out() {
        let hint = |name: &str, like: Option<&str>| (name.to_owned(), like.map(str::to_owned));
        let left_out = LeftOut {
            proved: vec!["r0".to_owned()],
            inferred: vec![hint("r1", Some("glibc")), hint("r2", None), hint("r3", Some("glibc"))],
            not_read: 2,
        };
        let told = in_no_figure("field", "jemalloc", &left_out);
        assert_eq!(
            told,
            [
                "1 service of jemalloc in the field is in no figure: proved to run something else (r0).",
                "1 service of jemalloc in the field is in no figure: its memory goes as no other's of the arm, which is a hint \
                 and no proof of what runs (r2).",
                "2 services of jemalloc in the field are in no figure: their memory goes as glibc's, which is a hint and no proof \
                 of what runs (r1, r3).",
                "2 services of jemalloc in the field are in no figure: ended early or not read.",
            ]
        );
        assert!(in_no_figure("lab", "jemalloc", &LeftOut::default()).is_empty());
        let many: Vec<String> = (0..8).map(|number| format!("r{number}")).collect();
        assert_eq!(some_of(many.iter()), "r0, r1, r2, r3, r4, r5 and 2 more");
    }
}
