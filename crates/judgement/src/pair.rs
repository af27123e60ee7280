//! One figure of each arm of a lab run: what a search compares within a block.

use heaptrial_analysis::{DAY, FleetLife};
use heaptrial_stats::{median, theil_sen_slope};
use serde::{Deserialize, Serialize};

use crate::Judgement;

/// Readings of a life that a slope is taken over at most; its cost grows with their square.
const POINTS: usize = 200;

/// By what arms are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    /// The level: the median of memory after warm-up.
    Level,
    /// How much memory grew after warm-up.
    Growth,
}

/// A service's figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ArmFigure {
    /// Its level in bytes.
    pub level_bytes: f64,
    /// Natural logarithm of the level, or of the factor by which memory grew.
    pub log: f64,
}

impl Judgement {
    /// The figure of the only service of the arm at `arm`; why there is none, if there is none.
    pub fn figure_of(&self, arm: usize, by: By) -> Result<ArmFigure, String> {
        let found = self.analysis.services.iter().position(|service| service.arms.contains(&arm));
        let index = found.ok_or("it was not started")?;
        if let Some(why) = &self.services[index].excluded {
            return Err(why.clone());
        }
        let life = self.fleet.services[index].current().ok_or("it has no readings")?;
        let level_bytes = self.level_of(life).ok_or("it has no readings after warm-up")?;
        let log = match by {
            By::Level => level_bytes.ln(),
            By::Growth => self.growth_of(life).ok_or("it has too few readings after warm-up")?,
        };
        Ok(ArmFigure { level_bytes, log })
    }

    /// The median from the end of warm-up to the age that all that count reached, in bytes. Unlike the level of an analysis it
    /// asks for no number of readings: noise is the search's business.
    fn level_of(&self, life: &FleetLife) -> Option<f64> {
        let counted =
            self.fleet.services.iter().zip(&self.services).filter(|(_, facts)| facts.excluded.is_none());
        let ages = counted.filter_map(|(service, _)| service.current()?.last_age());
        let age = ages.fold(f64::INFINITY, f64::min);
        let stretch = self.analysis.settings.level_from(age)..=age;
        let readings =
            life.readings.iter().filter(|reading| stretch.contains(&f64::from(reading.age_seconds)));
        let bytes: Vec<f64> = readings.map(|reading| f64::from(reading.kib) * 1024.0).collect();
        median(&bytes).filter(|bytes| *bytes > 0.0)
    }

    /// The logarithm of the factor by which memory grew from the end of warm-up to the last reading, by the median slope.
    fn growth_of(&self, life: &FleetLife) -> Option<f64> {
        let from = self.analysis.settings.warm_up_of(life.last_age()?);
        let readings: Vec<(f64, f64)> = life
            .readings
            .iter()
            .filter(|reading| f64::from(reading.age_seconds) >= from && reading.kib > 0)
            .map(|reading| (f64::from(reading.age_seconds) / DAY, f64::from(reading.kib).ln()))
            .collect();
        let every = readings.len().div_ceil(POINTS).max(1);
        let thinned: Vec<(f64, f64)> = readings.iter().copied().step_by(every).collect();
        Some(theil_sen_slope(&thinned)? * (readings.last()?.0 - readings.first()?.0))
    }
}
