//! `heaptrial services`: what runs here, which allocator, how much memory, for how long.

mod table;

use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use heaptrial_allocator::{Explanation, explain};
use heaptrial_host::systemd::{Systemd, SystemdError, Unit};
use heaptrial_host::{HostRoot, Process};
use heaptrial_inspect::{Service, examine, files_with_preload};
use heaptrial_model::{ErrorClass, ServiceName, ServicePattern};
use serde::Serialize;
use serde_json::json;

use crate::exit::{Failure, code};
use crate::options::GlobalOptions;
use crate::output::{print, print_json};

/// Show which services run here, with which allocator, how much memory and for how long
///
/// The allocator is the one that the running process really uses, read from the process itself. A library that
/// LD_PRELOAD asks for and that is not loaded is marked. Nothing is changed.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  heaptrial services                   all running services
  heaptrial services 'tor@*'           all instances of a template that are loaded, running or not
  heaptrial services --wide tor@r1     one of them, with everything that a table can hold")]
pub struct ServicesOptions {
    /// Names of services, with `*`, `?` and `[]` as in a shell; without one, all that run
    #[arg(value_name = "PATTERN")]
    patterns: Vec<ServicePattern>,
    /// Show more columns
    #[arg(long)]
    wide: bool,
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

pub fn run(options: &ServicesOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let root = HostRoot::default();
    let systemd = global.systemd()?;
    let (units, unmatched) = find(&systemd, &options.patterns).map_err(Failure::failed)?;
    let services: Vec<Shown> = examine(&root, units)
        .into_iter()
        .map(|service| Shown {
            preload_files: files_with_preload(&root, &service.unit),
            explanation: options.explain.then(|| explanation(&root, &service)).flatten(),
            service,
        })
        .collect();
    if global.json {
        let allocators: Vec<_> = table::allocators(&services)
            .into_iter()
            .map(|(allocator, services)| json!({ "allocator": allocator, "services": services }))
            .collect();
        print_json(json!({ "services": services, "allocators": allocators, "unmatched": unmatched }))?;
    } else if !services.is_empty() {
        print(&table::text(&services, options.wide))?;
        hint(&services);
    } else if unmatched.is_empty() {
        print("No service runs here.\n")?;
    }
    if unmatched.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let names = systemd.service_names(&[ServicePattern::all()]).map_err(Failure::failed)?;
    for pattern in &unmatched {
        // A message that nobody can see is no failure of its own.
        let _ = writeln!(io::stderr(), "error: {}", no_match(pattern, &names));
    }
    Ok(code(ErrorClass::Failed))
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

/// What to do about an allocator that could not be identified.
fn hint(services: &[Shown]) {
    let untold: Vec<_> = services
        .iter()
        .filter_map(|shown| {
            let process = shown.service.process.as_ref().filter(|process| process.identity.is_none())?;
            Some((shown.service.name(), process.unidentified.as_deref()?))
        })
        .collect();
    if let Some((name, reason)) = untold.first() {
        let (untold, of) = (untold.len(), services.len());
        // A hint that nobody can see is no failure.
        let _ =
            writeln!(io::stderr(), "\nThe allocator of {untold} of {of} cannot be told; {name}: {reason}");
    }
}

/// Names as alike as this are worth proposing (Jaro-Winkler similarity).
const ALIKE: f64 = 0.85;

fn no_match(pattern: &ServicePattern, names: &[ServiceName]) -> String {
    let plain = pattern.as_str().trim_end_matches(".service").replace(['*', '?', '[', ']'], "");
    let mut near: Vec<(f64, &str)> = names
        .iter()
        .map(|name| {
            let name = name.as_str().trim_end_matches(".service");
            let contained = !plain.is_empty() && name.contains(plain.as_str());
            (if contained { 1.0 } else { strsim::jaro_winkler(&plain, name) }, name)
        })
        .filter(|(alike, _)| *alike >= ALIKE)
        .collect();
    near.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    let advice = if plain.ends_with('@') && pattern.unit().is_some() {
        format!("this is a template, whose instances are `{plain}*`")
    } else if near.is_empty() {
        "`heaptrial services` lists all that run".to_owned()
    } else {
        let near: Vec<&str> = near.iter().take(3).map(|(_, name)| *name).collect();
        format!("near it: {}", near.join(", "))
    };
    format!("no service matches `{pattern}`; {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_without_a_match_names_what_is_near() {
        let names: Vec<ServiceName> =
            ["cron.service", "ssh.service", "tor@relay1.service", "tor@relay2.service"]
                .iter()
                .map(|name| name.parse().unwrap())
                .collect();
        insta::assert_snapshot!(
            ["tor@realy1", "relay*.service", "tor@", "tor@.service", "nginx", "*"]
                .map(|pattern| no_match(&pattern.parse().unwrap(), &names))
                .join("\n"),
            @r"
        no service matches `tor@realy1`; near it: tor@relay1, tor@relay2
        no service matches `relay*.service`; near it: tor@relay1, tor@relay2
        no service matches `tor@`; this is a template, whose instances are `tor@*`
        no service matches `tor@.service`; this is a template, whose instances are `tor@*`
        no service matches `nginx`; `heaptrial services` lists all that run
        no service matches `*`; `heaptrial services` lists all that run
        "
        );
    }
}
