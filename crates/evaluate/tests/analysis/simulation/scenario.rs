//! What a simulated fleet is like.

use super::Oddity;

/// A fleet to be simulated. Memory of a service is a product, so on the log scale a sum: the level of its arm,
/// its own distance from it, settling after a start, growth, its own wandering, the common load, and noise of
/// each reading.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The arms; the first is the control.
    pub arms: Vec<Arm>,
    /// Time that is observed.
    pub days: f64,
    /// Distance of readings.
    pub every_hours: f64,
    /// Share of readings that are missing.
    pub missing: f64,
    /// SD of the logarithm of levels between services.
    pub spread: f64,
    /// Whether that distribution is Student's t with 3 degrees of freedom in place of normal.
    pub spread_tails: bool,
    /// SD of the wandering of a service around its level, an AR(1) process,
    pub wander: f64,
    /// and its correlation over an hour.
    pub correlation: f64,
    /// Whether its steps are Student's t with 3 degrees of freedom in place of normal.
    pub wander_tails: bool,
    /// SD of independent noise of each reading.
    pub noise: f64,
    /// Memory begins this share below its level and settles with a time constant of `settling_days`.
    pub settling: f64,
    /// See `settling`.
    pub settling_days: f64,
    /// When services start.
    pub starts: Starts,
    /// Restarts that nobody planned, for each service.
    pub restarts_per_day: f64,
    /// What all services share.
    pub load: Load,
    /// The blocks of the assignment.
    pub blocks: Option<Blocks>,
    /// The hosts that the blocks are on, as many blocks on each.
    pub hosts: Option<Hosts>,
    /// What is wrong with the fleet.
    pub oddity: Option<Oddity>,
}

/// An arm of a simulated fleet.
#[derive(Debug, Clone)]
pub struct Arm {
    /// Services.
    pub services: usize,
    /// True level in proportion to 1 GiB.
    pub ratio: f64,
    /// Growth.
    pub course: Course,
    /// Its spread between services in proportion to that of the scenario.
    pub spread_factor: f64,
}

/// Growth of memory with age.
#[derive(Debug, Clone, Copy)]
pub enum Course {
    /// By a constant factor: slope of the logarithm a day.
    Steady(f64),
    /// By a constant number of bytes: share of the level a day.
    Straight(f64),
    /// By a share of the level altogether, with a time constant in days.
    Saturating(f64, f64),
    /// By a share of the level at once, each so many days.
    Steps(f64, f64),
}

/// When services start.
#[derive(Debug, Clone, Copy)]
pub enum Starts {
    /// At once.
    Together,
    /// At random within so many days, whatever their arm.
    Staggered(f64),
    /// Half of the services of each arm so many days later.
    Batches(f64),
    /// Each arm so many days after the one before it.
    ByArm(f64),
}

/// Load that all services share: an AR(1) process on the log scale.
#[derive(Debug, Clone, Copy, Default)]
pub struct Load {
    /// Its SD.
    pub sd: f64,
    /// Its correlation over an hour.
    pub correlation: f64,
}

/// The blocks of an assignment.
#[derive(Debug, Clone, Copy)]
pub struct Blocks {
    /// Services of a block, a multiple of the number of arms.
    pub services: usize,
    /// SD of what the services of a block share.
    pub sd: f64,
}

/// Several hosts.
#[derive(Debug, Clone, Copy)]
pub struct Hosts {
    /// How many.
    pub count: usize,
    /// SD of the logarithm of what the services of a host share.
    pub sd: f64,
    /// The same of what an arm does on one host and not on another.
    pub effect_sd: f64,
    /// How many times the spread of services of the last host is that of the first.
    pub spread_factor: f64,
}

impl Arm {
    /// An arm that does not grow.
    pub fn new(services: usize, ratio: f64) -> Self {
        Self { services, ratio, course: Course::Steady(0.0), spread_factor: 1.0 }
    }

    /// The same arm with growth.
    pub fn growing(self, course: Course) -> Self {
        Self { course, ..self }
    }
}

impl Scenario {
    /// Much as the services of the real trial: levels apart by 6%, wandering by 2% with a correlation of 0.9 over
    /// an hour, read every 2 hours for 8 days.
    pub fn new(arms: Vec<Arm>) -> Self {
        Self {
            arms,
            days: 8.0,
            every_hours: 2.0,
            missing: 0.0,
            spread: 0.06,
            spread_tails: false,
            wander: 0.02,
            correlation: 0.9,
            wander_tails: false,
            noise: 0.005,
            settling: 0.5,
            settling_days: 0.3,
            starts: Starts::Together,
            restarts_per_day: 0.0,
            load: Load::default(),
            blocks: None,
            hosts: None,
            oddity: None,
        }
    }

    /// Arms of equal size and level.
    pub fn of_equal(arms: usize, services: usize) -> Self {
        Self::new(vec![Arm::new(services, 1.0); arms])
    }

    /// The same fleet with something wrong.
    pub fn with(mut self, oddity: Oddity) -> Self {
        self.oddity = Some(oddity);
        self
    }
}

impl Course {
    /// Logarithm of memory at an age in proportion to that at its beginning.
    pub fn log_at(self, age_days: f64) -> f64 {
        match self {
            Self::Steady(slope) => slope * age_days,
            Self::Straight(share) => (share * age_days).ln_1p(),
            Self::Saturating(share, days) => (share * -(-age_days / days).exp_m1()).ln_1p(),
            Self::Steps(share, days) => (share * (age_days / days).floor()).ln_1p(),
        }
    }
}
