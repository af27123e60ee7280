//! From a report to the evidence of a bug: which arms, and what is told of them.

use std::collections::BTreeMap;

use heaptrial_analysis::Severity;
use heaptrial_judgement::{ArmFacts, Judgement};
use heaptrial_model::{AllocatorSpec, Identity};
use serde_json::Value;

use super::document::{ArmEvidence, ChartFile, Evidence, OddFinding, Ran};
use super::pseudonym::setting;
use crate::build::ratio_of;
use crate::chart::{self, Chart};
use crate::document::{Arm, Estimate, Kind, Ratio, Report};
use crate::{ReportError, escape, summary};

/// The chart that a bundle has of each run.
const GROWTH_CHART: &str = "memory-over-time";

/// A spec without the settings that state a default: how `heaptrial_allocator::Catalog::without_defaults` has it.
pub type WithoutDefaults<'a> = &'a dyn Fn(&AllocatorSpec) -> AllocatorSpec;

/// A run with its report, made of rows that were [renamed](crate::pseudonymise).
#[derive(Debug)]
pub struct BugRun {
    pub(super) judgement: Judgement,
    pub(super) report: Report,
    pub(super) bad: usize,
    pub(super) good: usize,
}

impl BugRun {
    /// The position of the arm of an allocator, with nothing but an allocator in its treatment.
    pub fn arm_of(
        report: &Report,
        spec: &AllocatorSpec,
        without_defaults: WithoutDefaults<'_>,
    ) -> Option<usize> {
        let wanted = without_defaults(spec);
        let is_it =
            |arm: &Arm| spec_of(arm).is_some_and(|own| own == *spec || without_defaults(&own) == wanted);
        report.arms.iter().position(|arm| allocator_alone(arm) && is_it(arm))
    }

    /// The run as evidence against `bad`. It is compared to `good`, or else to the arm of the same family that needs
    /// the least: of another build with its own defaults, else of another build, else of the same; without such an arm,
    /// to the control. `None` where there is no arm of `bad`, or nothing to compare it to.
    pub fn new(
        judgement: Judgement,
        bad: &AllocatorSpec,
        good: Option<&AllocatorSpec>,
        without_defaults: WithoutDefaults<'_>,
    ) -> Result<Option<Self>, ReportError> {
        let mut report = escape::printable_report(&Report::of(&judgement)?)?;
        // Somebody gave the trial its name, and its plan names services.
        report.name = short(report.kind()).to_owned();
        report.parameters = Value::Null;
        // Names of libraries may be those of a program.
        report.arms.iter_mut().for_each(|arm| arm.libraries.clear());
        // One that somebody unpacked is known by its path.
        report.host.userland = report.host.userland.filter(|userland| !userland.contains('/'));
        let Some(bad) = Self::arm_of(&report, bad, without_defaults) else { return Ok(None) };
        let other = match good {
            Some(spec) => Self::arm_of(&report, spec, without_defaults),
            None => least(&report, bad, without_defaults)
                .or_else(|| report.arms.iter().position(|arm| arm.control && arm.memory.is_some())),
        };
        let good = other.filter(|good| *good != bad);
        Ok(good.map(|good| Self { judgement, report, bad, good }))
    }

    /// Of the two arms the first of which no service counts.
    pub fn unmeasured(&self) -> Option<&str> {
        let arms = [self.bad, self.good].into_iter().map(|index| &self.report.arms[index]);
        arms.into_iter().find(|arm| arm.typical_bytes().is_none()).map(|arm| arm.name.as_str())
    }

    /// The allocator that the bad one is compared to.
    pub fn good_spec(&self) -> Option<AllocatorSpec> {
        spec_of(&self.report.arms[self.good])
    }

    /// What is known of it.
    pub fn judgement(&self) -> &Judgement {
        &self.judgement
    }

    /// The report that it is made from.
    pub fn report(&self) -> &Report {
        &self.report
    }

    /// The chart of growth, where the run has one.
    pub(super) fn chart(&self) -> Option<Chart> {
        let charts = chart::all(&self.report, &self.judgement.trajectories());
        charts.into_iter().find(|chart| chart.name == GROWTH_CHART)
    }

    /// Everything that the bundle says of it; the chart's files are called `chart_file`.
    pub(super) fn evidence(&self, chart_file: &str) -> Evidence {
        let report = &self.report;
        let name = |index: usize| report.arms[index].name.clone();
        let mut findings: Vec<OddFinding> = report
            .findings
            .iter()
            .filter(|finding| finding.severity != Severity::Note)
            .map(|finding| OddFinding {
                severity: finding.severity,
                evidence: finding.evidence.clone(),
                effect: finding.effect.clone(),
            })
            .collect();
        findings.sort_by_key(|finding| finding.severity);
        Evidence {
            kind: report.kind(),
            date: report.started_at.get(..10).unwrap_or_default().to_owned(),
            duration_seconds: report.duration_seconds,
            repeats: report.repeats(),
            assignment: report.assignment(),
            outcome: report.outcome_word().to_owned(),
            metric: report.analysis.metric,
            warm_up_seconds: report.analysis.warm_up_seconds,
            matched_age_seconds: report.analysis.matched_age_seconds,
            window_seconds: report.analysis.window_seconds,
            host: report.host.clone(),
            tool_version: report.tool_version.clone(),
            bad_arm: name(self.bad),
            good_arm: name(self.good),
            ratio: self.ratio(),
            arms: report
                .arms
                .iter()
                .zip(&self.judgement.arms)
                .map(|(arm, facts)| of_arm(report, arm, facts))
                .collect(),
            findings,
            warnings: summary::warnings(report),
            charts: self
                .chart()
                .map(|chart| ChartFile {
                    file: chart_file.to_owned(),
                    title: chart.title.clone(),
                    caption: format!("{} {}", chart.caption, chart.description),
                })
                .into_iter()
                .collect(),
        }
    }

