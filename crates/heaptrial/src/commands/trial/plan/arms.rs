//! The allocators of the arms, and what services run that are given none.

use std::collections::BTreeMap;

use heaptrial_allocator::{Catalog, Obtained, Resolved, host_glibc};
use heaptrial_inspect::Service;
use heaptrial_model::{Arm, Build, Linkage};

use crate::commands::allocators::SourceOptions;
use crate::exit::Failure;
use crate::options::GlobalOptions;
use crate::output::table;

/// The allocators of a plan's arms, by the arm's name; an arm that names none has none.
#[derive(Default)]
pub struct Allocators {
    pub obtained: BTreeMap<String, Obtained>,
    /// What of it goes into the plan; arms on the services' own C library have none.
    pub builds: BTreeMap<String, Build>,
}

/// Names of services that are listed, of those that are alike.
const TOLD: usize = 3;

/// Looks every arm's spec up before anything is fetched.
pub fn resolve(arms: &[Arm]) -> Result<Vec<(&Arm, Resolved)>, Failure> {
    let mut resolved = Vec::new();
    for arm in arms {
        let Some(spec) = &arm.treatment.allocator else { continue };
        let found = Catalog::builtin()
            .resolve(spec)
            .map_err(|error| Failure::from(error).about(format!("arm `{}`", arm.name)))?;
        let other = spec.version.as_ref().filter(|version| **version != host_glibc());
        if let (true, Some(version)) = (found.family.is_c_library, other) {
            return Err(other_c_library(arm, version.as_str()));
        }
        resolved.push((arm, found));
    }
    Ok(resolved)
}

/// Obtains and verifies every arm's allocator.
pub fn obtain(
    arms: Vec<(&Arm, Resolved)>,
    sources: &SourceOptions,
    global: &GlobalOptions,
) -> Result<Allocators, Failure> {
    let mut allocators = Allocators::default();
    for (arm, resolved) in arms {
        let obtained = sources
            .obtainer(None)?
            .obtain(&resolved)
            .map_err(|error| Failure::from(error).about(format!("arm `{}`", arm.name)))?;
        if let Some(loader) = &obtained.loader {
            return Err(other_c_library(arm, loader.version.as_str()));
        }
        if global.verbose > 0 {
            eprintln!("{}: {}; {}", arm.name, obtained.provenance, obtained.verification);
        }
        if let Some(file) = obtained.library.as_ref().and_then(|library| library.file_name()) {
            let build = Build {
                sha256: obtained.sha256.clone(),
                version: obtained.version.as_ref().map(ToString::to_string),
                file: file.to_string_lossy().into_owned(),
            };
            allocators.builds.insert(arm.name.clone(), build);
        }
        allocators.obtained.insert(arm.name.clone(), obtained);
    }
    Ok(allocators)
}

fn other_c_library(arm: &Arm, version: &str) -> Failure {
    Failure::refused(format!(
        "arm `{}`: glibc {version} is not the C library of this host ({}); it runs only under a loader of its own, which \
         a unit of systemd cannot be given from outside. Compare C libraries with `heaptrial lab run`",
        arm.name,
        host_glibc()
    ))
}

/// Refuses arms that leave services with what they have, unless all of them have the same, and have it unasked.
///
/// The best public trial of allocators on Tor relays left its control with what it had: 9 of 20 ran something else.
pub fn check_identities(arms: &[Arm], services: &[Service]) -> Result<(), Failure> {
    let unnamed: Vec<&str> =
        arms.iter().filter(|arm| arm.treatment.allocator.is_none()).map(|arm| arm.name.as_str()).collect();
    if unnamed.is_empty() {
        return Ok(());
    }
    let mut kinds: BTreeMap<[String; 3], Vec<&str>> = BTreeMap::new();
    let mut certain = true;
    for service in services {
        let identity = service.process.as_ref().and_then(|process| process.identity.as_ref());
        certain &= identity
            .is_some_and(|identity| !matches!(identity.linkage, Linkage::Preloaded | Linkage::Unknown));
        kinds.entry(kind(service)).or_default().push(service.name().as_str());
    }
    if certain && kinds.len() == 1 {
        return Ok(());
    }
    let mut rows =
        vec![["SERVICES", "ALLOCATOR", "LINKAGE", "SETTINGS", "SUCH AS"].map(str::to_owned).to_vec()];
    for ([label, linkage, settings], names) in kinds {
        let such = names[..names.len().min(TOLD)].join(" ");
        rows.push(vec![names.len().to_string(), label, linkage, settings, such]);
    }
    Err(Failure::refused(format!(
        "{} no allocator ({}), so that services keep what they run. That must be one and the same, linked and not \
         preloaded, and it is not:\n\n{}\nname the allocator in every [[arm]], such as allocator = \"glibc\"",
        if unnamed.len() == 1 { "1 arm names".to_owned() } else { format!("{} arms name", unnamed.len()) },
        unnamed.join(", "),
        table(&rows)
    )))
}

