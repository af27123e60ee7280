//! Findings of a preflight, those that are the same for several services told once.

use std::collections::{BTreeMap, BTreeSet};

use heaptrial_inspect::preflight::{Finding, Severity};
use heaptrial_model::units;

/// Names of services that are told, of those that are alike.
const SHOWN: usize = 5;

/// The findings of one severity: whom each is about, what, why it matters, how to mend it.
pub fn told(findings: &[Finding], severity: Severity) -> Vec<String> {
    let mut alike: BTreeMap<(&str, &str, &str), Vec<String>> = BTreeMap::new();
    for finding in findings.iter().filter(|finding| finding.severity == severity) {
        alike.entry((&finding.what, &finding.why, &finding.fix)).or_default().push(whom(finding));
    }
    let lines = alike
        .into_iter()
        .map(|((what, why, fix), units)| format!("{}: {what}\n  {why}\n  {fix}", some(&units)));
    lines.collect()
}

/// Warnings that `trial plan` told: their checks, and the services or hosts. They stand in the plan's file as comments,
/// so that a start tells only what is new.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Warned(BTreeMap<String, BTreeSet<String>>);

const WARNED: &str = "# warned: ";

impl Warned {
    /// The warnings among some findings.
    pub fn of(findings: &[Finding]) -> Self {
        let mut warned = Self::default();
        for finding in findings.iter().filter(|finding| finding.severity == Severity::Warn) {
            warned.0.entry(finding.check.to_string()).or_default().insert(whom(finding));
        }
        warned
    }

    /// Those that the text of a plan tells of.
    pub fn in_plan(text: &str) -> Self {
        let lines = text.lines().filter_map(|line| line.strip_prefix(WARNED)?.split_once(": "));
        let words = |list: &str| list.split(", ").map(str::to_owned).collect();
        Self(lines.map(|(check, list)| (check.to_owned(), words(list))).collect())
    }

    /// What follows the plan in its file.
    pub fn comments(&self) -> String {
        let lines = self.0.iter().map(|(check, whom)| {
            let whom: Vec<&str> = whom.iter().map(String::as_str).collect();
            format!("{WARNED}{check}: {}\n", whom.join(", "))
        });
        let lines: String = lines.collect();
        if lines.is_empty() {
            return lines;
        }
        format!(
            "\n# Warnings of the preflight that `heaptrial trial plan` told; `heaptrial trial start` tells only further ones.\n{lines}"
        )
    }

    /// Whether a warning was told.
    pub fn has(&self, finding: &Finding) -> bool {
        let told = self.0.get(&finding.check.to_string());
        finding.severity == Severity::Warn && told.is_some_and(|told| told.contains(&whom(finding)))
    }
}

fn whom(finding: &Finding) -> String {
    finding.unit.as_ref().map_or("this host".to_owned(), ToString::to_string)
}

/// The first few of several names.
fn some(names: &[String]) -> String {
    let more = names.len().saturating_sub(SHOWN);
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if more == 0 { shown } else { format!("{shown} and {}", units::counted(more, "other")) }
}

#[cfg(test)]
mod tests {
    use heaptrial_inspect::preflight::Check;

    use super::*;

    #[test]
    fn warnings_that_a_plan_tells_are_known_at_its_start() {
        let finding = |unit: Option<&str>, check, severity| Finding {
            unit: unit.map(|name| name.parse().unwrap()),
            check,
            severity,
            what: "x".to_owned(),
            why: "y".to_owned(),
            fix: "z".to_owned(),
        };
        let told = [
            finding(Some("a@1.service"), Check::Wrapper, Severity::Warn),
            finding(Some("a@2.service"), Check::Wrapper, Severity::Warn),
            finding(None, Check::HeadRoom, Severity::Warn),
            finding(Some("a@1.service"), Check::Program, Severity::Refuse),
        ];
        let text = format!("name = \"t\"\n{}", Warned::of(&told).comments());
        let warned = Warned::in_plan(&text);
        assert_eq!(warned, Warned::of(&told));
        assert_eq!(
            told.iter().map(|finding| warned.has(finding)).collect::<Vec<_>>(),
            [true, true, true, false]
        );
        assert!(!warned.has(&finding(Some("a@3.service"), Check::Wrapper, Severity::Warn)));
        assert_eq!(Warned::of(&[]).comments(), "");
    }
}
