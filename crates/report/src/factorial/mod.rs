//! What of the difference between two versions is the version and what its settings.

mod forms;

use std::collections::BTreeMap;

use heaptrial_model::{AllocatorSpec, FactorialDesign, Metric, Side};
use heaptrial_stats::{BlockEffect, TwoByTwo, block_effect, factorial, geometric_mean};
use serde::{Deserialize, Serialize};

use crate::document::{Arm, Ratio, Report, Service};

/// The form of [`FactorialReport`] as JSON that this version writes.
pub const FACTORIAL_SCHEMA_VERSION: u32 = 1;

/// The factorial of two builds and the levels of their settings: `factorial.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FactorialReport {
    /// [`FACTORIAL_SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Which builds and levels.
    pub design: FactorialDesign,
    /// The reading that is compared: medians from warm-up to the matched age.
    pub metric: Metric,
    /// Repeats: the blocks of the analysis.
    pub repeats: u32,
    /// Of the intervals.
    pub confidence_level: f64,
    /// The cells, the good build first.
    pub cells: Vec<Cell>,
    /// Bad build over good one at each level.
    pub version_at: Vec<LevelEffect>,
    /// Each level over the build's own default.
    pub setting_in: Vec<SettingEffect>,
    /// How the whole difference comes about; `None` where the defaults of both builds are not among the cells.
    pub parts: Option<Parts>,
    /// What to know about the figures.
    pub notes: Vec<String>,
}

/// One build with one level of the settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Which build.
    pub side: Side,
    /// Position in the levels of the design.
    pub level: usize,
    /// Whether the build has this level by default.
    pub is_default: bool,
    /// Services that count.
    pub services: u32,
    /// Geometric mean over the services.
    pub bytes: Option<u64>,
    /// CPU time since start: mean over the services.
    pub cpu_seconds: Option<f64>,
    /// Over the good build with its own default; `None` for that cell itself.
    pub ratio_to_good: Option<Ratio>,
}

/// An effect at a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelEffect {
    /// Position in the levels of the design.
    pub level: usize,
    /// The effect.
    pub ratio: Ratio,
}

/// The effect of a level in a build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettingEffect {
    /// Which build.
    pub side: Side,
    /// Position in the levels of the design.
    pub level: usize,
    /// The effect.
    pub ratio: Ratio,
}

/// The whole difference, each build with its own default, and its parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// Bad over good, each with its own default: the product of the two main effects.
    pub total: Ratio,
    /// Main effect of the version: mean over the defaults of both.
    pub version: Ratio,
    /// Main effect of the settings: mean over both versions.
    pub setting: Ratio,
    /// Effect of the settings in the bad version over that in the good one.
    pub interaction: Ratio,
    /// Share of the settings in the logarithm of the whole difference; the rest is the version's.
    pub setting_share: Option<SettingShare>,
}

/// A share with its interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettingShare {
    /// The share; below 0 or above 1 where version and settings pull apart.
    pub estimate: f64,
    /// Lower end of the interval.
    pub low: Option<f64>,
    /// Upper end.
    pub high: Option<f64>,
}

/// A number for each cell, by block.
struct Blocks<'a> {
    design: &'a FactorialDesign,
    rows: Vec<Vec<Option<f64>>>,
    level: f64,
}

impl FactorialReport {
    /// Analyses the arms of a report that are cells of `design`. `None` where no repeat has two cells to compare.
    pub fn of(report: &Report, design: &FactorialDesign) -> Option<Self> {
        let services: Vec<((Side, usize), &Service)> = report
            .services
            .iter()
            .filter(|service| service.counts)
            .filter_map(|service| Some((cell_of(design, arm_of(report, service)?)?, service)))
            .collect();
        let blocks = Blocks::new(design, &services, report.analysis.confidence_level);
        let levels = || 0..design.levels.len();
        let cells: Vec<Cell> = Side::BOTH
            .into_iter()
            .flat_map(|side| levels().map(move |level| (side, level)))
            .map(|place| blocks.cell(place, &services))
            .collect();
        let version_at: Vec<LevelEffect> = levels()
            .filter_map(|level| {
                let ratio = blocks.effect((Side::Bad, level), (Side::Good, level))?;
                Some(LevelEffect { level, ratio })
            })
            .collect();
        let of_side = |side: Side| {
            let default = design.default_of(side);
            default.into_iter().flat_map(move |default| {
                levels().filter(move |level| *level != default).map(move |level| (side, level, default))
            })
        };
        let setting_in: Vec<SettingEffect> = Side::BOTH
            .into_iter()
            .flat_map(of_side)
            .filter_map(|(side, level, default)| {
                Some(SettingEffect { side, level, ratio: blocks.effect((side, level), (side, default))? })
            })
            .collect();
        let parts = blocks.parts();
        if version_at.is_empty() && setting_in.is_empty() {
            return None;
        }
        let mut found = Self {
            schema_version: FACTORIAL_SCHEMA_VERSION,
            design: design.clone(),
            metric: report.analysis.metric,
            repeats: blocks.rows.len() as u32,
            confidence_level: report.analysis.confidence_level,
            cells,
            version_at,
            setting_in,
            parts,
            notes: Vec::new(),
        };
        found.notes = notes(&found);
        Some(found)
    }

    /// The cell of a build at a level.
    pub fn cell(&self, side: Side, level: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| (cell.side, cell.level) == (side, level))
    }
}

