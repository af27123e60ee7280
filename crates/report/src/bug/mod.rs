//! The bug bundle: a folder for the maintainers of an allocator, with evidence from trials and lab runs and without
//! anything that tells whose machines they are.

mod document;
mod evidence;
mod limits;
mod markdown;
mod pseudonym;
mod write;

pub use document::{
    ArmEvidence, BUG_SCHEMA_VERSION, Bug, ChartFile, Evidence, OddFinding, Ran, Reproduction, SettingDefault,
};
pub use evidence::{BugRun, WithoutDefaults};
pub use pseudonym::rename as pseudonymise;
pub use write::{BugFiles, write_bug};

use heaptrial_model::AllocatorSpec;

use crate::bisect;
use crate::chart::Chart;
use crate::{BisectReport, ReportError, escape, table};

/// What a bundle is made from beside its runs.
#[derive(Debug, Clone, Default)]
pub struct BugParts {
    /// Settings whose defaults differ between the two.
    pub defaults: Vec<SettingDefault>,
    /// Which release or commit made the difference.
    pub bisect: Option<BisectReport>,
    /// How to see it again.
    pub reproduce: Vec<Reproduction>,
}

/// A bundle that is not written yet.
#[derive(Debug)]
pub struct Bundle {
    pub bug: Bug,
    charts: Vec<(String, Chart)>,
}

impl Bundle {
    /// Puts the evidence of `runs` against `bad` and for `good` together; there must be at least one run.
    pub fn new(
        (good, bad): (&AllocatorSpec, &AllocatorSpec),
        runs: &[BugRun],
        parts: BugParts,
    ) -> Result<Self, ReportError> {
        let file = |index: usize| match index {
            0 => "memory-over-time".to_owned(),
            index => format!("memory-over-time-{}", index + 1),
        };
        let evidence: Vec<Evidence> =
            runs.iter().enumerate().map(|(index, run)| run.evidence(&file(index))).collect();
        let mut charts: Vec<(String, Chart)> =
            runs.iter().enumerate().filter_map(|(index, run)| Some((file(index), run.chart()?))).collect();
        let mut bisect = parts.bisect;
        if let Some(found) = &mut bisect {
            found.command.clear();
            found.texts_of_others(|text| *text = pseudonym::LEFT_OUT.to_owned());
            charts.push((bisect::CHART.to_owned(), escape::printable_copy(&*found)?.chart()));
        }
        let mut bug = Bug {
            schema_version: BUG_SCHEMA_VERSION,
            title: String::new(),
            bad: bad.to_string(),
            good: good.to_string(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            evidence,
            defaults: parts.defaults,
            bisect,
            reproduce: parts.reproduce,
            limits: Vec::new(),
        };
        bug.title = title(&bug);
        bug.limits = limits::of(&bug);
        Ok(Self { bug: escape::printable_copy(&bug)?, charts })
    }
}

/// `mimalloc 3.0.1 needs 2.61 (2.40–2.84) times the memory of mimalloc 2.1.7`, or what it needed where nothing tells how sure that is.
fn title(bug: &Bug) -> String {
    let Some(first) = bug.evidence.first() else { return bug.bad.clone() };
    let label = |name: &str, spec: &str| {
        let arm = first.arms.iter().find(|arm| arm.name == name);
        let label = arm.and_then(|arm| arm.identity.as_ref()).map_or(name, |ran| ran.label.as_str());
        match spec.split_once('?') {
            Some((_, settings)) => format!("{label} ({settings})"),
            None => label.to_owned(),
        }
    };
    let ratio = match &first.ratio {
        Some(ratio) if ratio.low.is_none() => {
            format!("needed about {:.*}", usize::from(ratio.estimate < 10.0), ratio.estimate)
        }
        ratio => format!("needs {}", table::ratio_with_interval(ratio.as_ref())),
    };
    let bad = first.arms.iter().find(|arm| arm.name == first.bad_arm);
    let grows = bad.filter(|arm| matches!(arm.verdict.as_deref(), Some("growing" | "bloating")));
    let grows = grows.and_then(|arm| arm.growth_share_per_day);
    let grows = grows.map_or(String::new(), |growth| {
        format!(" and grows {} a day", crate::units::signed_percent(growth.value).trim_start_matches('+'))
    });
    format!(
        "{} {ratio} times the memory of {}{grows}",
        label(&first.bad_arm, &bug.bad),
        label(&first.good_arm, &bug.good)
    )
}
