//! Services that begin where others of their arm end: a new name of the same service, as pods get with each deployment and as
//! hosts that are renamed give theirs.

use std::ops::Range;

use heaptrial_model::{LifeStart, units};

use super::presence::{observed, silence};
use super::{several, span};
use crate::fleet::{Fleet, FleetLife, FleetService};
use crate::outcome::{Finding, FindingKind, Severity};

/// A new name begins at most so many seconds before or after the old one ends, or as long as services are silent anyway: a container is
/// pulled, or runs beside the old one until it is ready.
const HANDED_OVER_SECONDS: f64 = 600.0;
/// Told where so large a share of an arm's services follow others: of fewer, what they count twice moves no interval by much.
const LEAST_SHARE: f64 = 0.1;
/// A start is told in whole seconds, or as what a clock says when it is asked.
const SAME_START_SECONDS: f64 = 2.0;

/// A service that ended, and the one that follows.
struct Pair<'f> {
    old: &'f FleetService,
    new: &'f FleetService,
    is_same_process: bool,
}

/// What is found of each arm of an import: a plan names its services before they are read.
pub(super) fn found(fleet: &Fleet, members: &[Vec<usize>]) -> Vec<Finding> {
    if fleet.identities_proved {
        return Vec::new();
    }
    let (Some((first, last)), Some(silence)) = (span(fleet), silence(fleet)) else { return Vec::new() };
    let apart = silence.max(HANDED_OVER_SECONDS);
    let of_arm = |(arm, members): (usize, &Vec<usize>)| {
        let own: Vec<&FleetService> = members.iter().map(|index| &fleet.services[*index]).collect();
        let pairs = pairs(&own, (first + silence)..(last - silence), apart);
        let told = !pairs.is_empty() && pairs.len() as f64 >= LEAST_SHARE * own.len() as f64;
        (told && fleet.arms[arm].earlier_list_of.is_none()).then(|| Finding {
            kind: FindingKind::KeptApart,
            severity: Severity::Grave,
            arms: vec![arm],
            services: pairs.iter().flat_map(|pair| [pair.old.name.clone(), pair.new.name.clone()]).collect(),
            evidence: evidence(&fleet.arms[arm].name, own.len(), &pairs, apart),
            effect: "If a new one is an old one under another name, it counts twice: intervals are narrower than they should be, and \
                     differences are found where there are none. Bring them in under a name that stays (of pods that of their Deployment, \
                     of hosts one label for both names)."
                .to_owned(),
        })
    };
    members.iter().enumerate().filter_map(of_arm).collect()
}

fn evidence(arm: &str, services: usize, pairs: &[Pair], apart: f64) -> String {
    let same = pairs.iter().filter(|pair| pair.is_same_process).count();
    let Pair { old, new, .. } = &pairs[0];
    format!(
        "{} of {arm}, of {}, began within {} of the end of another one of it, as `{}` did where `{}` ended{}",
        several(pairs.len()),
        units::count(services as u64),
        units::duration(apart),
        new.name,
        old.name,
        match same {
            0 => String::new(),
            1 => "; 1 has the start of the one that ended: it is the same process".to_owned(),
            many => format!(
                "; {} have the start of those that ended: they are the same processes",
                units::count(many as u64)
            ),
        }
    )
}

/// An end or a beginning of a service.
struct Turn<'f> {
    service: &'f FleetService,
    /// When, in seconds since 1970.
    at: f64,
    /// The start that is told of the life that ended or began, in seconds since 1970.
    started_at: Option<f64>,
}

/// Each service that ended with one that began about then, each of these once: one with its start before one of its server, before
/// any.
fn pairs<'f>(services: &[&'f FleetService], within: Range<f64>, apart: f64) -> Vec<Pair<'f>> {
    let started_at = |life: Option<&FleetLife>| {
        life.filter(|life| life.start == LifeStart::Observed).map(|life| life.started_at)
    };
    let spans = || services.iter().filter_map(|service| Some((*service, observed(service)?)));
    let ends = spans().map(|(service, span)| Turn {
        service,
        at: span.1,
        started_at: started_at(service.current()),
    });
    let begins = spans().map(|(service, span)| Turn {
        service,
        at: span.0,
        started_at: started_at(service.lives.first()),
    });
    let mut ended: Vec<Turn> = ends.filter(|turn| turn.at < within.end).collect();
    let mut began: Vec<Turn> = begins.filter(|turn| turn.at > within.start).collect();
    ended.sort_by(|one, other| one.at.total_cmp(&other.at));
    began.sort_by(|one, other| one.at.total_cmp(&other.at));
    let mut followers: Vec<Option<usize>> = vec![None; ended.len()];
    let mut taken = vec![false; began.len()];
    let of_its_server = |old: &Turn, new: &Turn| old.service.block == new.service.block;
    for follows in [same_process, of_its_server, |_: &Turn, _: &Turn| true] {
        for (old, follower) in ended.iter().zip(&mut followers).filter(|(_, follower)| follower.is_none()) {
            let from = began.partition_point(|new| new.at < old.at - apart);
            let mut near = (from..began.len()).take_while(|new| began[*new].at <= old.at + apart);
            *follower = near.find(|index| {
                let new = &began[*index];
                !taken[*index] && !std::ptr::eq(new.service, old.service) && follows(old, new)
            });
            follower.iter().for_each(|new| taken[*new] = true);
        }
    }
    let pairs = ended.into_iter().zip(followers);
    pairs
        .filter_map(|(old, new)| Some((old, &began[new?])))
        .map(|(old, new)| Pair {
            old: old.service,
            new: new.service,
            is_same_process: same_process(&old, new),
        })
        .collect()
}

/// The process of the one that ended was read on under the other name.
fn same_process(old: &Turn, new: &Turn) -> bool {
    let starts = old.started_at.zip(new.started_at);
    starts.is_some_and(|(old, new)| (old - new).abs() <= SAME_START_SECONDS)
}
