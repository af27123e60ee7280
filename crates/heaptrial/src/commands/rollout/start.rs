//! `heaptrial rollout start`.

use std::collections::BTreeMap;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use heaptrial_allocator::{Catalog, Obtained};
use heaptrial_change::edges::ThisHost;
use heaptrial_change::{
    Prepared, ServiceTreatment, Trial, TrialStage, check_takeover, is_as_wanted, prepare, read_prepared,
    read_state, refuse_strays,
};
use heaptrial_host::Paths;
use heaptrial_host::systemd::Systemd;
use heaptrial_host::{HostFacts, HostRoot, host_name};
use heaptrial_inspect::{Service, discover};
use heaptrial_model::{
    About, AllocatorSpec, HumanDuration, KnownEvent, MappedLibrary, Pace, PlanId, ServiceName,
    ServicePattern, TrialKind, TrialName, units,
};
use heaptrial_plan::{Assignment, Build, DrawnPlan};
use heaptrial_rollout::{Evidence, Limits, QuietHours, RolloutPlan, Stratum, WaveSizes, freeze, split};

use super::carry_out::carry_out;
use super::target::{self, Target};
use super::{before, detach, measured, mitigations};
use crate::commands::allocators::SourceOptions;
use crate::commands::trial::findings::Warned;
use crate::commands::trial::on_host;
use crate::commands::trial::plan::family::families;
use crate::commands::trial::start::{Recorded, agent_unit, begin, dry_run, preflight};
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// What is decided by chance is told again by this number.
const SEED: u64 = 1;

/// What is rolled out, to which services, and how carefully.
#[derive(Debug, Args)]
pub struct StartOptions {
    /// An ended trial of this host that measured it
    #[arg(value_name = "TRIAL", required_unless_present_any = ["allocator", "verdict"])]
    trial: Option<TrialName>,
    /// Which arm of the trial
    #[arg(long, value_name = "ARM")]
    arm: Option<String>,
    /// An allocator in place of a trial's arm; needs --services
    #[arg(long, value_name = "SPEC", conflicts_with_all = ["trial", "arm"])]
    allocator: Option<AllocatorSpec>,
    /// What a trial elsewhere found of an arm, as `heaptrial trial verdict` wrote it; needs --services
    #[arg(long, value_name = "FILE", conflicts_with_all = ["trial", "arm", "allocator", "secure", "mitigations", "unmeasured"])]
    verdict: Option<PathBuf>,
    /// The digest that the verdict's file must have
    #[arg(long, value_name = "SHA256", requires = "verdict")]
    verdict_sha256: Option<String>,
    /// Go on though this host is unlike those of the verdict: the canary is the first service of its kind
    #[arg(long, requires = "verdict")]
    new_stratum: bool,
    /// Which services, such as 'tor@*'; those of the trial without it
    #[arg(long, value_name = "PATTERN", num_args = 1..)]
    services: Vec<ServicePattern>,
    /// The rollout's name [default: TRIAL-rollout]
    #[arg(long, value_name = "NAME")]
    name: Option<TrialName>,
    /// Services of the first wave
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    canary: u32,
    /// Share of all services that run it after each further wave
    #[arg(long, value_name = "LIST", default_value = "5%,25%,100%")]
    waves: WaveSizes,
    /// How long each wave is watched before the next; of further waves the last of them
    #[arg(long, value_name = "LIST", default_value = "1d", value_delimiter = ',')]
    soak: Vec<HumanDuration>,
    /// How long is waited after that for data that a gate misses, before it stops
    #[arg(long, value_name = "DURATION", default_value = "1h")]
    patience: HumanDuration,
    /// From one service's restart to the next one's, at least
    #[arg(long, value_name = "DURATION", default_value = "30s")]
    pause: HumanDuration,
    /// Services that are down or not yet healthy at any time, at most; two of one family never are
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    at_once: u32,
    /// A service that is not healthy this long after its restart has failed
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    health_timeout: HumanDuration,
    /// A healthy service must stay so for this long before it counts
    #[arg(long, value_name = "DURATION", default_value = "3s")]
    settle: HumanDuration,
    /// Failed services, over all waves of this start or a resume, after which it stops
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    failure_budget: u32,
    /// Restarts that this start, and each resume, may cause [default: 2 for each service, and 4]
    #[arg(long, value_name = "N")]
    restart_budget: Option<u32>,
    /// Hours of the day in which no further service is changed, in the host's time zone, such as 08:00-20:00; the
    /// canary of an attended start begins at once
    #[arg(long, value_name = "FROM-TO")]
    quiet_hours: Option<QuietHours>,
    /// Somebody is here and sees the canary: it does not wait for quiet hours to end. So it is in a terminal
    #[arg(long)]
    attended: bool,
    /// Do not put the first canary back once to prove that it can be
    #[arg(long)]
    no_rollback_proof: bool,
    /// Roll out a treatment (build, settings, torrc options, restarts) that no trial of this host measured
    #[arg(long)]
    unmeasured: bool,
    /// Hold memory to what each service used before, and not to the trial's forecast
    #[arg(long)]
    no_forecast: bool,
    /// Do not hold gates to what relays did before: their work, and their Guard and V2Dir flags
    #[arg(long)]
    no_work: bool,
    /// Roll out the secure build of the arm's allocator, which the trial must have measured
    #[arg(long)]
    secure: bool,
    /// Show memory and heap security of the trial's arms side by side before asking
    #[arg(long)]
    mitigations: bool,
    /// Return once it is begun: a transient unit of systemd carries it out, and no terminal has to stay
    #[arg(long, conflicts_with = "dry_run")]
    detach: bool,
    /// Start without asking
    #[arg(long)]
    yes: bool,
    /// Show what would be changed, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not install and start the agent that samples the services
    #[arg(long)]
    no_agent: bool,
    #[command(flatten)]
    sources: SourceOptions,
}

