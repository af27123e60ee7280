//! Asking the store, by its HTTP interface (<https://prometheus.io/docs/prometheus/latest/querying/api/>).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use ureq::Agent;
use ureq::http::header::{AUTHORIZATION, RETRY_AFTER};
use ureq::http::{HeaderMap, HeaderName, HeaderValue};
use ureq::tls::{Certificate, ClientCert, PrivateKey, RootCerts, TlsConfig};

use crate::ImportError;

const PATIENCE: Duration = Duration::from_secs(180);
/// A store that is asked again at once would have even more to do.
const LEAST_WAIT: Duration = Duration::from_millis(100);
/// A day of a thousand services each minute is 50 MB.
const ANSWER_AT_MOST: u64 = 1 << 30;

/// How the store is reached. Secrets are in files, so that they are in no list of processes and in no report.
#[derive(Debug, Clone, Default)]
pub struct Access {
    /// A file with one line, `USER:PASSWORD`.
    pub basic: Option<PathBuf>,
    pub bearer: Option<PathBuf>,
    /// Files with headers of each request, `NAME: VALUE` in a line, such as the tenant of a Mimir.
    pub headers: Vec<PathBuf>,
    pub client: Option<(PathBuf, PathBuf)>,
    /// Certificates that are trusted in place of the system's (PEM).
    pub authority: Option<PathBuf>,
    /// Whether answers count that the store says are not whole.
    pub accept_partial: bool,
}

/// A time as people read it.
pub(super) fn time(us: i64) -> String {
    jiff::Timestamp::from_microsecond(us).map_or_else(|_| us.to_string(), |time| time.to_string())
}

/// Labels, in order of their names.
pub(super) type Labels = BTreeMap<String, String>;

/// A series as it is answered.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Series {
    pub metric: Labels,
    #[serde(default)]
    pub values: Vec<Point>,
}

/// A value of a series: microseconds since 1970, whole milliseconds as stores keep them, and the value.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "(f64, Cow<'_, str>)")]
pub(super) struct Point(pub i64, pub f64);

