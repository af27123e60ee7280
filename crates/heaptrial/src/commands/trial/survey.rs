//! `heaptrial trial survey`: what a host can give to a trial, as a file that a plan over several hosts is drawn from.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use heaptrial_change::{Ledger, preflight, prepare};
use heaptrial_host::systemd::Systemd;
use heaptrial_host::{HostFacts, HostRoot, Paths, host_name, release};
use heaptrial_inspect::Service;
use heaptrial_inspect::preflight::Finding;
use heaptrial_model::{
    Arm, Assignment, Build, BuildOfHosts, DrawnPlan, PlanId, ServiceName, ServicePattern, TrialPlan,
    builds_of_hosts, units,
};
use heaptrial_plan::Candidate;
use serde::{Deserialize, Serialize};

use super::on_host;
use super::plan::Allocators;
use super::plan::{arms, fleet::Fleet, read};
use crate::commands::allocators::SourceOptions;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::{file_beside, table};

/// The form of [`Survey`] as JSON that this version writes.
const SCHEMA_VERSION: u32 = 1;

/// Which trial, and where the survey goes.
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
    /// The host's name.
    pub host: String,
    /// What changes memory results.
    pub facts: HostFacts,
    /// The trial that it was made for.
    trial: String,
    /// Its arms.
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

pub fn run(options: &SurveyOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let (trial, patterns) = read(&options.description)?;
    let resolved = arms::resolve(&trial.arms)?;
    let fleet = Fleet::discover(&patterns, global)?;
    arms::check_torrc(&trial.arms, &fleet.services)?;
    let paths = global.paths()?;
    on_host::require_readable(&paths, global)?;
    let names = fleet.candidates.iter().map(|candidate| &candidate.service);
    on_host::refuse_claimed(&paths, &trial.name, &trial.name, names.clone())?;
    Ledger::of_this_host(&paths)?.refuse_strays(names)?;
    let allocators = arms::obtain(resolved, &options.sources, global)?;
    let findings = findings(&global.systemd()?, &trial, &fleet, &allocators, &paths)?;
    let survey = Survey {
        schema_version: SCHEMA_VERSION,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        surveyed_at: jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        host: host_name(&HostRoot::default()).map_err(Failure::failed)?,
        facts: HostFacts::read(&HostRoot::default()).map_err(Failure::failed)?,
        trial: trial.name,
        arms: trial.arms,
        patterns: words(&patterns),
        builds: allocators.builds,
        candidates: fleet.candidates,
        services: fleet.services.into_iter().map(without_secrets).collect(),
        left_out: fleet.left_out,
        findings,
    };
    let text = serde_json::to_string_pretty(&survey).map_err(Failure::failed)? + "\n";
    match &options.output {
        None => print!("{text}"),
        Some(file) => {
            let failed =
                |error: std::io::Error| Failure::failed(format!("cannot write {}: {error}", file.display()));
            let mut beside = file_beside(file).map_err(failed)?;
            beside.write_all(text.as_bytes()).map_err(failed)?;
            beside.persist(file).map_err(|error| failed(error.error))?;
            let count = units::counted(survey.services.len(), "service");
            eprintln!("{}: {count} of {}", file.display(), survey.host);
        }
    }
    Ok(ExitCode::SUCCESS)
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
    systemd: &Systemd,
    trial: &TrialPlan,
    fleet: &Fleet,
    allocators: &Allocators,
    paths: &Paths,
) -> Result<BTreeMap<String, Vec<Finding>>, Failure> {
    let host = host_name(&HostRoot::default()).map_err(Failure::failed)?;
    let mut findings = BTreeMap::new();
    for arm in &trial.arms {
        let assignment = |candidate: &Candidate| Assignment {
            service: candidate.service.clone(),
            host: host.clone(),
            arm: arm.name.clone(),
            block: 0,
            stratum: String::new(),
            family: None,
            drawn: None,
        };
        let plan = DrawnPlan {
            name: trial.name.clone(),
            id: PlanId::default(),
            tool_version: env!("CARGO_PKG_VERSION").to_owned(),
            seed: 0,
            metric: trial.metric.unwrap_or(heaptrial_model::Metric::Rss),
            duration: trial.duration.unwrap_or(heaptrial_model::HumanDuration::from_secs(1)),
            looks: Vec::new(),
            pace: trial.pace,
            about: trial.about.clone(),
            arms: trial.arms.clone(),
            builds: builds_of_hosts([(host.as_str(), &allocators.builds)]),
            services: fleet.candidates.iter().map(assignment).collect(),
        };
        let prepared = prepare(&plan, &host, &fleet.services, &allocators.obtained, paths, None)
            .map_err(|error| Failure::refused(error).about(format!("arm `{}`", arm.name)))?;
        let mut found = preflight(systemd, paths, &prepared, &fleet.services, &allocators.obtained, true);
        // What the host as a whole lacks depends on how many services get which arm.
        found.retain(|finding| finding.unit.is_some());
        findings.insert(arm.name.clone(), found);
    }
    Ok(findings)
}

