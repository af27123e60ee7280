//! Notifies pages that the data changed, while somebody listens.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use axum::response::sse::{Event, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::timeout;

/// The data is asked this often.
const EVERY: Duration = Duration::from_secs(2);
/// Pages that listen at a time.
const LISTENERS: usize = 24;
/// Something is said this often, so that a listener that is gone is noticed.
const SIGN_OF_LIFE: Duration = Duration::from_secs(15);
/// How long a browser waits before it asks again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Live {
    changes: watch::Sender<Change>,
    places: Arc<Semaphore>,
}

/// What pages are made from.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Change {
    /// Version of the database.
    data: u64,
    /// How often something was computed.
    computed: u64,
    ended: bool,
}

impl Live {
    pub(crate) fn new() -> Self {
        Self { changes: watch::Sender::new(Change::default()), places: Arc::new(Semaphore::new(LISTENERS)) }
    }

    /// The data was read at this version.
    pub(crate) fn saw(&self, version: u64) {
        self.changes.send_if_modified(|change| {
            let newer = version > change.data;
            change.data = change.data.max(version);
            newer
        });
    }

    /// Something was computed that pages wait for.
    pub(crate) fn computed(&self) {
        self.changes.send_modify(|change| change.computed += 1);
    }

    pub(crate) fn end(&self) {
        self.changes.send_modify(|change| change.ended = true);
    }

    /// Version of the database, as far as it was read.
    pub(crate) fn data(&self) -> u64 {
        self.changes.borrow().data
    }

    /// Distinguishes one state of all pages from any other, as long as the dashboard runs.
    pub(crate) fn version(&self) -> String {
        self.changes.borrow().version()
    }

    /// A stream of versions, the present one first; or a refusal where too many listen.
    pub(crate) fn listen(&self) -> Response {
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else {
            let text = "Too many pages listen already.\n";
            return (StatusCode::SERVICE_UNAVAILABLE, [(RETRY_AFTER, "60")], text).into_response();
        };
        let listener = Listener { changes: self.changes.subscribe(), greeted: false, _place: place };
        Sse::new(stream::unfold(listener, Listener::next)).into_response()
    }
}

impl Change {
    fn version(self) -> String {
        format!("{}.{}", self.data, self.computed)
    }
}

struct Listener {
    changes: watch::Receiver<Change>,
    greeted: bool,
    _place: OwnedSemaphorePermit,
}

impl Listener {
    async fn next(mut self) -> Option<(Result<Event, Infallible>, Self)> {
        if self.greeted {
            match timeout(SIGN_OF_LIFE, self.changes.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return None,
                Err(_) => return Some((Ok(Event::default().comment("")), self)),
            }
        }
        let change = *self.changes.borrow_and_update();
        if change.ended {
            return None;
        }
        let event = Event::default().event("version").retry(AGAIN_AFTER).data(change.version());
        self.greeted = true;
        Some((Ok(event), self))
    }
}

/// Asks whether the data changed, while somebody listens; asking says what version it saw.
pub(crate) async fn poll<F: Future<Output = ()>>(live: Arc<Live>, ask: impl Fn() -> F) {
    loop {
        tokio::time::sleep(EVERY).await;
        if live.changes.receiver_count() > 0 {
            ask().await;
        }
    }
}
