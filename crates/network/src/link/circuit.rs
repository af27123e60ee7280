//! Circuits of one hop with directory streams, as their client sees them.

use std::time::Duration;

use aes::Aes128;
use aes::cipher::{KeyIvInit, StreamCipher};
use ctr::Ctr128BE;
use sha1::{Digest, Sha1};

use super::cell::{CREATE_FAST, CREATED_FAST, DESTROY, PAYLOAD_BYTES, RELAY};
use super::channel::{Channel, LinkError};
use super::ntor::{HANDSHAKE_TYPE, Handshake, ONIONSKIN_BYTES};

const BEGIN_DIR: u8 = 13;
const DATA: u8 = 2;
const END: u8 = 3;
const SENDME: u8 = 5;
const DROP: u8 = 10;

/// Data bytes in one relay cell.
const DATA_BYTES: usize = PAYLOAD_BYTES - 11;
/// Data cells that one circuit-level and one stream-level SENDME acknowledge (tor-spec section 7.4).
const CIRCUIT_WINDOW: u32 = 100;
const STREAM_WINDOW: u32 = 50;
/// How long a document may take; slow readers take their time.
const FETCH_TIMEOUT: Duration = Duration::from_secs(150);

/// The client's end of a circuit whose first hop has answered.
pub(crate) struct Circuit {
    id: u32,
    stream: u16,
    delivered: u32,
    forward: Direction,
    backward: Direction,
}

struct Direction {
    cipher: Ctr128BE<Aes128>,
    digest: Sha1,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fetched {
    /// Bytes of the answer, with its header.
    pub(crate) bytes: u64,
    /// Whether the answer began with a status of 200.
    pub(crate) ok: bool,
}

impl Circuit {
    /// Makes a circuit with CREATE_FAST from 20 random bytes.
    pub(crate) async fn create(channel: &mut Channel, secret: [u8; 20]) -> Result<Self, LinkError> {
        let id = channel.next_circuit();
        channel.send(id, CREATE_FAST, &secret).await?;
        loop {
            let cell = channel.receive().await?;
            match (cell.circuit == id, cell.command) {
                (true, CREATED_FAST) => {
                    let mut shared = secret.to_vec();
                    shared.extend(&cell.payload[..20]);
                    let key = derive(&shared);
                    return Ok(Self {
                        id,
                        stream: 0,
                        delivered: 0,
                        forward: Direction::new(&key[20..40], &key[60..76]),
                        backward: Direction::new(&key[40..60], &key[76..92]),
                    });
                }
                (true, DESTROY) => return Err(LinkError::Destroyed(cell.payload[0])),
                _ => {}
            }
        }
    }

    /// Sends a cell that the relay throws away, as circuit padding does.
    pub(crate) async fn pad(&mut self, channel: &mut Channel) -> Result<(), LinkError> {
        self.send(channel, DROP, 0, &[]).await
    }

    pub(crate) async fn destroy(self, channel: &mut Channel) -> Result<(), LinkError> {
        const FINISHED: u8 = 9;
        channel.send(self.id, DESTROY, &[FINISHED]).await
    }

    /// Opens a directory stream, sends `request` and reads the answer to its end. `pause` is waited for
    /// at each stream window, as a client behind a slow line does.
    pub(crate) async fn fetch(
        &mut self,
        channel: &mut Channel,
        request: &[u8],
        pause: Duration,
    ) -> Result<Fetched, LinkError> {
        tokio::time::timeout(FETCH_TIMEOUT, self.fetch_unbounded(channel, request, pause))
            .await
            .map_err(|_| LinkError::Timeout)?
    }

