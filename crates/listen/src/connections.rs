//! The connections that are open, and which of them ends where there is no place for another.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

pub(crate) const CONNECTIONS: usize = 64;
/// Those of one peer. A browser opens six; a proxy before the dashboard has those of all who use it.
pub(crate) const OF_A_PEER: usize = 32;
/// A connection that was just opened has this long to ask before it makes room as an idle one does.
const ASKS_WITHIN: Duration = Duration::from_secs(1);
/// And one that is answered this long.
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Peer {
    /// By TCP; of version 6 the network of 64 bits that one host has.
    Address(IpAddr),
    /// A user of this machine by a Unix socket; `None` where the kernel does not tell.
    User(Option<u32>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Doing {
    /// It was opened and has not asked yet.
    Opened,
    Answered,
    /// It gets what goes on without end.
    Streamed,
    /// It was answered, and may ask again.
    Idle,
}

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
    doing: Doing,
    /// The clock, and the time, since it does that.
    since: u64,
    since_time: Instant,
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

impl Peer {
    pub(crate) fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(host) if !host.is_loopback() => {
                let [a, b, c, d, ..] = host.segments();
                Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
            }
            other => other,
        })
    }
}

impl Connections {
    /// A place for a connection, and what is done when another one needs it.
    pub(crate) fn place(self: &Arc<Self>, peer: Peer) -> (Place, oneshot::Receiver<()>) {
        let (end, ended) = oneshot::channel();
        let mut held = self.lock();
        held.make_room(peer);
        held.clock += 1;
        let number = held.clock;
        let connection =
            Connection { peer, doing: Doing::Opened, since: number, since_time: Instant::now(), _end: end };
        held.by_number.insert(number, connection);
        (Place { all: Arc::clone(self), number }, ended)
    }

