//! What a relay under trial tells of itself over its control port.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use heaptrial_network::RelayInstance;

/// How often a relay is asked for its consensus.
const ASK_EVERY: Duration = Duration::from_secs(2);
/// A relay that does not answer for this long is asked again later.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// What a relay told last.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RelayState {
    pub(crate) address: Option<SocketAddr>,
    pub(crate) valid_after: Option<i64>,
}

impl RelayState {
    pub(crate) fn consensus_age(&self) -> Option<f64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs_f64();
        Some(now - self.valid_after? as f64)
    }
}

/// Asks a relay for its consensus now and then, in a thread of its own: a busy relay takes seconds to
/// answer, and sampling must not wait for it.
#[derive(Debug)]
pub(crate) struct RelayWatch {
    state: Arc<Mutex<RelayState>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RelayWatch {
    pub(crate) fn start(relay: RelayInstance) -> Self {
        let state = Arc::new(Mutex::new(RelayState::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let (shared, stopped) = (Arc::clone(&state), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut control = None;
            while !stopped.load(Ordering::Relaxed) {
                if control.is_none() {
                    control = relay.control(ANSWER_TIMEOUT).ok();
                }
                let told =
                    control.as_mut().map(|control| (control.or_address(), control.consensus_valid_after()));
                match told {
                    Some((Ok(address), Ok(valid_after))) => {
                        if let Ok(mut state) = shared.lock() {
                            *state = RelayState { address: Some(address), valid_after };
                        }
                    }
                    Some(_) => control = None,
                    None => {}
                }
                // While it starts, every moment counts; later it is left alone for longer.
                let settled = told_consensus(&shared);
                let pause = if settled { ASK_EVERY } else { Duration::from_millis(200) };
                let until = Instant::now() + pause;
                while Instant::now() < until && !stopped.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        });
        Self { state, stop, thread: Some(thread) }
    }

    pub(crate) fn state(&self) -> RelayState {
        self.state.lock().map(|state| *state).unwrap_or_default()
    }
}

fn told_consensus(state: &Mutex<RelayState>) -> bool {
    state.lock().is_ok_and(|state| state.valid_after.is_some())
}

impl Drop for RelayWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
