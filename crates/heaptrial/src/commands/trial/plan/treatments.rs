//! What starting a plan would write, and what speaks against it.

use heaptrial_change::{Prepared, preflight, prepare};
use heaptrial_host::Paths;
use heaptrial_host::systemd::Systemd;
use heaptrial_host::{HostRoot, host_name};
use heaptrial_inspect::Service;
use heaptrial_inspect::preflight::{Finding, Prober, Severity};
use heaptrial_model::DrawnPlan;
use serde_json::json;

use super::arms::Allocators;
use super::print::Section;
use crate::commands::trial::findings::told;
use crate::commands::trial::survey::{self, Survey};
use crate::exit::Failure;

/// The files that the arms change, by an example of each, and the preflight of all services.
pub fn sections(
    systemd: &Systemd,
    plan: &DrawnPlan,
    services: &[Service],
    allocators: &Allocators,
    paths: &Paths,
) -> Result<Vec<Section>, Failure> {
    let host = host_name(&HostRoot::default()).map_err(Failure::failed)?;
    let prepared =
        prepare(plan, &host, services, &allocators.obtained, paths, None).map_err(Failure::refused)?;
    let findings = preflight(systemd, paths, &prepared, services, &allocators.obtained, true);
    let mut text = String::new();
    for (heading, severity) in [("refused", Severity::Refuse), ("warning", Severity::Warn)] {
        for finding in told(&findings, severity) {
            text += &format!("{heading}: {finding}\n");
        }
    }
    if text.is_empty() {
        text = "Nothing speaks against the treatments.\n".to_owned();
    } else if findings.iter().any(|finding| finding.refuses()) {
        text += "`trial start` refuses this plan until that is mended.\n";
    }
    if Prober::of(systemd).is_none() {
        text += "No treatment was tried, which needs root: the identity proof of each service decides.\n";
    }
    Ok(vec![
        changes(plan, &prepared, paths),
        Section { title: "PREFLIGHT".to_owned(), text, key: "preflight", json: json!(findings) },
    ])
}

/// The hosts, and what their preflights found about the treatments that they are to get.
pub fn of_surveys(surveys: &[Survey], plan: &DrawnPlan) -> Vec<Section> {
    let findings = survey::findings_of(surveys, plan);
    let mut text = String::new();
    for survey in surveys {
        let own = findings.iter().filter(|(host, _)| *host == survey.host);
        let own: Vec<Finding> = own.map(|(_, finding)| finding.clone()).collect();
        for (heading, severity) in [("refused", Severity::Refuse), ("warning", Severity::Warn)] {
            for finding in told(&own, severity) {
                text += &format!("{} {heading}: {finding}\n", survey.host);
            }
        }
    }
    if text.is_empty() {
        text = "Nothing speaks against the treatments.\n".to_owned();
    } else if findings.iter().any(|(_, finding)| finding.refuses()) {
        text += "`trial start` refuses the part of such a host until that is mended.\n";
    }
    let list: Vec<_> =
        findings.iter().map(|(host, finding)| json!({ "host": host, "finding": finding })).collect();
    let hosts: Vec<_> =
        surveys.iter().map(|survey| json!({ "host": survey.host, "facts": survey.facts })).collect();
    vec![
        Section {
            title: "HOSTS".to_owned(),
            text: survey::table_of_hosts(surveys, plan),
            key: "hosts",
            json: json!(hosts),
        },
        Section { title: "PREFLIGHT".to_owned(), text, key: "preflight", json: json!(list) },
    ]
}

fn changes(plan: &DrawnPlan, prepared: &Prepared, paths: &Paths) -> Section {
    let mut text = String::new();
    let mut list = Vec::new();
    for arm in &plan.arms {
        let Some(example) = prepared.services.iter().find(|treatment| treatment.arm == arm.name) else {
            continue;
        };
        let files = example.preview(paths, &plan.name, plan.id.as_str());
        text += &format!(
            "{}: {}\n",
            arm.name,
            if files.is_empty() { "nothing is changed" } else { example.service.as_str() }
        );
        for (path, content) in &files {
            text += &format!("  {}\n", path.display());
            let lines = content.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
            text.extend(lines.map(|line| format!("    {line}\n")));
        }
        let files: Vec<_> = files.iter().map(|(path, text)| json!({ "path": path, "text": text })).collect();
        list.push(json!({ "arm": arm.name, "service": example.service, "files": files }));
    }
    Section {
        title: "FILES, by the first service of each arm".to_owned(),
        text,
        key: "files",
        json: json!(list),
    }
}
