//! `heaptrial rollout start`: finds what speaks against it, and begins the first wave.

use std::collections::BTreeMap;

use heaptrial_allocator::Obtained;
use heaptrial_change::edges::ThisHost;
use heaptrial_change::{Ledger, Prepared, Trial, prepare, read_state};
use heaptrial_fleet::rollout::{Forced, MeasuredTreatment, RolloutPlan, read_plan, settings_of};
use heaptrial_host::{HostFacts, HostRoot, Instant};
use heaptrial_inspect::Service;
use heaptrial_model::{AllocatorSpec, KnownEvent, ServiceName, TrialKind, TrialName, units};
use heaptrial_store::Store;
use serde_json::json;

use super::options::StartOptions;
use super::target::Target;
use super::{before, draw, mitigations, run};
use crate::answer::Answer;
use crate::commands::allocators::SourceOptions;
use crate::commands::host::Host;
use crate::commands::host::obtain::obtain;
use crate::commands::host::record::is_over;
use crate::commands::host::select::select;
use crate::commands::trial::{start::agent_unit, verdict};
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::some;
use crate::target::plain;

pub fn start(options: &StartOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let host = Host::of(global)?;
    let target = Target::find(options, &host)?;
    if !options.consent.dry_run {
        host.require_owner("rollout start")?;
    }
    let name = name_of(options, &target, &host)?;
    let systemd = host.systemd()?;
    let (services, _) = select(&systemd, &target.patterns)?;
    let allocators = obtain(&[target.arm()], &SourceOptions::default(), global)?;
    let forced = objections(options, &target, &allocators)?;
    let drawn = draw::drawn(options, &target, name.as_str(), &services, &allocators)?;
    let agent = agent_unit(&host, &systemd)?;
    let whole = prepare(&drawn, &host.name()?, &services, &allocators, &host.paths, agent)?;
    let (prepared, plan) = draw::frozen(options, &target, forced, whole, &services, &host.paths)?;
    if plan.waves.is_empty() {
        let already = units::counted(plan.already.len(), "service");
        let text = format!("nothing to do: already running what arm {} wants: {already}\n", plan.arm);
        return Ok(Answer::new(json!({ "rollout": name, "already": plan.already, "waves": [] }), text));
    }
    require_ages(&plan)?;
    before::require_known(&plan, target.verdict.arm.treatment.restart_every)?;
    let names: Vec<ServiceName> = plan.waves.concat();
    let watched = target.verdict.trial.as_deref().unwrap_or(name.as_str());
    host.require_free(name.as_str(), watched, names.iter().chain(&plan.already))?;
    Ledger::of_this_host(&host.paths)?.without(name.as_str()).check_takeover(&names)?;
    host.admit(&systemd, &prepared, &services, &allocators, options.consent.dry_run)?;
    eprint!("{}", preview(&target, &plan, &services));
    if options.consent.dry_run {
        return Ok(host.would_change("rollout", &prepared));
    }
    let count = units::counted(prepared.services.len(), "service");
    let waves = units::counted(plan.waves.len(), "wave");
    let question =
        format!("This restarts {count} of this host in {waves} and changes files of systemd and Tor.");
    options.consent.ask(&question)?;
    let this = ThisHost::new(systemd);
    let mut trial = Trial::create(this.host(), &host.paths, prepared)?;
    if let Err(failure) = record(&host, trial.prepared(), &services, "start") {
        trial.discard()?;
        return Err(failure);
    }
    if options.detach {
        // The unit takes the lock.
        drop(trial);
        return run::detach(&host, name.as_str());
    }
    run::carry_out(&host, &mut trial, plan)
}

/// The rollout's name: the one given, or the first free one after the trial's.
fn name_of(options: &StartOptions, target: &Target, host: &Host<'_>) -> Result<TrialName, Failure> {
    let stem = match (&options.name, &target.verdict.trial) {
        (Some(name), _) => name.to_string(),
        (None, Some(trial)) => format!("{trial}-rollout"),
        (None, None) => format!("rollout-{}", plain(&target.verdict.arm.name, '-')),
    };
    let next = |number: u32| if number == 1 { stem.clone() } else { format!("{stem}-{number}") };
    // Without --name a rollout that is over leaves its name to the next, with a number.
    let is_taken = |name: &String| read_state(&host.paths, name).is_ok_and(|state| is_over(&state));
    let name = (1..).map(next).find(|name| options.name.is_some() || !is_taken(name)).unwrap_or_default();
    if read_state(&host.paths, &name).is_ok() {
        return Err(Failure::refused(format!(
            "`{name}` is on this host already; `heaptrial rollout resume {name}` continues it, `heaptrial rollout rollback {name}` \
             puts it back, --name gives another name"
        )));
    }
    name.parse().map_err(Failure::usage)
}

/// Refuses what speaks against it, unless that is accepted with a reason.
fn objections(
    options: &StartOptions,
    target: &Target,
    allocators: &BTreeMap<String, Obtained>,
) -> Result<Option<Forced>, Failure> {
    let host = HostFacts::read(&HostRoot::default())?;
    let objections = target.verdict.refusals(&host, &wanted(target, allocators, &host));
    match &options.force {
        _ if objections.is_empty() => Ok(None),
        Some(reason) => Ok(Some(Forced { reason: reason.clone(), objections })),
        None => Err(Failure::refused(format!(
            "a rollout of {} is refused: {}. Measure it with `heaptrial trial`, install the build that was measured, or give \
             --force REASON, which is kept in the rollout's record with what it overrules",
            target.verdict.arm.name,
            objections.join("; ")
        ))),
    }
}

