//! Queries: what is asked of each step, and the names of metrics of exporters that many have.

use heaptrial_model::Metric;

/// How often an expression is evaluated within a step, at least.
const RESOLUTION_MS: i64 = 60_000;

/// A function over each step, such as `max_over_time(`: of a selector over all that was scraped, of an expression
/// over values at each minute.
pub(super) fn over_time(function: &str, query: &str, step_us: i64) -> String {
    let (query, step_ms) = (query.trim(), step_us / 1000);
    match is_selector(query) {
        true => format!("{function}{query}[{step_ms}ms])"),
        false => format!("{function}({query})[{step_ms}ms:{}ms])", step_ms.min(RESOLUTION_MS)),
    }
}

/// Whether a query is a selector, whose readings can be had as they were scraped.
fn is_selector(query: &str) -> bool {
    let query = query.trim();
    let name =
        query.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | ':'))).unwrap_or(query.len());
    let (name, rest) = query.split_at(name);
    if name.starts_with(|c: char| c.is_ascii_digit()) {
        return false;
    }
    let rest = rest.trim_start();
    if rest.is_empty() {
        return !name.is_empty();
    }
    let Some(matchers) = rest.strip_prefix('{') else { return false };
    let mut quote = None;
    let mut characters = matchers.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some('"' | '\''), '\\') => {
                characters.next();
            }
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'' | '`') => quote = Some(c),
            (None, '}') => return characters.as_str().trim().is_empty(),
            (None, _) => {}
        }
    }
    false
}

/// An exporter whose names of metrics and labels are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exporter {
    Heaptrial,
    /// What the client libraries of Prometheus report of the process that they are in.
    Process,
    ProcessExporter,
    Cadvisor,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    /// The readings that it has, by what they are, the usual one first: memory, and what is in swap.
    pub memory: Vec<(Metric, String, Option<String>)>,
    pub start: String,
    pub contaminated: Option<String>,
    pub service_labels: &'static [&'static str],
    pub arm_label: Option<&'static str>,
}

impl Exporter {
    /// Its names, of series that have the given matchers (`job="relays",instance=~"a.*"`) as well.
    pub fn names(self, matching: &str) -> Names {
        let selector = |name: &str, own: &str| match (own, matching) {
            ("", "") => name.to_owned(),
            (own, "") => format!("{name}{{{own}}}"),
            ("", matching) => format!("{name}{{{matching}}}"),
            (own, matching) => format!("{name}{{{own},{matching}}}"),
        };
        match self {
            Self::Heaptrial => {
                let of = |what: &str| selector(&format!("heaptrial_service_{what}"), "");
                Names {
                    memory: vec![
                        (Metric::Anon, of("anon_bytes"), Some(of("swap_bytes"))),
                        (Metric::Rss, of("rss_bytes"), None),
                        (Metric::Cgroup, of("cgroup_current_bytes"), None),
                    ],
                    start: of("start_time_seconds"),
                    contaminated: Some(of("contaminated")),
                    service_labels: &["instance", "service"],
                    arm_label: Some("arm"),
                }
            }
            Self::Process => Names {
                memory: vec![(Metric::Rss, selector("process_resident_memory_bytes", ""), None)],
                start: selector("process_start_time_seconds", ""),
                contaminated: None,
                service_labels: &["instance"],
                arm_label: None,
            },
            Self::ProcessExporter => {
                let memory = |kind: &str| {
                    selector("namedprocess_namegroup_memory_bytes", &format!("memtype=\"{kind}\""))
                };
                Names {
                    memory: vec![(Metric::Rss, memory("resident"), None)],
                    start: selector("namedprocess_namegroup_oldest_start_time_seconds", ""),
                    contaminated: None,
                    service_labels: &["instance", "groupname"],
                    arm_label: None,
                }
            }
            Self::Cadvisor => Names {
                memory: vec![
                    (
                        Metric::Anon,
                        selector("container_memory_rss", ""),
                        Some(selector("container_memory_swap", "")),
                    ),
                    (Metric::Cgroup, selector("container_memory_usage_bytes", ""), None),
                ],
                start: selector("container_start_time_seconds", ""),
                contaminated: None,
                service_labels: &["instance", "id"],
                arm_label: None,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_no_expressions() {
        for selector in [
            "process_resident_memory_bytes",
            " a:b:c ",
            "m{}",
            "m {a=\"b\", c!~'d}', e=`}\\`}",
            "{__name__=~\"a.*\"}",
            "m{a=\"\\\"}\"}",
        ] {
            assert!(is_selector(selector), "{selector}");
        }
        for expression in
            ["", "sum(m)", "m + n", "m{a=\"b\"} + n{a=\"b\"}", "m{a=\"b\"} offset 5m", "m{a=\"b\""]
        {
            assert!(!is_selector(expression), "{expression}");
        }
    }
}