/// Starts a rollout.
pub fn start(options: &StartOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let paths = Paths::default();
    let database = on_host::database(&paths, global);
    let target = target_of(options, &paths, &database)?;
    if !options.dry_run {
        on_host::require_root("rollout start")?;
    }
    let name = name_of(options, &target, &paths)?;
    let systemd = global.systemd()?;
    let services = services_of(&systemd, &target.patterns, options)?;
    let obtained = obtain(&target, &options.sources)?;
    let evidence = measured::evidence(&target, &paths, &database, &obtained);
    let measured = is_measured(options, &target, &obtained, &evidence)?;
    let unlike = refuse_unlike(options, &target, &services)?;
    let drawn = drawn(options, &target, name.as_str(), &services, &obtained)?;
    let agent = if options.no_agent { None } else { agent_unit(&systemd, &paths)? };
    let host = host_name(&HostRoot::default()).map_err(Failure::failed)?;
    let whole = prepare(&drawn, &host, &services, &obtained, &paths, agent).map_err(Failure::refused)?;
    let (prepared, plan) = frozen(options, &target, measured, whole, (&services, &host), &paths)?;
    if plan.waves.is_empty() {
        println!(
            "nothing to do: {} already what arm {} wants",
            if plan.already.len() == 1 {
                "1 service runs".to_owned()
            } else {
                format!("{} services run", plan.already.len())
            },
            plan.arm
        );
        return Ok(ExitCode::SUCCESS);
    }
    reaches(&plan)?;
    before::refuse_unknown(&plan, target.arm.treatment.restart_every)?;
    let names: Vec<ServiceName> = plan.waves.concat();
    let watched = target.trial_name().unwrap_or(name.as_str());
    on_host::refuse_claimed(&paths, name.as_str(), watched, names.iter().chain(&plan.already))?;
    refuse_strays(&paths, names.iter().chain(&plan.already))?;
    check_takeover(&paths, name.as_str(), &names)?;
    preflight(&paths, &prepared, &services, &obtained, &Warned::default())?;
    tell(options, &target, &plan, &services);
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
        return detach::carry_out(name.as_str(), attended(options), &paths, &database, global);
    }
    carry_out(&mut trial, (plan, attended(options)), &paths, &database, global)
}

