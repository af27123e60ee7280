//! Why what a store has could not be imported.

use std::path::PathBuf;

use heaptrial_model::{Classified, ErrorClass};

use super::client::time;

/// Why a store did not give what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum PrometheusError {
    #[error("`{0}` is no address of a store; expected one such as http://localhost:9090")]
    Url(String),
    /// An address with a password in it.
    #[error(
        "the address has credentials in it, and is kept in the database and in reports; give them by --basic-file"
    )]
    Credentials,
    /// A file of [`Access`] cannot be used.
    #[error("{path}: {why}")]
    File { path: PathBuf, why: String },
    #[error("cannot ask {url}: {why}")]
    Reach { url: String, why: String },
    /// It answers, but not as a Prometheus does.
    #[error(
        "{url} does not answer as a Prometheus does ({why}); expected the address below which /api/v1/query is"
    )]
    Answer { url: String, why: String },
    /// It wants credentials, or others.
    #[error(
        "{url} refuses the credentials (status {status}): give those that it wants by --basic-file, --bearer-file or --cert-file, a \
         tenant or a token by --headers-file"
    )]
    Unauthorized { url: String, status: u16 },
    #[error("{url} refuses the query: {why}\n  query: {query}")]
    Refused { url: String, why: String, query: String },
    /// It answers with a part of what was asked for.
    #[error(
        "{url} returned a partial answer: {why}\n  query: {query}\n  nothing was imported; mend the store, or take what there is \
         with --accept-partial"
    )]
    Partial { url: String, why: String, query: String },
    #[error(
        "{query} gives {value} for the service {service}, and most of its values are alike: that is no start in seconds since 1970: {likely}"
    )]
    NoStarts {
        query: String,
        service: String,
        value: f64,
        /// What it may be, and what to do.
        likely: &'static str,
    },
    /// Figures that no service has.
    #[error(
        "half of the readings of {query} are {shown}; nothing was imported: where the query does not give bytes, multiply it by what \
         makes bytes of it"
    )]
    Unit { query: String, shown: &'static str },
    /// An empty span of time.
    #[error("nothing to ask for: {} is not before {}", time(*from_us), time(*to_us))]
    NoTime { from_us: i64, to_us: i64 },
    #[error(
        "no readings of {query} from {} to {}; try the query in the store's own page",
        time(*from_us),
        time(*to_us)
    )]
    Nothing { query: String, from_us: i64, to_us: i64 },
    /// A label that no series has.
    #[error("no series of {query} has the label `{label}`; the labels are: {labels}")]
    NoLabel {
        query: String,
        label: String,
        /// Those of the first series.
        labels: String,
    },
    /// Two series of one service at the same time.
    #[error(
        "{query} has two series of the service {service} at the same time ({time}): {first} and {second}\n  \
         if two servers scraped one service, name the label of the server by --replica-label; if these are two services, name the \
         label that differs by --service-label; if they are two parts of one, add them up in the query (sum by (...) (...))"
    )]
    Ambiguous {
        query: String,
        service: String,
        time: String,
        /// Labels that only one has.
        first: String,
        second: String,
    },
}

impl Classified for PrometheusError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Reach { .. } | Self::Answer { .. } => ErrorClass::Failed,
            _ => ErrorClass::Refused,
        }
    }
}
