//! A comparison for the terminal, as Markdown and as a page.

use super::{ArmInTrial, ComparedTreatment, ComparedTrial, Comparison};
use crate::chart::ArmStyles;
use crate::forms::Document;
use crate::page::{Block, Section, section};
use crate::table::{Columns, Detail, Emphasis, Table, ratio_or_control, table_section};
use crate::text::date_and_time;
use crate::units::{self, Pace};

const RULE: &str = "Treatments are in the order of the highest ratio to the control that each has in any trial; each \
                    ratio is to the control of its own trial, and nothing is pooled over trials.";

impl Document for Comparison {
    const NAME: &'static str = "comparison";

    fn title(&self) -> String {
        "Comparison of trials".to_owned()
    }

    fn sections(&self, _: Detail) -> Vec<Section> {
        let caveats = match self.caveats.is_empty() {
            true => vec!["The trials differ in nothing that is recorded, besides the treatments.".to_owned()],
            false => self.caveats.clone(),
        };
        let sections = [
            table_section("treatments", "Treatments", Some(RULE.to_owned()), self.results()),
            Some(section("result", "Result", vec![Block::Lead(self.least())])),
            Some(section("caveats", "Caveats", vec![Block::List(caveats)])),
            table_section("trials", "Trials", None, self.settings()),
        ];
        sections.into_iter().flatten().collect()
    }

    /// As arms of theirs look in reports.
    fn styles(&self) -> ArmStyles {
        ArmStyles::of_treatments(self.treatments.iter().map(|known| {
            (known.treatment.as_str(), known.results.iter().flatten().any(|result| result.arm.control))
        }))
    }
}

impl Comparison {
    /// Which treatment has the least in each trial.
    fn least(&self) -> Vec<String> {
        let firsts = self.trials.iter().enumerate().filter_map(|(index, trial)| {
            let is_first = |known: &&ComparedTreatment| {
                known.results[index].as_ref().is_some_and(|result| result.place == Some(1))
            };
            Some(format!(
                "{} has the least memory in {}.",
                self.treatments.iter().find(is_first)?.treatment,
                trial.name
            ))
        });
        firsts.collect()
    }

    fn results(&self) -> Option<Table> {
        type Result<'a> = (usize, &'a ArmInTrial, &'a ComparedTrial);
        let rows = self.treatments.iter().enumerate().flat_map(|(place, treatment)| {
            let results = treatment.results.iter().zip(&self.trials);
            results.filter_map(move |(result, trial)| Some((place, result.as_ref()?, trial)))
        });
        Columns::of("Treatment", |(place, ..): &Result<'_>| self.treatments[*place].treatment.clone())
            .text("Trial", |(.., trial)| Some(trial.name.clone()))
            .figure("Place", |(_, result, _)| match result.arm.does_less() {
                true => Some("does less work".to_owned()),
                false => Some(result.place?.to_string()),
            })
            .figure("Ratio to own control (95% CI)", |(_, result, _)| {
                ratio_or_control(result.arm.control, result.arm.ratio())
            })
            .figure("Level", |(_, result, _)| result.arm.level().map(units::memory))
            .figure("Growth", |(_, result, trial)| match &result.arm.result.growth {
                Some(growth) => Some(format!("{}/d", units::signed_percent(growth.share_per_day.value))),
                None => {
                    let pace = Pace::for_length(trial.matched_age_seconds.unwrap_or(0.0));
                    Some(units::growth(result.arm.slope_bytes_per_hour?, pace))
                }
            })
            .text("Verdict", |(_, result, _)| result.arm.verdict.clone())
            .figure("Services", |(_, result, _)| Some(result.arm.services_belonging().to_string()))
            .table_of_arms(rows, |(place, result, _)| {
                (Some(*place), if result.arm.control { Emphasis::Control } else { Emphasis::None })
            })
    }

    fn settings(&self) -> Option<Table> {
        Columns::of("Trial", |trial: &&ComparedTrial| trial.name.clone())
            .text("Kind", |trial| Some(if trial.kind.is_lab() { "lab" } else { "field" }.to_owned()))
            .text("Started", |trial| Some(date_and_time(&trial.started_at)))
            .figure("Length", |trial| Some(units::duration(trial.duration_seconds)))
            .figure("Matched age", |trial| trial.matched_age_seconds.map(units::duration))
            .text("Control", |trial| trial.control.clone())
            .figure("Services", |trial| Some(trial.services.to_string()))
            .table(&self.trials)
    }
}
