//! `heaptrial preflight`: whether an allocator would really take hold on services of this host.

use std::path::PathBuf;

use clap::Args;
use heaptrial_allocator::Obtained;
use heaptrial_change::to_unset;
use heaptrial_host::{HostRoot, Paths};
use heaptrial_inspect::Service;
use heaptrial_inspect::preflight::{Finding, PlannedPreload, PlannedTreatment, Prober, Severity, check_all};
use heaptrial_model::units::counted;
use heaptrial_model::{AllocatorSpec, ErrorClass, ServicePattern};
use serde_json::json;

use super::allocators::SourceOptions;
use super::host::findings;
use super::host::select::select;
use crate::answer::Answer;
use crate::exit::Failure;
use crate::options::GlobalOptions;

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
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    from: Option<PathBuf>,
    /// Start no probe: only read units, processes and files
    #[arg(long)]
    no_probe: bool,
    #[command(flatten)]
    sources: SourceOptions,
}

pub fn run(options: &PreflightOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let systemd = global.systemd()?;
    let (services, _) = select(&systemd, &options.units)?;
    let obtained = options.sources.obtain(&options.allocator, options.from.as_deref())?.1;
    let paths = global.paths()?;
    let library = obtained.library.as_ref().map(|_| obtained.installed_below(&paths.allocators()));
    let planned: Vec<_> = services
        .iter()
        .map(|service| (service, planned(&obtained, library.clone(), &paths, service)))
        .collect();
    let prober = Prober::of(&systemd).filter(|_| !options.no_probe);
    let found = check_all(&HostRoot::default(), &planned, prober.as_ref());
    if prober.is_none() {
        eprintln!(
            "No probe was started: without root, or for services of a user, the identity proof after the restart decides."
        );
    }
    let of = |severity| {
        let has = |service: &&Service| {
            let own = |one: &Finding| one.unit.as_ref() == Some(service.name()) && one.severity == severity;
            found.iter().any(own)
        };
        services.iter().filter(has).count()
    };
    let (spec, count) = (&options.allocator, counted(services.len(), "service"));
    let summary = match of(Severity::Refuse) {
        0 => format!("{spec} would take hold on {count} ({} with warnings).\n", of(Severity::Warn)),
        refused => format!("{spec} is refused on {refused} of {count}.\n"),
    };
    let refused = found.iter().any(Finding::refuses);
    let document = json!({
        "allocator": spec, "library": library, "services": services.iter().map(Service::name).collect::<Vec<_>>(),
        "tried": prober.is_some(), "refused": refused, "findings": found,
    });
    let answer = Answer::new(document, findings::text(&found, global.screen().colored) + &summary);
    Ok(if refused { answer.ending(ErrorClass::Refused) } else { answer })
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
