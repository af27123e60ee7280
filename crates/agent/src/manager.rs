//! The connection to systemd. It is made in a thread of its own, and a call over it ends soon: neither a bus nor a
//! systemd that does not answer may keep the loop from its ticks for long, or from ending.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, sync_channel};
use std::time::Duration;

use heaptrial_host::systemd::{Systemd, SystemdError};
use heaptrial_host::{Instant, Scope};

use crate::session::Wake;

/// No call may take longer. systemd answers within milliseconds, but not while it reads all unit files anew.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// After a failure systemd is left alone for this long.
const AGAIN_US: i64 = 10_000_000;

type Attempt = Receiver<Result<Systemd, SystemdError>>;

#[derive(Debug)]
pub(crate) struct Manager {
    scope: Scope,
    connection: Option<Systemd>,
    attempt: Option<Attempt>,
    /// When to connect anew, on the boot clock.
    again_us: i64,
    /// Whether it was said that there is no connection.
    told: bool,
    wake: Arc<Wake>,
}

impl Manager {
    /// Connects, and waits for that as long as `patience`; a connection that comes later is used from then on.
    pub(crate) fn connect(scope: Scope, wake: Arc<Wake>, patience: Duration) -> Self {
        let mut manager = Self { scope, connection: None, attempt: None, again_us: 0, told: false, wake };
        manager.begin();
        let first = manager.attempt.as_ref().map(|attempt| attempt.recv_timeout(patience));
        match first {
            Some(Ok(result)) => manager.take(result),
            Some(Err(RecvTimeoutError::Timeout)) => eprintln!("systemd does not answer yet"),
            Some(Err(RecvTimeoutError::Disconnected)) | None => {}
        }
        manager
    }

    /// Asks over the connection. `None` where there is none or the question failed; it is asked again later.
    pub(crate) fn ask<T>(&mut self, question: impl FnOnce(&Systemd) -> Result<T, SystemdError>) -> Option<T> {
        if self.connection.is_none() {
            self.follow_attempt();
        }
        match question(self.connection.as_ref()?) {
            Ok(answer) => Some(answer),
            Err(
                error @ (SystemdError::Connect(_)
                | SystemdError::NoUserManager { .. }
                | SystemdError::Lost { .. }
                | SystemdError::Timeout { .. }),
            ) => {
                self.fail(&error);
                None
            }
            Err(error) => {
                eprintln!("{error}");
                None
            }
        }
    }

    fn follow_attempt(&mut self) {
        match self.attempt.as_ref().map(Receiver::try_recv) {
            Some(Ok(result)) => self.take(result),
            Some(Err(TryRecvError::Empty)) => {}
            Some(Err(TryRecvError::Disconnected)) => self.attempt = None,
            None if Instant::now().boottime_us >= self.again_us => self.begin(),
            None => {}
        }
    }

    fn begin(&mut self) {
        let (outgoing, attempt) = sync_channel(1);
        let (scope, wake) = (self.scope, self.wake.clone());
        let connect = move || {
            // The agent may have ended meanwhile.
            let _ = outgoing.send(Systemd::connect_with_limit(scope, CALL_LIMIT));
            wake.wake();
        };
        self.again_us = Instant::now().boottime_us + AGAIN_US;
        match std::thread::Builder::new().name("systemd".into()).spawn(connect) {
            Ok(_) => self.attempt = Some(attempt),
            Err(error) => eprintln!("cannot start a thread: {error}"),
        }
    }

    fn take(&mut self, result: Result<Systemd, SystemdError>) {
        self.attempt = None;
        match result {
            Ok(systemd) => {
                if std::mem::take(&mut self.told) {
                    eprintln!("systemd answers again");
                }
                self.connection = Some(systemd);
            }
            Err(error) => self.fail(&error),
        }
    }

    fn fail(&mut self, error: &SystemdError) {
        if !std::mem::replace(&mut self.told, true) {
            eprintln!("{error}; this is tried again");
        }
        self.connection = None;
        self.again_us = Instant::now().boottime_us + AGAIN_US;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_connection_nothing_is_waited_for() {
        let wake = Arc::new(Wake::new().unwrap());
        let (outgoing, attempt) = sync_channel(1);
        let mut manager = Manager {
            scope: Scope::System,
            connection: None,
            attempt: Some(attempt),
            again_us: 0,
            told: false,
            wake,
        };
        assert_eq!(manager.ask(|_| Ok(())), None);
        assert!(manager.attempt.is_some(), "one attempt at a time");
        outgoing.send(Err(SystemdError::Connect("for a test".into()))).unwrap();
        assert_eq!(manager.ask(|_| Ok(())), None);
        assert!(manager.attempt.is_none() && manager.again_us > Instant::now().boottime_us);
        assert_eq!(manager.ask(|_| Ok(())), None);
        assert!(manager.attempt.is_none(), "it is left alone for a while");
        manager.again_us = 0;
        assert_eq!(manager.ask(|_| Ok(())), None);
        assert!(manager.attempt.is_some(), "and tried again");
    }
}
