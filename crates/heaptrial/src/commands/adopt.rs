//! `heaptrial adopt`: services that were given an allocator by hand, taken over as they are.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use heaptrial_adoption::{AdoptedArm, Adoption, LeftOut, Listed, begin, check_name, end, taken};
use heaptrial_host::{HostFacts, HostRoot, Paths};
use heaptrial_inspect::discover;
use heaptrial_model::{ServicePattern, TrialName, units};
use heaptrial_store::Store;
use serde_json::json;

use super::trial::on_host;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::table;

/// Take over services that were given an allocator by hand, as they are
///
/// What each service runs is proved in its process, and recorded with the files of its unit; services that run the same build
/// with the same settings are an arm. The agent samples them from then on. Nothing of the services is changed, and none is
/// restarted. A service whose next start would run something else than its process does now is left out, with the reason.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  heaptrial adopt 'tor@*' --name relays     take over all instances of a template
  heaptrial watch start relays --arm mimalloc@2.0.9 --forecast january.db --forecast-arm group_B_mimalloc209
  heaptrial rollout start relays --arm mimalloc@2.0.9 --services 'tor@new*'
  heaptrial adopt --list                    what was taken over on this host
  heaptrial adopt --end relays              sample them no more")]
pub struct AdoptOptions {
    /// Which services, with `*`, `?` and `[]` as in a shell
    #[arg(value_name = "PATTERN", required_unless_present_any = ["end", "list"])]
    patterns: Vec<ServicePattern>,
    /// What it is called: the name that `watch start`, `rollout start` and `report` take
    #[arg(long, value_name = "NAME", default_value = "adopted")]
    name: TrialName,
    /// Show what would be recorded, and record nothing
    #[arg(long)]
    dry_run: bool,
    /// Tell which adoptions there are, and change nothing
    #[arg(long, conflicts_with_all = ["patterns", "name", "dry_run", "end"])]
    list: bool,
    /// End an adoption: its services are sampled no more, and what was recorded stays
    #[arg(long, value_name = "NAME", conflicts_with_all = ["patterns", "name", "dry_run"])]
    end: Option<TrialName>,
}

pub fn run(options: &AdoptOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let paths = Paths::default();
    let database = on_host::database(&paths, global);
    if options.list {
        on_host::require_readable(&paths, global)?;
        return list(&database, global);
    }
    on_host::require_root("adopt")?;
    if let Some(name) = &options.end {
        return end_one(name.as_str(), &database, global);
    }
    let (name, patterns) = (options.name.as_str(), &options.patterns);
    let systemd = global.systemd()?;
    let found = discover(&systemd, patterns).map_err(Failure::failed)?;
    if let Some(told) = found.told() {
        eprintln!("{told}");
    }
    let unmatched = patterns.iter().zip(&found.of_pattern).filter(|(_, names)| names.is_empty());
    let unmatched: Vec<&str> = unmatched.map(|(pattern, _)| pattern.as_str()).collect();
    if !unmatched.is_empty() {
        return Err(Failure::refused(format!(
            "no loaded service matches {}; `heaptrial services` shows what there is",
            unmatched.join(" ")
        )));
    }
    let mut adoption = Adoption::of(&HostRoot::default(), &found.services);
    leave_out_claimed(&mut adoption, name, &paths, &database)?;
    for (service, why) in &adoption.left_out {
        eprintln!("warning: {service} is left out: {why}");
    }
    if adoption.arms.is_empty() {
        return Err(Failure::refused("no service can be adopted as it is"));
    }
    if !options.dry_run {
        let facts = HostFacts::read(&HostRoot::default()).map_err(Failure::failed)?;
        let mut store = Store::create(&database).map_err(Failure::failed)?;
        begin(&mut store, name, &adoption, patterns, &facts)?;
    }
    if global.json {
        let document = json!({
            "schema_version": 1, "adoption": name, "dry_run": options.dry_run, "database": database,
            "arms": adoption.arms, "left_out": left_out(&adoption),
        });
        println!("{document:#}");
        return Ok(ExitCode::SUCCESS);
    }
    print!("{}", table(&rows(&adoption)));
    tell(&adoption, options, name);
    if !options.dry_run {
        on_host::warn_of_agent(&systemd);
    }
    Ok(ExitCode::SUCCESS)
}

