//! Blocks of services that are alike, and who gets which arm within them.

use std::collections::BTreeMap;

use rand::Rng;
use rand::seq::SliceRandom;

use crate::Candidate;
use crate::strata::{LEVELS, strata};

/// Services that are alike, as indices of candidates, each with the index of its arm.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) stratum: String,
    pub(crate) members: Vec<(usize, usize)>,
}

type Key = Vec<String>;

/// Deals `arms` arms to the candidates.
///
/// Permuted blocks within strata (M. Zelen, "The randomization and stratification of patients to clinical trials",
/// Journal of Chronic Diseases 27 (1974); W. F. Rosenberger and J. M. Lachin, "Randomization in Clinical Trials", 2nd
/// edition 2016, chapters 3 and 7): a block holds every arm `rounds` times, in random order. What a stratum
/// has beyond whole blocks goes, drawn at random, up to the stratum that it is a part of: age is given up first, then
/// tercile, role, host; of several hosts each keeps blocks of fewer rounds, so that it has every arm. Within a stratum neighbours by size share a block (R. Greevy et al., "Optimal multivariate
/// matching before randomization", Biostatistics 5 (2004)). What remains at the very end joins the block that is most
/// like it, since a block without both the control and an arm tells nothing about that arm.
///
/// Hosts of one system run one build: blocks are of one system, as far as it has as many services as there are arms.
///
/// Blocks depend on what was known before and on chance, never on arms, and within a block every order of its arms is
/// equally likely: that is what the permutation test within blocks takes for granted.
pub(crate) fn deal(
    candidates: &[Candidate],
    arms: usize,
    rounds: usize,
    random: &mut impl Rng,
) -> Vec<Block> {
    let strata = strata(candidates);
    let systems = by_system(candidates, arms);
    let mut spread = systems.len() > 1;
    let mut blocks = Vec::new();
    for members in systems {
        let (own, own_spread) = blocks_of(candidates, &strata, members, (arms, rounds), random);
        blocks.extend(own);
        spread |= own_spread;
    }
    // What is left over of several hosts or systems is of fewer than all arms, each once.
    let mut further = if spread { all_of(arms, random) } else { Vec::new() };
    blocks
        .into_iter()
        .map(|mut members| {
            members.sort_unstable();
            let once_more = match spread {
                true => dealt_further(&mut further, members.len() % arms, arms, random),
                false => all_of(arms, random),
            };
            let arms = arms_of(members.len(), arms, &once_more, random);
            Block {
                stratum: told(candidates, &strata, &members),
                members: members.into_iter().zip(arms).collect(),
            }
        })
        .collect()
}

/// Services by the systems of their hosts, each with as many as there are arms at least: those of systems of fewer go together, and to the
/// system with the fewest where they are too few still.
fn by_system(candidates: &[Candidate], arms: usize) -> Vec<Vec<usize>> {
    let mut systems: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, candidate) in candidates.iter().enumerate() {
        systems.entry(&candidate.system).or_default().push(index);
    }
    let (mut systems, few): (Vec<_>, Vec<_>) = systems.into_values().partition(|own| own.len() >= arms);
    let few = few.concat();
    match systems.iter_mut().min_by_key(|own| own.len()).filter(|_| few.len() < arms) {
        Some(fewest) => fewest.extend(few),
        None if few.is_empty() => {}
        None => systems.push(few),
    }
    systems
}

/// Blocks of services of one system, and whether what was left over joined several of them.
fn blocks_of(
    candidates: &[Candidate],
    strata: &[[String; LEVELS]],
    members: Vec<usize>,
    (arms, rounds): (usize, usize),
    random: &mut impl Rng,
) -> (Vec<Vec<usize>>, bool) {
    let several_hosts = members.iter().any(|index| candidates[*index].host != candidates[members[0]].host);
    let mut groups: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
    for index in members {
        groups.entry(strata[index].to_vec()).or_default().push(index);
    }
    // The smallest strata that blocks of fewer rounds are taken from.
    let last = usize::from(several_hosts);
    let mut blocks: Vec<(Key, Vec<usize>)> = Vec::new();
    let mut rest = Vec::new();
    for level in (0..=LEVELS).rev() {
        let mut above: BTreeMap<Key, Vec<usize>> = BTreeMap::new();
        for (key, mut members) in std::mem::take(&mut groups) {
            members.shuffle(random);
            let whole = members.len() / (arms * rounds) * arms * rounds;
            // At the top a block of fewer rounds is better than none; and a host has every arm, as far as its services go.
            let whole = if level <= last { members.len() / arms * arms } else { whole };
            let left = members.split_off(whole);
            members.sort_by(|a, b| by_size(candidates, *a, *b));
            blocks.extend(members.chunks(arms * rounds).map(|block| (key.clone(), block.to_vec())));
            if level == 0 {
                rest = left;
            } else if !left.is_empty() {
                above.entry(key[..level - 1].to_vec()).or_default().extend(left);
            }
        }
        groups = above;
    }
    let spread = join_rest(&mut blocks, strata, rest);
    (blocks.into_iter().map(|(_, members)| members).collect(), spread)
}

