//! Findings of a preflight, those that are the same for several services told once.

use std::collections::BTreeMap;

use heaptrial_inspect::preflight::{Finding, Severity};
use heaptrial_model::units;

/// Names of services that are listed, of those that are alike.
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

fn whom(finding: &Finding) -> String {
    finding.unit.as_ref().map_or("this host".to_owned(), ToString::to_string)
}

/// The first few of several names.
fn some(names: &[String]) -> String {
    let more = names.len().saturating_sub(SHOWN);
    let shown = names[..names.len().min(SHOWN)].join(", ");
    if more == 0 { shown } else { format!("{shown} and {}", units::counted(more, "other")) }
}