    /// Ends those that have been answered for longer, however slowly they read.
    pub(crate) fn end_answered_for(&self, limit: Duration) {
        let overdue = |connection: &Connection| {
            connection.doing == Doing::Answered && connection.since_time.elapsed() > limit
        };
        self.lock().by_number.retain(|_, connection| !overdue(connection));
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Held {
    /// A peer with as many as it may have makes room for its own; else whoever has the most does.
    fn make_room(&mut self, peer: Peer) {
        let mut of_peer: HashMap<Peer, usize> = HashMap::new();
        for connection in self.by_number.values() {
            *of_peer.entry(connection.peer).or_default() += 1;
        }
        let makes_room = match of_peer.get(&peer) {
            Some(own) if *own >= OF_A_PEER => self.least_missed(|other| other == peer),
            _ if self.by_number.len() >= CONNECTIONS => {
                let most = of_peer.values().max().copied().unwrap_or_default();
                self.least_missed(|other| of_peer[&other] == most)
            }
            _ => None,
        };
        if let Some(number) = makes_room {
            self.by_number.remove(&number);
        }
    }

    /// One that nobody waits for before one that has just come or is answered, and that has been so for longest.
    fn least_missed(&self, of: impl Fn(Peer) -> bool) -> Option<u64> {
        let of = self.by_number.iter().filter(|(_, connection)| of(connection.peer));
        of.min_by_key(|(_, connection)| (connection.is_waited_for(), connection.since)).map(|it| *it.0)
    }
}

impl Connection {
    fn is_waited_for(&self) -> bool {
        match self.doing {
            Doing::Opened => self.since_time.elapsed() < ASKS_WITHIN,
            Doing::Answered => self.since_time.elapsed() < ANSWERED_WITHIN,
            Doing::Streamed | Doing::Idle => false,
        }
    }
}

impl Place {
    pub(crate) fn answer(self: &Arc<Self>) -> Answering {
        self.note(Doing::Answered);
        Answering { place: Arc::clone(self) }
    }

    fn note(&self, doing: Doing) {
        let mut held = self.all.lock();
        held.clock += 1;
        let now = held.clock;
        if let Some(connection) = held.by_number.get_mut(&self.number) {
            (connection.since, connection.since_time, connection.doing) = (now, Instant::now(), doing);
        }
    }
}

impl Answering {
    /// What is sent goes on without end.
    pub(crate) fn goes_on(&self) {
        self.place.note(Doing::Streamed);
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.place.note(Doing::Idle);
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

    fn open(taken: &mut [Taken]) -> usize {
        taken.iter_mut().map(is_open).filter(|open| *open).count()
    }

    /// Has all of them be as they are for longer.
    fn age(all: &Arc<Connections>, by: Duration) {
        all.lock().by_number.values_mut().for_each(|connection| connection.since_time -= by);
    }

    fn address(number: u8) -> Peer {
        Peer::Address([192, 0, 2, number].into())
    }

    #[test]
    fn an_idle_connection_makes_room_and_one_that_is_answered_stays() {
        let all = Arc::new(Connections::default());
        let own = Peer::User(None);
        let mut taken: Vec<Taken> = (0..OF_A_PEER).map(|_| take(&all, own)).collect();
        age(&all, ASKS_WITHIN);
        let answering = taken[0].0.answer();
        drop(taken[1].0.answer());
        let mut more: Vec<Taken> = (0..2).map(|_| take(&all, own)).collect();
        let ended = (0..OF_A_PEER).filter(|index| !is_open(&mut taken[*index])).collect::<Vec<_>>();
        assert_eq!(ended, [2, 3], "the first is answered, the second asked since");
        assert_eq!(open(&mut more), 2);
        // Whoever has been answered for long, or gets what has no end, is no longer waited for.
        age(&all, ANSWERED_WITHIN);
        let streaming = taken[4].0.answer();
        streaming.goes_on();
        let _more: Vec<Taken> = (0..OF_A_PEER).map(|_| take(&all, own)).collect();
        assert_eq!((open(&mut taken), open(&mut more)), (0, 0));
        drop((answering, streaming));
    }

    #[test]
    fn whoever_has_just_come_is_not_the_first_to_go() {
        let all = Arc::new(Connections::default());
        let mut answered: Vec<Taken> =
            (0..CONNECTIONS as u8).map(|number| take(&all, address(number))).collect();
        let answering: Vec<Answering> = answered.iter().map(|taken| taken.0.answer()).collect();
        let mut new = take(&all, address(200));
        let mut others: Vec<Taken> = (100..150).map(|number| take(&all, address(number))).collect();
        assert!(is_open(&mut new) && !is_open(&mut answered[0]));
        assert_eq!(open(&mut others), 50);
        drop(answering);
    }

    #[test]
    fn whoever_holds_the_most_makes_room() {
        let all = Arc::new(Connections::default());
        let mut of_few: Vec<Taken> = (0..3).map(|_| take(&all, address(1))).collect();
        let mut of_many: Vec<Taken> = (0..500).map(|_| take(&all, address(2))).collect();
        assert_eq!((open(&mut of_few), open(&mut of_many)), (3, OF_A_PEER));
        assert_eq!(open(&mut of_many[500 - OF_A_PEER..]), OF_A_PEER, "the newest stay");
        let mut of_third: Vec<Taken> = (0..500).map(|_| take(&all, address(3))).collect();
        assert_eq!(open(&mut of_few), 3);
        assert_eq!(open(&mut of_many) + open(&mut of_third), CONNECTIONS - 3);
        // A place that becomes free is given away again.
        of_many.clear();
        of_third.clear();
        assert_eq!(all.lock().by_number.len(), 3);
    }

    #[test]
    fn an_answer_that_takes_too_long_is_ended_and_a_stream_is_not() {
        let all = Arc::new(Connections::default());
        let mut taken: Vec<Taken> = (0..3).map(|_| take(&all, address(1))).collect();
        let answering: Vec<Answering> = taken[..2].iter().map(|taken| taken.0.answer()).collect();
        answering[1].goes_on();
        age(&all, Duration::from_secs(60));
        all.end_answered_for(Duration::from_secs(60));
        let open: Vec<bool> = taken.iter_mut().map(is_open).collect();
        assert_eq!(open, [false, true, true]);
    }

    #[test]
    fn addresses_of_one_host_are_one_peer() {
        let at = |text: &str| Peer::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:2"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:192.0.2.1"), at("192.0.2.1"));
        assert_ne!(at("192.0.2.1"), at("192.0.2.2"));
        assert_ne!(at("::1"), at("::2"));
    }
}
