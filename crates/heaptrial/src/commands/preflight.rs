//! `heaptrial preflight`: whether an allocator would really take hold on services of this host.

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use heaptrial_allocator::{Catalog, Obtained};
use heaptrial_change::to_unset;
use heaptrial_host::HostRoot;
use heaptrial_host::Paths;
use heaptrial_host::systemd::{Systemd, SystemdError};
use heaptrial_inspect::preflight::{Finding, PlannedPreload, PlannedTreatment, Prober, Severity, check_all};
use heaptrial_inspect::{Service, discover, examine};
use heaptrial_model::units::counted;
use heaptrial_model::{AllocatorSpec, ErrorClass, ServiceName, ServicePattern};
use serde_json::json;

use super::allocators::SourceOptions;
use crate::exit::{Failure, code};
use crate::options::GlobalOptions;
use crate::output::{print, print_json};

/// Check whether an allocator would really take hold on services of this host
///
/// A preload that fails is silent: the service is active and runs its old allocator. A probe is started in a transient unit with
/// the user, environment, limits and sandbox of each service and with the allocator, and asked what it runs. What a probe
/// cannot show is read from the unit and its process. The allocator is obtained and verified, as by `allocators verify`; the
/// services go on undisturbed. Exit code 3 when something refuses.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  heaptrial preflight tor@relay1 --allocator mimalloc@2.0.9
  heaptrial preflight 'tor@*' -a jemalloc@5.3.0 --json")]
pub struct PreflightOptions {
    /// Names of services, with `*`, `?` and `[]` as in a shell
    #[arg(value_name = "UNIT", required = true)]
    units: Vec<ServicePattern>,
    /// The allocator, such as `mimalloc@2.0.9+secure` or `glibc?arena_max=1`
    #[arg(short, long, value_name = "SPEC")]
    allocator: AllocatorSpec,
    /// Take this library or source folder
    #[arg(long, value_name = "PATH")]
    from: Option<PathBuf>,
    /// Start no probe: only read units, processes and files
    #[arg(long)]
    no_probe: bool,
    #[command(flatten)]
    sources: SourceOptions,
}

pub fn run(options: &PreflightOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let root = HostRoot::default();
    let systemd = global.systemd()?;
    let services = find(&systemd, &root, &options.units)?;
    let obtained = obtain(options)?;
    let paths = global.paths()?;
    let library = obtained.library.as_ref().map(|_| obtained.installed_below(&paths.allocators()));
    let planned: Vec<_> = services
        .iter()
        .map(|service| (service, planned(&obtained, library.clone(), &paths, service)))
        .collect();
    let prober = Prober::of(&systemd).filter(|_| !options.no_probe);
    let findings = check_all(&root, &planned, prober.as_ref());
    let refused = findings.iter().any(Finding::refuses);
    if global.json {
        let names: Vec<_> = services.iter().map(Service::name).collect();
        let value = json!({
            "allocator": options.allocator, "library": library, "services": names, "tried": prober.is_some(), "refused": refused, "findings": findings,
        });
        print_json(value)?;
    } else {
        print(&text(&options.allocator, &services, &findings, global.colored_stdout()))?;
        let why = match prober.is_some() || options.no_probe {
            false => {
                "\nRun it as root, for services of the system, to try the allocator in place of each service."
            }
            true => "\nNo probe was started: the identity proof after the restart decides.",
        };
        if prober.is_none() {
            // A hint that nobody can see is no failure.
            let _ = writeln!(io::stderr(), "{why}");
        }
    }
    Ok(if refused { code(ErrorClass::Refused) } else { ExitCode::SUCCESS })
}

