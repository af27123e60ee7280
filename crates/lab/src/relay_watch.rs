//! Where a relay under trial listens.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use heaptrial_network::RelayInstance;

/// While a relay starts, every moment counts.
const ASK_EVERY: Duration = Duration::from_millis(200);
/// A relay that does not answer for this long is asked again later.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Asks a relay over its control port for its address until it answers, in a thread of its own: a busy relay takes
/// seconds to answer, and sampling must not wait for it.
#[derive(Debug)]
pub(crate) struct RelayWatch {
    address: Arc<OnceLock<SocketAddr>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RelayWatch {
    pub(crate) fn start(relay: RelayInstance) -> Self {
        let address = Arc::new(OnceLock::new());
        let stop = Arc::new(AtomicBool::new(false));
        let (found, stopped) = (Arc::clone(&address), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let control = relay.control(ANSWER_TIMEOUT);
                if let Ok(address) = control.and_then(|mut control| control.or_address()) {
                    let _ = found.set(address);
                    return;
                }
                std::thread::sleep(ASK_EVERY);
            }
        });
        Self { address, stop, thread: Some(thread) }
    }

    /// Where it listens for clients, once that is known.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        self.address.get().copied()
    }
}

impl Drop for RelayWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
