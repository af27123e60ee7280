//! `heaptrial trial survey`: what a host can give to a trial, as a file that a plan over several hosts is drawn from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args;
use heaptrial_change::{preflight, prepare};
use heaptrial_host::{HostFacts, HostRoot, release};
use heaptrial_inspect::Service;
use heaptrial_inspect::preflight::Finding;
use heaptrial_model::{
    Arm, Assignment, Build, BuildOfHosts, DrawnPlan, HumanDuration, ServiceName, ServicePattern, TrialPlan,
    builds_of_hosts, units,
};
use heaptrial_plan::Candidate;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::plan::check::check_torrc;
use super::plan::undrawn::{assigned, undrawn};
use super::plan::{Section, fleet::Fleet, preflight_text, read};
use crate::answer::Answer;
use crate::commands::allocators::SourceOptions;
use crate::commands::host::Host;
use crate::commands::host::obtain::{self, Allocators, obtain, resolve};
use crate::exit::Failure;
use crate::options::{GlobalOptions, command};
use crate::output::{Table, some, write_whole};

/// The form of [`Survey`] as JSON that this version writes.
const SCHEMA_VERSION: u32 = 1;

/// Write what this host can give to a trial over several hosts, as a file for `trial plan --survey`
///
/// Nothing of the services is changed; the arms' allocators are obtained. `heaptrial trial plan --survey` draws one plan
/// from the surveys of all hosts.
#[derive(Debug, Args)]
pub struct SurveyOptions {
    /// The trial's description in TOML, the same file on every host
    #[arg(value_name = "FILE")]
    description: PathBuf,
    /// Into this file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    #[command(flatten)]
    sources: SourceOptions,
}

/// What is known of a host before a trial.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Survey {
    schema_version: u32,
    tool_version: String,
    /// When, RFC 3339 in UTC.
    pub surveyed_at: String,
    pub host: String,
    pub facts: HostFacts,
    /// The trial that it was made for.
    trial: String,
    arms: Vec<Arm>,
    /// Which services it is about.
    patterns: Vec<String>,
    /// The very build of each arm's allocator, by the arm's name.
    builds: BTreeMap<String, Build>,
    /// The services that can take part, as a plan sees them.
    candidates: Vec<Candidate>,
    /// The same as they are.
    services: Vec<Service>,
    /// Services that cannot take part, and why.
    left_out: Vec<(ServiceName, String)>,
    /// What speaks against each arm's treatment, by the arm's name and service.
    findings: BTreeMap<String, Vec<Finding>>,
}

impl Survey {
    /// The system that builds are made for: release and architecture.
    fn system(&self) -> String {
        format!("{}, {}", release(&self.facts.os), self.facts.architecture)
    }
}

pub fn run(options: &SurveyOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let (trial, patterns) = read(&options.description)?;
    resolve(&trial.arms)?;
    let host = Host::of(global)?;
    host.require_readable()?;
    let fleet = Fleet::discover(&host, &patterns)?;
    check_torrc(&trial.arms, &fleet.services)?;
    let names = fleet.candidates.iter().map(|candidate| &candidate.service);
    host.require_free(&trial.name, &trial.name, names)?;
    let allocators = obtain(&trial.arms, &options.sources, global)?;
    let survey = Survey {
        schema_version: SCHEMA_VERSION,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        surveyed_at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        host: host.name()?,
        facts: HostFacts::read(&HostRoot::default())?,
        findings: findings(&host, &trial, &fleet, &allocators)?,
        trial: trial.name,
        arms: trial.arms,
        patterns: words(&patterns),
        builds: obtain::builds(&allocators),
        candidates: fleet.candidates,
        services: fleet.services.into_iter().map(without_secrets).collect(),
        left_out: fleet.left_out,
    };
    let text = serde_json::to_string_pretty(&survey).map_err(Failure::failed)? + "\n";
    let Some(file) = &options.output else { return Ok(Answer::verbatim(text)) };
    write_whole(file, text.as_bytes())?;
    let count = units::counted(survey.services.len(), "service");
    let text = format!("{}: {count} of {}\n", file.display(), survey.host);
    Ok(Answer::new(json!({ "file": file, "host": survey.host }), text))
}

/// A survey leaves the host: what a unit passes to its processes may be a password, and no plan needs it.
fn without_secrets(mut service: Service) -> Service {
    service.unit.environment.clear();
    service.unit.unset_environment.clear();
    service.unit.exec_start.clear();
    if let Some(relay) = &mut service.relay {
        relay.arguments.clear();
    }
    service
}

