//! The preflight of services of this host with libraries of any place, for the tests: arguments are the program with the probe,
//! then pairs `UNIT=LIBRARY`. Prints the findings of each as a line of JSON.

use std::path::PathBuf;

use heaptrial_allocator::Expected;
use heaptrial_host::systemd::Systemd;
use heaptrial_host::{HostRoot, Scope};
use heaptrial_inspect::preflight::{PlannedPreload, PlannedTreatment, Prober, check_all};
use heaptrial_inspect::service;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let program = PathBuf::from(arguments.next().ok_or("which program?")?);
    let systemd = Systemd::connect(Scope::System)?;
    let prober = Prober::with_program(&systemd, program);
    for argument in arguments {
        let (unit, library) = argument.split_once('=').ok_or("UNIT=LIBRARY")?;
        let service = service(&systemd, &unit.parse()?)?;
        let family = if library.contains("jemalloc") { "jemalloc" } else { "unknown" };
        let expected = Expected {
            object: Some(PathBuf::from(library)),
            sha256: sha256(library)?,
            ..Expected::own_c_library(family.parse()?, Vec::new())
        };
        let preload = PlannedPreload {
            expected,
            source: Some(PathBuf::from(library)),
            unset: Vec::new(),
            other_glibc: None,
        };
        let planned = PlannedTreatment { preload: Some(preload), ..PlannedTreatment::default() };
        let findings = check_all(&HostRoot::default(), &[(&service, planned)], Some(&prober));
        println!("{}", serde_json::to_string(&findings)?);
    }
    Ok(())
}

fn sha256(library: &str) -> std::io::Result<String> {
    let output = std::process::Command::new("sha256sum").arg(library).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}
