//! Levels at an age of choice, taken as those at the matched age are.

use heaptrial_stats::geometric_mean;

use crate::analysis::age::Ages;
use crate::analysis::figures::ratio_of;
use crate::analysis::fleet::{Fleet, FleetService};
use crate::analysis::outcome::{Analysis, RatioToControl};
use crate::analysis::service::level_when_reached;

/// The levels of a fleet's services at an age, of those that belong to their arms and reached it.
#[derive(Debug)]
pub struct LevelsAt<'a> {
    fleet: &'a Fleet,
    analysis: &'a Analysis,
    /// By position of the service.
    levels: Vec<Option<f64>>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ArmAt {
    /// Geometric mean of the levels of its services in bytes.
    pub level_bytes: f64,
    /// Services that have a level,
    pub services: u32,
    /// of so many that belong to it and have readings.
    pub of: u32,
}

impl<'a> LevelsAt<'a> {
    /// At an age in seconds: medians over the window of [`Settings`](crate::analysis::Settings) that ends there.
    pub fn of(fleet: &'a Fleet, analysis: &'a Analysis, age_seconds: f64) -> Self {
        let ages = Ages::of(fleet, &analysis.settings);
        let level = |service: &FleetService| {
            let life = service.current().filter(|life| ages.usable(service, life))?;
            level_when_reached(life, age_seconds, analysis.settings.window_seconds)
        };
        Self { fleet, analysis, levels: fleet.services.iter().map(level).collect() }
    }

    /// The figures of an arm; `None` where no service of it has a level.
    pub fn arm(&self, arm: usize) -> Option<ArmAt> {
        let members = self.analysis.members(arm);
        let levels: Vec<f64> = members.iter().filter_map(|index| self.levels[*index]).collect();
        let read = members.iter().filter(|index| self.fleet.services[**index].current().is_some());
        Some(ArmAt {
            level_bytes: geometric_mean(&levels)?,
            services: levels.len() as u32,
            of: read.count() as u32,
        })
    }

    /// The memory of one arm in proportion to that of another.
    pub fn ratio(&self, over: usize, under: usize) -> Option<RatioToControl> {
        let (over, under) = (self.analysis.members(over), self.analysis.members(under));
        ratio_of(self.fleet, &self.analysis.settings, &|index| self.levels[index], &under, &over)
    }
}