/// Services of a host that are named as left out.
const NAMED: usize = 8;

/// Reads surveys: files, or folders of them (`*.json`), in order of hosts. What is left out, or not known, is printed on standard error.
pub fn read_all(
    places: &[PathBuf],
    trial: &TrialPlan,
    patterns: &[ServicePattern],
) -> Result<Vec<Survey>, Failure> {
    let mut files = Vec::new();
    for place in places {
        if !place.is_dir() {
            files.push(place.clone());
            continue;
        }
        let failed = |error| Failure::usage(format!("cannot read {}: {error}", place.display()));
        let mut found = Vec::new();
        for entry in std::fs::read_dir(place).map_err(failed)? {
            found.push(entry.map_err(failed)?.path());
        }
        found.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        found.sort();
        if found.is_empty() {
            return Err(Failure::usage(format!("{} has no survey (*.json)", place.display())));
        }
        files.extend(found);
    }
    let surveys = files.iter().map(|file| read_one(file, trial, patterns)).collect::<Result<Vec<_>, _>>()?;
    let mut seen: BTreeMap<&str, &Path> = BTreeMap::new();
    for (survey, file) in surveys.iter().zip(&files) {
        if let Some(other) = seen.insert(&survey.host, file) {
            return Err(Failure::refused(format!(
                "{} and {} are both of host {}; keep the newer one; two hosts of one name need names of their own before they are surveyed",
                other.display(),
                file.display(),
                survey.host
            )));
        }
    }
    one_build_of_a_system(&surveys)?;
    let mut surveys = surveys;
    // The order in which files are named is no part of a plan.
    surveys.sort_by(|one, other| one.host.cmp(&other.host));
    surveys.iter().for_each(tell_lacks);
    Ok(surveys)
}

fn tell_lacks(survey: &Survey) {
    let host = &survey.host;
    for (service, why) in survey.left_out.iter().take(NAMED) {
        eprintln!("left out: {service} of {host}: {why}");
    }
    let more = survey.left_out.len().saturating_sub(NAMED);
    if more > 0 {
        eprintln!("left out: {} more of {host}; --json has them", units::counted(more, "service"));
    }
    for service in &survey.services {
        if let Some(why) = &service.relay_unread {
            eprintln!("warning: {} of {host}: {why}; its role and family are not known", service.name());
        }
    }
}

