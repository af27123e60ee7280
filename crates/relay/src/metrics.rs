//! A relay's MetricsPort: Prometheus' text format over HTTP.

use std::net::ToSocketAddrs;
use std::time::Duration;

use super::RelayReadings;
use super::series::{Series, samples};
use crate::{Endpoint, TorError, http};

/// Asks the MetricsPort at `address` (`ADDRESS:PORT`) for all that it has of the relay's work; it knows nothing of its start. The
/// whole answer takes no longer than `timeout`. A relay that has no MetricsPortPolicy for this host closes the connection.
pub fn scrape(address: &str, timeout: Duration) -> Result<RelayReadings, TorError> {
    let unknown = |problem: String| TorError::Content { path: address.into(), problem };
    let resolved = address.to_socket_addrs().map_err(|error| unknown(error.to_string()))?.next();
    let endpoint = Endpoint::Tcp(resolved.ok_or_else(|| unknown("is no address".to_owned()))?);
    let problem = match http::get(&format!("http://{address}/metrics"), timeout) {
        Ok((200, text)) => return Ok(readings(&text)),
        Ok((status, _)) => format!("answered a request for its metrics with status {status}"),
        Err(why) => format!("gives no metrics ({why}); does MetricsPortPolicy accept this host?"),
    };
    Err(TorError::Protocol { address: endpoint, problem })
}

fn readings(text: &str) -> RelayReadings {
    // Counters of tor are whole numbers.
    let sum = |series: &str| Some(Series::parse(series)?.sum(text).ok()? as u64);
    let flags: Vec<(Series, f64)> =
        samples(text).filter(|(series, _)| series.metric() == "tor_relay_flag").collect();
    let has = flags.iter().filter(|(_, value)| *value != 0.0);
    let words: Vec<&str> = has.filter_map(|(series, _)| series.label("type")).collect();
    RelayReadings {
        bootstrap_percent: None,
        read_bytes: sum(r#"tor_relay_traffic_bytes{direction="read"}"#),
        written_bytes: sum(r#"tor_relay_traffic_bytes{direction="written"}"#),
        connections: sum(r#"tor_relay_connections{type="OR",state="opened"}"#),
        handshakes_answered: sum(r#"tor_relay_load_onionskins_total{action="processed"}"#),
        handshakes_dropped: sum(r#"tor_relay_load_onionskins_total{action="dropped"}"#),
        oom_bytes: sum("tor_relay_load_oom_bytes_total"),
        // All are 0 also before the relay has a consensus.
        without_flags: words.is_empty() && !flags.is_empty(),
        flags: (!words.is_empty()).then(|| super::readings::flags(words.into_iter())),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use heaptrial_model::TorFlag;
    use proptest::prelude::*;

    use super::*;

    /// Lines of tor 0.4.9.11, with counts of a working relay.
    const TEXT: &str = r#"# HELP tor_relay_flag Relay flags from consensus
# TYPE tor_relay_flag gauge
tor_relay_flag{type="Fast"} 1
tor_relay_flag{type="Guard"} 1
tor_relay_flag{type="Exit"} 0
tor_relay_load_socket_total{state="opened"} 4
tor_relay_connections{type="OR listener",direction="initiated",state="opened",family="ipv4"} 1
tor_relay_connections{type="OR",direction="initiated",state="opened",family="ipv4"} 40
tor_relay_connections{type="OR",direction="received",state="opened",family="ipv4"} 2
tor_relay_connections{type="OR",direction="received",state="opened",family="ipv6"} 1
tor_relay_traffic_bytes{direction="read"} 12884901888
tor_relay_traffic_bytes{direction="written"} 12884901900
tor_relay_load_onionskins_total{type="tap",action="processed"} 1
tor_relay_load_onionskins_total{type="ntor",action="processed"} 7000
tor_relay_load_onionskins_total{type="ntor",action="dropped"} 30
tor_relay_load_onionskins_total{type="ntor_v3",action="processed"} 200
tor_relay_load_onionskins_total{type="ntor_v3",action="dropped"} 1
tor_relay_load_oom_bytes_total{subsys="cell"} 100
tor_relay_load_oom_bytes_total{subsys="dns"} 20
"#;

    #[test]
    fn the_work_of_a_relay_is_read_from_its_metrics() {
        let read = readings(TEXT);
        assert_eq!((read.read_bytes, read.written_bytes), (Some(12_884_901_888), Some(12_884_901_900)));
        assert_eq!((read.connections, read.oom_bytes), (Some(43), Some(120)));
        assert_eq!((read.handshakes_answered, read.handshakes_dropped), (Some(7201), Some(31)));
        assert_eq!(read.flags.unwrap(), BTreeSet::from([TorFlag::Fast, TorFlag::Guard]));
    }

    #[test]
    fn what_is_missing_is_none() {
        assert_eq!(readings("nonsense\nname{label=\"open\n"), RelayReadings::default());
        // Without a flag: it has lost what it had, or has no consensus yet.
        let without = readings("tor_relay_flag{type=\"Fast\"} 0\n");
        assert_eq!(without, RelayReadings { without_flags: true, ..RelayReadings::default() });
        let with =
            RelayReadings { flags: Some(BTreeSet::from([TorFlag::Guard])), ..RelayReadings::default() };
        assert_eq!(with.clone().or(without), with);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "\\PC{0,200}", like in "[a-z{}\"=, 0-9\\\\#\n]{0,200}") {
            let _ = readings(&text);
            let _ = readings(&like);
        }
    }
}