/// The services that are named, in order of names. A name that no unit has is kept, and will be refused.
fn find(systemd: &Systemd, root: &HostRoot, patterns: &[ServicePattern]) -> Result<Vec<Service>, Failure> {
    let found = discover(systemd, patterns).map_err(Failure::failed)?;
    if let Some(told) = found.told() {
        // What nobody can see is no failure.
        let _ = writeln!(io::stderr(), "{told}");
    }
    let mut services = found.services;
    let unmatched = patterns.iter().zip(&found.of_pattern).filter(|(_, names)| names.is_empty());
    for (pattern, _) in unmatched {
        let Some(name) = pattern.unit() else {
            return Err(Failure::refused(format!(
                "no loaded service matches `{pattern}`; `heaptrial services` lists those that run"
            )));
        };
        let unit = systemd.service(&name).map_err(|error| no_unit(pattern.as_str(), error))?;
        services.extend(examine(root, vec![unit]));
    }
    services.sort_by(|a, b| a.name().cmp(b.name()));
    Ok(services)
}

fn no_unit(name: &str, error: SystemdError) -> Failure {
    let advice = match name.trim_end_matches(".service").ends_with('@') {
        true => format!("; this is a template, whose instances are `{}*`", name.trim_end_matches(".service")),
        false => String::new(),
    };
    match error {
        SystemdError::Call { .. } => Failure::refused(format!("{error}{advice}")),
        error => error.into(),
    }
}

fn obtain(options: &PreflightOptions) -> Result<Obtained, Failure> {
    let catalog = Catalog::builtin();
    let resolved = match options.from {
        Some(_) => catalog.resolve_local(&options.allocator),
        None => catalog.resolve(&options.allocator),
    };
    let obtainer = options.sources.obtainer(options.from.as_deref())?;
    Ok(obtainer.obtain(&resolved?)?)
}

/// What `trial start` would apply to the service.
fn planned(
    obtained: &Obtained,
    library: Option<PathBuf>,
    paths: &Paths,
    service: &Service,
) -> PlannedTreatment {
    let mut preload = PlannedPreload::of(obtained, library);
    preload.unset = to_unset(service, &obtained.spec.family, &preload.environment());
    // Only root can own what is installed; another user's cache is not what `trial start` takes it from.
    if service.unit.scope.is_system() && !rustix::process::geteuid().is_root() {
        preload.source = None;
    }
    let has_drop_in = !preload.environment().is_empty() || !preload.unset.is_empty();
    let unit_files = if has_drop_in { vec![paths.drop_in(service.name())] } else { Vec::new() };
    PlannedTreatment { preload: Some(preload), unit_files, replaces: true, ..PlannedTreatment::default() }
}

fn text(spec: &AllocatorSpec, services: &[Service], findings: &[Finding], colored: bool) -> String {
    let mut text = String::new();
    for (finding, units) in grouped(findings) {
        let (on, off) = match (colored, finding.severity) {
            (false, _) => ("", ""),
            (true, Severity::Refuse) => ("\x1b[31;1m", "\x1b[0m"),
            (true, Severity::Warn) => ("\x1b[33;1m", "\x1b[0m"),
        };
        let severity = finding.severity.as_str();
        text.push_str(&format!("{on}{severity}{off} {}: {}\n", finding.check, finding.what));
        text.push_str(&format!("  where  {}\n", whose(&units)));
        text.push_str(&format!("  why    {}\n  fix    {}\n\n", finding.why, finding.fix));
    }
    let with = |severity| {
        let has = |service: &&Service| {
            findings.iter().any(|f| f.unit.as_ref() == Some(service.name()) && f.severity == severity)
        };
        services.iter().filter(has).count()
    };
    let refused = with(Severity::Refuse);
    let count = counted(services.len(), "service");
    text.push_str(&match refused {
        0 => format!("{spec} would take hold on {count} ({} with warnings).\n", with(Severity::Warn)),
        refused => format!("{spec} is refused on {refused} of {count}.\n"),
    });
    text
}

/// Findings that say the same of several services, with those; refusals first.
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

/// The first few of several services.
fn whose(units: &[&ServiceName]) -> String {
    const SHOWN: usize = 5;
    let mut names: Vec<String> = units.iter().take(SHOWN).map(ToString::to_string).collect();
    match units.len() {
        0 => return "this host".to_owned(),
        count if count > SHOWN => names.push(format!("and {} more", count - SHOWN)),
        _ => {}
    }
    names.join(", ")
}