/// Smallest first; unknown sizes last; of equal ones the order of names decides.
fn by_size(candidates: &[Candidate], a: usize, b: usize) -> std::cmp::Ordering {
    let known = |index: usize| candidates[index].baseline_bytes.unwrap_or(u64::MAX);
    known(a).cmp(&known(b)).then(a.cmp(&b))
}

/// Fewer services than arms join the block whose stratum is most like their own. Of several hosts they join one that holds several already,
/// or else each a block of its own host, so that no host lacks an arm for those of another; then gives true.
fn join_rest(blocks: &mut [(Key, Vec<usize>)], strata: &[[String; LEVELS]], rest: Vec<usize>) -> bool {
    let Some(first) = rest.first() else { return false };
    let common = rest.iter().fold(strata[*first].to_vec(), |key, index| prefix(&key, &strata[*index]));
    let spread = common.is_empty() && blocks.len() > 1 && blocks.iter().all(|(key, _)| !key.is_empty());
    let together = [(common, rest.clone())];
    let each = rest.iter().map(|index| (strata[*index].to_vec(), vec![*index])).collect::<Vec<_>>();
    // What joined a block before makes it no less like its own host.
    let keys: Vec<Key> = blocks.iter().map(|(key, _)| key.clone()).collect();
    for (own, services) in if spread { &each[..] } else { &together[..] } {
        // Of those that are as much alike the one with the fewest services has most to gain.
        let alike = blocks.iter_mut().zip(&keys).max_by_key(|((_, members), key)| {
            (prefix(key, own).len(), std::cmp::Reverse(if spread { members.len() } else { 0 }))
        });
        if let Some(((key, members), _)) = alike {
            *key = prefix(key, own);
            members.extend(services);
        }
    }
    spread
}

fn prefix(a: &[String], b: &[String]) -> Key {
    a.iter().zip(b).take_while(|(a, b)| a == b).map(|(a, _)| a.clone()).collect()
}

/// Every arm equally often, as far as that goes, and some of `once_more`. In random order.
fn arms_of(services: usize, arms: usize, once_more: &[usize], random: &mut impl Rng) -> Vec<usize> {
    let mut dealt: Vec<usize> = (0..services / arms * arms).map(|place| place % arms).collect();
    dealt.extend(&once_more[..services % arms]);
    dealt.shuffle(random);
    dealt
}

/// The next `count` arms, each once, of rounds in which every arm comes once.
fn dealt_further(further: &mut Vec<usize>, count: usize, arms: usize, random: &mut impl Rng) -> Vec<usize> {
    if further.len() >= count {
        return further.split_off(further.len() - count);
    }
    let mut dealt = std::mem::replace(further, all_of(arms, random));
    let (again, mut other): (Vec<usize>, Vec<usize>) = further.iter().partition(|arm| dealt.contains(arm));
    dealt.extend(other.split_off(other.len() - (count - dealt.len())));
    *further = [again, other].concat();
    dealt
}

/// All arms in random order.
fn all_of(arms: usize, random: &mut impl Rng) -> Vec<usize> {
    let mut all: Vec<usize> = (0..arms).collect();
    all.shuffle(random);
    all
}

/// What all services of a block have in common, and what they do not. A host that is the only one is not told.
fn told(candidates: &[Candidate], strata: &[[String; LEVELS]], members: &[usize]) -> String {
    let first = &strata[members[0]];
    let one_host = strata.iter().all(|stratum| stratum[0] == first[0]);
    let (mut common, mut mixed) = (Vec::new(), Vec::new());
    if members.iter().any(|member| candidates[*member].system != candidates[members[0]].system) {
        mixed.push("systems");
    }
    for (level, name) in ["hosts", "roles", "sizes", "ages"].into_iter().enumerate() {
        if members.iter().any(|member| strata[*member][level] != first[level]) {
            mixed.push(name);
        } else if level > 0 || !one_host {
            common.push(first[level].clone());
        }
    }
    if !mixed.is_empty() {
        common.push(format!("mixed {}", mixed.join(" and ")));
    }
    common.join(", ")
}