/// Whether the trial saw services as old as they will be when a gate looks at them.
fn reaches(plan: &RolloutPlan) -> Result<(), Failure> {
    let shortest = plan.forecasts().min_by(|a, b| a.1.end_age().total_cmp(&b.1.end_age()));
    let Some((stratum, forecast)) = shortest else { return Ok(()) };
    let soak = (0..plan.waves.len()).map(|wave| plan.soak_of(wave)).max();
    let Some(soak) = soak.filter(|soak| soak.0.as_secs_f64() > forecast.end_age()) else { return Ok(()) };
    Err(Failure::refused(format!(
        "waves are watched for {soak}, and the trial's forecast for {stratum} reaches to an age of {}: gates would miss data. Give a shorter --soak, or --no-forecast, which holds memory to what each service used before",
        units::duration(forecast.end_age())
    )))
}

/// In what this host is unlike those of a verdict; refuses one that is, unless a canary is to be the first of its kind.
fn refuse_unlike(
    options: &StartOptions,
    target: &Target,
    services: &[Service],
) -> Result<Vec<String>, Failure> {
    let Some((verdict, _)) = &target.verdict else { return Ok(Vec::new()) };
    let facts = HostFacts::read(&HostRoot::default()).map_err(Failure::failed)?;
    let identities = services.iter().filter_map(|service| service.process.as_ref()?.identity.as_ref());
    let libraries: Vec<MappedLibrary> =
        identities.flat_map(|identity| identity.libraries.iter().cloned()).collect();
    let unlike = verdict.differences(&facts, &libraries);
    if unlike.is_empty() || options.new_stratum && options.canary == 1 {
        return Ok(unlike);
    }
    let how = if options.new_stratum {
        "--new-stratum goes with --canary 1"
    } else {
        "An allocator may do otherwise here. --new-stratum goes on with one canary of this kind, held to the trial's forecast before anything else is changed"
    };
    Err(Failure::refused(format!(
        "this host is unlike all hosts of trial `{}`: {}. {how}",
        verdict.trial,
        unlike.join("; ")
    )))
}

