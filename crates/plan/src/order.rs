//! The order of restarts over arms and hosts.

use std::collections::BTreeMap;

use rand::Rng;
use rand::seq::SliceRandom;

/// What the order of restarts depends on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Restart<'a> {
    pub(crate) arm: usize,
    pub(crate) host: &'a str,
}

/// A random order as indices of `services`, in waves: each wave restarts one service of every arm, the control among
/// them, so that no arm is older than another. A host's services are spread over the whole time.
pub(crate) fn order(services: &[Restart<'_>], arms: usize, random: &mut impl Rng) -> Vec<usize> {
    let queues: Vec<Vec<usize>> = (0..arms).map(|arm| spread_hosts(services, arm, random)).collect();
    let longest = queues.iter().map(Vec::len).max().unwrap_or(0);
    let mut places = Vec::with_capacity(services.len());
    for wave in 0..longest {
        let mut members: Vec<usize> = queues.iter().filter_map(|queue| queue.get(wave)).copied().collect();
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