/// Which service gets which arm is not drawn yet: all of them with each.
fn findings(
    host: &Host<'_>,
    trial: &TrialPlan,
    fleet: &Fleet,
    allocators: &Allocators,
) -> Result<BTreeMap<String, Vec<Finding>>, Failure> {
    let (name, systemd) = (host.name()?, host.systemd()?);
    let builds = obtain::builds(allocators);
    let mut plan = undrawn(
        &trial.name,
        trial.arms.clone(),
        (&name, &builds),
        trial.duration.unwrap_or(HumanDuration::from_secs(1)),
    );
    let mut findings = BTreeMap::new();
    for arm in &trial.arms {
        let all = fleet.services.iter().map(|service| assigned(service, &name, &arm.name, None));
        plan.services = all.collect();
        let prepared = prepare(&plan, &name, &fleet.services, allocators, &host.paths, None)
            .map_err(|error| Failure::from(error).about(format!("arm `{}`", arm.name)))?;
        let mut found = preflight(&systemd, &host.paths, &prepared, &fleet.services, allocators, true);
        // What the host as a whole lacks depends on how many services get which arm.
        found.retain(|finding| finding.unit.is_some());
        findings.insert(arm.name.clone(), found);
    }
    Ok(findings)
}

/// Reads the surveys of a folder, in order of hosts. What is left out, or not known, is printed on standard error.
pub fn read_all(
    folder: &Path,
    trial: &TrialPlan,
    patterns: &[ServicePattern],
) -> Result<Vec<Survey>, Failure> {
    let failed = |error| Failure::usage(format!("cannot read {}: {error}", folder.display()));
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        files.push(entry.map_err(failed)?.path());
    }
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    if files.is_empty() {
        return Err(Failure::usage(format!("{} has no survey (*.json)", folder.display())));
    }
    let mut surveys =
        files.iter().map(|file| read_one(file, trial, patterns)).collect::<Result<Vec<_>, _>>()?;
    // The order of the files is no part of a plan.
    surveys.sort_by(|one, other| one.host.cmp(&other.host));
    if let Some(pair) = surveys.windows(2).find(|pair| pair[0].host == pair[1].host) {
        return Err(Failure::refused(format!(
            "two surveys are both of host {}; keep the newer one, or give the hosts names of their own and survey them again",
            pair[0].host
        )));
    }
    one_build_of_a_system(&surveys)?;
    for survey in surveys.iter().filter(|survey| !survey.left_out.is_empty()) {
        let left_out = survey.left_out.iter().map(|(service, why)| format!("{service} ({why})"));
        eprintln!("excluded on {}: {}", survey.host, some(left_out));
    }
    Ok(surveys)
}

fn read_one(file: &Path, trial: &TrialPlan, patterns: &[ServicePattern]) -> Result<Survey, Failure> {
    let no_survey = |why: &dyn std::fmt::Display| {
        let survey = command("trial survey");
        Failure::usage(format!("{}: {why}; {survey} writes one", file.display()))
    };
    let text = std::fs::read_to_string(file).map_err(|error| no_survey(&error))?;
    let survey: Survey = serde_json::from_str(&text).map_err(|error| no_survey(&error))?;
    if survey.schema_version != SCHEMA_VERSION {
        return Err(no_survey(&format!("schema {} is not of this version", survey.schema_version)));
    }
    if survey.trial != trial.name || survey.arms != trial.arms || survey.patterns != words(patterns) {
        return Err(Failure::refused(format!(
            "{}: {} was surveyed for another description of trial `{}`; survey it again with this one",
            file.display(),
            survey.host,
            survey.trial
        )));
    }
    Ok(survey)
}

fn words(patterns: &[ServicePattern]) -> Vec<String> {
    patterns.iter().map(|pattern| pattern.as_str().to_owned()).collect()
}

/// Hosts of one system must run the very same build of each arm. Those of another system may have one of their own: what each
/// build does is compared among services of one host in any case.
fn one_build_of_a_system(surveys: &[Survey]) -> Result<(), Failure> {
    let mut first: BTreeMap<(&str, String), (&str, &str)> = BTreeMap::new();
    for survey in surveys {
        for (arm, Build { sha256, .. }) in &survey.builds {
            let key = (arm.as_str(), survey.system());
            let (host, known) = *first.entry(key).or_insert((&survey.host, sha256));
            if known != sha256 {
                return Err(Failure::refused(format!(
                    "arm `{arm}`: {host} and {} have the same system ({}) and different builds of the allocator, SHA-256 {known} and \
                     {sha256}; a trial is of one. Make a package of it on the host with the oldest system (`heaptrial allocators package \
                     SPEC`), install that on all hosts, and survey them again",
                    survey.host,
                    survey.system()
                )));
            }
        }
    }
    Ok(())
}

