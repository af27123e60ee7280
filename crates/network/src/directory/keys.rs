//! RSA keys: one by one, or many out of a small pool of primes for synthetic relays.

use rand::{RngCore, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use rsa::pkcs1::EncodeRsaPublicKey;
use rsa::traits::PublicKeyParts;
use rsa::{BigUint, Pkcs1v15Sign, RsaPrivateKey, RsaPublicKey};
use sha1::{Digest, Sha1};

use super::encode::object;
use heaptrial_relay::TorError;

const EXPONENT: u32 = 65_537;
const PRIME_BITS: usize = 512;
/// Parts in which a directory is made, at the same time. A fixed number, because each has random numbers of its own: the same
/// seed gives the same directory on every machine.
pub(crate) const STREAMS: usize = 2;

/// An RSA key with what directory documents need of it.
#[derive(Debug, Clone)]
pub struct RsaKey {
    private: RsaPrivateKey,
    der: Vec<u8>,
}

impl RsaKey {
    pub fn new(private: RsaPrivateKey) -> Result<Self, TorError> {
        let public = RsaPublicKey::from(&private);
        let der = public.to_pkcs1_der().map_err(making)?;
        Ok(Self { der: der.into_vec(), private })
    }

    /// SHA-1 of the public key in DER: a relay's identity.
    pub fn id(&self) -> [u8; 20] {
        Sha1::digest(&self.der).into()
    }

    /// The public key as an object of a descriptor.
    pub(crate) fn object(&self) -> String {
        object("RSA PUBLIC KEY", &self.der)
    }

    /// A PKCS #1 v1.5 signature over the bare digest, as Tor signs directory documents.
    pub fn sign(&self, digest: &[u8]) -> Result<Vec<u8>, TorError> {
        self.private.sign(Pkcs1v15Sign::new_unprefixed(), digest).map_err(making)
    }
}

fn making(error: impl std::fmt::Display) -> TorError {
    TorError::Failed(format!("making keys: {error}"))
}

/// Many RSA-1024 keys at the price of a few primes: each key is a pair out of a small pool. Such keys
/// protect nothing; they only have to verify.
#[derive(Debug)]
pub struct KeyPool {
    pairs: Vec<(BigUint, BigUint)>,
}

impl KeyPool {
    /// A pool of at least `keys` pairs, from `seed`.
    pub fn generate(keys: usize, seed: u64) -> Self {
        let mut primes_needed = 3;
        // Of all pairs a few products fall short of 1024 bits.
        while primes_needed * (primes_needed - 1) / 2 < keys + keys / 20 + 1 {
            primes_needed += 1;
        }
        let count = primes_needed.div_ceil(STREAMS);
        let made = |stream| make_primes(count, seed, stream as u64);
        let primes: Vec<BigUint> = (0..STREAMS).into_par_iter().flat_map_iter(made).collect();
        let mut pairs = Vec::new();
        for (index, p) in primes.iter().enumerate() {
            for q in &primes[..index] {
                if p != q && (p * q).bits() == 2 * PRIME_BITS {
                    pairs.push((p.clone(), q.clone()));
                }
            }
        }
        Self { pairs }
    }

    pub fn key(&self, index: usize) -> Result<RsaKey, TorError> {
        let (p, q) = self.pairs.get(index).ok_or_else(|| {
            TorError::Failed(format!("the pool has {} keys, not {}", self.pairs.len(), index + 1))
        })?;
        let private =
            RsaPrivateKey::from_p_q(p.clone(), q.clone(), BigUint::from(EXPONENT)).map_err(making)?;
        debug_assert_eq!(private.n().bits(), 2 * PRIME_BITS);
        RsaKey::new(private)
    }
}

fn make_primes(count: usize, seed: u64, stream: u64) -> Vec<BigUint> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    random.set_stream(stream + 1);
    let mut random = Older(random);
    let mut primes = Vec::with_capacity(count + 1);
    while primes.len() < count {
        // The primes of a throw-away key; their top bits are set, so that products are long enough.
        match RsaPrivateKey::new_with_exp(&mut random, 2 * PRIME_BITS, &BigUint::from(EXPONENT)) {
            Ok(key) => primes.extend_from_slice(rsa::traits::PrivateKeyParts::primes(&key)),
            Err(_) => break,
        }
    }
    primes
}

/// The generator of today's `rand` for the older interface that `rsa` takes.
struct Older(ChaCha8Rng);

impl rsa::rand_core::RngCore for Older {
    fn next_u32(&mut self) -> u32 {
        self.0.next_u32()
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    fn fill_bytes(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rsa::rand_core::Error> {
        self.0.fill_bytes(bytes);
        Ok(())
    }
}

impl rsa::rand_core::CryptoRng for Older {}
