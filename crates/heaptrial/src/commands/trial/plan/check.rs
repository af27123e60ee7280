//! Whether the arms of a trial can be given to its services.

use std::collections::BTreeMap;

use heaptrial_inspect::Service;
use heaptrial_model::{Arm, Linkage};

use crate::exit::Failure;
use crate::output::{Table, some};

/// Refuses arms that leave services with what they have, unless all of them have the same.
///
/// The best public trial of allocators on Tor relays left its control with what it had: 9 of 20 ran something else.
pub fn check_identities(arms: &[Arm], services: &[Service]) -> Result<(), Failure> {
    let unnamed: Vec<&str> =
        arms.iter().filter(|arm| arm.treatment.allocator.is_none()).map(|arm| arm.name.as_str()).collect();
    let mut kinds: BTreeMap<[String; 3], Vec<&str>> = BTreeMap::new();
    let mut certain = true;
    for service in services {
        let identity = service.process.as_ref().and_then(|process| process.identity.as_ref());
        certain &= identity.is_some_and(|identity| identity.linkage != Linkage::Unknown);
        kinds.entry(kind(service)).or_default().push(service.name().as_str());
    }
    if unnamed.is_empty() || (certain && kinds.len() == 1) {
        return Ok(());
    }
    let mut table = Table::new(&["SERVICES", "ALLOCATOR", "LINKAGE", "SETTINGS", "SUCH AS"]);
    for ([label, linkage, settings], names) in kinds {
        table.row(&[&names.len(), &label, &linkage, &settings, &some(names)]);
    }
    Err(Failure::refused(format!(
        "{} names no allocator, so that its services keep what they run. That must be the same in all, and it is not:\n\n\
         {table}\nname the allocator in every [[arm]], such as allocator = \"glibc\"",
        unnamed.join(", ")
    )))
}

/// Refuses torrc options for services that are no Tor instances: chance decides which of them get the options.
pub fn check_torrc(arms: &[Arm], services: &[Service]) -> Result<(), Failure> {
    let others: Vec<_> =
        services.iter().filter(|service| service.relay.is_none()).map(Service::name).collect();
    match arms.iter().find(|arm| !arm.treatment.torrc.is_empty()) {
        Some(arm) if !others.is_empty() => Err(Failure::refused(format!(
            "arm `{}` has torrc options, and any service may get it, but no torrc can be read of {}; take only Tor instances \
             into this trial",
            arm.name,
            some(others)
        ))),
        _ => Ok(()),
    }
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
        assert_eq!(check_identities(&unnamed, &services).unwrap_err().class, ErrorClass::Refused);
        assert!(check_identities(&arms(GLIBC, GLIBC), &services).is_ok());
        assert!(check_identities(&unnamed, &services[11..]).is_ok());
        // What cannot be identified is not assumed.
        let process = services[0].process.as_mut().unwrap();
        (process.identity, process.unidentified) = (None, Some("permission denied".to_owned()));
        assert!(check_identities(&arms(GLIBC, ""), &services[..1]).is_err());
    }

    #[test]
    fn torrc_options_are_for_tor_instances() {
        let services: Vec<Service> = (0..5).map(|number| service(&format!("web{number}.service"))).collect();
        assert!(check_torrc(&arms(GLIBC, GLIBC), &services).is_ok());
        assert_eq!(check_torrc(&arms(GLIBC, NO_CACHE), &services).unwrap_err().class, ErrorClass::Refused);
        assert!(check_torrc(&arms(GLIBC, NO_CACHE), &[]).is_ok());
    }
}
