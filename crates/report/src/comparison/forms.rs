//! A comparison for the terminal, as Markdown and as a page.

use heaptrial_model::{AllocatorSpec, Arm, FAMILIES, Treatment};

use super::{ArmInTrial, ComparedTreatment, ComparedTrial, Comparison};
use crate::chart::Looks;
use crate::page::{Block, Section};
use crate::table::{self, Emphasis, NOTHING, Row, Table, figure, optional, text};
use crate::terminal::{self, Paint};
use crate::units::{self, Pace};
use crate::{ReportError, escape, html, markdown, summary};

const TITLE: &str = "Comparison of trials";
const RULE: &str = "Treatments are in the order of the highest ratio to the control that each has in any trial; each \
                    ratio is to the control of its own trial, and nothing is pooled over trials.";

impl Comparison {
    /// The comparison as lines for a terminal, in colour if `colored`.
    pub fn terminal(&self, colored: bool) -> Result<String, ReportError> {
        Ok(terminal::plain(TITLE, &escape::printable_copy(self)?.sections(), Paint { colored }))
    }

    pub fn markdown(&self) -> Result<String, ReportError> {
        Ok(format!("# {TITLE}\n\n{}", markdown::body(&escape::printable_copy(self)?.sections(), &[])))
    }

    /// The comparison as a self-contained page.
    pub fn html(&self) -> Result<String, ReportError> {
        let comparison = escape::printable_copy(self)?;
        Ok(html::plain(TITLE, &comparison.sections(), &comparison.looks()))
    }

    fn sections(&self) -> Vec<Section> {
        let section = |id, title, blocks| Section { id, title, blocks };
        let table = |name: &str, table| Block::Table(name.to_owned(), table);
        vec![
            section("result", "Result", vec![Block::Lead(self.result())]),
            section(
                "treatments",
                "Treatments",
                vec![Block::Legend(RULE.to_owned()), table("Treatments", self.results())],
            ),
            section("caveats", "What to mind", vec![Block::List(self.differences())]),
            section("trials", "Trials", vec![table("Trials", self.settings())]),
        ]
    }

    fn differences(&self) -> Vec<String> {
        let nothing = || vec!["Nothing that is recorded, beside the treatments.".to_owned()];
        if self.caveats.is_empty() { nothing() } else { self.caveats.clone() }
    }

    /// How the treatments look: as arms of theirs do in reports.
    fn looks(&self) -> Looks {
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
        Looks::of(arms.iter().map(|arm| (arm, None)))
    }

    fn results(&self) -> Table {
        let columns =
            [text("Treatment"), text("Trial"), figure("Place"), figure("Ratio to own control (95%)")];
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
                summary::date_and_time(&trial.started_at),
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
    let ratio = table::ratio_with_interval(result.ratio_to_control.as_ref());
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
