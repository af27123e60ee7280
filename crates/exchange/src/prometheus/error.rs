//! Why a store, or what it told, could not be taken.

use std::path::PathBuf;

use heaptrial_model::{Classified, ErrorClass};

use super::client::time;

/// Why a store did not tell what it was asked for.
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
        "{url} says that its answer is not whole: {why}\n  query: {query}\n  nothing was taken; mend the store, or take what there is \
         with --accept-partial"
    )]
    Partial { url: String, why: String, query: String },
    /// Readings that are under way cannot be kept.
    #[error(
        "{folder}: readings that are under way cannot be kept here ({source}); nothing was imported: make room, or name a database \
         elsewhere"
    )]
    Spool {
        /// Where they were to be.
        folder: PathBuf,
        source: std::io::Error,
    },
    #[error(
        "{query} tells {value} of the service {service}, as most of its values are, which is no start in seconds since 1970: {likely}"
    )]
    NoStarts {
        query: String,
        service: String,
        /// What is told of it.
        value: f64,
        /// What it may be, and what to do.
        likely: &'static str,
    },
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
         where the label tells which server scraped it, name it by --replica-label; where these are two services, name what tells \
         them apart by --service-label; where they are two parts of one, add them up in the query (sum by (...) (...)); else choose \
         one of them there"
    )]
    Ambiguous {
        query: String,
        service: String,
        time: String,
        /// Labels that only one has.
        first: String,
        second: String,
    },
    /// A trial of that name was made of other series.
    #[error(
        "the trial `{name}` was imported with {what} {stored}, now it is {given}: its readings would be of different \
         things; give another --name"
    )]
    OtherQueries { name: String, what: &'static str, stored: String, given: String },
}

impl Classified for PrometheusError {
    fn class(&self) -> ErrorClass {
        match self {
            Self::Reach { .. } | Self::Answer { .. } | Self::Spool { .. } => ErrorClass::Failed,
            _ => ErrorClass::Refused,
        }
    }
}
