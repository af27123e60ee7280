//! Drawing a plan from candidates and a seed.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_model::{
    Arm, Assignment, BuildOfHosts, Classified, DrawnPlan, ErrorClass, Metric, PlanId, TrialName, TrialPlan,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::Candidate;
use crate::blocks::deal;
use crate::looks::{last_look_alpha, with_end};
use crate::order::{Restart, order};
use crate::resolution::rounds_per_block;

/// What a plan is drawn from.
#[derive(Debug, Clone)]
pub struct DrawRequest<'a> {
    pub trial: &'a TrialPlan,
    pub candidates: &'a [Candidate],
    /// The build of each arm's allocator by the arm's name; arms on the services' own C library have none.
    pub builds: &'a BTreeMap<String, Vec<BuildOfHosts>>,
    /// Decides everything random; at most [`MAX_SEED`].
    pub seed: u64,
    pub tool_version: &'a str,
}

/// The largest seed: integers of TOML have a sign.
pub const MAX_SEED: u64 = i64::MAX as u64;

/// Why no plan can be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("{0}")]
    Refused(String),
    /// An arm would stay empty.
    #[error(
        "{services} services cannot fill {arms} arms; each arm needs at least one, and an interval at least two: take more services or fewer arms"
    )]
    TooFewServices { services: usize, arms: usize },
}

fn refused(why: impl ToString) -> PlanError {
    PlanError::Refused(why.to_string())
}

impl Classified for PlanError {
    fn class(&self) -> ErrorClass {
        ErrorClass::Refused
    }
}

/// Draws a plan: the same for the same request, whatever the order of its candidates.
///
/// Services are dealt to arms in permuted blocks of alike services (see `docs/trial-plan.md`), the order of
/// restarts is drawn in waves of one service per arm, and looks are fixed.
pub fn draw(request: &DrawRequest<'_>) -> Result<DrawnPlan, PlanError> {
    let trial = request.trial;
    trial.name.parse::<TrialName>().map_err(refused)?;
    trial.check().map_err(refused)?;
    if request.seed > MAX_SEED {
        return Err(refused(format!("the seed must be at most {MAX_SEED}")));
    }
    let duration = trial.duration.or(trial.looks.last().copied()).filter(|duration| !duration.0.is_zero());
    let no_duration = || refused("the trial has no duration; add one, such as duration = \"10d\"");
    let duration = duration.ok_or_else(no_duration)?;
    TrialPlan::check_arms(&trial.arms, duration).map_err(refused)?;
    let candidates = sorted(request.candidates)?;
    if candidates.len() < trial.arms.len() {
        return Err(PlanError::TooFewServices { services: candidates.len(), arms: trial.arms.len() });
    }
    let looks = with_end(&trial.looks, duration);
    let arms = trial.arms.len();
    let rounds = rounds_per_block(
        candidates.len() / arms,
        arms,
        last_look_alpha(&looks),
        spread_within_hosts(&candidates),
    );
    let mut plan = DrawnPlan {
        name: trial.name.clone(),
        id: PlanId::default(),
        tool_version: request.tool_version.to_owned(),
        seed: request.seed,
        metric: trial.metric.unwrap_or(Metric::Rss),
        duration,
        looks,
        pace: trial.pace,
        about: trial.about.clone(),
        arms: trial.arms.clone(),
        builds: request.builds.clone(),
        services: assign(&candidates, &trial.arms, rounds, request.seed),
    };
    plan.id = plan.digest();
    Ok(plan)
}

fn sorted(candidates: &[Candidate]) -> Result<Vec<Candidate>, PlanError> {
    if candidates.is_empty() {
        return Err(refused("no services take part; check the patterns in `services`"));
    }
    let mut sorted = candidates.to_vec();
    sorted.sort_by(|a, b| (&a.host, &a.service).cmp(&(&b.host, &b.service)));
    let mut seen = BTreeSet::new();
    match sorted.iter().find(|candidate| !seen.insert((&candidate.host, &candidate.service))) {
        Some(twin) => Err(refused(format!("{} of {} is there twice", twin.service, twin.host))),
        None => Ok(sorted),
    }
}

/// Standard deviation of the logs of memory before the trial about the mean of each host; `None` where it is not known of most services.
fn spread_within_hosts(candidates: &[Candidate]) -> Option<f64> {
    let mut hosts: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    for candidate in candidates {
        let known = candidate.baseline_bytes.filter(|bytes| *bytes > 0);
        hosts.entry(&candidate.host).or_default().extend(known.map(|bytes| (bytes as f64).ln()));
    }
    let known: usize = hosts.values().map(Vec::len).sum();
    let about = |logs: &Vec<f64>| {
        let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
        logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>()
    };
    let freedom = known.checked_sub(hosts.values().filter(|logs| !logs.is_empty()).count())?;
    let squares: f64 = hosts.values().map(about).sum();
    (freedom > 0 && 2 * known > candidates.len()).then(|| (squares / freedom as f64).sqrt())
}

fn assign(candidates: &[Candidate], arms: &[Arm], rounds: usize, seed: u64) -> Vec<Assignment> {
    // Streams of their own: the analysis draws its permutations from stream 0 of the same seed.
    let random = |stream| {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(stream);
        random
    };
    let blocks = deal(candidates, arms.len(), rounds, &mut random(1));
    let mut dealt: Vec<(usize, usize, u32)> = Vec::with_capacity(candidates.len());
    for (number, block) in blocks.iter().enumerate() {
        dealt.extend(block.members.iter().map(|(index, arm)| (*index, *arm, number as u32)));
    }
    dealt.sort_unstable();
    let restarts: Vec<Restart<'_>> =
        dealt.iter().map(|(index, arm, _)| Restart { arm: *arm, host: &candidates[*index].host }).collect();
    order(&restarts, arms.len(), &mut random(2))
        .into_iter()
        .map(|place| {
            let (index, arm, block) = dealt[place];
            let candidate = &candidates[index];
            let assignment = Assignment {
                service: candidate.service.clone(),
                host: candidate.host.clone(),
                arm: arms[arm].name.clone(),
                block,
                stratum: blocks[block as usize].stratum.clone(),
                family: candidate.family.clone(),
                drawn: None,
            };
            Assignment { drawn: Some(assignment.mark(seed)), ..assignment }
        })
        .collect()
}
