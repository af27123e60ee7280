//! How many services and days a trial needs, from past data of the same services.

use heaptrial_stats::{power_of_ratio, services_needed};
use serde::{Deserialize, Serialize};

use crate::age::{Ages, tolerance};
use crate::fleet::{Fleet, FleetLife};
use crate::outcome::{DAY, Settings};
use crate::service::level_at;

/// Fewer services say too little about the spread between services.
const FEWEST_SERVICES: usize = 5;
/// More services per arm than this are not looked for.
const SERVICES_AT_MOST: usize = 2000;

/// What is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct PowerRequest {
    /// Position of the arm whose services stand for those of the trial to come.
    pub arm: usize,
    /// Positions of its services that do not belong to it, and so say nothing about the others' spread.
    pub left_out: Vec<usize>,
    /// The ratio to control that is to be detected.
    pub ratio: f64,
    /// Arms of the trial to come, the control among them: with more arms each test is stricter (Holm).
    pub arms: usize,
    /// Services per arm to look at.
    pub services: Vec<usize>,
    /// Days of observation to look at.
    pub days: Vec<f64>,
    /// The power that is wanted, such as 0.8.
    pub wanted: f64,
    /// Simulated trials for each combination.
    pub simulations: usize,
}

/// Power by services and days.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PowerTable {
    /// The arm whose services stand for those of the trial to come.
    pub arm: String,
    /// The ratio to be detected.
    pub ratio: f64,
    /// Arms, the control among them.
    pub arms: usize,
    /// Level of each test: 5% over the number of comparisons.
    pub alpha: f64,
    /// The power that is wanted.
    pub wanted: f64,
    /// Simulated trials for each combination.
    pub simulations: usize,
    /// Services per arm: the columns.
    pub services: Vec<usize>,
    /// One for each number of days.
    pub rows: Vec<PowerRow>,
}

/// Power after some days.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PowerRow {
    /// Days of observation.
    pub days: f64,
    /// Services with a level at that age: those that are drawn from.
    pub population: usize,
    /// Standard deviation of the logarithm of their levels.
    pub spread: Option<f64>,
    /// Power by number of services per arm; `None` where the data do not reach so far.
    pub power: Vec<Option<f64>>,
    /// Services per arm for the power that is wanted.
    pub services_needed: Option<usize>,
}

/// Simulates trials on services drawn from an arm: levels at each age are drawn with replacement, one arm's are
/// multiplied by the ratio, and the test of a trial is applied.
pub fn power(fleet: &Fleet, settings: &Settings, request: &PowerRequest) -> PowerTable {
    let ages = Ages::of(fleet, settings);
    let alpha = (1.0 - settings.confidence_level) / (request.arms.max(2) - 1) as f64;
    let lives: Vec<&FleetLife> = fleet
        .services
        .iter()
        .enumerate()
        .filter(|(index, service)| service.arms.contains(&request.arm) && !request.left_out.contains(index))
        .map(|(_, service)| service)
        .filter_map(|service| Some((service, service.current()?)))
        .filter(|(service, life)| ages.usable(service, life))
        .map(|(_, life)| life)
        .collect();
    let rows = request.days.iter().map(|days| {
        let levels = levels(&lives, days * DAY, settings);
        let enough = levels.len() >= FEWEST_SERVICES;
        let share = |services: &usize| {
            power_of_ratio(&levels, *services, request.ratio, alpha, request.simulations, fleet.seed)
        };
        PowerRow {
            days: *days,
            population: levels.len(),
            spread: spread(&levels),
            power: request
                .services
                .iter()
                .map(|n| enough.then(|| share(n)).flatten().map(|p| p.share))
                .collect(),
            services_needed: enough
                .then(|| {
                    let (ratio, wanted, simulations) = (request.ratio, request.wanted, request.simulations);
                    services_needed(&levels, ratio, alpha, wanted, SERVICES_AT_MOST, simulations, fleet.seed)
                })
                .flatten(),
        }
    });
    PowerTable {
        arm: fleet.arms[request.arm].name.clone(),
        ratio: request.ratio,
        arms: request.arms,
        alpha,
        wanted: request.wanted,
        simulations: request.simulations,
        services: request.services.clone(),
        rows: rows.collect(),
    }
}

fn levels(lives: &[&FleetLife], age: f64, settings: &Settings) -> Vec<f64> {
    let old_enough =
        |life: &&&FleetLife| life.last_age().is_some_and(|last| last >= age - tolerance(life, age));
    lives.iter().filter(old_enough).filter_map(|life| level_at(life, settings.level_from(age), age)).collect()
}

fn spread(levels: &[f64]) -> Option<f64> {
    let n = levels.len() as f64;
    let mean = levels.iter().map(|level| level.ln()).sum::<f64>() / n;
    let squares: f64 = levels.iter().map(|level| (level.ln() - mean).powi(2)).sum();
    (levels.len() >= 2).then(|| (squares / (n - 1.0)).sqrt())
}
