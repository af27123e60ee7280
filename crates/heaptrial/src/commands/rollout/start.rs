//! `heaptrial rollout start`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use heaptrial_allocator::{Catalog, Obtained};
use heaptrial_change::edges::ThisHost;
use heaptrial_change::{Ledger, Prepared, Trial, TrialStage, prepare, read_state};
use heaptrial_host::Paths;
use heaptrial_host::systemd::Systemd;
use heaptrial_host::{HostRoot, host_name};
use heaptrial_inspect::{Service, discover};
use heaptrial_model::{KnownEvent, ServiceName, ServicePattern, TrialKind, TrialName, units};
use serde_json::json;

use super::carry_out::carry_out;
use super::options::StartOptions;
use super::target::Target;
use super::{admit, before, detach, draw, preview};
use crate::commands::allocators::SourceOptions;
use crate::commands::trial::on_host;
use crate::commands::trial::start::{Recorded, agent_unit, begin, dry_run, preflight};
use crate::exit::Failure;
use crate::options::GlobalOptions;

pub fn start(options: &StartOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let paths = Paths::default();
    let database = on_host::database(&paths, global);
    let target = Target::find(options, &paths, &database)?;
    if !options.dry_run {
        on_host::require_root("rollout start")?;
    }
    let name = name_of(options, &target, &paths)?;
    let systemd = global.systemd()?;
    let services = services_of(&systemd, &target.patterns, options)?;
    let obtained = obtain(&target)?;
    let forced = admit::admit(options, &target, &obtained)?;
    let drawn = draw::drawn(options, &target, name.as_str(), &services, &obtained)?;
    let agent = agent_unit(&systemd, &paths)?;
    let host = host_name(&HostRoot::default()).map_err(Failure::failed)?;
    let whole = prepare(&drawn, &host, &services, &obtained, &paths, agent).map_err(Failure::refused)?;
    let (prepared, plan) = draw::frozen(options, &target, forced, whole, &services, &paths)?;
    if plan.waves.is_empty() {
        let running = units::counted(plan.already.len(), "service");
        if global.json {
            println!(
                "{:#}",
                json!({ "schema_version": 1, "rollout": name, "already": plan.already, "waves": [] })
            );
        } else {
            let runs = if plan.already.len() == 1 { "runs" } else { "run" };
            println!("nothing to do: {running} {runs} already what arm {} wants", plan.arm);
        }
        return Ok(ExitCode::SUCCESS);
    }
    admit::reaches(&plan)?;
    before::refuse_unknown(&plan, target.verdict.arm.treatment.restart_every)?;
    let names: Vec<ServiceName> = plan.waves.concat();
    let watched = target.verdict.trial.as_deref().unwrap_or(name.as_str());
    on_host::refuse_claimed(&paths, name.as_str(), watched, names.iter().chain(&plan.already))?;
    let ledger = Ledger::of_this_host(&paths)?;
    ledger.refuse_strays(names.iter().chain(&plan.already))?;
    ledger.without(name.as_str()).check_takeover(&names)?;
    preflight(&systemd, &paths, &prepared, &services, (&obtained, options.dry_run))?;
    preview::show(&target, &plan, &services);
    if options.dry_run {
        return dry_run(&prepared, global);
    }
    on_host::confirm(
        &format!(
            "This restarts {} of this host in {} waves and changes files of systemd and Tor.",
            units::counted(prepared.services.len(), "service"),
            plan.waves.len()
        ),
        options.yes,
    )?;
    let this = ThisHost::new(systemd);
    let mut trial = Trial::create(this.host(), &paths, prepared)?;
    if let Err(failure) = record(&database, trial.prepared(), &services, "start") {
        trial.discard()?;
        return Err(failure);
    }
    if options.detach {
        // The unit takes the lock.
        drop(trial);
        return detach::carry_out(name.as_str(), &paths, &database, global);
    }
    carry_out(&mut trial, plan, &paths, &database, global)
}

