//! Levels or last values that form separate clusters.

use heaptrial_stats::{Cluster, Clusters, find_clusters, fisher_fewer, median};

use super::nearest::Nearest;
use super::{Search, by_block, memory};
use crate::analysis::fleet::Fleet;
use crate::analysis::outcome::{Finding, FindingKind, OffTreatment, ServiceResult, Severity};

/// Level of the test. Over ten arms it raises a false alarm in one fleet of ten at most.
const ALPHA: f64 = 0.01;
/// Clusters must be a factor of 1.15 apart: smaller differences do not come from another allocator.
const LEAST_SEPARATION: f64 = 0.14;
/// Levels are looked at where at least this share of an arm's services have one.
const WITH_LEVEL_SHARE: f64 = 0.9;
/// A service younger than this share of its arm's median age is low because it is young.
const COMPARABLE_AGE_SHARE: f64 = 0.5;
/// A cluster is told to be as another arm if their values are within this factor.
const ALIKE: f64 = 0.25;
/// And most of an arm only if over age half of them are within a factor of 1.2.
const AS_ANOTHER: f64 = 0.182;
/// An arm of fewer services could hardly be split, so that it tells nothing of those that are.
const FEWEST_TO_SEPARATE: usize = 6;
/// Clusters of two arms are of other shares where chance brings that in so many cases,
const OTHER_SHARES: f64 = 0.01;
/// and of other distances where the logarithms are apart so many times as far.
const LIKE_DISTANCE: f64 = 2.0;

/// The clusters of an arm's services on a server.
pub(super) struct Found {
    arm: usize,
    block: u32,
    /// The arm's services on the server.
    pub(super) members: Vec<usize>,
    /// Those of them that could be compared, with their logarithms.
    comparable: Vec<(usize, f64)>,
    what: Value,
    clusters: Clusters,
    /// Whether most other arms have as many clusters in like shares: sizes of services, and not what they run.
    pub(super) is_of_the_services: bool,
}

impl Found {
    pub(super) fn in_arms(fleet: &Fleet, services: &[ServiceResult], members: &[Vec<usize>]) -> Vec<Self> {
        let on_servers = members.iter().enumerate().flat_map(|(arm, members)| {
            by_block(fleet, members).into_iter().map(move |(block, own)| (arm, block, own))
        });
        // With those that are of one piece: an arm that has none tells against the others.
        let mut all: Vec<Self> = on_servers
            .filter_map(|(arm, block, members)| {
                let (comparable, what) = comparable(services, &members);
                let logs: Vec<f64> = comparable.iter().map(|(_, log)| *log).collect();
                let clusters = find_clusters(&logs, ALPHA, LEAST_SEPARATION, fleet.seed)?;
                let is_of_the_services = false;
                Some(Self { arm, block, members, comparable, what, clusters, is_of_the_services })
            })
            .collect();
        let shared: Vec<bool> = all.iter().map(|found| found.is_shared(&all)).collect();
        all.iter_mut().zip(shared).for_each(|(found, shared)| found.is_of_the_services = shared);
        all.retain(|found| found.clusters.clusters.len() > 1);
        all
    }

    /// Whether more than half of the other arms on the server that are large enough have such clusters too.
    fn is_shared(&self, all: &[Self]) -> bool {
        let others = all.iter().filter(|found| found.arm != self.arm && found.block == self.block);
        let others: Vec<&Self> =
            others.filter(|found| found.comparable.len() >= FEWEST_TO_SEPARATE).collect();
        let alike = others.iter().filter(|other| self.is_split_as(other)).count();
        self.clusters.clusters.len() > 1 && 2 * alike > others.len()
    }

    /// Whether another arm has as many clusters, in shares that are not shown to be others, at distances like these.
    fn is_split_as(&self, other: &Self) -> bool {
        let (own, theirs) = (&self.clusters.clusters, &other.clusters.clusters);
        let (all, of_other) = (self.comparable.len(), other.comparable.len());
        let like_shares = own.iter().zip(theirs).all(|(own, theirs)| {
            let (own, theirs) = ((own.size, all), (theirs.size, of_other));
            2.0 * fisher_fewer(own, theirs).min(fisher_fewer(theirs, own)) > OTHER_SHARES
        });
        let like_distances = own.windows(2).zip(theirs.windows(2)).all(|(own, theirs)| {
            let times = (own[1].mean - own[0].mean) / (theirs[1].mean - theirs[0].mean);
            (1.0 / LIKE_DISTANCE..=LIKE_DISTANCE).contains(&times)
        });
        own.len() == theirs.len() && like_shares && like_distances
    }

