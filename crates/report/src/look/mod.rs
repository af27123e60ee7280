//! A look at a running trial as a document: what is stored of it and printed.

mod result;

use heaptrial_evaluate::analysis::{
    ArmEvents, ArmWork, Decision, ENUMERATED_AT_MOST, LookArm, LookStanding, Objection,
};
use heaptrial_evaluate::judgement::look::{Look, Peek};
use heaptrial_model::MemorySplit;
use heaptrial_store::LookRecord;
use serde::{Deserialize, Serialize};

use crate::caveats::NO_WORK;
use crate::document::{Arm, Finding, Ratio, Report, Severity};
use crate::forms::Document;
use crate::page::{Block, Section, section};
use crate::table::{Columns, Detail, Emphasis, Table, arms, whole};
use crate::text::{date_and_time, names, sentence, severity};
use crate::{ReportError, finding_text, units};

/// The form of [`LookReport`] as JSON that this version writes.
pub const LOOK_SCHEMA_VERSION: u32 = 1;

const NAMED: usize = 4;

/// A look at a running trial. Of a peek, everything that could decide is missing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LookReport {
    pub schema_version: u32,
    pub trial: String,
    /// Which look, from 1; `None` of a peek.
    pub number: Option<u32>,
    pub looks: u32,
    /// When the look was planned, in seconds since the last service had its treatment.
    pub planned_seconds: Option<f64>,
    /// The last reading that it is of, RFC 3339 in UTC.
    pub data_until: String,
    /// By how many seconds the last reading is before the planned time, where `--accept-gap` was needed for that.
    pub accepted_gap_seconds: Option<f64>,
    /// When it was taken, RFC 3339 in UTC.
    pub taken_at: String,
    pub matched_age_seconds: Option<f64>,
    pub alpha: Option<f64>,
    pub alpha_spent: Option<f64>,
    /// The arms in the order given.
    pub arms: Vec<LookedArm>,
    /// What follows; `None` of a peek.
    pub decision: Option<Decision>,
    pub result: String,
    /// When the next look is planned, RFC 3339 in UTC.
    pub next_look_at: Option<String>,
    pub findings: Vec<Finding>,
}

/// An arm; of a peek with its levels and events alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LookedArm {
    pub name: String,
    pub control: bool,
    pub services: u32,
    pub services_treated: u32,
    pub level_bytes: Option<u64>,
    pub ratio: Option<Ratio>,
    /// Over all services of the arm, where non-compliant ones are excluded from the ratio.
    pub ratio_as_assigned: Option<Ratio>,
    pub p_value_adjusted: Option<f64>,
    pub assumes_normality: bool,
    pub standing: LookStanding,
    pub verdict: Option<String>,
    /// What is uncertain about it, and what blocks a recommendation.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objections: Vec<Objection>,
    pub work: Option<ArmWork>,
    /// Where the memory of one of its services was.
    pub memory_split: Option<MemorySplit>,
    pub events: ArmEvents,
}

impl LookedArm {
    fn of_peek(arm: &Arm) -> Self {
        Self {
            name: arm.name.clone(),
            control: arm.control,
            services: arm.services,
            services_treated: arm.services_belonging(),
            level_bytes: arm.level().map(|bytes| bytes.round() as u64),
            events: arm.result.events,
            ..Self::default()
        }
    }

    fn of(arm: &Arm, looked: &LookArm) -> Self {
        Self {
            ratio: arm.ratio().map(Ratio::from),
            ratio_as_assigned: arm.result.as_treated.as_ref().and(arm.ratio_to_control.clone()),
            p_value_adjusted: looked.p_value_adjusted,
            assumes_normality: looked.assumes_normality,
            standing: looked.standing,
            verdict: arm.verdict.clone(),
            objections: arm.objections.clone(),
            work: arm.result.work.clone(),
            memory_split: arm.memory_split,
            ..Self::of_peek(arm)
        }
    }
}

