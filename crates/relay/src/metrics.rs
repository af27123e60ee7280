//! A relay's MetricsPort: Prometheus' text format over HTTP.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::ToSocketAddrs;
use std::time::{Duration, Instant};

use super::RelayReadings;
use crate::endpoint::TimedReader;
use crate::{Endpoint, TorError};

/// Tor 0.4.9 sends 26 KB; an exit with many kinds of errors not much more.
const MAX_BYTES: u64 = 4 << 20;
const HANDSHAKES: &str = "tor_relay_load_onionskins_total";

/// One reading of the text format: name, labels, value.
#[derive(Debug, Clone, PartialEq)]
struct Metric<'a> {
    name: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
}

impl Metric<'_> {
    fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| *label == name).map(|(_, value)| value.as_str())
    }
}

/// Asks the MetricsPort at `address` (`ADDRESS:PORT`) for all that it tells of the relay's work; it knows nothing of
/// its start. The whole answer takes no longer than `timeout`. A relay that has no MetricsPortPolicy for this host
/// closes the connection.
pub fn scrape(address: &str, timeout: Duration) -> Result<RelayReadings, TorError> {
    let unknown = |problem: String| TorError::Content { path: address.into(), problem };
    let resolved = address
        .to_socket_addrs()
        .map_err(|error| unknown(error.to_string()))?
        .next()
        .ok_or_else(|| unknown("is no address".to_owned()))?;
    let endpoint = Endpoint::Tcp(resolved);
    let fail = |source| TorError::Socket { address: endpoint.clone(), source };
    let protocol = |problem: String| TorError::Protocol { address: endpoint.clone(), problem };
    let socket = endpoint.connect(timeout).map_err(fail)?;
    socket.set_write_timeout(Some(timeout)).map_err(fail)?;
    let mut reader = TimedReader { socket, until: Instant::now() + timeout };
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
    reader.socket.write_all(request.as_bytes()).map_err(fail)?;
    let mut reader = BufReader::new(reader).take(MAX_BYTES);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") && reader.read_line(&mut head).map_err(fail)? > 0 {}
    let status = head.lines().next().unwrap_or("");
    if status.split(' ').nth(1) != Some("200") {
        let answer =
            if status.is_empty() { "nothing; does MetricsPortPolicy accept this host?" } else { status };
        return Err(protocol(format!("answered a request for its metrics with {answer}")));
    }
    // Tor keeps the connection open behind its answer.
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    let mut body = Vec::new();
    let mut rest = reader.take(length.unwrap_or(MAX_BYTES));
    rest.read_to_end(&mut body).map_err(fail)?;
    if length.is_some_and(|length| body.len() as u64 != length) {
        return Err(protocol("broke off its metrics".to_owned()));
    }
    Ok(readings(&String::from_utf8_lossy(&body)))
}

fn readings(text: &str) -> RelayReadings {
    let metrics: Vec<Metric> = text.lines().filter_map(metric).collect();
    let sum = |name: &str, wanted: &[(&str, &str)]| {
        let mut values = metrics
            .iter()
            .filter(|metric| metric.name == name)
            .filter(|metric| wanted.iter().all(|(label, value)| metric.label(label) == Some(value)))
            .map(|metric| metric.value)
            .peekable();
        values.peek()?;
        // Counters of tor are whole numbers.
        Some(values.sum::<f64>() as u64)
    };
    let told: Vec<&Metric<'_>> = metrics.iter().filter(|metric| metric.name == "tor_relay_flag").collect();
    let has = told.iter().filter(|metric| metric.value != 0.0);
    let words: Vec<&str> = has.filter_map(|metric| metric.label("type")).collect();
    RelayReadings {
        bootstrap_percent: None,
        read_bytes: sum("tor_relay_traffic_bytes", &[("direction", "read")]),
        written_bytes: sum("tor_relay_traffic_bytes", &[("direction", "written")]),
        connections: sum("tor_relay_connections", &[("type", "OR"), ("state", "opened")]),
        handshakes_answered: sum(HANDSHAKES, &[("action", "processed")]),
        handshakes_dropped: sum(HANDSHAKES, &[("action", "dropped")]),
        oom_bytes: sum("tor_relay_load_oom_bytes_total", &[]),
        // All are 0 also before the relay has a consensus.
        without_flags: words.is_empty() && !told.is_empty(),
        flags: (!words.is_empty()).then(|| super::readings::flags(words.into_iter())),
    }
}

/// A line of the text format; `None` for comments and for what is none.
fn metric(line: &str) -> Option<Metric<'_>> {
    let line = line.trim();
    if line.starts_with('#') {
        return None;
    }
    let end = line.find(['{', ' ', '\t'])?;
    let name = &line[..end];
    let mut labels = Vec::new();
    let mut rest = &line[end..];
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside.trim_start();
        while !rest.starts_with('}') {
            let (label, value) = rest.split_once("=\"")?;
            let (value, behind) = label_value(value)?;
            labels.push((label.trim(), value));
            rest = behind.trim_start();
            rest = rest.strip_prefix(',').unwrap_or(rest).trim_start();
        }
        rest = &rest[1..];
    }
    let value: f64 = rest.split_whitespace().next()?.parse().ok()?;
    value.is_finite().then_some(Metric { name, labels, value })
}

/// A label's value up to its quotation mark, and what follows that.
fn label_value(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut characters = text.char_indices();
    loop {
        match characters.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => match characters.next()?.1 {
                'n' => value.push('\n'),
                character => value.push(character),
            },
            (_, character) => value.push(character),
        }
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
        let told = readings(TEXT);
        assert_eq!((told.read_bytes, told.written_bytes), (Some(12_884_901_888), Some(12_884_901_900)));
        assert_eq!((told.connections, told.oom_bytes), (Some(43), Some(120)));
        assert_eq!((told.handshakes_answered, told.handshakes_dropped), (Some(7201), Some(31)));
        assert_eq!(told.flags.unwrap(), BTreeSet::from([TorFlag::Fast, TorFlag::Guard]));
    }

    #[test]
    fn what_is_not_told_is_none() {
        assert_eq!(readings("nonsense\nname{label=\"open\n"), RelayReadings::default());
        // Without a flag: it has lost what it had, or has no consensus yet.
        let without = readings("tor_relay_flag{type=\"Fast\"} 0\n");
        assert_eq!(without, RelayReadings { without_flags: true, ..RelayReadings::default() });
        let told =
            RelayReadings { flags: Some(BTreeSet::from([TorFlag::Guard])), ..RelayReadings::default() };
        assert_eq!(told.clone().or(without), told);
    }

    #[test]
    fn labels_may_have_escapes_and_braces() {
        let read = metric(r#"name{a="x\"}\\ ,\n", b="2",} 1.5 1700000000"#).unwrap();
        assert_eq!(read.labels, [("a", "x\"}\\ ,\n".to_owned()), ("b", "2".to_owned())]);
        assert_eq!(read.value, 1.5);
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "\\PC{0,200}", like in "[a-z{}\"=, 0-9\\\\#\n]{0,200}") {
            let _ = readings(&text);
            let _ = readings(&like);
        }
    }
}