    /// Services with the number of their cluster.
    pub(super) fn by_service(&self) -> impl Iterator<Item = (usize, usize)> {
        self.comparable.iter().zip(&self.clusters.assignment).map(|((index, _), cluster)| (*index, *cluster))
    }

    /// Finds services that are in the cluster of another arm, and says what is odd.
    pub(super) fn tell(
        &self,
        fleet: &Fleet,
        services: &[ServiceResult],
        near: &Nearest,
        search: &mut Search,
    ) {
        if self.is_of_the_services {
            search.findings.push(self.sizes(fleet));
        } else {
            tell(fleet, services, near, search, (self.arm, &self.comparable, &self.clusters), self.what);
        }
    }

    fn sizes(&self, fleet: &Fleet) -> Finding {
        let (_, all) = self.what.words();
        Finding {
            kind: FindingKind::SeparateClusters,
            severity: Severity::Caution,
            arms: vec![self.arm],
            services: Vec::new(),
            evidence: format!(
                "the {all} of {} form {} clusters, and those of other arms as many in like shares: {}",
                fleet.arms[self.arm].name,
                self.clusters.clusters.len(),
                sizes(&self.clusters).join(", ")
            ),
        }
    }
}

/// `9 at 1.29 GiB (1.24 GiB to 1.33 GiB)` of each cluster.
fn sizes(found: &Clusters) -> Vec<String> {
    let size = |cluster: &Cluster| {
        let Cluster { size, mean, min, max } = cluster;
        format!("{size} at {} ({} to {})", memory(*mean), memory(*min), memory(*max))
    };
    found.clusters.iter().map(size).collect()
}

/// Positions and logarithms of levels; where many services have none, of the last values of those that are old
/// enough. Of services that started at two times and grow, last values form clusters.
fn comparable(services: &[ServiceResult], members: &[usize]) -> (Vec<(usize, f64)>, Value) {
    let logs = |members: &mut dyn Iterator<Item = usize>, value: Value| -> Vec<(usize, f64)> {
        members.filter_map(|index| Some((index, value.log(&services[index])?))).collect()
    };
    let levels = logs(&mut members.iter().copied(), Value::Level);
    if levels.len() as f64 >= WITH_LEVEL_SHARE * members.len() as f64 {
        return (levels, Value::Level);
    }
    let ages: Vec<f64> = members.iter().filter_map(|index| services[*index].age_seconds).collect();
    let least = COMPARABLE_AGE_SHARE * median(&ages).unwrap_or(0.0);
    let old = |index: &usize| services[*index].age_seconds.is_some_and(|age| age >= least);
    (logs(&mut members.iter().copied().filter(old), Value::Last), Value::Last)
}

/// Which value of a service is looked at.
#[derive(Clone, Copy)]
enum Value {
    Level,
    Last,
}

impl Value {
    fn log(self, service: &ServiceResult) -> Option<f64> {
        let bytes = match self {
            Self::Level => service.level_bytes,
            Self::Last => service.final_bytes,
        };
        bytes.filter(|bytes| *bytes > 0.0).map(f64::ln)
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Level => ("level at the matched age", "levels at the matched age"),
            Self::Last => ("last value", "last values"),
        }
    }
}

fn tell(
    fleet: &Fleet,
    services: &[ServiceResult],
    near: &Nearest,
    search: &mut Search,
    (arm, comparable, found): (usize, &[(usize, f64)], &Clusters),
    what: Value,
) {
    let own = home(comparable, found);
    let (one, all) = what.words();
    let sizes = sizes(found);
    let p_value = found.splits.iter().map(|split| split.p_value).fold(0.0, f64::max);
    let mut told = Vec::new();
    let mut names = Vec::new();
    let parts: Vec<Part> = found
        .clusters
        .iter()
        .enumerate()
        .map(|(number, cluster)| {
            let of = comparable.iter().zip(&found.assignment).filter(|(_, of)| **of == number);
            let group: Vec<usize> = of.map(|((index, _), _)| *index).collect();
            let like = alike(fleet, services, near, arm, (cluster.mean, what), &group);
            Part { mean: cluster.mean, like, group }
        })
        .collect();
    search.findings.extend(mostly_as_another(fleet, services, near, arm, &parts));
    for (number, (cluster, part)) in found.clusters.iter().zip(&parts).enumerate() {
        if own == Some(number) {
            continue;
        }
        let Part { like, group, .. } = part;
        let like = *like;
        if let Some(like) = like {
            told.push(format!(
                "the {} at {} as in {}",
                cluster.size,
                memory(cluster.mean),
                fleet.arms[like].name
            ));
        }
        for index in group {
            names.push(services[*index].name.clone());
            // What is like no other arm may be an effect of the treatment.
            if let (Some(_), Some(_)) = (own, like) {
                let why = format!(
                    "its {one} belongs to a separate cluster of {} services at {}",
                    cluster.size,
                    memory(cluster.mean)
                );
                search.add(*index, OffTreatment { arm, like, proved: false, why });
            }
        }
    }
    let like = if told.is_empty() { String::new() } else { format!("; {}", told.join(", ")) };
    search.findings.push(Finding {
        kind: FindingKind::SeparateClusters,
        severity: Severity::Grave,
        arms: vec![arm],
        services: names,
        evidence: format!(
            "the {all} of {} form {} clusters: {} (p <= {p_value:.4}; Engelman-Hartigan test at {ALPHA}){like}",
            fleet.arms[arm].name,
            found.clusters.len(),
            sizes.join(", ")
        ),
    });
}

