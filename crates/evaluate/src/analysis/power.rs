//! How many services and days a trial needs, from past data of the same services.

use heaptrial_stats::{IntervalMethod, Power, SimulatedTrials, power_of_ratio, services_needed, variance};
use serde::{Deserialize, Serialize};

use crate::analysis::age::Ages;
use crate::analysis::fleet::{Fleet, FleetLife};
use crate::analysis::outcome::{DAY, Settings};
use crate::analysis::service::level_when_reached;
use crate::analysis::standing_out;

/// More services per arm than this are not looked for.
const SERVICES_AT_MOST: usize = 2000;

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
    /// Lengths of the trial to look at.
    pub lengths: Vec<TrialLength>,
    /// The power that is wanted, such as 0.8.
    pub wanted: f64,
    /// Simulated trials for each combination.
    pub simulations: usize,
}

/// A length of a trial.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TrialLength {
    pub days: f64,
    /// What its last look may err with over all arms.
    pub alpha: f64,
}

/// Power by services and days.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PowerTable {
    pub arm: String,
    pub ratio: f64,
    pub arms: usize,
    pub wanted: f64,
    pub simulations: usize,
    /// Services per arm: the columns.
    pub services: Vec<usize>,
    /// One for each number of days.
    pub rows: Vec<PowerRow>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PowerRow {
    pub days: f64,
    /// Level of each test: what the last look may err with, over the number of comparisons.
    pub alpha: f64,
    /// Services with a level at that age: those that are drawn from.
    pub population: usize,
    /// Standard deviation of the logarithm of their levels.
    pub spread: Option<f64>,
    /// Power by number of services per arm; `None` where the data do not reach so far.
    pub power: Vec<Option<f64>>,
    /// Whether it is that of Student's t, which assumes that the logarithms of memory are normally distributed: so few services
    /// have too few assignments for a permutation test at that level.
    pub assumes_normality: Vec<bool>,
    /// Services per arm for the power that is wanted.
    pub services_needed: Option<usize>,
}

/// Simulates trials on services drawn from an arm: levels at each age are drawn with replacement, one arm's are
/// multiplied by the ratio, and the test of a trial's last look is applied, within blocks of so many services of each arm as
/// `rounds` gives for a number of services per arm, an error over all arms and the spread of the services.
pub fn power(
    fleet: &Fleet,
    settings: &Settings,
    request: &PowerRequest,
    rounds: impl Fn(usize, f64, Option<f64>) -> usize,
) -> PowerTable {
    let ages = Ages::of(fleet, settings);
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
    let rows = request.lengths.iter().map(|length| {
        let level = |life: &&FleetLife| level_when_reached(life, length.days * DAY, settings.window_seconds);
        let levels: Vec<f64> = lives.iter().filter_map(level).collect();
        let enough = levels.len() >= standing_out::FEWEST;
        let trials = SimulatedTrials {
            ratio: request.ratio,
            alpha: length.alpha / (request.arms.max(2) - 1) as f64,
            simulations: request.simulations,
            seed: fleet.seed,
        };
        let logs: Vec<f64> = levels.iter().map(|level| level.ln()).collect();
        let spread = variance(&logs).map(f64::sqrt);
        let rounds = |services: usize| rounds(services, length.alpha, spread);
        let power = |services: &usize| {
            enough.then(|| power_of_ratio(&levels, *services, rounds(*services), &trials)).flatten()
        };
        let powers: Vec<Option<Power>> = request.services.iter().map(power).collect();
        let by_student = |power: &Option<Power>| power.is_some_and(|p| p.method == IntervalMethod::StudentT);
        PowerRow {
            days: length.days,
            alpha: trials.alpha,
            population: levels.len(),
            spread,
            power: powers.iter().map(|power| power.map(|power| power.share)).collect(),
            assumes_normality: powers.iter().map(by_student).collect(),
            services_needed: enough
                .then(|| services_needed(&levels, rounds, &trials, request.wanted, SERVICES_AT_MOST))
                .flatten(),
        }
    });
    PowerTable {
        arm: fleet.arms[request.arm].name.clone(),
        ratio: request.ratio,
        arms: request.arms,
        wanted: request.wanted,
        simulations: request.simulations,
        services: request.services.clone(),
        rows: rows.collect(),
    }
}