impl TryFrom<(f64, Cow<'_, str>)> for Point {
    type Error = std::num::ParseFloatError;

    fn try_from((seconds, value): (f64, Cow<'_, str>)) -> Result<Self, Self::Error> {
        Ok(Self((seconds * 1e3).round() as i64 * 1000, value.parse()?))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    status: String,
    data: Option<Data>,
    error: Option<String>,
    warnings: Option<Vec<String>>,
    /// VictoriaMetrics' word for an answer that lacks what one of its nodes has.
    #[serde(default)]
    is_partial: bool,
}

#[derive(Deserialize)]
struct Data {
    #[serde(default)]
    result: Vec<Series>,
}

/// What a store answers to a query: series, or why it does not answer it.
type Asked = Result<Vec<Series>, String>;

#[derive(Debug)]
pub(super) struct Client {
    agent: Agent,
    url: String,
    headers: Vec<(HeaderName, HeaderValue)>,
    accept_partial: bool,
}

impl Client {
    pub fn new(url: &str, access: &Access) -> Result<Self, ImportError> {
        let wrong = || {
            ImportError::Refused(format!(
                "`{url}` is no address of a store; expected one such as http://localhost:9090"
            ))
        };
        let address: ureq::http::Uri = url.parse().map_err(|_| wrong())?;
        let authority = address.authority().ok_or_else(wrong)?;
        if !matches!(address.scheme_str(), Some("http" | "https")) || address.query().is_some() {
            return Err(wrong());
        }
        if authority.as_str().contains('@') {
            return Err(ImportError::Refused(
                "the address has credentials in it, and is kept in the database and in reports; give them by --basic-file".into(),
            ));
        }
        let authorization = match (&access.basic, &access.bearer) {
            (Some(path), _) => Some((path, format!("Basic {}", base64(line_of(path)?.as_bytes())))),
            (None, Some(path)) => Some((path, format!("Bearer {}", line_of(path)?))),
            (None, None) => None,
        };
        let mut headers = Vec::new();
        for path in &access.headers {
            headers.extend(headers_of(path)?);
        }
        if let Some((path, value)) = authorization {
            if headers.iter().any(|(name, _)| name == AUTHORIZATION) {
                let why = "a file of headers has the header Authorization, too; give one of them";
                return Err(ImportError::file(path, why));
            }
            let value = HeaderValue::from_str(&value);
            let value = value.map_err(|_| ImportError::file(path, "no token that a header can have"))?;
            headers.push((AUTHORIZATION, value));
        }
        let mut tls = TlsConfig::builder();
        tls = tls.root_certs(match &access.authority {
            Some(path) => RootCerts::new_with_certs(&certificates(path)?),
            None => RootCerts::PlatformVerifier,
        });
        if let Some((certificate, key)) = &access.client {
            let bad = |why: ureq::Error| ImportError::file(key, &why.to_string());
            let private = PrivateKey::from_pem(&bytes_of(key)?).map_err(bad)?;
            tls = tls.client_cert(Some(ClientCert::new_with_certs(&certificates(certificate)?, private)));
        }
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(PATIENCE))
            // ureq takes headers with it to another host, but for `Authorization`.
            .max_redirects(if access.headers.is_empty() { 3 } else { 0 })
            .tls_config(tls.build())
            .build();
        let url = url.trim_end_matches('/').to_owned();
        let accept_partial = access.accept_partial;
        Ok(Self { agent: Agent::new_with_config(config), url, headers, accept_partial })
    }

    /// Values of a query at each `step_us` from `from_us` to `to_us`. Gives warnings of the store, too. A span that the store refuses,
    /// as stores do where it is too much at once, is asked for in halves.
    pub fn series(
        &self,
        query: &str,
        (from_us, to_us): (i64, i64),
        step_us: i64,
        warnings: &mut Vec<String>,
    ) -> Result<Vec<Series>, ImportError> {
        let fields = [
            ("query", query.to_owned()),
            ("start", seconds(from_us)),
            ("end", seconds(to_us)),
            ("step", seconds(step_us)),
            // VictoriaMetrics would answer from a cache, without what came late.
            ("nocache", "1".to_owned()),
        ];
        match self.ask(&fields, warnings)? {
            Ok(series) => Ok(series),
            Err(_) if to_us - from_us >= step_us => {
                let middle = from_us + (to_us - from_us) / 2 / step_us * step_us;
                let mut series = self.series(query, (from_us, middle), step_us, warnings)?;
                series.extend(self.series(query, (middle + step_us, to_us), step_us, warnings)?);
                Ok(series)
            }
            Err(why) => {
                Err(ImportError::Refused(format!("{} refuses the query: {why}\n  query: {query}", self.url)))
            }
        }
    }

    /// The first of `fields` is the query.
    fn ask(
        &self,
        fields: &[(&'static str, String)],
        warnings: &mut Vec<String>,
    ) -> Result<Asked, ImportError> {
        let url = format!("{}/api/v1/query_range", self.url);
        let query = &fields[0].1;
        let answer_error = |why: String| {
            ImportError::Failed(format!(
                "{} does not answer as a Prometheus does ({why}); expected the address below which /api/v1/query is",
                self.url
            ))
        };
        let reach = |why: ureq::Error| ImportError::Failed(format!("cannot ask {}: {why}", self.url));
        let mut waited = Duration::ZERO;
        let (status, body) = loop {
            let mut request = self.agent.post(&url);
            for (name, value) in &self.headers {
                request = request.header(name, value);
            }
            let form = fields.iter().map(|(name, value)| (*name, value.as_str()));
            let whole = WHOLE.iter().filter(|_| !self.accept_partial).copied();
            let mut response = request.send_form(form.chain(whole)).map_err(reach)?;
            let status = response.status().as_u16();
            let later = asks_for_later(status, response.headers());
            let body =
                response.body_mut().with_config().limit(ANSWER_AT_MOST).read_to_vec().map_err(reach)?;
            match later {
                Some(later) if waited + later <= PATIENCE => {
                    std::thread::sleep(later);
                    waited += later;
                }
                _ => break (status, body),
            }
        };
        if matches!(status, 401 | 403) {
            return Err(ImportError::Refused(format!(
                "{} refuses the credentials (status {status}): give those that it wants by --basic-file, --bearer-file or --cert-file, a \
                 tenant or a token by --headers-file",
                self.url
            )));
        }
        // A proxy reports only by its status that the store took too long, or was too much.
        if matches!(status, 413 | 504) {
            return Ok(Err(format!("status {status}")));
        }
        let answer = serde_json::from_slice::<Answer>(&body);
        let answer = answer.map_err(|_| answer_error(format!("status {status}, no answer in JSON")))?;
        if answer.status != "success" {
            return Ok(Err(answer.error.unwrap_or_else(|| format!("status {status}"))));
        }
        let warned = answer.warnings.unwrap_or_default();
        let lacks = warned.iter().find(|warning| !is_annotation(warning)).cloned();
        let lacks = lacks.or_else(|| answer.is_partial.then(|| "isPartial".to_owned()));
        if let Some(why) = lacks.filter(|_| !self.accept_partial) {
            return Err(ImportError::Refused(format!(
                "{} returned a partial answer: {why}\n  query: {query}\n  nothing was imported; mend the store, or take what there is \
                 with --accept-partial",
                self.url
            )));
        }
        for warning in warned {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
        let data = answer.data.ok_or_else(|| answer_error("no data".into()))?;
        Ok(Ok(data.result))
    }
}

/// Makes a store of several nodes refuse rather than answer with what some of them have: Thanos' word, and that of
/// VictoriaMetrics. Others pass over both.
const WHOLE: [(&str, &str); 2] = [("partial_response", "false"), ("deny_partial_response", "1")];

/// What a Prometheus remarks about a query. All other warnings are of data that could not be read.
fn is_annotation(warning: &str) -> bool {
    warning.starts_with("PromQL ")
}

fn seconds(us: i64) -> String {
    format!("{:.3}", us as f64 / 1e6)
}

/// How long a store that has too much to do asks to be left alone.
fn asks_for_later(status: u16, headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.trim().parse().ok());
    match status {
        429 => Some(Duration::from_secs(seconds.unwrap_or(10)).max(LEAST_WAIT)),
        503 => Some(Duration::from_secs(seconds?).max(LEAST_WAIT)),
        _ => None,
    }
}

fn bytes_of(path: &Path) -> Result<Vec<u8>, ImportError> {
    std::fs::read(path).map_err(|error| ImportError::file(path, &error.to_string()))
}

/// The one line of a file with a secret.
fn line_of(path: &Path) -> Result<String, ImportError> {
    let text = String::from_utf8_lossy(&bytes_of(path)?).trim().to_owned();
    match text.is_empty() || text.contains(char::is_control) {
        true => Err(ImportError::file(path, "expected one line")),
        false => Ok(text),
    }
}

/// The headers in a file.
fn headers_of(path: &Path) -> Result<Vec<(HeaderName, HeaderValue)>, ImportError> {
    let text = bytes_of(path)?;
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    let mut headers = Vec::new();
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let header = line.split_once(':').and_then(|(name, value)| {
            let value = HeaderValue::from_str(value.trim()).ok()?;
            Some((name.trim_end().parse::<HeaderName>().ok()?, value))
        });
        // The line may have a secret in it.
        let why = || format!("line {number}: expected NAME: VALUE, such as X-Scope-OrgID: fleet");
        headers.push(header.ok_or_else(|| ImportError::file(path, &why()))?);
    }
    match headers.is_empty() {
        true => Err(ImportError::file(path, "no header in it")),
        false => Ok(headers),
    }
}

fn certificates(path: &Path) -> Result<Vec<Certificate<'static>>, ImportError> {
    let pem = bytes_of(path)?;
    let mut found = Vec::new();
    for item in ureq::tls::parse_pem(&pem) {
        match item.map_err(|error| ImportError::file(path, &error.to_string()))? {
            ureq::tls::PemItem::Certificate(certificate) => found.push(certificate),
            _ => continue,
        }
    }
    match found.is_empty() {
        true => Err(ImportError::file(path, "no certificate in it (PEM)")),
        false => Ok(found),
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
