//! Where the numbers of a measure come from.

use std::fmt;
use std::str::FromStr;

use heaptrial_relay::{Series, http};
use regex::Regex;

use crate::placeholders::Placeholders;

/// Where the numbers of a measure come from.
#[derive(Debug, Clone)]
pub enum WorkSource {
    /// A regular expression over the lines that the load writes. Its first group is the number; a second one, or one
    /// called `unit`, is its unit: times become milliseconds, and k, M and G are multiplied. A group called `name` is
    /// added to the measure's name.
    Line(Regex),
    /// `json:FIELD`: lines of the load that are JSON objects; members of members are named `a.b`.
    JsonLine(String),
    /// `table:ROW#COLUMN`: the number of a table that the load writes, in the row that begins with this word, under this heading. Two
    /// blanks or more separate headings.
    Table { row: String, column: String },
    /// `http:URL` or `http:URL#FIELD`: a number, or a field of a JSON document, asked for again and again.
    Http { url: String, field: String },
    /// `prometheus:URL#METRIC{LABELS}`: the sum of the samples of a metric that have these labels.
    Prometheus { url: String, series: Series },
    /// `file:PATH` or `file:PATH#FIELD`: as `http:`, of a file.
    File { path: String, field: String },
}

impl FromStr for WorkSource {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (place, field) = match text.rsplit_once('#') {
            Some((place, field)) => (place, field.to_owned()),
            None => (text, String::new()),
        };
        let Some((kind, place)) = place.split_once(':') else { return line(text) };
        if !matches!(kind, "json" | "table" | "http" | "prometheus" | "file") {
            return line(text);
        }
        let refuse = |why: &str| Err(format!("`{text}` {why}"));
        if place.is_empty() {
            return refuse("does not say where; expected a field, row, URL or path after the colon");
        }
        Ok(match kind {
            "json" => Self::JsonLine(text["json:".len()..].to_owned()),
            "table" if field.is_empty() => return refuse("names no column; expected table:ROW#COLUMN"),
            "table" => Self::Table { row: place.to_owned(), column: field },
            "http" => Self::Http { url: http::url(place), field },
            "file" => Self::File { path: place.to_owned(), field },
            _ => match Series::parse(&field) {
                Some(series) => Self::Prometheus { url: http::url(place), series },
                None => return refuse("names no metric; expected prometheus:URL#METRIC{label=\"value\"}"),
            },
        })
    }
}

fn line(pattern: &str) -> Result<WorkSource, String> {
    let pattern = Regex::new(pattern).map_err(|error| error.to_string())?;
    if pattern.captures_len() < 2 {
        return Err(format!("`{pattern}` has no group in parentheses that is the number"));
    }
    Ok(WorkSource::Line(pattern))
}

impl fmt::Display for WorkSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hash = |field: &str| if field.is_empty() { String::new() } else { format!("#{field}") };
        match self {
            Self::Line(pattern) => write!(f, "{pattern}"),
            Self::JsonLine(field) => write!(f, "json:{field}"),
            Self::Table { row, column } => write!(f, "table:{row}#{column}"),
            Self::Http { url, field } => write!(f, "http:{url}{}", hash(field)),
            Self::Prometheus { url, series } => write!(f, "prometheus:{url}#{series}"),
            Self::File { path, field } => write!(f, "file:{path}{}", hash(field)),
        }
    }
}

impl WorkSource {
    pub(crate) fn fill(&self, placeholders: &Placeholders) -> Self {
        match self {
            Self::Line(_) | Self::JsonLine(_) | Self::Table { .. } => self.clone(),
            Self::Http { url, field } => Self::Http { url: placeholders.fill(url), field: field.clone() },
            Self::Prometheus { url, series } => {
                Self::Prometheus { url: placeholders.fill(url), series: series.clone() }
            }
            Self::File { path, field } => Self::File { path: placeholders.fill(path), field: field.clone() },
        }
    }

    /// Whether it is in what the load writes.
    pub fn is_of_load(&self) -> bool {
        matches!(self, Self::Line(_) | Self::JsonLine(_) | Self::Table { .. })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Work;

    #[test]
    fn a_source_is_read_and_written_the_same() {
        for text in [
            "tps=tps = ([0-9.]+)",
            "less:latency_ms=latency average = ([0-9.]+) ms",
            "rps=json:load.rps",
            "less:p99_ms=table:Totals#p99 Latency",
            "count:requests=http:http://127.0.0.1:{port}/stats#a.b",
            "count:requests=prometheus:http://127.0.0.1:{port}/metrics#http_requests_total{code=\"200\"}",
            "count:lines=file:{dir}/lines",
            "note=weird: (\\d+)#x",
        ] {
            assert_eq!(text.parse::<Work>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_cannot_give_a_number_is_refused() {
        for (text, why) in [
            ("tps", "expected NAME=REGEX"),
            ("tps=no group", "no group in parentheses"),
            ("tps=(", "unclosed group"),
            ("=a(b)", "not a measure of work"),
            ("x=http:", "does not say where"),
            ("x=table:Totals", "names no column"),
            ("x=prometheus:http://a/metrics", "names no metric"),
        ] {
            let error = text.parse::<Work>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