/// Refuses torrc options for services that are no Tor instances: chance decides which of them get the options.
pub fn check_torrc(arms: &[Arm], services: &[Service]) -> Result<(), Failure> {
    let Some(arm) = arms.iter().find(|arm| !arm.treatment.torrc.is_empty()) else { return Ok(()) };
    let others: Vec<&str> = services
        .iter()
        .filter(|service| service.relay.is_none())
        .map(|service| service.name().as_str())
        .collect();
    if others.is_empty() {
        return Ok(());
    }
    let such = others[..others.len().min(TOLD)].join(", ");
    let more = if others.len() > TOLD { format!(" and {} more", others.len() - TOLD) } else { String::new() };
    Err(Failure::refused(format!(
        "arm `{}` has torrc options, and any service may get it, but no torrc can be read of {such}{more}; take only Tor \
         instances into this trial",
        arm.name
    )))
}

/// What a service runs: allocator, linkage, settings.
fn kind(service: &Service) -> [String; 3] {
    let process = service.process.as_ref();
    let Some(identity) = process.and_then(|process| process.identity.as_ref()) else {
        let why = process.and_then(|process| process.unidentified.clone());
        return ["not known".to_owned(), why.unwrap_or_default(), String::new()];
    };
    let settings: Vec<String> =
        identity.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    [identity.label(), identity.linkage.as_str().to_owned(), settings.join(" ")]
}

#[cfg(test)]
mod tests {
    use heaptrial_model::{ErrorClass, TrialPlan};

    use super::super::fleet::tests::service;
    use super::*;

    fn arms(control: &str, treated: &str) -> Vec<Arm> {
        let text = format!(
            "name = \"t\"\n[[arm]]\nname = \"a\"\ncontrol = true\n{control}\n[[arm]]\nname = \"b\"\n{treated}\n"
        );
        TrialPlan::from_toml(&text).unwrap().arms
    }

    const GLIBC: &str = "allocator = \"glibc\"";
    const NO_CACHE: &str = "torrc = { DirCache = \"0\" }";

    /// Nine of twenty, as in the trial that was published.
    #[test]
    fn arms_without_allocator_need_services_that_all_run_one_and_the_same() {
        let mut services: Vec<Service> =
            (0..20).map(|number| service(&format!("tor@{number:02}.service"))).collect();
        let unnamed = arms("", NO_CACHE);
        assert!(check_identities(&unnamed, &services).is_ok());
        for service in &mut services[11..] {
            let identity = service.process.as_mut().unwrap().identity.as_mut().unwrap();
            (identity.family, identity.linkage) = ("mimalloc".to_owned(), Linkage::Preloaded);
        }
        let failure = check_identities(&unnamed, &services).unwrap_err();
        assert_eq!(failure.class, ErrorClass::Refused);
        insta::assert_snapshot!(failure.to_string());
        assert!(check_identities(&arms(GLIBC, GLIBC), &services).is_ok());
        // The same everywhere, but by a preload that somebody may take away.
        assert!(check_identities(&unnamed, &services[11..]).is_err());
    }

    #[test]
    fn what_cannot_be_identified_is_not_assumed() {
        let mut hidden = service("a.service");
        let process = hidden.process.as_mut().unwrap();
        (process.identity, process.unidentified) = (None, Some("permission denied".to_owned()));
        let failure = check_identities(&arms(GLIBC, ""), &[hidden]).unwrap_err().to_string();
        assert!(failure.contains("permission denied") && failure.contains("1 arm names no allocator (b)"));
    }

    #[test]
    fn torrc_options_are_for_tor_instances() {
        let services: Vec<Service> = (0..5).map(|number| service(&format!("web{number}.service"))).collect();
        assert!(check_torrc(&arms(GLIBC, GLIBC), &services).is_ok());
        let failure = check_torrc(&arms(GLIBC, NO_CACHE), &services).unwrap_err();
        let told = failure.to_string();
        assert!(told.contains("arm `b`") && told.contains("web2.service and 2 more"), "{told}");
        assert!(check_torrc(&arms(GLIBC, NO_CACHE), &[]).is_ok());
    }

    #[test]
    fn specs_are_looked_up_and_other_c_libraries_refused() {
        assert_eq!(resolve(&arms(GLIBC, NO_CACHE)).unwrap().len(), 1);
        assert_eq!(resolve(&arms(GLIBC, "allocator = \"mimaloc\"")).unwrap_err().class, ErrorClass::Usage);
        let other = if host_glibc().as_str() == "2.41" { "2.36" } else { "2.41" };
        let failure = resolve(&arms(GLIBC, &format!("allocator = \"glibc@{other}\""))).unwrap_err();
        assert_eq!(failure.class, ErrorClass::Refused);
        assert!(failure.to_string().contains("loader of its own"), "{failure}");
    }
}