/// Leaves out what belongs to something else of this host, and refuses a name that something else has.
fn leave_out_claimed(
    adoption: &mut Adoption,
    name: &str,
    paths: &Paths,
    database: &Path,
) -> Result<(), Failure> {
    let claims = on_host::all_claims(paths, name, name)?;
    let whose =
        claims.into_iter().map(|(service, claim)| (service, format!("{} `{}`", claim.kind, claim.name)));
    let mut whose: BTreeMap<_, _> = whose.collect();
    // Before anything was recorded there is no database.
    if database.exists() {
        let store = Store::open(database)?;
        check_name(&store, name)?;
        let adopted = taken(&store)?.into_iter();
        whose.extend(adopted.map(|(service, by)| (service, format!("adoption `{by}`"))));
    }
    for (service, by) in whose {
        if adoption.services().any(|own| own.service == service) {
            adoption.leave_out(&service, LeftOut::Taken(by));
        }
    }
    Ok(())
}

fn list(database: &Path, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let mut documents = Vec::new();
    let mut rows = vec![["ADOPTION", "SERVICES", "ARMS", ""].map(str::to_owned).to_vec()];
    // Before anything was recorded there is no database.
    let store = if database.exists() { Some(Store::open(database)?) } else { None };
    for adopted in store.iter().map(Listed::all).collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
        let arms = adopted.arms.iter().map(|(arm, services)| format!("{services} {arm}")).collect::<Vec<_>>();
        let ended = if adopted.ended { "ended" } else { "" };
        let services: usize = adopted.arms.iter().map(|(_, services)| services).sum();
        rows.push(vec![
            adopted.name.clone(),
            units::count(services as u64),
            arms.join(", "),
            ended.to_owned(),
        ]);
        let arms = adopted.arms.iter().map(|(arm, services)| json!({ "arm": arm, "services": services }));
        documents.push(json!({
            "adoption": adopted.name, "ended": adopted.ended, "services": services, "arms": arms.collect::<Vec<_>>(),
        }));
    }
    if global.json {
        println!("{:#}", json!({ "schema_version": 1, "adoptions": documents }));
    } else if documents.is_empty() {
        println!("no adoption on this host; `heaptrial adopt PATTERN` takes services over as they are");
    } else {
        print!("{}", table(&rows));
    }
    Ok(ExitCode::SUCCESS)
}

fn end_one(name: &str, database: &Path, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let mut store = Store::open_for_writing(database).map_err(Failure::failed)?;
    end(&mut store, name)?;
    if global.json {
        println!("{:#}", json!({ "schema_version": 1, "adoption": name, "ended": true }));
    } else {
        println!("adoption {name} has ended; `heaptrial report {name}` reads what was sampled");
    }
    Ok(ExitCode::SUCCESS)
}

fn left_out(adoption: &Adoption) -> Vec<serde_json::Value> {
    let left_out = adoption.left_out.iter();
    left_out
        .map(|(service, why)| json!({ "service": service, "why": why, "text": why.to_string() }))
        .collect()
}

fn rows(adoption: &Adoption) -> Vec<Vec<String>> {
    let header = ["arm", "services", "library", "SHA-256", "set by"].map(str::to_owned).to_vec();
    let mut rows = vec![header];
    rows.extend(adoption.arms.iter().map(row));
    rows
}

fn row(arm: &AdoptedArm) -> Vec<String> {
    let object = arm.expected.object.as_ref();
    let mut files: Vec<&str> =
        arm.services.iter().filter_map(|own| own.preload_files.last()?.file_name()?.to_str()).collect();
    files.sort_unstable();
    files.dedup();
    vec![
        arm.arm.name.clone(),
        units::count(arm.services.len() as u64),
        object.map_or("the C library's own".to_owned(), |path| path.display().to_string()),
        object.map_or(String::new(), |_| arm.expected.sha256.chars().take(12).collect()),
        files.join(", "),
    ]
}

fn tell(adoption: &Adoption, options: &AdoptOptions, name: &str) {
    let from_elsewhere: Vec<&str> = adoption
        .arms
        .iter()
        .filter(|arm| arm.expected.object.is_some())
        .flat_map(|arm| &arm.services)
        .filter(|own| own.preload_files.is_empty())
        .map(|own| own.service.as_str())
        .collect();
    if !from_elsewhere.is_empty() {
        println!(
            "no file of the unit sets what {} preload (a wrapper, /etc/ld.so.preload, or it is linked): a watch sees it in the \
             process alone: {}",
            units::counted(from_elsewhere.len(), "service"),
            from_elsewhere.join(", ")
        );
    }
    let services = units::counted(adoption.services().count(), "service");
    if options.dry_run {
        println!("{services} would be adopted as they are; nothing was recorded");
        return;
    }
    println!(
        "{services} adopted as they are, none was changed: `heaptrial watch start {name} --arm ARM` looks after them"
    );
}