impl LookReport {
    /// Of a look that is taken now.
    pub fn of(look: &Look) -> Result<Self, ReportError> {
        let report = Report::of(&look.judgement)?;
        let arms: Vec<LookedArm> = report
            .arms
            .iter()
            .zip(&look.found.arms)
            .map(|(arm, looked)| LookedArm::of(arm, looked))
            .collect();
        let time = |microseconds: i64| look.judgement.time("a look", microseconds);
        Ok(Self {
            schema_version: LOOK_SCHEMA_VERSION,
            trial: report.name.clone(),
            number: Some(look.number),
            looks: look.looks,
            planned_seconds: Some(look.planned_us as f64 / 1e6),
            data_until: time(look.reach.last_us.unwrap_or(look.planned_wall_us))?,
            accepted_gap_seconds: look.reach.gap_seconds,
            taken_at: time(look.taken_us)?,
            matched_age_seconds: report.analysis.matched_age_seconds,
            alpha: Some(look.alpha),
            alpha_spent: Some(look.alpha_spent),
            decision: Some(look.found.decision),
            result: result::of(&report, &arms, look),
            arms,
            next_look_at: look.next_wall_us.map(time).transpose()?,
            findings: report.findings,
        })
    }

    /// Of what there is of a trial at `now_us` (microseconds since 1970): nothing that decides.
    pub fn of_peek(peek: &Peek, now_us: i64) -> Result<Self, ReportError> {
        let report = Report::of(&peek.judgement)?;
        let time = |microseconds: i64| peek.judgement.time("a peek", microseconds);
        Ok(Self {
            schema_version: LOOK_SCHEMA_VERSION,
            trial: report.name,
            looks: peek.looks,
            data_until: time(peek.last_us.unwrap_or(now_us))?,
            taken_at: time(now_us)?,
            matched_age_seconds: report.analysis.matched_age_seconds,
            arms: report.arms.iter().map(LookedArm::of_peek).collect(),
            result: "A peek decides nothing.".to_owned(),
            ..Self::default()
        })
    }

    /// Of a look as it was recorded.
    pub fn stored(look: &LookRecord) -> Result<Self, ReportError> {
        serde_json::from_value(look.outcome.clone())
            .map_err(|source| ReportError::StoredLook { number: look.number, source })
    }

    pub fn record(&self) -> Result<serde_json::Value, ReportError> {
        Ok(serde_json::to_value(self)?)
    }

    fn table(&self) -> Option<Table> {
        let decides = self.number.is_some();
        let level = self.alpha.map_or_else(String::new, confidence);
        let control_or = |arm: &LookedArm, text: Option<String>| match arm.control {
            true => Some("control".to_owned()).filter(|_| decides),
            false => text,
        };
        Columns::of("Arm", |(_, arm): &(usize, &LookedArm)| arm.name.clone())
            .figure("Services", |(_, arm)| {
                let (treated, all) = (arm.services_treated, arm.services);
                Some(if treated == all { all.to_string() } else { format!("{treated} of {all}") })
            })
            .figure("Non-compliant", |(_, arm)| Some(arm.events.contaminated_lives.to_string()))
            .figure("Level", |(_, arm)| whole(arm.level_bytes))
            .figure(&format!("Ratio ({level})"), |(_, arm)| {
                control_or(arm, arm.ratio.as_ref().map(ToString::to_string))
            })
            .figure("as assigned", |(_, arm)| arm.ratio_as_assigned.as_ref().map(ToString::to_string))
            .figure("Adj. p", |(_, arm)| {
                let mark = if arm.assumes_normality { "*" } else { "" };
                Some(format!("{}{mark}", p_value(arm.p_value_adjusted?)))
            })
            .text("Growth", |(_, arm)| arm.verdict.clone())
            .figure("Work", |(_, arm)| {
                let ratio = arm.work.as_ref().and_then(|work| work.ratio.as_ref());
                control_or(arm, ratio.map(|ratio| units::ratio(ratio.estimate.value)))
            })
            .figure("Crashes", |(_, arm)| Some(arm.events.crashes.to_string()))
            .figure("OOM kills", |(_, arm)| Some(arm.events.oom_kills.to_string()))
            .table_of_arms(self.arms.iter().enumerate(), |(place, arm)| {
                let emphasis = match (arm.control, arm.level_bytes) {
                    (true, _) => Emphasis::Control,
                    (_, None) => Emphasis::Lost,
                    _ => Emphasis::None,
                };
                (Some(*place), emphasis)
            })
    }

