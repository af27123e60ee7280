//! The bug bundle: a folder for the maintainers of an allocator, with evidence from trials and lab runs and without
//! anything that tells whose machines they are.

mod command;
mod document;
mod evidence;
mod limits;
mod markdown;
mod pseudonym;
pub(crate) mod scrub;
mod write;

pub use document::{
    ArmEvidence, BUG_SCHEMA_VERSION, Bug, ChartFile, Evidence, OddFinding, Ran, Reproduction, SettingDefault,
};
pub use evidence::{BugRun, WithoutDefaults};
pub use pseudonym::rename as pseudonymise;
pub use write::{BugFiles, write_bug};

use heaptrial_model::AllocatorSpec;
use heaptrial_store::{Store, StoreError};

use crate::bisect;
use crate::chart::{Chart, Layout};
use crate::{BisectReport, ReportError, escape, table};
use scrub::Scrub;

/// Names that must not stand in what leaves the house, and texts that look like such but are none.
#[derive(Debug, Clone, Default)]
pub struct Secrets(Scrub);

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
    secrets: Secrets,
}

impl Secrets {
    /// The names of a trial's services and all that their attributes call them.
    pub fn of_trial(&mut self, store: &Store, trial_id: i64) -> Result<(), StoreError> {
        self.0.merge(pseudonym::names(&store.services(trial_id)?));
        Ok(())
    }

    /// A further name, such as the host's or a user's.
    pub fn add(&mut self, name: &str, instead: &str) {
        self.0.name(name, instead);
    }

    /// A text that others wrote, such as the message of a commit, without any of the names.
    pub fn clean(&self, text: &str) -> String {
        self.0.foreign(text)
    }

    /// A word of a command that others wrote: what may be the name of a host goes as well.
    pub fn clean_command(&self, word: &str) -> String {
        command::without_hosts(&self.0.foreign(word))
    }
}

impl Bundle {
    /// Puts the evidence of `runs` against `bad` and for `good` together; there must be at least one run.
    pub fn new(
        (good, bad): (&AllocatorSpec, &AllocatorSpec),
        runs: &[BugRun],
        parts: BugParts,
        mut secrets: Secrets,
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
            // Its command is one of the house; how to see it again is told by others.
            found.command.clear();
            found.texts_of_others(|text| *text = secrets.clean(text));
            found.ids().for_each(|id| secrets.0.keep(id));
            charts.push((bisect::CHART.to_owned(), escape::printable_copy(&*found)?.chart(Layout::Wide)));
        }
        for arm in evidence.iter().flat_map(|evidence| &evidence.arms) {
            secrets.keep_arm(arm);
        }
        for host in evidence.iter().map(|evidence| &evidence.host) {
            let known = [&host.os, &host.kernel, &host.cpu_model, &host.libc];
            known.into_iter().flatten().for_each(|text| secrets.0.keep(text));
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
            replaced: Vec::new(),
        };
        bug.title = title(&bug);
        bug.limits = limits::of(&bug);
        let mut printable: Bug = escape::printable_copy(&bug)?;
        // The lines of a plan stay lines.
        for (copy, found) in printable.reproduce.iter_mut().zip(bug.reproduce) {
            copy.file = found.file;
        }
        Ok(Self { bug: printable, charts, secrets })
    }
}

impl Secrets {
    /// What the bundle says of an arm is no secret, whatever it looks like.
    fn keep_arm(&mut self, arm: &ArmEvidence) {
        self.0.keep(&arm.name);
        let Some(ran) = &arm.identity else { return };
        let told = [&ran.file, &ran.build_id, &ran.sha256, &ran.source];
        told.into_iter().flatten().for_each(|text| self.0.keep(text));
        self.0.keep(&ran.label);
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
