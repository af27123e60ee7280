//! Series of a Prometheus endpoint.

use std::collections::BTreeMap;
use std::fmt;

/// A metric of a Prometheus endpoint with labels: `http_requests_total{code="200"}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Series {
    metric: String,
    labels: BTreeMap<String, String>,
}

impl Series {
    /// Reads one; also a line of an endpoint up to its value.
    pub fn parse(text: &str) -> Option<Self> {
        Self::begins(text.trim()).filter(|(_, rest)| rest.is_empty()).map(|(series, _)| series)
    }

    /// The series that a text begins with, and what is after it.
    fn begins(text: &str) -> Option<(Self, &str)> {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':' | '.');
        let (metric, rest) = text.split_at(text.find(|c| !plain(c)).unwrap_or(text.len()));
        let (labels, rest) = match rest.trim_start().strip_prefix('{') {
            Some(labels) => parse_labels(labels)?,
            None => (BTreeMap::new(), rest),
        };
        (!metric.is_empty()).then(|| (Self { metric: metric.to_owned(), labels }, rest))
    }

    /// Whether a sample of an endpoint is one of these: it may have further labels.
    fn holds(&self, sample: &Self) -> bool {
        let has = |(name, value): (&String, &String)| sample.labels.get(name) == Some(value);
        self.metric == sample.metric && self.labels.iter().all(has)
    }

    pub fn metric(&self) -> &str {
        &self.metric
    }

    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }

    /// The sum over the samples of an endpoint's answer; the error says why there is none.
    pub fn sum(&self, answer: &str) -> Result<f64, String> {
        let samples: Vec<(Self, f64)> = samples(answer).filter(|(sample, _)| self.holds(sample)).collect();
        match samples.iter().find(|(_, value)| !value.is_finite()) {
            Some((sample, value)) => Err(format!("has {value} for {sample}")),
            None if samples.is_empty() => Err(format!("has no {self}")),
            None => Ok(samples.iter().map(|(_, value)| value).sum()),
        }
    }
}

/// The samples of an endpoint's answer (the text form of Prometheus, version 0.0.4, and OpenMetrics, whose exemplars stand after the
/// value). What is none is left out.
pub fn samples(answer: &str) -> impl Iterator<Item = (Series, f64)> {
    answer.lines().map(str::trim).filter(|line| !line.starts_with('#')).filter_map(|line| {
        let (sample, rest) = Series::begins(line)?;
        Some((sample, rest.split_whitespace().next()?.parse().ok()?))
    })
}

/// Labels up to the brace that ends them, and what is after that.
fn parse_labels(text: &str) -> Option<(BTreeMap<String, String>, &str)> {
    let mut labels = BTreeMap::new();
    let mut rest = text.trim_start();
    loop {
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (name, after) = rest.split_once("=\"")?;
        let mut value = String::new();
        let mut characters = after.chars();
        loop {
            match characters.next()? {
                '"' => break,
                '\\' => match characters.next()? {
                    'n' => value.push('\n'),
                    other => value.push(other),
                },
                other => value.push(other),
            }
        }
        labels.insert(name.trim().to_owned(), value);
        rest = characters.as_str().trim_start().trim_start_matches(',').trim_start();
    }
}

impl fmt::Display for Series {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.metric)?;
        if !self.labels.is_empty() {
            let escaped = |value: &str| value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let labels = self.labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value)));
            write!(f, "{{{}}}", labels.collect::<Vec<_>>().join(","))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const METRICS: &str = "# HELP requests_total Requests.\n# TYPE requests_total counter\n\
        requests_total{code=\"200\",path=\"/a b}\"} 7 1700000000\nrequests_total{code=\"200\",path=\"/\"} 3\n\
        requests_total{code=\"500\"} 1\nrequests_totals 99\nup 1e0\nbad NaN\n\
        served_total{a=\"b\"} 240 # {trace_id=\"abc\"} 1.0\nspaced {a=\"b\"} 3\nspaced {a=\"NaN\"} NaN\n";

    #[test]
    fn samples_of_a_metric_are_summed_by_labels() {
        let summed = |series: &str| Series::parse(series).unwrap().sum(METRICS);
        let sum = |series: &str| summed(series).ok();
        assert_eq!(sum("requests_total"), Some(11.0));
        assert_eq!(sum("requests_total{code=\"200\"}"), Some(10.0));
        assert_eq!(sum("requests_total{code=\"200\", path=\"/a b}\"}"), Some(7.0));
        assert_eq!((sum("up"), sum("bad"), sum("down")), (Some(1.0), None, None));
        assert_eq!((sum("served_total"), sum("spaced {a=\"b\"}")), (Some(240.0), Some(3.0)));
        assert_eq!(summed("spaced").unwrap_err(), "has NaN for spaced{a=\"NaN\"}");
        assert_eq!(summed("down").unwrap_err(), "has no down");
        assert_eq!(Series::parse("a{b=c}"), None);
        assert_eq!(Series::parse("a{b=\"c\"} d"), None);
        assert_eq!(Series::parse("a b"), None);
    }

    #[test]
    fn labels_may_have_escapes_and_braces() {
        let line = r#"name{a="x\"}\\ ,\n", b="2",} 1.5 1700000000"#;
        let (series, value) = samples(line).next().unwrap();
        assert_eq!((series.label("a"), series.label("b"), value), (Some("x\"}\\ ,\n"), Some("2"), 1.5));
    }
}
