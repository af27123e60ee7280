//! The order of restarts.

use std::collections::BTreeMap;

use rand::Rng;
use rand::seq::SliceRandom;

/// What the order of restarts depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restart<'a> {
    pub(crate) arm: usize,
    pub(crate) host: &'a str,
    pub(crate) family: Option<&'a str>,
}

/// Orders drawn until one keeps families apart.
const TRIES: usize = 20;
/// Passes over an order that keep services of one family apart.
const PASSES: usize = 50;

/// A random order as indices of `services`, in waves: each wave restarts one service of every arm, the control among
/// them, so that no arm is older than another. A host's services are spread over the whole time. Services of one
/// family have at least `at_once` others of their host between them as far as that is possible.
pub(crate) fn order(
    services: &[Restart<'_>],
    arms: usize,
    at_once: usize,
    random: &mut impl Rng,
) -> Vec<usize> {
    let mut best: Option<(usize, Vec<Place>)> = None;
    for _ in 0..TRIES {
        let mut places = waves(services, arms, random);
        let close = keep_apart(&mut places, services, at_once);
        if best.as_ref().is_none_or(|(fewest, _)| close < *fewest) {
            best = Some((close, places));
        }
        if close == 0 {
            break;
        }
    }
    best.map(|(_, places)| places.into_iter().map(|place| place.service).collect()).unwrap_or_default()
}

#[derive(Debug, Clone, Copy)]
struct Place {
    wave: usize,
    service: usize,
}

fn waves(services: &[Restart<'_>], arms: usize, random: &mut impl Rng) -> Vec<Place> {
    let queues: Vec<Vec<usize>> = (0..arms).map(|arm| spread_hosts(services, arm, random)).collect();
    let longest = queues.iter().map(Vec::len).max().unwrap_or(0);
    let mut places = Vec::with_capacity(services.len());
    for wave in 0..longest {
        let mut members: Vec<Place> = queues
            .iter()
            .filter_map(|queue| queue.get(wave))
            .map(|service| Place { wave, service: *service })
            .collect();
        members.shuffle(random);
        places.extend(members);
    }
    places
}

/// The services of an arm in random order, those of each host at about equal distances.
fn spread_hosts(services: &[Restart<'_>], arm: usize, random: &mut impl Rng) -> Vec<usize> {
    let mut hosts: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, service) in services.iter().enumerate().filter(|(_, service)| service.arm == arm) {
        hosts.entry(service.host).or_default().push(index);
    }
    let mut placed: Vec<(f64, usize)> = Vec::new();
    for mut members in hosts.into_values() {
        members.shuffle(random);
        let count = members.len() as f64;
        placed.extend(
            members
                .into_iter()
                .enumerate()
                .map(|(rank, index)| ((rank as f64 + random.random::<f64>()) / count, index)),
        );
    }
    placed.sort_by(|a, b| a.0.total_cmp(&b.0));
    placed.into_iter().map(|(_, index)| index).collect()
}

/// Swaps services of one family that are too close with the nearest service of the same arm or the same wave, which
/// leaves every wave whole. Returns how many pairs remain too close.
fn keep_apart(places: &mut [Place], services: &[Restart<'_>], at_once: usize) -> usize {
    let reach = at_once.max(1);
    for _ in 0..PASSES {
        let mut moved = false;
        for from in 0..places.len() {
            if close(places, services, from, reach) == 0 {
                continue;
            }
            moved |= swap_away(places, services, from, reach);
        }
        if !moved {
            break;
        }
    }
    (0..places.len()).map(|place| close(places, services, place, reach)).sum::<usize>() / 2
}

fn swap_away(places: &mut [Place], services: &[Restart<'_>], from: usize, reach: usize) -> bool {
    for distance in 1..places.len() {
        for to in [from.checked_sub(distance), Some(from + distance)].into_iter().flatten() {
            let Some(other) = places.get(to) else { continue };
            let same_arm = services[other.service].arm == services[places[from].service].arm;
            if !same_arm && other.wave != places[from].wave {
                continue;
            }
            let cost =
                |places: &[Place]| close(places, services, from, reach) + close(places, services, to, reach);
            let before = cost(places);
            swap(places, from, to);
            if cost(places) < before {
                return true;
            }
            swap(places, from, to);
        }
    }
    false
}

fn swap(places: &mut [Place], a: usize, b: usize) {
    let service = places[a].service;
    places[a].service = places[b].service;
    places[b].service = service;
}

/// Services of the same family within `reach` places of their host: each host restarts its own services, in this order.
fn close(places: &[Place], services: &[Restart<'_>], at: usize, reach: usize) -> usize {
    let own = services[places[at].service];
    if own.family.is_none() {
        return 0;
    }
    let (before, after) = (places[..at].iter().rev(), places[at + 1..].iter());
    let of_host = |place: &&Place| services[place.service].host == own.host;
    let around = before.filter(of_host).take(reach).chain(after.filter(of_host).take(reach));
    around.filter(|other| services[other.service].family == own.family).count()
}
