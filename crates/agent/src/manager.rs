//! The connection to systemd: made again where it broke.

use std::time::Duration;

use heaptrial_host::systemd::{Systemd, SystemdError};
use heaptrial_host::{Instant, Scope};

/// No call may take longer. systemd answers within milliseconds, but not while it reads all unit files again.
const CALL_LIMIT: Duration = Duration::from_secs(10);
/// After a failure systemd is left alone for this long, so that ticks do not wait for it.
const AGAIN_US: i64 = 10_000_000;

#[derive(Debug)]
pub(crate) struct Manager {
    scope: Scope,
    connection: Option<Systemd>,
    again_us: i64,
    said_lost: bool,
}

impl Manager {
    pub(crate) fn new(scope: Scope) -> Self {
        Self { scope, connection: None, again_us: 0, said_lost: false }
    }

    /// Asks over the connection. `None` where there is none or the question failed; it is asked again later.
    pub(crate) fn ask<T>(&mut self, question: impl FnOnce(&Systemd) -> Result<T, SystemdError>) -> Option<T> {
        if self.connection.is_none() {
            if Instant::now().boottime_us < self.again_us {
                return None;
            }
            match Systemd::connect_with_limit(self.scope, CALL_LIMIT) {
                Ok(systemd) => self.connection = Some(systemd),
                Err(error) => return self.lost(&error),
            }
            if std::mem::take(&mut self.said_lost) {
                eprintln!("systemd answers again");
            }
        }
        match question(self.connection.as_ref()?) {
            Ok(answer) => Some(answer),
            Err(error @ SystemdError::Call { .. }) => {
                eprintln!("{error}");
                None
            }
            Err(error) => self.lost(&error),
        }
    }

    fn lost<T>(&mut self, error: &SystemdError) -> Option<T> {
        if !std::mem::replace(&mut self.said_lost, true) {
            eprintln!("{error}; this is tried again");
        }
        self.connection = None;
        self.again_us = Instant::now().boottime_us + AGAIN_US;
        None
    }
}
