//! A block of the control and a few arms.

use std::collections::BTreeMap;
use std::time::Instant;

use heaptrial_allocator::{Catalog, ObtainError, Obtained};
use heaptrial_judgement::{Judgement, RunFigures};
use heaptrial_lab::PreparedArm;
use heaptrial_model::AllocatorSpec;
use heaptrial_tune::{ArmFigures, Search};

use super::record::{Measured, MeasuredArm, Record};
use crate::commands::lab::LabOptions;
use crate::commands::lab::search::{Bench, LabRun, arm};
use crate::exit::Failure;

/// Early figures are those of a run of a quarter of the length.
pub(super) const EARLY: f64 = 0.25;
/// Seeds of verification are so far from those of the search that they never meet.
const FRESH: u64 = 1 << 32;

/// How arms are measured.
pub(super) struct Measure<'a> {
    pub(super) bench: Bench<'a>,
    pub(super) seed: u64,
    pub(super) control: AllocatorSpec,
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
        Ok(obtain(spec, self.bench.options)?.map(|obtained| {
            self.cache.insert(name, obtained);
        }))
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
        let number = record.next_block();
        let mut arms = vec![self.prepared("control", &self.control, true)?];
        for (_, spec) in specs {
            arms.push(self.prepared(&spec.to_string(), spec, false)?);
        }
        let started = Instant::now();
        let judgement = self.bench.run(LabRun {
            name: format!("block-{number}"),
            folder: record.block_folder(number),
            seed: self.seed.wrapping_add(number as u64).wrapping_add(if search.is_none() {
                FRESH
            } else {
                0
            }),
            arms,
        })?;
        let Some(judgement) = judgement else { return Ok(Outcome::Interrupted) };
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
        let seconds = started.elapsed().as_secs_f64();
        let (control_bytes, control) = control;
        Ok(Outcome::Measured(Measured { number, seconds, control_bytes, control, arms }, failed))
    }
}

fn of(judgement: &Judgement, arm: usize) -> Result<(f64, ArmFigures), String> {
    let RunFigures { level_bytes, level, growth, cpu, cpu_off, work, early } =
        judgement.run_figures(arm, 0, EARLY)?;
    Ok((level_bytes, ArmFigures { level, growth, cpu, cpu_off, work, early }))
}
