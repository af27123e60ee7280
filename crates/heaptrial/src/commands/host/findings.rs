//! Findings of a preflight, those that are the same for several services as one.

use heaptrial_inspect::preflight::{Finding, Severity};
use heaptrial_model::ServiceName;

use crate::output::some;

/// Refusals first. `color` of a terminal marks them.
pub fn text(findings: &[Finding], colored: bool) -> String {
    let mut text = String::new();
    for (finding, units) in grouped(findings) {
        let (on, off) = match (colored, finding.severity) {
            (false, _) => ("", ""),
            (true, Severity::Refuse) => ("\x1b[31;1m", "\x1b[0m"),
            (true, Severity::Warn) => ("\x1b[33;1m", "\x1b[0m"),
        };
        let severity = finding.severity.as_str();
        let services = if units.is_empty() { "this host".to_owned() } else { some(units) };
        text.push_str(&format!("{on}{severity}{off} {}: {}\n", finding.check, finding.what));
        text.push_str(&format!("  where  {services}\n"));
        text.push_str(&format!("  why    {}\n  fix    {}\n\n", finding.why, finding.fix));
    }
    text
}

fn grouped(findings: &[Finding]) -> Vec<(&Finding, Vec<&ServiceName>)> {
    let mut groups: Vec<(&Finding, Vec<&ServiceName>)> = Vec::new();
    for finding in findings {
        let same = |(known, _): &&mut (&Finding, Vec<&ServiceName>)| {
            (known.severity, known.check, &known.what, &known.why)
                == (finding.severity, finding.check, &finding.what, &finding.why)
        };
        match groups.iter_mut().find(same) {
            Some((_, units)) => units.extend(&finding.unit),
            None => groups.push((finding, finding.unit.iter().collect())),
        }
    }
    groups.sort_by_key(|(finding, _)| finding.severity);
    groups
}
