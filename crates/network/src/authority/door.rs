//! Addresses of the authority, and what is known of the relays behind them.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::{Arc, Mutex};

use tokio::task::JoinHandle;

use super::Shared;
use super::serve::serve;
use heaptrial_relay::{Endpoint, TorError};

/// An address of the authority. Dropping it ends its server.
#[derive(Debug)]
pub struct Door {
    identity: String,
    address: SocketAddr,
    named: Arc<Mutex<Named>>,
    server: JoinHandle<()>,
}

/// The number of the consensus that the relay named with its last request at a door, by flavour: `ns` and `microdesc`; 0 for none.
pub(super) type Named = [Option<u64>; 2];

impl Door {
    /// A door on this port of loopback, or on a free one.
    pub(super) fn open(shared: &Arc<Shared>, identity: &str, port: u16) -> Result<Self, TorError> {
        let wanted = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
        let socket = |source| TorError::Socket { address: Endpoint::Tcp(wanted), source };
        let listener = std::net::TcpListener::bind(wanted).map_err(socket)?;
        listener.set_nonblocking(true).map_err(socket)?;
        let address = listener.local_addr().map_err(socket)?;
        let listener = tokio::net::TcpListener::from_std(listener).map_err(socket)?;
        let named = Arc::default();
        let server = tokio::spawn(serve(listener, Arc::clone(shared), Arc::clone(&named)));
        Ok(Self { identity: identity.to_owned(), address, named, server })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The torrc line by which a relay finds the authority here.
    pub fn torrc_line(&self) -> String {
        // Nothing speaks the OR protocol here, so that fingerprint and ORPort are never checked.
        format!(
            "DirAuthority lab orport=1 no-v2 v3ident={} {} {}",
            self.identity,
            self.address,
            "F".repeat(40)
        )
    }

    /// The number of the consensus that the relay has in each flavour for which it asks here, 0 for none; `None` before it asked.
    /// A relay names it when it asks for the next one, which it does as soon as it has checked and taken this one.
    pub fn taken(&self) -> Option<u64> {
        self.named.lock().ok()?.into_iter().flatten().min()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.server.abort();
    }
}