    /// Bad over good, over the services that count.
    fn ratio(&self) -> Option<Ratio> {
        let found = self.judgement.ratio_of(self.bad, self.good)?;
        let services = self.report.arms[self.bad].services_belonging();
        ratio_of(&found, self.judgement.analysis.randomised, services)
    }
}

/// What stands in a chart in place of the trial's name.
fn short(kind: Kind) -> &'static str {
    match kind {
        Kind::LabTor => "lab run of Tor relays",
        kind => kind.describe(),
    }
}

/// Among the arms of the family that need less than `bad`.
fn least(report: &Report, bad: usize, without_defaults: WithoutDefaults<'_>) -> Option<usize> {
    let bad_arm = &report.arms[bad];
    let (own, most) = (spec_of(bad_arm)?, bad_arm.typical_bytes()?);
    let candidates = report.arms.iter().enumerate().filter_map(|(index, arm)| {
        let spec = spec_of(arm).filter(|spec| spec.family == own.family && allocator_alone(arm))?;
        let bytes = arm.typical_bytes().filter(|bytes| *bytes < most && index != bad)?;
        let same_build = spec.without_settings() == own.without_settings();
        Some((same_build, !without_defaults(&spec).settings.is_empty(), bytes, index))
    });
    candidates.min().map(|(.., index)| index)
}

fn allocator_alone(arm: &Arm) -> bool {
    arm.treatment.options().is_empty()
}

/// The allocator of an arm; of one that leaves its services as they are, what was proved.
fn spec_of(arm: &Arm) -> Option<AllocatorSpec> {
    if !arm.allocator.is_empty() {
        return arm.allocator.parse().ok();
    }
    let identity = arm.identity.as_ref()?;
    Some(AllocatorSpec { version: identity.version.clone(), ..AllocatorSpec::family(&identity.family) })
}

fn of_arm(report: &Report, arm: &Arm, facts: &ArmFacts) -> ArmEvidence {
    let slope = facts.slope_bytes_per_hour.filter(|_| report.kind().is_lab());
    let slope = slope.map(|(value, least, most)| Estimate {
        value,
        low: Some(least).filter(|_| arm.services > 1),
        high: Some(most).filter(|_| arm.services > 1),
    });
    ArmEvidence {
        name: arm.name.clone(),
        control: arm.control,
        services: arm.services_belonging(),
        services_excluded: arm.services_excluded.len() as u32,
        level_bytes: arm.typical_bytes(),
        final_bytes: arm.as_treated.as_ref().map_or(arm.final_bytes(), |treated| treated.final_bytes),
        anon_bytes_final: arm.anon_bytes_final,
        ratio_to_control: arm.ratio_as_treated().cloned(),
        growth_share_per_day: arm.growth.as_ref().map(|growth| growth.share_per_day),
        growth_bytes_per_day: arm.growth.as_ref().map(|growth| growth.bytes_per_day),
        slope_bytes_per_hour: slope,
        verdict: arm.verdict.clone(),
        age_seconds: facts.age_seconds,
        cpu_seconds: arm.cpu_seconds,
        identity: arm.identity.as_ref().map(|identity| ran(identity, arm.obtained.as_ref())),
    }
}

fn ran(identity: &Identity, obtained: Option<&Value>) -> Ran {
    let told = |pointer: &str| obtained.and_then(|obtained| obtained.pointer(pointer));
    let text = |pointer: &str| told(pointer).and_then(Value::as_str).map(str::to_owned);
    let options = told("/verification/options").and_then(Value::as_object);
    let pair = |(name, value): (&String, &Value)| (name.clone(), setting(value.as_str().unwrap_or_default()));
    let settings: BTreeMap<String, String> = options.into_iter().flatten().map(pair).collect();
    Ran {
        label: identity.label(),
        file: identity.path.as_ref().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned())),
        build_id: identity.build_id.clone().or_else(|| text("/build_id")),
        sha256: identity.sha256.clone().or_else(|| text("/sha256")),
        linkage: identity.linkage.as_str().to_owned(),
        environment: identity.settings.iter().map(|(name, value)| (name.clone(), setting(value))).collect(),
        source: source(&text),
        settings: settings.into_iter().collect(),
    }
}

/// Where a library came from, without paths of the host.
fn source(text: &impl Fn(&str) -> Option<String>) -> Option<String> {
    let told = |name: &str| text(&format!("/provenance/{name}")).unwrap_or_default();
    let built = text("/provenance/build/compiler")
        .map_or(String::new(), |compiler| format!(", built with {compiler}"));
    Some(match text("/provenance/kind")?.as_str() {
        "host" => "installed on the host".to_owned(),
        "debian_package" => format!("package {} {} of {}", told("package"), told("version"), told("suite")),
        "crate" => format!("source in crate {} {}{built}", told("name"), told("version")),
        "git" => format!("upstream commit {}{built}", told("commit")),
        "local" if built.is_empty() => "a library that was given".to_owned(),
        "local" => format!("source that was given{built}"),
        _ => return None,
    })
}
