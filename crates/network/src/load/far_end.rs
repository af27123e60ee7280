//! The relays behind those under trial: where circuits are extended to.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::directory::{KeyPool, RsaKey};
use crate::link::{
    CREATE2, CREATED2, Channel, HopIdentity, LinkError, NextHop, PAYLOAD_BYTES, RELAY, RELAY_EARLY,
    REPLY_BYTES,
};
use heaptrial_relay::{Endpoint, TorError};

/// Their certificates end this long after the start.
const CERTIFICATE_HOURS: u32 = 24 * 30;
/// As relays have them; one for all is enough.
const TLS_KEY_BITS: usize = 2048;

/// Some relays in this process that send every cell back. A relay under trial connects to them as to any next hop.
///
/// They make no keys: a relay in the middle of a circuit passes handshakes and cells on without being able to read
/// them, so that it does the same for any bytes.
#[derive(Debug)]
pub(crate) struct FarEnds {
    hops: Vec<NextHop>,
    _listeners: JoinSet<()>,
}

impl FarEnds {
    /// Starts `count` of them, whose keys come from `seed`. Must be called inside a tokio runtime.
    pub(crate) fn start(count: usize, seed: u64, now_hour: u32) -> Result<Self, TorError> {
        if count == 0 {
            return Ok(Self { hops: Vec::new(), _listeners: JoinSet::new() });
        }
        let pool = KeyPool::generate(count, seed);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let link = RsaKey::generate(TLS_KEY_BITS, ChaCha8Rng::seed_from_u64(seed))?;
        let mut hops = Vec::new();
        let mut listeners = JoinSet::new();
        for index in 0..count {
            let identity =
                HopIdentity::new(&pool.key(index)?, &link, now_hour + CERTIFICATE_HOURS, &mut random)?;
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let socket = |source| TorError::Socket { address: Endpoint::Tcp(any), source };
            let listener = std::net::TcpListener::bind(any).map_err(socket)?;
            listener.set_nonblocking(true).map_err(socket)?;
            let listener = TcpListener::from_std(listener).map_err(socket)?;
            let port = listener.local_addr().map_err(socket)?.port();
            hops.push(NextHop {
                address: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port),
                rsa_id: identity.rsa_id(),
                ed25519_id: identity.ed25519_id(),
            });
            listeners.spawn(serve(listener, Arc::new(identity)));
        }
        Ok(Self { hops, _listeners: listeners })
    }

    pub(crate) fn hops(&self) -> &[NextHop] {
        &self.hops
    }
}

async fn serve(listener: TcpListener, identity: Arc<HopIdentity>) {
    // Aborting the task drops the set, and with it all connections.
    let mut connections = JoinSet::new();
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let identity = Arc::clone(&identity);
            // The circuits on a relay's connection count that it ended.
            connections.spawn(async move { echo(stream, &identity).await.err() });
        }
        while connections.try_join_next().is_some() {}
    }
}

async fn echo(stream: TcpStream, identity: &HopIdentity) -> Result<(), LinkError> {
    const REPLY: [u8; 2 + REPLY_BYTES] = {
        let mut reply = [0; 2 + REPLY_BYTES];
        reply[1] = REPLY_BYTES as u8;
        reply
    };
    let mut channel = Channel::accept(stream, identity).await?;
    loop {
        let mut next = Some(channel.receive().await?);
        // What came together goes back together.
        while let Some(cell) = next {
            match cell.command {
                CREATE2 => channel.queue(cell.circuit, CREATED2, &REPLY),
                RELAY | RELAY_EARLY => channel.queue(cell.circuit, RELAY, &cell.payload[..PAYLOAD_BYTES]),
                _ => {}
            }
            next = channel.received();
        }
        channel.flush().await?;
    }
}
