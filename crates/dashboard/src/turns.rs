//! Who reads the database next: one at a time, and of those that wait one of each peer.
//!
//! Whoever asks for many pages at once waits for their own, and not all others for them. Who goes away waits no more.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use heaptrial_listen::Peer;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

#[derive(Debug)]
pub(crate) struct Turns {
    one: Arc<Semaphore>,
    of_peers: Mutex<HashMap<Peer, Weak<Semaphore>>>,
}

/// A turn, over when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _one: Option<OwnedSemaphorePermit>,
    _of_peer: Option<OwnedSemaphorePermit>,
}

impl Turns {
    pub(crate) fn new() -> Self {
        Self { one: Arc::new(Semaphore::new(1)), of_peers: Mutex::default() }
    }

    /// Waits for a turn. No semaphore here is ever closed.
    pub(crate) async fn take(&self, peer: Peer) -> Turn {
        let of_peer = self.of(peer).acquire_owned().await.ok();
        let one = Arc::clone(&self.one).acquire_owned().await.ok();
        Turn { _one: one, _of_peer: of_peer }
    }

    fn of(&self, peer: Peer) -> Arc<Semaphore> {
        let mut of_peers = self.of_peers.lock().unwrap_or_else(PoisonError::into_inner);
        of_peers.retain(|_, waiting| waiting.strong_count() > 0);
        if let Some(found) = of_peers.get(&peer).and_then(Weak::upgrade) {
            return found;
        }
        let new = Arc::new(Semaphore::new(1));
        of_peers.insert(peer, Arc::downgrade(&new));
        new
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_peer_with_many_requests_is_before_another_only_once() {
        let turns = Turns::new();
        let (many, few) = (Peer::User(Some(1)), Peer::User(Some(2)));
        let mut of_many: Vec<_> = (0..50).map(|_| Box::pin(turns.take(many))).collect();
        let first = of_many[0].as_mut().now_or_never().unwrap();
        assert!(of_many[1..].iter_mut().all(|waiting| waiting.as_mut().now_or_never().is_none()));
        let mut other = Box::pin(turns.take(few));
        assert!(other.as_mut().now_or_never().is_none());
        drop(first);
        // The second of the many was told that it is the next of its own, and comes after the other.
        assert!(of_many[1].as_mut().now_or_never().is_none());
        let turn = other.as_mut().now_or_never().unwrap();
        // Those that go away do not wait any more.
        drop(of_many.drain(1..));
        drop(turn);
        let last = turns.take(many).now_or_never().unwrap();
        drop(last);
        assert!(turns.take(few).now_or_never().is_some());
    }
}
