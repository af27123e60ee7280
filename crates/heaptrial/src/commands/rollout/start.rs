//! `heaptrial rollout start`.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use heaptrial_allocator::{Catalog, Obtained};
use heaptrial_change::edges::ThisHost;
use heaptrial_change::{
    Prepared, Trial, TrialStage, check_takeover, prepare, read_prepared, read_state, refuse_strays,
};
use heaptrial_host::Paths;
use heaptrial_host::systemd::Systemd;
use heaptrial_host::{HostRoot, host_name};
use heaptrial_inspect::{Service, discover};
use heaptrial_model::{KnownEvent, ServiceName, ServicePattern, TrialKind, TrialName, units};
use heaptrial_rollout::is_rollout;
use serde_json::json;

use super::carry_out::carry_out;
use super::options::StartOptions;
use super::target::{self, Target};
use super::{admit, before, detach, draw, measured, tell};
use crate::commands::allocators::SourceOptions;
use crate::commands::trial::on_host;
use crate::commands::trial::start::{Recorded, agent_unit, begin, dry_run, preflight};
use crate::exit::Failure;
use crate::options::GlobalOptions;

pub fn start(options: &StartOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let paths = Paths::default();
    let database = on_host::database(&paths, global);
    let mut target = target_of(options, &paths, &database)?;
    admit::refuse_findings(options, &target)?;
    if !options.dry_run {
        on_host::require_root("rollout start")?;
    }
    let name = name_of(options, &target, &paths)?;
    let systemd = global.systemd()?;
    let services = services_of(&systemd, &target.patterns, options)?;
    let obtained = obtain(&target, &options.sources)?;
    let here = admit::host_now(&services)?;
    let evidence = measured::evidence(&target, &paths, &database, &obtained, &here);
    let measured = admit::is_measured(options, &target, &obtained, &evidence)?;
    if target.verdict.is_none() {
        target.against.extend(measured::against_elsewhere(&target, &paths, &database, &obtained));
        admit::refuse_findings(options, &target)?;
    }
    let unlike = admit::refuse_unlike(options, &target, &here)?;
    let drawn = draw::drawn(options, &target, name.as_str(), &services, &obtained)?;
    let agent = if options.no_agent { None } else { agent_unit(&systemd, &paths)? };
    let host = host_name(&HostRoot::default()).map_err(Failure::failed)?;
    let whole = prepare(&drawn, &host, &services, &obtained, &paths, agent).map_err(Failure::refused)?;
    let (prepared, plan) = draw::frozen(options, &target, measured, whole, (&services, &host), &paths)?;
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
    before::refuse_unknown(&plan, target.arm.treatment.restart_every)?;
    let names: Vec<ServiceName> = plan.waves.concat();
    let watched = target.trial_name().unwrap_or(name.as_str());
    on_host::refuse_claimed(&paths, name.as_str(), watched, names.iter().chain(&plan.already))?;
    refuse_strays(&paths, names.iter().chain(&plan.already))?;
    check_takeover(&paths, name.as_str(), &names)?;
    preflight(&systemd, &paths, &prepared, &services, &obtained)?;
    tell::tell(&target, &plan, &services);
    for difference in &unlike {
        eprintln!("warning: unlike the hosts of the trial: {difference}");
    }
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

fn target_of(options: &StartOptions, paths: &Paths, database: &Path) -> Result<Target, Failure> {
    if let Some(file) = &options.verdict {
        return target::of_verdict(file, options.verdict_sha256.as_deref(), &options.services);
    }
    match (&options.trial, &options.allocator) {
        (Some(trial), _) => {
            // A trial of this host may have the name of an adoption that has ended.
            let is_trial = read_prepared(paths, trial.as_str()).is_ok_and(|prepared| !is_rollout(&prepared));
            let arm = options.arm.as_deref();
            let adopted = match is_trial {
                true => None,
                false => target::of_adoption(database, trial.as_str(), arm, &options.services)?,
            };
            match adopted {
                Some(target) => Ok(target),
                None => target::of_trial(paths, database, trial.as_str(), arm, &options.services),
            }
        }
        (None, Some(spec)) => target::of_spec(spec, &options.services),
        (None, None) => Err(Failure::usage("name a trial, or an allocator with --allocator")),
    }
}

/// The rollout's name: the one given, or the first free one after the trial's.
fn name_of(options: &StartOptions, target: &Target, paths: &Paths) -> Result<TrialName, Failure> {
    let stem = match (&options.name, target.trial_name()) {
        (Some(name), _) => name.to_string(),
        (None, Some(trial)) => format!("{trial}-rollout"),
        (None, None) => {
            let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '-' };
            format!("rollout-{}", target.arm.name.chars().map(plain).collect::<String>())
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

fn obtain(target: &Target, sources: &SourceOptions) -> Result<BTreeMap<String, Obtained>, Failure> {
    let Some(spec) = &target.arm.treatment.allocator else { return Ok(BTreeMap::new()) };
    let resolved = Catalog::builtin().resolve(spec).map_err(Failure::refused)?;
    // What was taken over lies where somebody put it, with settings as they are.
    let adopted = target.adopted.as_ref().map(|adopted| &adopted.expected);
    let from = adopted.and_then(|expected| expected.object.as_deref());
    let mut found = sources.obtainer(from)?.obtain(&resolved)?;
    if let Some(expected) = adopted {
        found.settings = expected.settings.clone();
    }
    Ok(BTreeMap::from([(target.arm.name.clone(), found)]))
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
    let plan = heaptrial_rollout::read_plan(prepared).map_err(Failure::refused)?;
    let note = match &plan.verdict {
        Some(digest) => {
            let trial = plan.trial.as_deref().unwrap_or_default();
            Some(format!("by the verdict of trial `{trial}` elsewhere, SHA-256 {digest}"))
        }
        None if plan.adopted => {
            let adoption = plan.trial.as_deref().unwrap_or_default();
            Some(format!("as services of adoption `{adoption}` run it; no trial compared it with another"))
        }
        None if !plan.measured => {
            Some("rolled out with --unmeasured: no trial of this host measured this treatment".to_owned())
        }
        None => None,
    };
    let despite = (!plan.despite.is_empty())
        .then(|| format!("rolled out with --despite-findings: {}", plan.despite.join("; ")));
    for text in note.into_iter().chain(despite).filter(|_| action == "start") {
        let mut store = heaptrial_store::Store::create(database).map_err(Failure::failed)?;
        let now = heaptrial_host::Instant::now().wall_us;
        store.add_event(id, None, now, KnownEvent::Note, &text).map_err(Failure::failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use heaptrial_store::Store;

    use super::*;
    use crate::commands::trial::in_database::tests::{frozen, row};

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        options: StartOptions,
    }

    #[test]
    fn a_trial_of_this_host_comes_before_an_adoption_that_had_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let paths = Paths { state: folder.path().to_owned(), ..Paths::default() };
        let database = folder.path().join("db");
        let mut store = Store::create(&database).unwrap();
        let (adoption, _) = store.begin_trial(&row("relays", TrialKind::Adoption, json!({}))).unwrap();
        store.end_trial(adoption, 1, "completed").unwrap();
        let options = Command::parse_from(["start", "relays"]).options;
        let told = || target_of(&options, &paths, &database).err().unwrap().to_string();
        assert!(told().contains("which arm of adoption `relays`?"), "{}", told());
        std::fs::create_dir_all(paths.trial("relays")).unwrap();
        let text = serde_json::to_string(&frozen("relays")).unwrap();
        std::fs::write(paths.trial("relays").join("prepared.json"), text).unwrap();
        assert!(told().contains("trial `relays` has not ended"), "{}", told());
    }
}
