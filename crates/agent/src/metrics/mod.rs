//! Metrics of the last tick, served on a unix socket or a loopback port.

mod server;
mod text;

use std::fmt;
use std::str::FromStr;

use heaptrial_host::listen::Listen;

pub(crate) use server::Metrics;

/// Where metrics are served: a Unix socket, or a port of a loopback address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetricsAddress(Listen);

impl FromStr for MetricsAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || {
            format!("`{text}` is no address for metrics; expected unix:/PATH, 127.0.0.1:PORT or [::1]:PORT")
        };
        let listen: Listen = text.parse().map_err(|_| bad())?;
        match &listen {
            // The agent's unit has a folder of its own to start in.
            Listen::Unix(path) if !path.is_absolute() => Err(bad()),
            _ if listen.is_local() => Ok(Self(listen)),
            _ => Err(format!(
                "metrics are served without any access control, so only at a loopback address or a unix socket, not at \
                 {listen}"
            )),
        }
    }
}

impl fmt::Display for MetricsAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_others_cannot_reach_is_an_address() {
        for good in ["unix:/run/heaptrial/metrics.sock", "127.0.0.1:9779", "[::1]:9779"] {
            assert_eq!(good.parse::<MetricsAddress>().unwrap().to_string(), good);
        }
        for bad in ["0.0.0.0:9779", "[::]:9779", "192.0.2.1:80", "unix:relative", "example.org:80", "9779"] {
            assert!(bad.parse::<MetricsAddress>().is_err(), "{bad}");
        }
    }
}