struct Part {
    /// Mean of their logarithms.
    mean: f64,
    /// The arm that they are like.
    like: Option<usize>,
    group: Vec<usize>,
}

/// Where half of an arm's services or more behave as those of one other arm and the rest as those of none, either both arms do
/// the same or the list is wrong for most of it: then the rest is what the arm is named after. Only of pairs with the control,
/// on which all ratios rest.
fn mostly_as_another(
    fleet: &Fleet,
    services: &[ServiceResult],
    near: &Nearest,
    arm: usize,
    parts: &[Part],
) -> Option<Finding> {
    let (as_another, rest): (Vec<&Part>, Vec<&Part>) = parts.iter().partition(|part| part.like.is_some());
    let ([first, ..], [_, ..]) = (&as_another[..], &rest[..]) else { return None };
    let like = first.like?;
    let one = as_another.iter().all(|part| part.like == Some(like));
    let with_control = fleet.arms[arm].control || fleet.arms[like].control;
    let count = |parts: &[&Part]| parts.iter().map(|part| part.group.len()).sum::<usize>();
    let (many, few) = (count(&as_another), count(&rest));
    let members: Vec<usize> = as_another.iter().flat_map(|part| part.group.iter().copied()).collect();
    let distances: Vec<f64> = members.iter().filter_map(|index| near.distance(*index, like)).collect();
    if !one || !with_control || many < few || median(&distances).is_none_or(|distance| distance > AS_ANOTHER)
    {
        return None;
    }
    let levels = |parts: &[&Part]| {
        let levels: Vec<String> = parts.iter().map(|part| memory(part.mean)).collect();
        levels.join(" and ")
    };
    let (name, other) = (&fleet.arms[arm].name, &fleet.arms[like].name);
    Some(Finding {
        kind: FindingKind::MostlyAsAnotherArm,
        severity: Severity::Grave,
        arms: vec![arm],
        services: members.iter().map(|index| services[*index].name.clone()).collect(),
        evidence: format!(
            "{many} of the {} services of {name} are at {}, as those of {other}, and the {few} others at {}, as those of no arm",
            many + few,
            levels(&as_another),
            levels(&rest)
        ),
    })
}

/// The cluster that the arm is: the one with more than half of its services.
fn home(comparable: &[(usize, f64)], found: &Clusters) -> Option<usize> {
    found.clusters.iter().position(|cluster| 2 * cluster.size > comparable.len())
}

/// The arm whose values or whole trajectories a cluster is like.
fn alike(
    fleet: &Fleet,
    services: &[ServiceResult],
    near: &Nearest,
    arm: usize,
    (mean, what): (f64, Value),
    group: &[usize],
) -> Option<usize> {
    let by_memory: Vec<usize> =
        group.iter().filter_map(|index| near.nearest(fleet, *index, arm)).map(|(like, _)| like).collect();
    let most = by_memory
        .iter()
        .copied()
        .max_by_key(|like| by_memory.iter().filter(|other| *other == like).count())?;
    let own: Vec<f64> = (0..services.len())
        .filter(|index| services[*index].arms.first() == Some(&most) && !group.contains(index))
        .filter_map(|index| what.log(&services[index]))
        .collect();
    let keeps = group.iter().filter(|index| near.keeps_beside(**index, most)).count();
    ((median(&own)? - mean).abs() < ALIKE && 2 * keeps > group.len()).then_some(most)
}
