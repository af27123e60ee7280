//! A comparison for the terminal, as Markdown and as a page.

use heaptrial_model::{AllocatorSpec, Arm, FAMILIES, Treatment};

use super::{ArmInTrial, ComparedTreatment, ComparedTrial, Comparison};
use crate::chart::ArmStyles;
use crate::forms::Document;
use crate::page::{Block, Section};
use crate::table::{Detail, Emphasis, NOTHING, Row, Table, figure, optional, text};
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
        let section = |id, title, blocks| Section { id, title, blocks };
        let table = |name: &str, table| Block::Table(name.to_owned(), table);
        let caveats = match self.caveats.is_empty() {
            true => vec!["The trials differ in nothing that is recorded, besides the treatments.".to_owned()],
            false => self.caveats.clone(),
        };
        vec![
            section(
                "treatments",
                "Treatments",
                vec![Block::Legend(RULE.to_owned()), table("Treatments", self.results())],
            ),
            section("result", "Result", vec![Block::Lead(vec![self.least()])]),
            section("caveats", "Caveats", vec![Block::List(caveats)]),
            section("trials", "Trials", vec![table("Trials", self.settings())]),
        ]
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
        let trials: Vec<&str> = firsts.iter().map(|(trial, _)| trial.name.as_str()).collect();
        if firsts.iter().all(|(_, other)| other.treatment == first.treatment) {
            return format!("{} has the least memory in {}.", first.treatment, names(&trials, trials.len()));
        }
        let each: Vec<String> =
            firsts.iter().map(|(trial, least)| format!("{} in {}", least.treatment, trial.name)).collect();
        format!("Other treatments have the least memory in other trials: {}.", names(&each, each.len()))
    }

    fn results(&self) -> Table {
        let columns =
            [text("Treatment"), text("Trial"), figure("Place"), figure("Ratio to own control (95% CI)")];
        let columns = columns.into_iter().chain([figure("Level"), figure("Growth"), text("Verdict")]);
        let rows = self.treatments.iter().enumerate().flat_map(|(place, treatment)| {
            let present = treatment.results.iter().zip(&self.trials);
            let name = &treatment.treatment;
            present.filter_map(move |(result, trial)| Some(row((place, name), result.as_ref()?, trial)))
        });
        Table { rows: rows.collect(), columns: columns.chain([figure("Services")]).collect() }
    }

    fn settings(&self) -> Table {
        let columns = [text("Trial"), text("Kind"), text("Started"), figure("Length"), figure("Matched age")];
        let columns = columns.into_iter().chain([text("Control"), figure("Services")]).collect();
        let rows = self.trials.iter().map(|trial| Row {
            arm: None,
            emphasis: Emphasis::None,
            cells: vec![
                trial.name.clone(),
                if trial.kind.is_lab() { "lab" } else { "field" }.to_owned(),
                date_and_time(&trial.started_at),
                units::duration(trial.duration_seconds),
                optional(trial.matched_age_seconds, units::duration),
                trial.control.clone().unwrap_or_else(|| NOTHING.to_owned()),
                trial.services.to_string(),
            ],
        });
        Table { rows: rows.collect(), columns }
    }
}

/// A row of the treatment at a place among all.
fn row((place, treatment): (usize, &str), result: &ArmInTrial, trial: &ComparedTrial) -> Row {
    let ratio = optional(result.ratio_to_control.as_ref(), ToString::to_string);
    let pace = if trial.kind.is_lab() {
        Pace::for_length(trial.matched_age_seconds.unwrap_or(0.0))
    } else {
        Pace::Day
    };
    let bytes = optional(result.slope_bytes_per_hour, |slope| units::growth(slope, pace));
    let growth = match &result.growth_share_per_day {
        Some(share) => format!("{} ({bytes})", units::signed_percent(share.value)),
        None => bytes,
    };
    Row {
        arm: Some(place),
        emphasis: if result.control { Emphasis::Control } else { Emphasis::None },
        cells: vec![
            treatment.to_owned(),
            trial.name.clone(),
            match result.does_less {
                true => "does less work".to_owned(),
                false => optional(result.place, |place| place.to_string()),
            },
            if result.control { "control".to_owned() } else { ratio },
            optional(result.level_bytes, |bytes| units::memory(bytes as f64)),
            growth,
            optional(result.verdict.clone(), |verdict| verdict),
            result.services.to_string(),
        ],
    }
}