fn target_of(options: &StartOptions, paths: &Paths, database: &Path) -> Result<Target, Failure> {
    if let Some(file) = &options.verdict {
        return target::of_verdict(file, options.verdict_sha256.as_deref(), &options.services);
    }
    match (&options.trial, &options.allocator) {
        (Some(trial), _) => {
            if options.mitigations && options.arm.is_none() {
                let prepared = read_prepared(paths, trial.as_str())?;
                print!("{}", mitigations::side_by_side(&prepared, None));
            }
            let arm = (options.arm.as_deref(), options.secure);
            target::of_trial(paths, database, trial.as_str(), arm, &options.services)
        }
        (None, Some(spec)) => target::of_spec(spec, options.secure, &options.services),
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
    let found = sources.obtainer(None)?.obtain(&resolved)?;
    Ok(BTreeMap::from([(target.arm.name.clone(), found)]))
}

/// Whether this very treatment was measured; refuses one that was not, unless that is wanted.
fn is_measured(
    options: &StartOptions,
    target: &Target,
    obtained: &BTreeMap<String, Obtained>,
    evidence: &Evidence,
) -> Result<bool, Failure> {
    let library = obtained.get(&target.arm.name).filter(|obtained| obtained.library.is_some());
    if *evidence == Evidence::Measured || options.unmeasured {
        return Ok(*evidence == Evidence::Measured);
    }
    let arm = &target.arm.name;
    let whose = match &target.verdict {
        Some((verdict, _)) => format!("trial `{}`, whose verdict this is, did not measure", verdict.trial),
        None => "no trial of this host measured".to_owned(),
    };
    let what = match evidence {
        Evidence::Other { nearest, differences } => {
            format!("{arm} as it would be rolled out. The nearest is {nearest}: {}", differences.join("; "))
        }
        _ => match library {
            Some(library) => format!("the build {} of {arm}", library.sha256),
            None => format!("this treatment of {arm}"),
        },
    };
    let how = match &target.verdict {
        Some(_) => {
            "Install the package of it that the trial ran, or make one on a host of the trial (`heaptrial allocators package`)"
        }
        None => "Measure it with `heaptrial trial`, or say --unmeasured, which reports will tell",
    };
    Err(Failure::refused(format!(
        "{whose} {what}. A build flag or a setting can matter more than the version: mimalloc 2.0.9 in secure mode needs 2.7 times the memory of the plain build in our lab. {how}"
    )))
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

/// A plan of one arm over all services, for the transaction.
fn drawn(
    options: &StartOptions,
    target: &Target,
    name: &str,
    services: &[Service],
    obtained: &BTreeMap<String, Obtained>,
) -> Result<DrawnPlan, Failure> {
    let host = host_name(&HostRoot::default()).map_err(Failure::failed)?;
    let relays: Vec<_> = services.iter().map(|service| service.relay.as_ref()).collect();
    let assignments = services.iter().zip(families(&relays)).map(|(service, family)| Assignment {
        service: service.name().clone(),
        host: host.clone(),
        arm: target.arm.name.clone(),
        block: 0,
        stratum: "all".to_owned(),
        family,
    });
    let own = obtained.get(&target.arm.name).and_then(|obtained| {
        let file = obtained.library.as_ref()?.file_name()?.to_string_lossy().into_owned();
        let version = obtained.version.as_ref().map(ToString::to_string);
        Some(Build { sha256: obtained.sha256.clone(), version, file })
    });
    // What the trial's plan was drawn for, unless another build is wanted.
    let build = if options.unmeasured { own } else { target.build.clone().or(own) };
    let soak: std::time::Duration = options.soak.iter().map(|soak| soak.0).sum();
    let mut plan = DrawnPlan {
        name: name.to_owned(),
        id: PlanId::default(),
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: SEED,
        metric: target.metric,
        duration: HumanDuration(soak),
        looks: Vec::new(),
        about: About::default(),
        pace: Pace {
            at_once: options.at_once,
            pause: options.pause,
            health_timeout: options.health_timeout,
            settle: options.settle,
            failure_budget: options.failure_budget,
        },
        arms: vec![target.arm.clone()],
        builds: build.into_iter().map(|build| (target.arm.name.clone(), build)).collect(),
        services: assignments.collect(),
    };
    // Two rollouts of one name and plan, the first of them rolled back, are two.
    plan.seed = heaptrial_host::Instant::now().wall_us.unsigned_abs();
    plan.id = plan.digest();
    Ok(plan)
}

/// What is frozen: the services that are not yet as wanted, in waves.
fn frozen(
    options: &StartOptions,
    target: &Target,
    measured: bool,
    whole: Prepared,
    (services, host): (&[Service], &str),
    paths: &Paths,
) -> Result<(Prepared, RolloutPlan), Failure> {
    let is_there = |treatment: &ServiceTreatment| {
        let found = services.iter().find(|service| *service.name() == treatment.service);
        found.is_some_and(|service| is_as_wanted(service, treatment, paths))
    };
    let (already, open): (Vec<ServiceTreatment>, Vec<ServiceTreatment>) =
        whole.services.into_iter().partition(is_there);
    let names: Vec<ServiceName> = open.iter().map(|treatment| treatment.service.clone()).collect();
    let sizes = WaveSizes { canary: options.canary, ..options.waves.clone() };
    let waves = split(&names, &sizes, SEED);
    let order: Vec<ServiceName> = waves.concat();
    let mut treatments = open;
    treatments.sort_by_key(|treatment| order.iter().position(|name| *name == treatment.service));
    let strata = match (options.no_forecast || options.unmeasured, names.is_empty()) {
        (false, false) => target::strata(target, services, &names, host).map_err(|why| {
            Failure::refused(format!(
                "gates hold memory to the trial's forecast, and there is none: {why}. --no-forecast holds it to what each service used before"
            ))
        })?,
        _ => Vec::new(),
    };
    let plan = RolloutPlan {
        trial: target.trial_name().map(str::to_owned),
        verdict: target.verdict.as_ref().map(|(_, digest)| digest.clone()),
        arm: target.arm.name.clone(),
        measured,
        sizes,
        seed: SEED,
        already: already.into_iter().map(|treatment| treatment.service).collect(),
        soak: options.soak.clone(),
        patience: options.patience,
        prove_rollback: !options.no_rollback_proof,
        quiet_hours: options.quiet_hours,
        attended: attended(options),
        judges_work: !options.no_work,
        limits: Limits { restarts: options.restart_budget.unwrap_or(2 * names.len() as u32 + 4) },
        forecast: None,
        strata,
        before: names
            .iter()
            .map(|name| (name.clone(), before::before(target, services, name, !options.no_work)))
            .collect(),
        waves,
    };
    let owner = freeze(&plan).map_err(Failure::failed)?;
    Ok((Prepared { services: treatments, owner, ..whole }, plan))
}

/// Whether somebody sees the canary.
fn attended(options: &StartOptions) -> bool {
    options.attended || on_host::is_attended()
}

fn tell(options: &StartOptions, target: &Target, plan: &RolloutPlan, services: &[Service]) {
    if let (true, Some(trial)) = (options.mitigations, &target.trial) {
        print!("{}", mitigations::side_by_side(trial, target.fleet.as_ref()));
    }
    if let Some(to) = &target.arm.treatment.allocator {
        let mut present: Vec<AllocatorSpec> = services
            .iter()
            .filter_map(|service| service.process.as_ref()?.identity.as_ref())
            .map(|identity| AllocatorSpec::family(&identity.family))
            .collect();
        present.sort_by_key(ToString::to_string);
        present.dedup();
        for warning in mitigations::warnings(&present, to) {
            eprintln!("warning: {warning}");
        }
    }
    if !plan.measured {
        eprintln!("warning: this was not measured in a trial of this host, and the report will say so");
    }
    if let Some((verdict, _)) = &target.verdict {
        crate::commands::trial::verdict::lines(verdict).iter().for_each(|line| eprintln!("{line}"));
    }
    for line in forecast_lines(plan) {
        eprintln!("{line}");
    }
    for (number, wave) in plan.waves.iter().enumerate() {
        let names: Vec<&str> = wave.iter().take(4).map(ServiceName::as_str).collect();
        let more = if wave.len() > 4 { ", ..." } else { "" };
        eprintln!(
            "wave {}: {} ({}{more}), then watched for {}",
            number + 1,
            units::counted(wave.len(), "service"),
            names.join(", "),
            plan.soak_of(number)
        );
    }
    if let Some(hours) = plan.quiet_hours {
        let canary =
            if plan.attended { "; the canary begins at once, since somebody is here to see it" } else { "" };
        eprintln!("no service is changed within {hours}{canary}");
    }
    if let Some(untold) = before::untold(plan) {
        eprintln!("{untold}");
    }
    if !plan.already.is_empty() && std::io::stderr().is_terminal() {
        eprintln!("left alone, since they run it already: {}", plan.already.len());
    }
}

/// What gates hold the memory of each kind of services to.
pub fn forecast_lines(plan: &RolloutPlan) -> Vec<String> {
    let line = |stratum: &Stratum| {
        let name =
            format!("forecast for {} ({})", units::counted(stratum.services.len(), "service"), stratum.name);
        let last = stratum.forecast.as_ref().and_then(|forecast| {
            let expected = forecast.at(forecast.last_age(), 0.95)?;
            Some((forecast, expected))
        });
        match (last, &stratum.why_not) {
            (Some((forecast, expected)), _) => format!(
                "{name}: {} ({} to {}, 95%) at age {}, from {} of the trial",
                units::memory(expected.median_bytes),
                units::memory(expected.low_bytes),
                units::memory(expected.high_bytes),
                units::duration(forecast.last_age()),
                units::counted(forecast.services() as usize, "service")
            ),
            (None, why) => {
                let why = why.as_deref().unwrap_or("its levels are not known");
                format!("{name}: none, so that memory is held to what each used before: {why}")
            }
        }
    };
    plan.strata.iter().map(line).collect()
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
    let id = begin(database, Recorded { prepared, services, kind, command: &command, lost_since: None })?;
    let plan = heaptrial_rollout::read_plan(prepared).map_err(Failure::refused)?;
    let note = match &plan.verdict {
        Some(digest) => {
            let trial = plan.trial.as_deref().unwrap_or_default();
            Some(format!("by the verdict of trial `{trial}` elsewhere, SHA-256 {digest}"))
        }
        None if !plan.measured => {
            Some("rolled out with --unmeasured: no trial of this host measured this treatment".to_owned())
        }
        None => None,
    };
    if let Some(text) = note.filter(|_| action == "start") {
        let mut store = heaptrial_store::Store::create(database).map_err(Failure::failed)?;
        let now = heaptrial_host::Instant::now().wall_us;
        store.add_event(id, None, now, KnownEvent::Note, &text).map_err(Failure::failed)?;
    }
    Ok(())
}
