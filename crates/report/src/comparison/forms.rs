//! A comparison for the terminal, as Markdown and as a page.

use heaptrial_model::{AllocatorSpec, Arm, FAMILIES, Treatment};

use super::{ArmInTrial, ComparedTreatment, ComparedTrial, Comparison};
use crate::chart::ArmStyles;
use crate::forms::Document;
use crate::page::{Block, Section, section};
use crate::table::{Columns, Detail, Emphasis, Table, table_section, whole};
use crate::text::{date_and_time, names};
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
            Some(section("result", "Result", vec![Block::Lead(vec![self.least()])])),
            Some(section("caveats", "Caveats", vec![Block::List(caveats)])),
            table_section("trials", "Trials", None, self.settings()),
        ];
        sections.into_iter().flatten().collect()
    }

    /// As arms of theirs look in reports.
    fn styles(&self) -> ArmStyles {
        let arm = |treatment: &ComparedTreatment| {
            let spec: Option<AllocatorSpec> =
                treatment.treatment.split(", ").next().and_then(|spec| spec.parse().ok());
            // A name of letters alone reads as a spec too.
            let allocator = spec.filter(|spec| FAMILIES.contains(&spec.family.as_str()));
            Arm {
                name: treatment.treatment.clone(),
                control: treatment.results.iter().flatten().any(|result| result.control),
                treatment: Treatment { allocator, ..Treatment::default() },
            }
        };
        let arms: Vec<Arm> = self.treatments.iter().map(arm).collect();
        ArmStyles::of(arms.iter().map(|arm| (arm, None)))
    }
}

impl Comparison {
    /// Which treatment has the least in each trial.
    fn least(&self) -> String {
        let least = |index: usize| {
            let mut all = self.treatments.iter();
            all.find(|known| known.results[index].as_ref().is_some_and(|result| result.place == Some(1)))
        };
        let firsts: Vec<(&ComparedTrial, &ComparedTreatment)> = self
            .trials
            .iter()
            .enumerate()
            .filter_map(|(index, trial)| Some((trial, least(index)?)))
            .collect();
        let Some((_, first)) = firsts.first() else { return "No trial has a figure to compare.".to_owned() };
        if firsts.iter().all(|(_, other)| other.treatment == first.treatment) {
            let trials: Vec<&str> = firsts.iter().map(|(trial, _)| trial.name.as_str()).collect();
            return format!("{} has the least memory in {}.", first.treatment, names(&trials, trials.len()));
        }
        let each: Vec<String> =
            firsts.iter().map(|(trial, least)| format!("{} in {}", least.treatment, trial.name)).collect();
        format!("Least memory: {}.", names(&each, each.len()))
    }

    fn results(&self) -> Option<Table> {
        type Result<'a> = (usize, &'a ArmInTrial, &'a ComparedTrial);
        let rows = self.treatments.iter().enumerate().flat_map(|(place, treatment)| {
            let results = treatment.results.iter().zip(&self.trials);
            results.filter_map(move |(result, trial)| Some((place, result.as_ref()?, trial)))
        });
        Columns::of("Treatment", |(place, ..): &Result<'_>| self.treatments[*place].treatment.clone())
            .text("Trial", |(.., trial)| Some(trial.name.clone()))
            .figure("Place", |(_, result, _)| match result.does_less {
                true => Some("does less work".to_owned()),
                false => Some(result.place?.to_string()),
            })
            .figure("Ratio to own control (95% CI)", |(_, result, _)| match result.control {
                true => Some("control".to_owned()),
                false => result.ratio_to_control.as_ref().map(ToString::to_string),
            })
            .figure("Level", |(_, result, _)| whole(result.level_bytes))
            .figure("Growth", |(_, result, trial)| growth(result, trial))
            .text("Verdict", |(_, result, _)| result.verdict.clone())
            .figure("Services", |(_, result, _)| Some(result.services.to_string()))
            .table_of_arms(rows, |(place, result, _)| {
                (Some(*place), if result.control { Emphasis::Control } else { Emphasis::None })
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

fn growth(result: &ArmInTrial, trial: &ComparedTrial) -> Option<String> {
    let pace = match trial.kind.is_lab() {
        true => Pace::for_length(trial.matched_age_seconds.unwrap_or(0.0)),
        false => Pace::Day,
    };
    let bytes = units::growth(result.slope_bytes_per_hour?, pace);
    Some(match &result.growth_share_per_day {
        Some(share) => format!("{} ({bytes})", units::signed_percent(share.value)),
        None => bytes,
    })
}
