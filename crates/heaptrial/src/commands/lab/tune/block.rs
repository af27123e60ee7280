//! A block of the control and a few arms.

use std::collections::BTreeMap;

use heaptrial_allocator::{Catalog, ObtainError, Obtained};
use heaptrial_judgement::{Judgement, RunFigures};
use heaptrial_lab::PreparedArm;
use heaptrial_model::AllocatorSpec;
use heaptrial_tune::{ArmFigures, Search};

use super::record::{Measured, MeasuredArm, Record};
use crate::commands::lab::LabOptions;
use crate::commands::lab::search::{Bench, Carried, arm, built_otherwise};
use crate::exit::Failure;

/// Seeds of verification are so far from those of the search that they never meet.
const FRESH: u64 = 1 << 32;

pub(super) struct Measure<'a> {
    pub(super) bench: Bench<'a>,
    pub(super) seed: u64,
    pub(super) control: AllocatorSpec,
    /// Digests of the builds that the search began with, by their specs without settings.
    pub(super) builds: &'a BTreeMap<String, String>,
    pub(super) cache: BTreeMap<String, Obtained>,
}

/// What came of a block.
pub(super) enum Outcome {
    /// With the arms that did not live to the end, by their place in the block.
    Measured(Measured, Vec<(usize, String)>),
    /// The control did not live to the end.
    Void(usize, String),
    Interrupted,
}

/// Gets an allocator; the inner error is why it cannot be had or does not take its settings.
pub(super) fn obtain(spec: &AllocatorSpec, lab: &LabOptions) -> Result<Result<Obtained, String>, Failure> {
    let catalog = Catalog::builtin();
    let ran = match lab.processors {
        Some(processors) => catalog.as_on(spec, processors).apply(spec),
        None => spec.clone(),
    };
    let obtainer = lab.sources.obtainer(None)?;
    match catalog.resolve(&ran).map_err(ObtainError::from).and_then(|resolved| obtainer.obtain(&resolved)) {
        Ok(obtained) => Ok(Ok(obtained)),
        Err(ObtainError::Cache(error)) => Err(error.into()),
        Err(error) => {
            let why = std::error::Error::source(&error).map_or(String::new(), |source| format!(": {source}"));
            Ok(Err(format!("{error}{why}")))
        }
    }
}

impl Measure<'_> {
    /// The same, once for each spec.
    pub(super) fn obtain(&mut self, spec: &AllocatorSpec) -> Result<Result<(), String>, Failure> {
        let name = spec.to_string();
        if self.cache.contains_key(&name) {
            return Ok(Ok(()));
        }
        let obtained = match obtain(spec, self.bench.options)? {
            Ok(obtained) => obtained,
            Err(why) => return Ok(Err(why)),
        };
        let build = obtained.spec.without_settings().to_string();
        if self.builds.get(&build).is_some_and(|known| *known != obtained.sha256) {
            return Err(built_otherwise(&build));
        }
        self.cache.insert(name, obtained);
        Ok(Ok(()))
    }

    fn prepared(&self, name: &str, spec: &AllocatorSpec, control: bool) -> Result<PreparedArm, Failure> {
        let obtained = self.cache.get(&spec.to_string());
        let obtained = obtained.ok_or_else(|| Failure::failed(format!("{spec} was not obtained")))?;
        Ok(PreparedArm { arm: arm(name, spec.clone(), control), obtained: obtained.clone() })
    }

    /// Runs a block of these arms, by a position and a spec that was obtained: of candidates of a search, or on a fresh seed.
    pub(super) fn measure(
        &self,
        record: &Record,
        specs: &[(usize, AllocatorSpec)],
        search: Option<&Search>,
    ) -> Result<Outcome, Failure> {
        let mut arms = vec![self.prepared("control", &self.control, true)?];
        for (_, spec) in specs {
            arms.push(self.prepared(&spec.to_string(), spec, false)?);
        }
        let first = self.seed.wrapping_add(if search.is_none() { FRESH } else { 0 });
        let seed = |number: usize| first.wrapping_add(number as u64);
        let carried = self.bench.run(record, seed, &arms)?;
        let Some(Carried { number, judgement, seconds }) = carried else { return Ok(Outcome::Interrupted) };
        let figures = |at: usize| of(&judgement, at);
        let control = match figures(0) {
            Ok(control) => control,
            Err(why) => return Ok(Outcome::Void(number, why)),
        };
        let candidate = |at: usize| search.and_then(|search| search.candidates().get(at).cloned());
        let (mut arms, mut failed) = (Vec::new(), Vec::new());
        for (place, (at, spec)) in specs.iter().enumerate() {
            match figures(place + 1) {
                Ok((level_bytes, figures)) => {
                    let candidate = candidate(*at);
                    arms.push(MeasuredArm {
                        at: *at,
                        candidate,
                        spec: spec.to_string(),
                        level_bytes,
                        figures,
                    });
                }
                Err(why) => failed.push((*at, why)),
            }
        }
        let (control_bytes, control) = control;
        Ok(Outcome::Measured(Measured { number, seconds, control_bytes, control, arms }, failed))
    }
}

fn of(judgement: &Judgement, arm: usize) -> Result<(f64, ArmFigures), String> {
    let RunFigures { level_bytes, level, growth, cpu, work } = judgement.run_figures(arm, 0)?;
    Ok((level_bytes, ArmFigures { level, growth, cpu, work }))
}
