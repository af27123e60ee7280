//! Which settings need the least memory, as a document.

mod forms;

use heaptrial_search::tune::{Against, Doubt, Effect, Figure, LEAST_FREEDOM, Limits, Standing, doubt};
use serde::{Deserialize, Serialize};

use crate::search::SearchRun;

/// The form of [`TuneReport`] as JSON that this version writes.
pub const TUNE_SCHEMA_VERSION: u32 = 1;

/// A search over settings: `tune.json`. Ratios are natural logarithms.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TuneReport {
    pub schema_version: u32,
    pub control: String,
    pub over: Vec<String>,
    pub limits: Limits,
    pub margin: f64,
    pub error: f64,
    /// Candidates that there are; `None` where they are too many to count.
    pub possible: Option<usize>,
    /// Standard deviation of one run's log level within a block, and its degrees of freedom.
    pub noise: Option<(f64, usize)>,
    /// Those that were measured, best first.
    pub candidates: Vec<Standing>,
    pub effects: Vec<Effect>,
    /// What fresh blocks show of the winners; `None` where there are no winners, or none was verified yet.
    pub verified: Option<VerifiedReport>,
    #[serde(flatten)]
    pub run: SearchRun,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifiedReport {
    pub blocks: usize,
    pub asked: usize,
    pub level: f64,
    pub beside: Vec<String>,
    /// The winners, best first by what the search believed.
    pub arms: Vec<VerifiedArm>,
    pub failed: Vec<(String, usize, String)>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VerifiedArm {
    pub spec: String,
    /// What the search believed of its ratio to the control, and the standard deviation of that.
    pub believed: Option<(f64, f64)>,
    pub failed: Option<String>,
    pub against: Vec<Against>,
}

impl VerifiedArm {
    /// Against another (`None` is the control) by a figure.
    pub fn against(&self, other: Option<&str>, figure: Figure) -> Option<&Against> {
        self.against.iter().find(|against| against.other.as_deref() == other && against.figure == figure)
    }
}

impl TuneReport {
    /// The winners that fresh blocks confirm ([`doubt`]): first those that are shown to keep all limits, then by the level that
    /// these blocks show; none before all blocks that were asked for are there.
    pub fn winners(&self) -> Vec<&VerifiedArm> {
        let verified = self.verified.iter().filter(|_| self.is_verified());
        let holds = |arm: &&VerifiedArm| arm.failed.is_none() && self.doubt(arm).is_none();
        let mut winners: Vec<&VerifiedArm> =
            verified.flat_map(|verified| &verified.arms).filter(holds).collect();
        let ratio = |arm: &VerifiedArm| {
            arm.against(None, Figure::Level).map_or(f64::INFINITY, |against| against.log_ratio)
        };
        let open = |arm: &VerifiedArm| self.open_limits(arm).count();
        winners.sort_by(|a, b| open(a).cmp(&open(b)).then(ratio(a).total_cmp(&ratio(b))));
        winners
    }

    /// Whether all blocks of the verification that were asked for are there.
    fn is_verified(&self) -> bool {
        self.verified.as_ref().is_some_and(|verified| verified.blocks >= verified.asked)
    }

    /// The limits that the arm is neither shown to keep nor to break: figures, and logs of the most.
    fn open_limits(&self, arm: &VerifiedArm) -> impl Iterator<Item = (Figure, f64)> {
        self.limits.given().filter(|(figure, most)| {
            arm.against(None, *figure).is_some_and(|against| against.keeps(*most).is_none())
        })
    }

    /// Whether enough was measured more than once to know how sure the search is.
    fn is_noise_known(&self) -> bool {
        self.noise.is_some_and(|(_, freedom)| freedom >= LEAST_FREEDOM)
    }

    fn doubt(&self, arm: &VerifiedArm) -> Option<Doubt> {
        let blocks = self.verified.as_ref().map_or(0, |verified| verified.blocks);
        doubt(self.margin, &self.limits, blocks, |figure| arm.against(None, figure))
    }

    pub fn found(&self) -> bool {
        !self.winners().is_empty()
    }

    /// Arms for a trial: the control, what is beside, and the winners.
    pub fn arms(&self) -> Vec<String> {
        let beside = self.verified.iter().flat_map(|verified| &verified.beside);
        let winners = self.winners();
        let all = std::iter::once(&self.control).chain(beside).chain(winners.iter().map(|arm| &arm.spec));
        let mut arms: Vec<String> = Vec::new();
        for spec in all {
            if !arms.contains(spec) {
                arms.push(spec.clone());
            }
        }
        arms
    }
}
