//! `heaptrial services`: what runs here, which allocator, how much memory, for how long.

mod table;

use std::path::PathBuf;

use clap::Args;
use heaptrial_allocator::{Explanation, explain};
use heaptrial_host::systemd::{Systemd, SystemdError, Unit};
use heaptrial_host::{HostRoot, Process};
use heaptrial_inspect::{Service, examine, files_with_preload};
use heaptrial_model::ServicePattern;
use serde::Serialize;
use serde_json::json;

use crate::answer::Answer;
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Show which services run here, with which allocator, how much memory and for how long
///
/// The allocator is the one that the running process really uses, read from the process itself. A library that
/// LD_PRELOAD asks for and that is not loaded is marked. Nothing is changed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  heaptrial services                   all running services
  heaptrial services 'tor@*'           all instances of a template that are loaded, running or not
  heaptrial services --json tor@r1     one of them, with all that is known")]
pub struct ServicesOptions {
    /// Names of services, with `*`, `?` and `[]` as in a shell; without one, all that run
    #[arg(value_name = "PATTERN")]
    patterns: Vec<ServicePattern>,
    /// Read where the memory of each main process is, as `heaptrial explain` does: seconds for each gigabyte
    #[arg(long)]
    explain: bool,
}

/// A service with what is worked out only for showing it.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    service: Service,
    /// Files of its unit that set `LD_PRELOAD`.
    preload_files: Vec<PathBuf>,
    /// Where the memory of its main process is, if that was asked for and can be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Explanation>,
}

pub fn run(options: &ServicesOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let root = HostRoot::default();
    let systemd = global.systemd()?;
    let (units, unmatched) = find(&systemd, &options.patterns)?;
    let services: Vec<Shown> = examine(&root, units)
        .into_iter()
        .map(|service| Shown {
            preload_files: files_with_preload(&root, &service.unit),
            explanation: options.explain.then(|| explanation(&root, &service)).flatten(),
            service,
        })
        .collect();
    let text = match services.is_empty() {
        true => "No service runs here.\n".to_owned(),
        false => table::text(&services),
    };
    let unidentified = |shown: &Shown| shown.service.process.as_ref()?.unidentified.clone();
    if let Some(why) = services.iter().find_map(unidentified) {
        eprintln!("The allocator of some services is not known: {why}");
    }
    for pattern in &unmatched {
        eprintln!("error: no service matches `{pattern}`; `heaptrial services` lists all that run");
    }
    let allocators: Vec<_> = table::allocators(&services)
        .into_iter()
        .map(|(allocator, services)| json!({ "allocator": allocator, "services": services }))
        .collect();
    let document = json!({ "services": services, "allocators": allocators, "unmatched": unmatched });
    Ok(Answer::new(document, text).unless(unmatched.is_empty()))
}

fn explanation(root: &HostRoot, service: &Service) -> Option<Explanation> {
    let process = service.process.as_ref()?;
    explain(&Process::new(root, process.life.pid), process.identity.as_ref()?).ok()
}

/// The units that the patterns name, in order of names, and the patterns that name none.
fn find(
    systemd: &Systemd,
    patterns: &[ServicePattern],
) -> Result<(Vec<Unit>, Vec<ServicePattern>), SystemdError> {
    if patterns.is_empty() {
        let mut units = systemd.services(&[ServicePattern::all()])?.units;
        units.retain(|unit| unit.status.main_pid.is_some());
        return Ok((units, Vec::new()));
    }
    let found = systemd.services(patterns)?;
    let unmatched = patterns.iter().zip(&found.of_pattern).filter(|(_, names)| names.is_empty());
    Ok((found.units, unmatched.map(|(pattern, _)| pattern.clone()).collect()))
}