/// The rollout's name: the one given, or the first free one after the trial's.
fn name_of(options: &StartOptions, target: &Target, paths: &Paths) -> Result<TrialName, Failure> {
    let stem = match (&options.name, &target.verdict.trial) {
        (Some(name), _) => name.to_string(),
        (None, Some(trial)) => format!("{trial}-rollout"),
        (None, None) => {
            let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
            format!("rollout-{}", target.verdict.arm.name.chars().map(plain).collect::<String>())
        }
    };
    for number in 1.. {
        let name = if number == 1 { stem.clone() } else { format!("{stem}-{number}") };
        match read_state(paths, &name) {
            Err(_) => return name.parse().map_err(Failure::usage),
            Ok(state)
                if matches!(state.stage, TrialStage::Stopped | TrialStage::Reverted)
                    && options.name.is_none() => {}
            Ok(state) if matches!(state.stage, TrialStage::Stopped | TrialStage::Reverted) => {
                return Err(Failure::refused(format!(
                    "`{name}` was on this host before; --name gives another name"
                )));
            }
            Ok(_) => {
                return Err(Failure::refused(format!(
                    "`{name}` is on this host already; `heaptrial rollout resume {name}` goes on with it, `heaptrial rollout rollback {name}` puts it back, --name gives another name"
                )));
            }
        }
    }
    Err(Failure::failed("no free name is left"))
}

fn obtain(target: &Target) -> Result<BTreeMap<String, Obtained>, Failure> {
    let arm = &target.verdict.arm;
    let Some(spec) = &arm.treatment.allocator else { return Ok(BTreeMap::new()) };
    let resolved = Catalog::builtin().resolve(spec).map_err(Failure::refused)?;
    let found = SourceOptions::default().obtainer(None)?.obtain(&resolved)?;
    Ok(BTreeMap::from([(arm.name.clone(), found)]))
}

/// The services that the patterns name; each of those that somebody gave must name one.
fn services_of(
    systemd: &Systemd,
    patterns: &[ServicePattern],
    options: &StartOptions,
) -> Result<Vec<Service>, Failure> {
    let found = discover(systemd, patterns).map_err(Failure::failed)?;
    if let Some(told) = found.told() {
        eprintln!("{told}");
    }
    let unmatched = patterns.iter().zip(&found.of_pattern).filter(|(_, names)| names.is_empty());
    let unmatched: Vec<&str> = unmatched.map(|(pattern, _)| pattern.as_str()).collect();
    let none = found.services.is_empty();
    if none || !(options.services.is_empty() || unmatched.is_empty()) {
        let named = || patterns.iter().map(ServicePattern::as_str).collect();
        let named: Vec<&str> = if unmatched.is_empty() { named() } else { unmatched };
        return Err(Failure::refused(format!(
            "no loaded service matches {}; `heaptrial services` shows what there is",
            named.join(" ")
        )));
    }
    Ok(found.services)
}

/// Records a rollout in the database; what stands there is left alone.
pub fn record(
    database: &Path,
    prepared: &Prepared,
    services: &[Service],
    action: &str,
) -> Result<(), Failure> {
    let command = format!("heaptrial rollout {action} {}", prepared.plan.name);
    let kind = TrialKind::Rollout;
    let id = begin(database, Recorded { prepared, services, kind, command: &command })?;
    let plan = heaptrial_fleet::rollout::read_plan(prepared).map_err(Failure::refused)?;
    let by_verdict = plan.verdict.as_ref().map(|digest| {
        let trial = plan.trial.as_deref().unwrap_or_default();
        format!("by the verdict of trial `{trial}` elsewhere, SHA-256 {digest}")
    });
    let forced = plan.forced.as_ref().map(|forced| {
        format!("rolled out with --force ({}) though {}", forced.reason, forced.objections.join("; "))
    });
    for text in by_verdict.into_iter().chain(forced).filter(|_| action == "start") {
        let mut store = heaptrial_store::Store::create(database).map_err(Failure::failed)?;
        let now = heaptrial_host::Instant::now().wall_us;
        store.add_event(id, None, now, KnownEvent::Note, &text).map_err(Failure::failed)?;
    }
    Ok(())
}