/// The treatment as services would get it now.
fn wanted(target: &Target, allocators: &BTreeMap<String, Obtained>, host: &HostFacts) -> MeasuredTreatment {
    let treatment = &target.verdict.arm.treatment;
    let obtained = allocators.get(&target.verdict.arm.name);
    let library = obtained.filter(|obtained| obtained.library.is_some());
    let own = obtained.filter(|obtained| obtained.library.is_none());
    MeasuredTreatment {
        library: library.map(|obtained| obtained.sha256.clone()),
        c_library: own.and_then(|obtained| obtained.version.as_ref()).map(ToString::to_string),
        settings: obtained.map(|obtained| settings_of(&obtained.settings)).unwrap_or_default(),
        torrc: treatment.torrc.clone(),
        restart_every: treatment.restart_every,
        thp_mode: host.thp_mode.clone(),
    }
}

/// Refuses waves that are watched longer than the trial saw services live: gates would miss data.
fn require_ages(plan: &RolloutPlan) -> Result<(), Failure> {
    let ages = plan.strata.iter().filter_map(|stratum| Some(stratum.ratio.as_ref()?.end_age()));
    let Some(end) = ages.min_by(f64::total_cmp) else { return Ok(()) };
    match plan.soak.iter().find(|soak| soak.0.as_secs_f64() > end) {
        None => Ok(()),
        Some(soak) => Err(Failure::refused(format!(
            "waves are watched for {soak}, and the trial's ratios reach to an age of {}; give a shorter --soak",
            units::duration(end)
        ))),
    }
}

/// Warnings, what memory is held to, and what each wave has.
fn preview(target: &Target, plan: &RolloutPlan, services: &[Service]) -> String {
    let mut warnings: Vec<String> = plan.forced.iter().flat_map(|forced| forced.objections.clone()).collect();
    warnings.extend(target.verdict.caveats.iter().cloned());
    if let Some(to) = &target.verdict.arm.treatment.allocator {
        let identities = services.iter().filter_map(|service| service.process.as_ref()?.identity.as_ref());
        let mut present: Vec<AllocatorSpec> =
            identities.map(|identity| AllocatorSpec::family(&identity.family)).collect();
        present.sort_by_key(ToString::to_string);
        present.dedup();
        warnings.extend(mitigations::warnings(&present, to));
    }
    let mut text: String = warnings.iter().map(|warning| format!("warning: {warning}\n")).collect();
    if target.verdict.trial.is_some() {
        text += &verdict::lines(&target.verdict);
    }
    text += &ratio_lines(plan);
    for (number, wave) in plan.waves.iter().enumerate() {
        let services = units::counted(wave.len(), "service");
        let soak = plan.soak_of(number);
        text += &format!("wave {}: {services} ({}), then watched for {soak}\n", number + 1, some(wave));
    }
    if let Some(hours) = plan.quiet_hours {
        text += &format!("no service is changed within {hours}\n");
    }
    text += &before::unjudged(plan);
    text
}

/// What gates hold the memory of each kind of services to.
pub fn ratio_lines(plan: &RolloutPlan) -> String {
    let mut text = String::new();
    for stratum in &plan.strata {
        let services = units::counted(stratum.services.len(), "service");
        text += &format!("memory of {services} ({}) is held to ", stratum.name);
        let ratio = stratum.ratio.as_ref();
        text += &match ratio.and_then(|ratio| Some((ratio, ratio.expected(1.0, ratio.last_age())?))) {
            Some((ratio, expected)) => format!(
                "{:.2} of that of before at age {}, from {} of the trial\n",
                expected.bytes,
                units::duration(ratio.last_age()),
                units::counted(ratio.services() as usize, "service")
            ),
            None => "what each used before: the trial has no ratio for services like them\n".to_owned(),
        };
    }
    text
}

/// Records a rollout in the database; one that is recorded already is continued.
pub fn record(
    host: &Host<'_>,
    prepared: &Prepared,
    services: &[Service],
    action: &str,
) -> Result<(), Failure> {
    let command = format!("rollout {action} {}", prepared.plan.name);
    let id = host.record(prepared, services, TrialKind::Rollout, &command)?;
    let plan = read_plan(prepared)?;
    let by_verdict = plan.verdict.as_ref().map(|digest| {
        let trial = plan.trial.as_deref().unwrap_or_default();
        format!("by the verdict of trial `{trial}` elsewhere, SHA-256 {digest}")
    });
    let forced = plan.forced.as_ref().map(|forced| {
        format!("rolled out with --force ({}) though {}", forced.reason, forced.objections.join("; "))
    });
    let mut store = Store::open_for_writing(&host.database)?;
    for text in by_verdict.into_iter().chain(forced).filter(|_| action == "start") {
        store.add_event(id, None, Instant::now().wall_us, KnownEvent::Note, &text)?;
    }
    Ok(())
}
