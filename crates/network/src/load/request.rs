//! What directory clients ask for.

use std::sync::Arc;
use std::time::Duration;

use rand::Rng;

use crate::Snapshot;

const CONSENSUS: &str = "/tor/status-vote/current/consensus";
/// Encodings that clients offer; the first is what Tor itself offers.
const ENCODINGS: [(&str, u32); 5] = [
    ("x-tor-lzma, x-zstd, deflate, gzip, identity", 5),
    ("x-zstd, deflate, gzip", 2),
    ("deflate, gzip", 1),
    ("identity", 1),
    ("gzip", 1),
];

/// A request by shape; names of documents are filled in from the directory of the moment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Request {
    kind: Kind,
    encoding: &'static str,
    /// Wait at each window of the answer.
    pub(crate) pause: Duration,
}

#[derive(Debug, Clone, PartialEq)]
enum Kind {
    /// A consensus; `diff_from` is the place in the history (0 oldest, below 1) to get a diff from.
    Consensus {
        microdesc: bool,
        diff_from: Option<f64>,
    },
    /// Microdescriptors: how many, and from which place (below 1) on.
    Microdescriptors {
        count: usize,
        start: f64,
    },
    /// Descriptors at these places (below 1).
    Descriptors {
        places: Vec<f64>,
    },
    AllDescriptors,
    Certificates,
}

impl Request {
    pub(crate) fn draw(random: &mut impl Rng) -> Self {
        let kind = match random.random_range(0..200) {
            0..60 => Kind::Consensus {
                microdesc: random.random_bool(0.8),
                diff_from: random.random_bool(0.75).then(|| random.random()),
            },
            60..176 => Kind::Microdescriptors {
                count: if random.random_bool(0.5) { 92 } else { random.random_range(1..92) },
                start: random.random(),
            },
            176..196 => Kind::Descriptors {
                places: (0..random.random_range(1..96)).map(|_| random.random()).collect(),
            },
            196 => Kind::AllDescriptors,
            _ => Kind::Certificates,
        };
        let pause = if random.random_bool(0.3) { random.random_range(0..1_500) } else { 0 };
        Self { kind, encoding: draw_encoding(random), pause: Duration::from_millis(pause) }
    }

    /// The request as sent, given what clients know; `None` before there is a directory.
    pub(crate) fn render(&self, history: &[Arc<Snapshot>]) -> Option<Vec<u8>> {
        let (current, older) = history.split_last()?;
        let mut extra = String::new();
        let path = match &self.kind {
            Kind::Consensus { microdesc, diff_from } => {
                let flavor = usize::from(*microdesc);
                if let Some(snapshot) = diff_from.and_then(|place| pick(older, place)) {
                    extra = format!("X-Or-Diff-From-Consensus: {}\r\n", snapshot.signed_digests[flavor]);
                }
                format!("{CONSENSUS}{}", ["", "-microdesc"][flavor])
            }
            Kind::Microdescriptors { count, start } => {
                // Every seventh, so that each request crosses the directory.
                let all = &current.microdescriptors;
                let first = (start * all.len() as f64) as usize;
                let wanted = (0..*count).filter_map(|i| all.get((first + i * 7) % all.len().max(1)));
                format!("/tor/micro/d/{}", wanted.map(String::as_str).collect::<Vec<_>>().join("-"))
            }
            Kind::Descriptors { places } => {
                let wanted = places.iter().filter_map(|place| pick(&current.descriptors, *place));
                format!("/tor/server/d/{}", wanted.map(String::as_str).collect::<Vec<_>>().join("+"))
            }
            Kind::AllDescriptors => "/tor/server/all".to_owned(),
            Kind::Certificates => "/tor/keys/all".to_owned(),
        };
        let encoding = self.encoding;
        Some(
            format!("GET {path} HTTP/1.0\r\nHost: lab\r\n{extra}Accept-Encoding: {encoding}\r\n\r\n")
                .into_bytes(),
        )
    }
}

fn pick<T>(list: &[T], place: f64) -> Option<&T> {
    list.get((place * list.len() as f64) as usize)
}

fn draw_encoding(random: &mut impl Rng) -> &'static str {
    let total: u32 = ENCODINGS.iter().map(|(_, weight)| weight).sum();
    let mut drawn = random.random_range(0..total);
    for (encoding, weight) in ENCODINGS {
        if drawn < weight {
            return encoding;
        }
        drawn -= weight;
    }
    ENCODINGS[0].0
}
