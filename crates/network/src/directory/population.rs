//! All synthetic relays, and how they change from round to round.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use rayon::slice::ParallelSliceMut;

use super::keys::{KeyPool, STREAMS};
use super::relay::SyntheticRelay;
use heaptrial_relay::TorError;

/// One relay in this many republishes its descriptor in a round (relays do so every 18 hours or so,
/// and a round stands for an hour).
const REPUBLISH_EVERY: usize = 14;
/// One relay in this many is away in a round.
const AWAY_ONE_IN: usize = 60;

/// The relays of the directory. The same seed gives the same relays and the same changes.
#[derive(Debug)]
pub struct Population {
    relays: Vec<SyntheticRelay>,
    away: Vec<bool>,
    round: usize,
    random: ChaCha8Rng,
}

impl Population {
    /// `count` relays that have published at `now`.
    pub fn generate(count: usize, seed: u64, now: i64) -> Result<Self, TorError> {
        let pool = KeyPool::generate(count + 1, seed);
        let tap = pool.key(count)?;
        let chunk = count.div_ceil(STREAMS).max(1);
        let made =
            |index| SyntheticRelay::new(index, pool.key(index)?, &tap, now, &mut relay_random(seed, index));
        let mut relays: Vec<SyntheticRelay> =
            (0..count).into_par_iter().map(made).collect::<Result<_, TorError>>()?;
        assign_families(&mut relays, seed);
        publish_all(&mut relays, seed, now - 600, chunk)?;
        // A consensus lists relays in the order of their identities.
        relays.sort_by_key(SyntheticRelay::id);
        let random = ChaCha8Rng::seed_from_u64(seed);
        Ok(Self { away: vec![false; relays.len()], relays, round: 0, random })
    }

    /// Lets a round pass: some republish, a few of them with new onion keys, bandwidths move, and
    /// others are away than before.
    pub fn advance(&mut self, now: i64) -> Result<(), TorError> {
        self.round += 1;
        for (index, relay) in self.relays.iter_mut().enumerate() {
            if self.random.random_bool(0.3) {
                relay.bandwidth = self.random.random_range(20..40_000);
            }
            if index % REPUBLISH_EVERY == self.round % REPUBLISH_EVERY {
                if self.random.random_bool(0.1) {
                    relay.rotate_onion_key(&mut self.random);
                }
                let published = now - self.random.random_range(0..9);
                relay.publish(published, &mut self.random)?;
            }
        }
        self.away.fill(false);
        let count = self.away.len() / AWAY_ONE_IN;
        self.away[..count].fill(true);
        self.away.shuffle(&mut self.random);
        Ok(())
    }

    /// The relays that are there in this round, ordered by identity.
    pub fn present(&self) -> impl Iterator<Item = &SyntheticRelay> {
        self.relays.iter().zip(&self.away).filter(|(_, away)| !**away).map(|(relay, _)| relay)
    }

    /// All relays, also those that are away.
    pub fn relays(&self) -> &[SyntheticRelay] {
        &self.relays
    }
}

fn relay_random(seed: u64, index: usize) -> ChaCha8Rng {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(1_000 + index as u64);
    random
}

fn assign_families(relays: &mut [SyntheticRelay], seed: u64) {
    let ids: Vec<[u8; 20]> = relays.iter().map(SyntheticRelay::id).collect();
    let mut random = relay_random(seed, ids.len());
    for relay in relays {
        if random.random_bool(0.4) {
            let size = [2, 5, 12, 30][random.random_range(0..4)];
            relay.set_family((0..size).map(|_| ids[random.random_range(0..ids.len())]).collect());
        }
    }
}

fn publish_all(relays: &mut [SyntheticRelay], seed: u64, now: i64, chunk: usize) -> Result<(), TorError> {
    relays.par_chunks_mut(chunk).enumerate().try_for_each(|(part, chunk)| {
        let mut random = relay_random(seed, usize::MAX / 2 + part);
        chunk.iter_mut().try_for_each(|relay| relay.publish(now, &mut random))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_directory() {
        let make = || Population::generate(40, 3, 1_700_000_000).unwrap();
        let (mut a, mut b) = (make(), make());
        a.advance(1_700_000_010).unwrap();
        b.advance(1_700_000_010).unwrap();
        let digests =
            |p: &Population| p.present().map(|r| r.published().descriptor_digest).collect::<Vec<_>>();
        assert_eq!(digests(&a), digests(&b));
    }

    #[test]
    fn relays_come_and_go_and_republish() {
        let mut population = Population::generate(120, 3, 1_700_000_000).unwrap();
        let before: Vec<_> = population.relays().iter().map(|r| r.published().descriptor_digest).collect();
        population.advance(1_700_000_010).unwrap();
        assert_eq!(population.present().count(), 118);
        let changed = population
            .relays()
            .iter()
            .zip(&before)
            .filter(|(r, b)| r.published().descriptor_digest != **b)
            .count();
        assert!((8..=9).contains(&changed), "{changed}");
    }
}