    fn caveats(&self) -> Vec<String> {
        let gap = self.accepted_gap_seconds.map(|gap| {
            format!(
                "The last reading is {} before the planned time; the look was taken because --accept-gap said so.",
                units::duration(gap)
            )
        });
        let assuming = self.arms.iter().filter(|arm| arm.assumes_normality);
        let assuming: Vec<&str> = assuming.map(|arm| arm.name.as_str()).collect();
        let assuming = (!assuming.is_empty()).then(|| {
            format!(
                "* Student's t ({}), which takes the logarithms of memory as normal: a permutation test over at most \
                 {ENUMERATED_AT_MOST} assignments cannot resolve this look's level.",
                names(&assuming, NAMED)
            )
        });
        let without_work = self.number.is_some() && self.arms.iter().all(|arm| arm.work.is_none());
        let without_work = without_work.then(|| NO_WORK.to_owned());
        let found = self.findings.iter().filter(|finding| finding.severity != Severity::Note);
        let found = found.map(|finding| {
            let title = finding_text::of(finding.kind).0;
            format!("{}: {title}: {}", severity(finding.severity), sentence(&finding.evidence))
        });
        gap.into_iter().chain(assuming).chain(without_work).chain(found).collect()
    }
}

impl Document for LookReport {
    const NAME: &'static str = "look";

    fn title(&self) -> String {
        match (self.number, self.planned_seconds) {
            (Some(number), Some(planned)) => {
                let planned = units::duration(planned);
                format!("{}: look {number} of {}, planned at {planned}", self.trial, self.looks)
            }
            _ => format!("{}: a peek", self.trial),
        }
    }

    fn lead(&self) -> String {
        let at = date_and_time(&self.data_until);
        let age = self.matched_age_seconds.map_or_else(
            || "Services of the arms have no age in common".to_owned(),
            |age| format!("Services are compared at an age of {}", units::duration(age)),
        );
        let error = self.alpha.zip(self.alpha_spent).map(|(alpha, spent)| {
            format!(
                " This look may err with probability {} over all arms (so far {} of 0.05); intervals are of {}.",
                p_value(alpha),
                p_value(spent),
                confidence(alpha)
            )
        });
        format!("Data until {at}. {age}.{}", error.unwrap_or_default())
    }

    fn sections(&self, _: Detail) -> Vec<Section> {
        let arms = self.table().map(|table| Block::Table("Arms".to_owned(), table));
        let mut blocks = Vec::from_iter(arms);
        let splits = self.arms.iter().enumerate();
        let splits = splits.map(|(place, arm)| (place, arm.name.as_str(), arm.control, arm.memory_split));
        let split = arms::split(splits);
        let heading = "Where the memory is, of one service of each arm on this host".to_owned();
        let block = |table| [Block::Heading(heading.clone()), Block::Table(heading.clone(), table)];
        blocks.extend(split.map(block).into_iter().flatten());
        let caveats = self.caveats();
        if !caveats.is_empty() {
            blocks.extend([Block::Heading("Caveats".to_owned()), Block::List(caveats)]);
        }
        blocks.push(Block::Heading(self.result.clone()));
        vec![section("look", "", blocks)]
    }
}

/// `99.5%`: with as many decimals as it takes not to say 100%.
fn confidence(alpha: f64) -> String {
    let decimals = if alpha >= 0.01 { 0 } else { (-alpha.log10()).ceil().clamp(1.0, 8.0) as usize - 1 };
    format!("{:.decimals$}%", 100.0 * (1.0 - alpha))
}

/// With two digits at least, as it is held against a look's share of the error, which may be far below 0.001.
fn p_value(p: f64) -> String {
    match p {
        p if p >= 0.01 || p == 0.0 => format!("{p:.3}"),
        p if p >= 0.001 => format!("{p:.4}"),
        p => format!("{p:.1e}"),
    }
}
