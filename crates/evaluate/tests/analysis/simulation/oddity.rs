//! What can be wrong with a fleet.

use heaptrial_evaluate::analysis::{Fleet, FleetEvent, FleetLife, FleetService};
use heaptrial_model::{KnownEvent, LifeStart};
use rand::Rng;
use rand_chacha::ChaCha8Rng;

use super::Course;

const DAY: f64 = 86_400.0;

/// What is wrong with the first services of the second arm, or with all of it.
#[derive(Debug, Clone, Copy)]
pub enum Oddity {
    /// So many run the treatment of another arm.
    Contaminated { services: usize, like: usize },
    /// The same, and lists put them into both arms.
    ListedTwice { services: usize, like: usize },
    /// So many run no more from a day on.
    Vanished { services: usize, day: f64 },
    /// Of so many a share of readings is missing.
    LacksSamples { services: usize, share: f64 },
    /// Of so many the start is not known.
    AgeUnknown { services: usize },
    /// An event that changes the treatment of the arm, for which nothing was restarted.
    Spanned { day: f64 },
    /// So many grow, beside what their arm does.
    Leaks { services: usize, course: Course },
}

impl Oddity {
    /// Positions of the services that it strikes.
    pub fn services(&self, arms: &[usize], in_arm: &[usize]) -> Vec<usize> {
        let count = match self {
            Self::Contaminated { services, .. }
            | Self::ListedTwice { services, .. }
            | Self::Vanished { services, .. }
            | Self::LacksSamples { services, .. }
            | Self::Leaks { services, .. }
            | Self::AgeUnknown { services } => *services,
            Self::Spanned { .. } => usize::MAX,
        };
        (0..arms.len()).filter(|index| arms[*index] == 1 && in_arm[*index] < count).collect()
    }

    /// The arm whose treatment such a service of `arm` runs.
    pub fn runs(&self, arm: usize) -> usize {
        match self {
            Self::Contaminated { like, .. } | Self::ListedTwice { like, .. } => *like,
            _ => arm,
        }
    }

    /// Makes it so.
    pub fn spoil(&self, fleet: &mut Fleet, odd: &[usize], random: &mut ChaCha8Rng) {
        let Some(begin) = fleet.services.first().map(|service| service.lives[0].started_at) else { return };
        if let Self::Spanned { day } = self {
            let text = "experiment: another allocator".to_owned();
            fleet.events.push(FleetEvent {
                host: None,
                service: None,
                kind: KnownEvent::Experiment.into(),
                at: begin + day * DAY,
                arm: Some(1),
                changes_treatment: true,
                text,
            });
        }
        for index in odd {
            let service = &mut fleet.services[*index];
            match self {
                Self::Contaminated { .. } | Self::Spanned { .. } => {}
                Self::ListedTwice { like, .. } => service.arms.push(*like),
                Self::Vanished { day, .. } => keep(service, |at| at < begin + day * DAY),
                Self::LacksSamples { share, .. } => keep(service, |_| !random.random_bool(*share)),
                Self::AgeUnknown { .. } => service.lives.iter_mut().for_each(|life| {
                    life.readings.drain(..life.readings.len() / 10);
                    forget_start(life);
                }),
                Self::Leaks { course, .. } => {
                    for reading in service.lives.iter_mut().flat_map(|life| &mut life.readings) {
                        let days = f64::from(reading.age_seconds) / DAY;
                        reading.kib = (f64::from(reading.kib) * course.log_at(days).exp()) as u32;
                    }
                }
            }
        }
    }
}

/// Keeps the readings of which `wanted` holds, by time.
fn keep(service: &mut FleetService, mut wanted: impl FnMut(f64) -> bool) {
    for life in &mut service.lives {
        let start = life.started_at;
        life.readings.retain(|r| wanted(start + f64::from(r.age_seconds)));
    }
}

/// Ages count from the first reading.
fn forget_start(life: &mut FleetLife) {
    let Some(first) = life.readings.first().map(|reading| reading.age_seconds) else { return };
    life.started_at += f64::from(first);
    life.start = LifeStart::Unknown;
    life.readings.iter_mut().for_each(|reading| reading.age_seconds -= first);
}