    async fn fetch_unbounded(
        &mut self,
        channel: &mut Channel,
        request: &[u8],
        pause: Duration,
    ) -> Result<Fetched, LinkError> {
        self.stream += 1;
        let stream = self.stream;
        self.send(channel, BEGIN_DIR, stream, &[]).await?;
        for part in request.chunks(DATA_BYTES) {
            self.send(channel, DATA, stream, part).await?;
        }
        let mut fetched = Fetched::default();
        let mut received = 0;
        loop {
            let cell = channel.receive().await?;
            if cell.circuit != self.id {
                continue;
            }
            if cell.command == DESTROY {
                return Err(LinkError::Destroyed(cell.payload[0]));
            }
            if cell.command != RELAY || cell.payload.len() != PAYLOAD_BYTES {
                continue;
            }
            let mut payload = cell.payload;
            self.unseal(&mut payload);
            let from = u16::from_be_bytes([payload[3], payload[4]]);
            let length = usize::from(u16::from_be_bytes([payload[9], payload[10]])).min(DATA_BYTES);
            match payload[0] {
                DATA => {
                    self.acknowledge(channel).await?;
                    if from == stream {
                        if fetched.bytes == 0 {
                            fetched.ok = payload[11..11 + length].starts_with(b"HTTP/1.0 200");
                        }
                        fetched.bytes += length as u64;
                        received += 1;
                        if received % STREAM_WINDOW == 0 {
                            self.send(channel, SENDME, stream, &[]).await?;
                            tokio::time::sleep(pause).await;
                        }
                    }
                }
                END if from == stream => return Ok(fetched),
                _ => {}
            }
        }
    }

    /// Acknowledges data on the circuit, with the digest of the last cell (SENDME version 1).
    async fn acknowledge(&mut self, channel: &mut Channel) -> Result<(), LinkError> {
        self.delivered += 1;
        if self.delivered % CIRCUIT_WINDOW == 0 {
            let mut body = vec![1, 0, 20];
            body.extend(self.backward.digest.clone().finalize());
            self.send(channel, SENDME, 0, &body).await?;
        }
        Ok(())
    }

    async fn send(
        &mut self,
        channel: &mut Channel,
        command: u8,
        stream: u16,
        data: &[u8],
    ) -> Result<(), LinkError> {
        let payload = self.seal(command, stream, data);
        channel.send(self.id, RELAY, &payload).await
    }

    /// A relay cell for the first hop.
    fn seal(&mut self, command: u8, stream: u16, data: &[u8]) -> [u8; PAYLOAD_BYTES] {
        let mut payload = [0; PAYLOAD_BYTES];
        payload[0] = command;
        payload[3..5].copy_from_slice(&stream.to_be_bytes());
        payload[9..11].copy_from_slice(&(data.len() as u16).to_be_bytes());
        payload[11..11 + data.len()].copy_from_slice(data);
        self.forward.digest.update(payload);
        let digest = self.forward.digest.clone().finalize();
        payload[5..9].copy_from_slice(&digest[..4]);
        self.forward.cipher.apply_keystream(&mut payload);
        payload
    }

    /// Decrypts a relay cell of the first hop.
    fn unseal(&mut self, payload: &mut [u8]) {
        self.backward.cipher.apply_keystream(payload);
        payload[5..9].fill(0);
        self.backward.digest.update(&*payload);
    }
}

/// The payload of a CREATE2 cell: type and length of an ntor handshake, and the handshake.
pub(crate) fn create2(handshake: &Handshake) -> Vec<u8> {
    let (kind, length) = (HANDSHAKE_TYPE.to_be_bytes(), (ONIONSKIN_BYTES as u16).to_be_bytes());
    [&kind[..], &length, &handshake.onionskin()].concat()
}

impl Direction {
    fn new(digest_seed: &[u8], key: &[u8]) -> Self {
        Self {
            cipher: Ctr128BE::new(key.into(), &[0; 16].into()),
            digest: Sha1::new_with_prefix(digest_seed),
        }
    }
}

/// KDF-TOR (tor-spec section 5.2.1): SHA-1 of the shared secret and a counter.
fn derive(shared: &[u8]) -> Vec<u8> {
    (0..5_u8).flat_map(|counter| Sha1::new_with_prefix(shared).chain_update([counter]).finalize()).collect()
}
