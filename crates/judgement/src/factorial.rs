//! What of the difference between two versions is the version and what its settings.

use std::collections::BTreeMap;

use heaptrial_model::{Arm, FactorialDesign, Metric, Side};
use heaptrial_stats::{BlockEffect, TwoByTwo, block_effect, factorial, geometric_mean};
use serde::{Deserialize, Serialize};

use crate::Judgement;

/// The factorial of two builds and the levels of their settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Factorial {
    pub design: FactorialDesign,
    /// The reading that is compared: medians from warm-up to the matched age.
    pub metric: Metric,
    /// Repeats: the blocks of the analysis.
    pub repeats: u32,
    pub confidence_level: f64,
    /// The cells, the good build first.
    pub cells: Vec<Cell>,
    /// Bad build over good one at each level.
    pub version_at: Vec<LevelEffect>,
    /// Each level over the build's own default.
    pub setting_in: Vec<SettingEffect>,
    /// How the whole difference comes about; `None` where the defaults of both builds are not among the cells.
    pub parts: Option<Parts>,
}

/// A ratio of memory over repeats as blocks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Effect {
    pub estimate: f64,
    /// Lower end of its interval; `None` of one repeat.
    pub low: Option<f64>,
    pub high: Option<f64>,
    /// How the interval was found: `student_t` on the logarithms, or `none`.
    pub method: String,
    /// Two-sided p-value of no effect, not adjusted for the number of effects.
    pub p_value: Option<f64>,
}

/// A service that counts: its cell, its block, its level and its CPU time in seconds.
#[derive(Debug, Clone, Copy)]
struct Counted {
    cell: (Side, usize),
    block: u32,
    level_bytes: Option<f64>,
    cpu_seconds: Option<f64>,
}

/// One build with one level of the settings.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    pub side: Side,
    /// Position in the levels of the design.
    pub level: usize,
    /// Whether the build has this level by default.
    pub is_default: bool,
    pub services: u32,
    /// Geometric mean over the services.
    pub bytes: Option<u64>,
    /// CPU time since start: mean over the services.
    pub cpu_seconds: Option<f64>,
    /// Over the good build with its own default; `None` for that cell itself.
    pub ratio_to_good: Option<Effect>,
}

/// An effect at a level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LevelEffect {
    /// Position in the levels of the design.
    pub level: usize,
    pub ratio: Effect,
}

/// The effect of a level in a build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettingEffect {
    pub side: Side,
    /// Position in the levels of the design.
    pub level: usize,
    pub ratio: Effect,
}

/// The whole difference, each build with its own default, and its parts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Parts {
    /// Bad over good, each with its own default: the product of the two main effects.
    pub total: Effect,
    /// Main effect of the version: mean over the defaults of both.
    pub version: Effect,
    /// Main effect of the settings: mean over both versions.
    pub setting: Effect,
    /// Effect of the settings in the bad version over that in the good one.
    pub interaction: Effect,
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
    pub high: Option<f64>,
}

/// A number for each cell, by block.
struct Blocks<'a> {
    design: &'a FactorialDesign,
    rows: Vec<Vec<Option<f64>>>,
    level: f64,
}

impl Factorial {
    /// Analyses the arms of a lab run that are cells of `design`. `None` where no repeat has two cells to compare.
    pub fn of(judgement: &Judgement, design: &FactorialDesign) -> Option<Self> {
        let services: Vec<Counted> = judgement
            .placements()
            .into_iter()
            .filter(|(_, _, excluded)| !excluded)
            .filter_map(|(index, arm, _)| {
                let found = &judgement.analysis.services[index];
                Some(Counted {
                    cell: cell_of(design, &judgement.rows.arms[arm].arm)?,
                    block: judgement.fleet.services[index].block,
                    level_bytes: found.level_bytes.filter(|bytes| *bytes > 0.0),
                    cpu_seconds: judgement.services[index].cpu_seconds,
                })
            })
            .collect();
        let confidence_level = judgement.analysis.settings.confidence_level;
        let blocks = Blocks::new(design, &services, confidence_level);
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
        Some(Self {
            design: design.clone(),
            metric: judgement.rows.trial.plan.metric,
            repeats: blocks.rows.len() as u32,
            confidence_level,
            cells,
            version_at,
            setting_in,
            parts,
        })
    }

    /// The cell of a build at a level.
    pub fn cell(&self, side: Side, level: usize) -> Option<&Cell> {
        self.cells.iter().find(|cell| (cell.side, cell.level) == (side, level))
    }
}

/// An arm with more in its treatment than an allocator is in no cell.
fn cell_of(design: &FactorialDesign, arm: &Arm) -> Option<(Side, usize)> {
    arm.treatment.options().is_empty().then(|| design.cell_of(&arm.allocator())).flatten()
}

impl<'a> Blocks<'a> {
    fn new(design: &'a FactorialDesign, services: &[Counted], level: f64) -> Self {
        let mut by_block: BTreeMap<u32, Vec<Vec<f64>>> = BTreeMap::new();
        for service in services {
            let cells =
                by_block.entry(service.block).or_insert_with(|| vec![Vec::new(); 2 * design.levels.len()]);
            cells[index(design, service.cell)].extend(service.level_bytes);
        }
        let row = |cells: Vec<Vec<f64>>| cells.iter().map(|values| geometric_mean(values)).collect();
        Self { design, rows: by_block.into_values().map(row).collect(), level }
    }

    /// The ratio of two cells.
    fn effect(&self, over: (Side, usize), under: (Side, usize)) -> Option<Effect> {
        let mut weights = vec![0.0; 2 * self.design.levels.len()];
        weights[index(self.design, over)] += 1.0;
        weights[index(self.design, under)] -= 1.0;
        block_effect(&self.rows, &weights, self.level).map(ratio)
    }

    fn cell(&self, place: (Side, usize), services: &[Counted]) -> Cell {
        let own: Vec<&Counted> = services.iter().filter(|service| service.cell == place).collect();
        let levels: Vec<f64> = own.iter().filter_map(|service| service.level_bytes).collect();
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

fn ratio(effect: BlockEffect) -> Effect {
    Effect {
        estimate: effect.ratio,
        low: effect.interval.map(|interval| interval.0),
        high: effect.interval.map(|interval| interval.1),
        method: if effect.interval.is_some() { "student_t" } else { "none" }.to_owned(),
        p_value: effect.p_value,
    }
}
