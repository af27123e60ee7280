//! The connections that are open, and which of them ends where there is no place for another.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

/// Connections at a time.
pub(crate) const CONNECTIONS: usize = 64;

/// Who holds a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Peer {
    /// By TCP.
    Address(IpAddr),
    /// A user of this machine by a Unix socket; `None` where the kernel does not tell.
    User(Option<u32>),
}

/// All that are open.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    held: Mutex<Held>,
}

#[derive(Debug, Default)]
struct Held {
    by_number: HashMap<u64, Connection>,
    /// Goes up with every connection and every request.
    clock: u64,
}

#[derive(Debug)]
struct Connection {
    peer: Peer,
    /// The clock at its last request, or when it was opened.
    since: u64,
    is_answered: bool,
    /// Ends it when it is dropped.
    _end: oneshot::Sender<()>,
}

/// A connection's place, free again when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    all: Arc<Connections>,
    number: u64,
}

/// A request that is being answered, until this is dropped.
#[derive(Debug)]
pub(crate) struct Answering {
    place: Arc<Place>,
}

impl Connections {
    /// A place for a connection, and what is done when another one needs it.
    pub(crate) fn place(self: &Arc<Self>, peer: Peer) -> (Place, oneshot::Receiver<()>) {
        let (end, ended) = oneshot::channel();
        let mut held = self.lock();
        while held.by_number.len() >= CONNECTIONS {
            let Some(number) = held.least_missed() else { break };
            held.by_number.remove(&number);
        }
        held.clock += 1;
        let number = held.clock;
        held.by_number.insert(number, Connection { peer, since: number, is_answered: false, _end: end });
        (Place { all: Arc::clone(self), number }, ended)
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// Of the peer that holds the most: an idle connection before one that is answered, and the one that has been so for
    /// longest.
    fn least_missed(&self) -> Option<u64> {
        let mut of_peer: HashMap<Peer, usize> = HashMap::new();
        for connection in self.by_number.values() {
            *of_peer.entry(connection.peer).or_default() += 1;
        }
        let most = of_peer.values().max()?;
        let of_most = self.by_number.iter().filter(|(_, connection)| of_peer[&connection.peer] == *most);
        of_most.min_by_key(|(_, connection)| (connection.is_answered, connection.since)).map(|it| *it.0)
    }
}

impl Place {
    /// Notes a request.
    pub(crate) fn answer(self: &Arc<Self>) -> Answering {
        self.note(true);
        Answering { place: Arc::clone(self) }
    }

    fn note(&self, is_answered: bool) {
        let mut held = self.all.lock();
        held.clock += 1;
        let now = held.clock;
        if let Some(connection) = held.by_number.get_mut(&self.number) {
            connection.since = now;
            connection.is_answered = is_answered;
        }
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.place.note(false);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.lock().by_number.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Taken = (Arc<Place>, oneshot::Receiver<()>);

    fn take(all: &Arc<Connections>, peer: Peer) -> Taken {
        let (place, ended) = all.place(peer);
        (Arc::new(place), ended)
    }

    fn is_open(taken: &mut Taken) -> bool {
        taken.1.try_recv() == Err(oneshot::error::TryRecvError::Empty)
    }

    #[test]
    fn an_idle_connection_makes_room_and_one_that_is_answered_stays() {
        let all = Arc::new(Connections::default());
        let mut taken: Vec<Taken> = (0..CONNECTIONS).map(|_| take(&all, Peer::User(None))).collect();
        let answering = taken[0].0.answer();
        drop(taken[1].0.answer());
        let mut more: Vec<Taken> = (0..2).map(|_| take(&all, Peer::User(None))).collect();
        let ended = (0..CONNECTIONS).filter(|index| !is_open(&mut taken[*index])).collect::<Vec<_>>();
        assert_eq!(ended, [2, 3], "the first is answered, the second asked since");
        assert!(more.iter_mut().all(is_open));
        drop(answering);
        // Where none is idle, the one that has been answered for longest makes room.
        let all = Arc::new(Connections::default());
        let mut taken: Vec<Taken> = (0..CONNECTIONS).map(|_| take(&all, Peer::User(None))).collect();
        let _answering: Vec<Answering> = taken.iter().map(|taken| taken.0.answer()).collect();
        let _more = take(&all, Peer::User(None));
        assert!(!is_open(&mut taken[0]) && taken[1..].iter_mut().all(is_open));
    }

    #[test]
    fn whoever_holds_the_most_makes_room() {
        let all = Arc::new(Connections::default());
        let few = Peer::Address([192, 0, 2, 1].into());
        let many = Peer::Address([192, 0, 2, 2].into());
        let mut of_few: Vec<Taken> = (0..3).map(|_| take(&all, few)).collect();
        let mut of_many: Vec<Taken> = (0..500).map(|_| take(&all, many)).collect();
        assert!(of_few.iter_mut().all(is_open));
        assert_eq!(
            of_many.iter_mut().filter_map(|taken| is_open(taken).then_some(())).count(),
            CONNECTIONS - 3
        );
        assert!(of_many[500 - (CONNECTIONS - 3)..].iter_mut().all(is_open), "the newest stay");
        // A place that becomes free is given away again.
        of_many.clear();
        assert_eq!(all.lock().by_number.len(), 3);
    }
}