fn read_one(file: &Path, trial: &TrialPlan, patterns: &[ServicePattern]) -> Result<Survey, Failure> {
    let told = |error: &dyn std::fmt::Display| {
        Failure::usage(format!("{}: {error}; `heaptrial trial survey` writes one", file.display()))
    };
    let text = std::fs::read_to_string(file).map_err(|error| told(&error))?;
    #[derive(Deserialize)]
    struct Versioned {
        schema_version: u32,
    }
    let versioned: Versioned = serde_json::from_str(&text).map_err(|error| told(&error))?;
    if versioned.schema_version != SCHEMA_VERSION {
        return Err(told(&format!(
            "is no survey that this version reads (schema {})",
            versioned.schema_version
        )));
    }
    let survey: Survey = serde_json::from_str(&text).map_err(|error| told(&error))?;
    if survey.trial != trial.name || survey.arms != trial.arms || survey.patterns != words(patterns) {
        return Err(Failure::refused(format!(
            "{}: {} was surveyed for another description of trial `{}`; survey it again with this one",
            file.display(),
            survey.host,
            survey.trial
        )));
    }
    let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_name = |text: &str| !text.is_empty() && !text.contains(|c: char| c.is_control() || c == '/');
    if let Some((arm, _)) = survey.builds.iter().find(|(_, build)| !is_digest(&build.sha256)) {
        return Err(told(&format!("the build of arm `{arm}` has no SHA-256")));
    }
    if !is_name(&survey.host) || survey.candidates.iter().any(|candidate| candidate.host != survey.host) {
        return Err(told(&format!(
            "it is of host `{}`, and its services are of another one; to give a host another name, survey it under that name",
            survey.host.escape_debug()
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
    let mut builds: BTreeMap<(&String, String), BTreeMap<&str, Vec<&str>>> = BTreeMap::new();
    for survey in surveys {
        for (arm, build) in &survey.builds {
            builds
                .entry((arm, survey.system()))
                .or_default()
                .entry(&build.sha256)
                .or_default()
                .push(&survey.host);
        }
    }
    let Some(((arm, system), differing)) = builds.into_iter().find(|(_, builds)| builds.len() > 1) else {
        return Ok(());
    };
    let mut rows = vec![["SHA-256", "HOSTS"].map(str::to_owned).to_vec()];
    rows.extend(differing.iter().map(|(sha256, hosts)| vec![sha256[..16].to_owned(), hosts.join(" ")]));
    Err(Failure::refused(format!(
        "arm `{arm}`: hosts of one system ({system}) have obtained different builds of its allocator, and a trial is of one:\n\n{}\n\
         make a package of it on the host with the oldest system (`heaptrial allocators package SPEC`), install that on all hosts, \
         and survey them again",
        table(&rows)
    )))
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
pub fn table_of_hosts(surveys: &[Survey], plan: &DrawnPlan) -> String {
    let head = ["HOST", "SYSTEM", "KERNEL", "CPUS", "MEMORY", "SERVICES", "ARMS", "SURVEYED"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for survey in surveys {
        let own: Vec<&Assignment> = plan.services.iter().filter(|own| own.host == survey.host).collect();
        let arms = plan.arms.iter().map(|arm| {
            let count = own.iter().filter(|assigned| assigned.arm == arm.name).count();
            format!("{count} {}", arm.name)
        });
        rows.push(vec![
            survey.host.clone(),
            survey.facts.os.clone(),
            survey.facts.kernel.clone(),
            survey.facts.cpu_count.to_string(),
            units::memory(survey.facts.ram_bytes as f64),
            own.len().to_string(),
            arms.collect::<Vec<_>>().join(", "),
            survey.surveyed_at.clone(),
        ]);
    }
    let systems: BTreeSet<&str> = surveys.iter().map(|survey| survey.facts.os.as_str()).collect();
    let mut text = table(&rows);
    if systems.len() > 1 {
        text += "The hosts have different systems: the report tells whether an arm does the same on all of them.\n";
    }
    for (arm, builds) in &plan.builds {
        let named =
            |group: &BuildOfHosts| format!("{} on {}", &group.build.sha256[..16], group.hosts.join(", "));
        if builds.len() > 1 {
            let named: Vec<String> = builds.iter().map(named).collect();
            text += &format!("{arm} is another build for each system: {}\n", named.join("; "));
        }
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

/// What speaks against the treatments as they were drawn: host and finding.
pub fn findings_of(surveys: &[Survey], plan: &DrawnPlan) -> Vec<(String, Finding)> {
    let mut all = Vec::new();
    for survey in surveys {
        for own in plan.services.iter().filter(|own| own.host == survey.host) {
            let of_arm = survey.findings.get(&own.arm).into_iter().flatten();
            let of_service = of_arm.filter(|finding| finding.unit.as_ref() == Some(&own.service));
            all.extend(of_service.map(|finding| (survey.host.clone(), finding.clone())));
        }
    }
    all
}
