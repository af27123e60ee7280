//! Shares of services, such as those that failed or have a flag: the one test of them.

use heaptrial_stats::{ALPHA, fisher_fewer};

/// How many services are so, and of how many.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    pub(crate) with: usize,
    pub(crate) of: usize,
}

impl Share {
    pub(crate) fn of(services: &[usize], is_so: impl Fn(usize) -> bool) -> Self {
        Self { with: services.iter().filter(|index| is_so(**index)).count(), of: services.len() }
    }

    pub(crate) fn value(self) -> f64 {
        self.with as f64 / self.of.max(1) as f64
    }

    /// p-value of so few by chance beside another share: one-sided, by R. A. Fisher's exact test.
    pub(crate) fn fewer_than(self, other: Self) -> f64 {
        fisher_fewer((self.with, self.of), (other.with, other.of))
    }
}

pub(crate) fn is_shown(p_value: f64) -> bool {
    p_value <= ALPHA
}

/// What an arm is held against: the services of the control or, for the control, those of `compared` others; and how a sentence
/// says so.
pub(crate) fn others(
    members: &[Vec<usize>],
    control: usize,
    arm: usize,
    compared: impl Fn(usize) -> bool,
) -> (Vec<usize>, &'static str) {
    if arm != control {
        return (members[control].clone(), "of the control");
    }
    let others = (0..members.len()).filter(|other| *other != control && compared(*other));
    (others.flat_map(|other| members[other].clone()).collect(), "of the other arms")
}