fn arm_of<'a>(report: &'a Report, service: &Service) -> Option<&'a Arm> {
    report.arms.iter().find(|arm| arm.name == service.arm)
}

/// An arm with more in its treatment than an allocator is in no cell.
fn cell_of(design: &FactorialDesign, arm: &Arm) -> Option<(Side, usize)> {
    let allocator_alone = arm.treatment.torrc.is_empty() && arm.treatment.restart_every.is_none();
    let spec: AllocatorSpec = arm.allocator.parse().ok().filter(|_| allocator_alone)?;
    design.cell_of(&spec)
}

fn bytes(service: &Service) -> Option<f64> {
    Some(service.memory.as_ref()?.median_bytes? as f64).filter(|bytes| *bytes > 0.0)
}

impl<'a> Blocks<'a> {
    fn new(design: &'a FactorialDesign, services: &[((Side, usize), &Service)], level: f64) -> Self {
        let mut by_block: BTreeMap<u32, Vec<Vec<f64>>> = BTreeMap::new();
        for ((side, level), service) in services {
            let cells =
                by_block.entry(service.block).or_insert_with(|| vec![Vec::new(); 2 * design.levels.len()]);
            cells[index(design, (*side, *level))].extend(bytes(service));
        }
        let row = |cells: Vec<Vec<f64>>| cells.iter().map(|values| geometric_mean(values)).collect();
        Self { design, rows: by_block.into_values().map(row).collect(), level }
    }

    /// The ratio of two cells.
    fn effect(&self, over: (Side, usize), under: (Side, usize)) -> Option<Ratio> {
        let mut weights = vec![0.0; 2 * self.design.levels.len()];
        weights[index(self.design, over)] += 1.0;
        weights[index(self.design, under)] -= 1.0;
        block_effect(&self.rows, &weights, self.level).map(ratio)
    }

    fn cell(&self, place: (Side, usize), services: &[((Side, usize), &Service)]) -> Cell {
        let own: Vec<&Service> =
            services.iter().filter(|(at, _)| *at == place).map(|(_, service)| *service).collect();
        let levels: Vec<f64> = own.iter().filter_map(|service| bytes(service)).collect();
        let cpu: Vec<f64> = own.iter().filter_map(|service| service.cpu_seconds).collect();
        let good = self.design.good_default.map(|level| (Side::Good, level));
        Cell {
            side: place.0,
            level: place.1,
            is_default: self.design.default_of(place.0) == Some(place.1),
            services: own.len() as u32,
            bytes: geometric_mean(&levels).map(|bytes| bytes.round() as u64),
            cpu_seconds: (!cpu.is_empty()).then(|| cpu.iter().sum::<f64>() / cpu.len() as f64),
            ratio_to_good: good.filter(|good| *good != place).and_then(|good| self.effect(place, good)),
        }
    }

    fn parts(&self) -> Option<Parts> {
        let (good, bad) = (self.design.good_default?, self.design.bad_default?);
        let block = |row: &Vec<Option<f64>>| {
            let at = |side: Side, level: usize| row[index(self.design, (side, level))];
            Some(TwoByTwo {
                good: at(Side::Good, good)?,
                good_with_bad_setting: at(Side::Good, bad)?,
                bad_with_good_setting: at(Side::Bad, good)?,
                bad: at(Side::Bad, bad)?,
            })
        };
        let blocks: Vec<TwoByTwo> = self.rows.iter().filter_map(block).collect();
        let found = factorial(&blocks, self.level).filter(|_| good != bad)?;
        Some(Parts {
            total: ratio(found.total),
            version: ratio(found.version),
            setting: ratio(found.setting),
            interaction: ratio(found.interaction),
            setting_share: found.setting_share.map(|share| SettingShare {
                estimate: share.estimate,
                low: share.interval.map(|interval| interval.0),
                high: share.interval.map(|interval| interval.1),
            }),
        })
    }
}

fn index(design: &FactorialDesign, (side, level): (Side, usize)) -> usize {
    match side {
        Side::Good => level,
        Side::Bad => design.levels.len() + level,
    }
}

fn ratio(effect: BlockEffect) -> Ratio {
    Ratio {
        estimate: effect.ratio,
        low: effect.interval.map(|interval| interval.0),
        high: effect.interval.map(|interval| interval.1),
        method: if effect.interval.is_some() { "student_t" } else { "none" }.to_owned(),
        p_value: effect.p_value,
        p_value_adjusted: None,
        note: None,
    }
}

fn notes(found: &FactorialReport) -> Vec<String> {
    let mut notes = Vec::new();
    if found.repeats < 2 {
        notes.push(
            "One repeat: no intervals, so nothing tells how far another run would be from these ratios. Run it with \
             --repeat 3 or more."
                .to_owned(),
        );
    } else {
        notes.push(format!(
            "Intervals of {:.0}%: Student's t on the logarithms over {} repeats as blocks; not adjusted for their number.",
            100.0 * found.confidence_level,
            found.repeats
        ));
    }
    let short = found.cells.iter().filter(|cell| cell.services < found.repeats).count();
    if short > 0 {
        notes.push(format!(
            "{short} of {} cells lack a repeat: their ratios are of the repeats that both cells have.",
            found.cells.len()
        ));
    }
    if found.parts.is_none() {
        notes.push(
            "The cells do not hold both versions at the differing defaults of both: the difference is not split into \
             version and settings."
                .to_owned(),
        );
    }
    notes
}
