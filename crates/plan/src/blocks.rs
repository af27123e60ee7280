//! Blocks of services that are alike, and who gets which arm within them.

use std::collections::BTreeMap;

use rand::Rng;
use rand::seq::SliceRandom;

use crate::Candidate;
use crate::strata::{HOST, LEVELS, SYSTEM, strata};

/// Services that are alike, as indices of candidates, each with the index of its arm.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) stratum: String,
    pub(crate) members: Vec<(usize, usize)>,
}

/// Deals `arms` arms to the candidates.
///
/// Permuted blocks within strata (M. Zelen, "The randomization and stratification of patients to clinical trials",
/// Journal of Chronic Diseases 27 (1974); W. F. Rosenberger and J. M. Lachin, "Randomization in Clinical Trials", 2nd
/// edition 2016, chapters 3 and 7): a block holds every arm equally often, in random order. Blocks depend on what was
/// known before and on chance, never on arms, and within a block every order of its arms is equally likely: the
/// permutation test within blocks assumes both.
pub(crate) fn deal(
    candidates: &[Candidate],
    arms: usize,
    rounds: usize,
    random: &mut impl Rng,
) -> Vec<Block> {
    let strata = strata(candidates);
    let blocks = blocks(candidates, &strata, (arms, rounds), random);
    // Blocks that are no multiple of the arms have some of them once more: over all blocks none more often than others.
    let mut once_more: Vec<usize> = (0..arms).collect();
    once_more.shuffle(random);
    let mut once_more = once_more.into_iter().cycle();
    blocks
        .into_iter()
        .map(|mut members| {
            members.sort_unstable();
            let whole = members.len() / arms * arms;
            let mut dealt: Vec<usize> = (0..whole).map(|place| place % arms).collect();
            dealt.extend(once_more.by_ref().take(members.len() - whole));
            dealt.shuffle(random);
            Block { stratum: label(&strata, &members), members: members.into_iter().zip(dealt).collect() }
        })
        .collect()
}

/// Blocks that hold every arm `rounds` times, within strata. What a stratum has beyond whole blocks goes, drawn at
/// random, up to the stratum that it is a part of: age is given up first, then tercile, role, host; hosts and systems
/// make blocks of fewer rounds, so that a host has every arm. Within a stratum neighbours by size share a block
/// (R. Greevy et al., "Optimal multivariate matching before randomization", Biostatistics 5 (2004)). Hosts of one
/// system run one build: only systems with fewer services than arms share blocks with others. Fewer services than arms
/// that remain join a block of their host or system: a block without both the control and an arm
/// says nothing about that arm.
fn blocks(
    candidates: &[Candidate],
    strata: &[[String; LEVELS]],
    (arms, rounds): (usize, usize),
    random: &mut impl Rng,
) -> Vec<Vec<usize>> {
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    let mut left: Vec<usize> = (0..candidates.len()).collect();
    for level in (0..=LEVELS).rev() {
        let mut groups: BTreeMap<&[String], Vec<usize>> = BTreeMap::new();
        for index in left.drain(..) {
            groups.entry(&strata[index][..level]).or_default().push(index);
        }
        for mut members in groups.into_values() {
            members.shuffle(random);
            let least = if level <= HOST { arms } else { arms * rounds };
            left.extend(members.split_off(members.len() / least * least));
            members.sort_by(|a, b| by_size(candidates, *a, *b));
            blocks.extend(members.chunks(arms * rounds).map(<[usize]>::to_vec));
        }
        if level <= SYSTEM {
            left.retain(|index| !join(&mut blocks, strata, *index, level));
        }
    }
    blocks
}

/// Puts a service into the last block of its host, else of the stratum of this level, if there is one.
fn join(blocks: &mut [Vec<usize>], strata: &[[String; LEVELS]], index: usize, level: usize) -> bool {
    let mut last_of = |level: usize| {
        let own = |block: &&mut Vec<usize>| {
            block.iter().any(|other| strata[*other][..level] == strata[index][..level])
        };
        blocks.iter_mut().rev().find(own).map(|block| block.push(index)).is_some()
    };
    last_of(HOST) || last_of(level)
}

/// Smallest first; unknown sizes last; of equal ones the order of names decides.
fn by_size(candidates: &[Candidate], a: usize, b: usize) -> std::cmp::Ordering {
    let known = |index: usize| candidates[index].baseline_bytes.unwrap_or(u64::MAX);
    known(a).cmp(&known(b)).then(a.cmp(&b))
}

/// What all services of a block have in common, and what they do not. Systems and an only host are not named.
fn label(strata: &[[String; LEVELS]], members: &[usize]) -> String {
    let first = &strata[members[0]];
    let one_host = strata.iter().all(|stratum| stratum[..HOST] == first[..HOST]);
    let (mut common, mut mixed) = (Vec::new(), Vec::new());
    for (level, name) in ["systems", "hosts", "roles", "sizes", "ages"].into_iter().enumerate() {
        if members.iter().any(|member| strata[*member][level] != first[level]) {
            mixed.push(name);
        } else if level >= HOST || (level == HOST - 1 && !one_host) {
            common.push(first[level].clone());
        }
    }
    if !mixed.is_empty() {
        common.push(format!("mixed {}", mixed.join(" and ")));
    }
    common.join(", ")
}