/// The fleet of all hosts.
pub fn fleet(surveys: &[Survey]) -> Fleet {
    let services: Vec<Service> = surveys.iter().flat_map(|survey| survey.services.clone()).collect();
    let of_system = |survey: &Survey| {
        let system = survey.system();
        let own = survey.candidates.clone().into_iter();
        own.map(move |candidate| Candidate { system: system.clone(), ..candidate })
    };
    let candidates = surveys.iter().flat_map(of_system).collect();
    let left_out = surveys.iter().flat_map(|survey| {
        let host = &survey.host;
        survey.left_out.iter().map(move |(service, why)| (service.clone(), format!("{why} (on {host})")))
    });
    Fleet::over_hosts(services, candidates, left_out.collect())
}

/// The builds of all hosts.
pub fn builds(surveys: &[Survey]) -> BTreeMap<String, Vec<BuildOfHosts>> {
    builds_of_hosts(surveys.iter().map(|survey| (survey.host.as_str(), &survey.builds)))
}

/// The hosts as a table, with what each gets.
fn table_of_hosts(surveys: &[Survey], plan: &DrawnPlan) -> String {
    let mut table =
        Table::new(&["HOST", "SYSTEM", "KERNEL", "CPUS", "MEMORY", "SERVICES", "ARMS", "SURVEYED"]);
    for survey in surveys {
        let own: Vec<&Assignment> = plan.services.iter().filter(|own| own.host == survey.host).collect();
        let arms = plan.arms.iter().map(|arm| {
            let count = own.iter().filter(|assigned| assigned.arm == arm.name).count();
            format!("{count} {}", arm.name)
        });
        let (count, arms) = (own.len(), arms.collect::<Vec<_>>().join(", "));
        let Survey { host, facts, surveyed_at, .. } = survey;
        let HostFacts { os, kernel, cpu_count, .. } = facts;
        let memory = units::memory(facts.ram_bytes as f64);
        table.row(&[host, os, kernel, cpu_count, &memory, &count, &arms, surveyed_at]);
    }
    let mut text = table.to_string();
    for (arm, builds) in plan.builds.iter().filter(|(_, builds)| builds.len() > 1) {
        let named =
            |group: &BuildOfHosts| format!("{} on {}", &group.build.sha256[..16], group.hosts.join(", "));
        let named: Vec<String> = builds.iter().map(named).collect();
        text += &format!("{arm} is another build for each system: {}\n", named.join("; "));
    }
    for arm in &plan.arms {
        let without: Vec<&str> = surveys
            .iter()
            .map(|survey| survey.host.as_str())
            .filter(|host| plan.services.iter().all(|own| own.host != *host || own.arm != arm.name))
            .collect();
        if !without.is_empty() {
            text += &format!("warning: no service of {} gets {}\n", without.join(", "), arm.name);
        }
    }
    text
}

/// The hosts, and what their preflights found about the treatments that they are to get.
pub fn section(surveys: &[Survey], plan: &DrawnPlan) -> Section {
    let mut text = format!("\nHOSTS\n{}", table_of_hosts(surveys, plan));
    let (mut hosts, mut list) = (Vec::new(), Vec::new());
    for survey in surveys {
        let own = plan.services.iter().filter(|own| own.host == survey.host);
        let of_service = |own: &Assignment| {
            let of_arm = survey.findings.get(&own.arm).into_iter().flatten();
            of_arm.filter(|finding| finding.unit.as_ref() == Some(&own.service)).cloned().collect::<Vec<_>>()
        };
        let found: Vec<Finding> = own.flat_map(of_service).collect();
        text += &format!("\nPREFLIGHT of {}\n{}", survey.host, preflight_text(&found));
        hosts.push(json!({ "host": survey.host, "facts": survey.facts }));
        list.extend(found.iter().map(|finding| json!({ "host": survey.host, "finding": finding })));
    }
    Section { text, members: vec![("hosts", json!(hosts)), ("preflight", json!(list))] }
}
