use heaptrial_host::systemd::AppArmorProfile;

use crate::preflight::Check;
use crate::preflight::fixture::Fixture;

const LOCAL: &str = "/usr/local/lib/libjemalloc.so.2";

fn host(loaded: &str, current: Option<&str>, asked: Option<(&str, bool)>) -> Fixture {
    let mut fixture = Fixture::new();
    fixture.file("/sys/kernel/security/apparmor/profiles", loaded);
    if let Some(current) = current {
        fixture.process_file("attr/apparmor/current", current);
    }
    fixture.unit().sandbox.apparmor_profile =
        asked.map(|(name, optional)| AppArmorProfile { name: name.to_owned(), optional });
    fixture.file("/etc/apparmor.d/abstractions/base", "/{usr/,}lib{,32,64}/**.so* mr,\n");
    fixture
        .file("/etc/apparmor.d/thing", "profile thing /usr/bin/thing {\n include <abstractions/base>\n}\n");
    fixture.file(LOCAL, "");
    fixture
}

#[test]
fn an_enforced_profile_lets_usr_lib_be_mapped_and_not_usr_local_lib() {
    for (current, asked) in [
        (Some("thing (enforce)\n"), None),
        (None, Some(("thing", true))),
        (Some("unconfined\n"), Some(("thing", false))),
    ] {
        let mut fixture = host("other (complain)\nthing (enforce)\n", current, asked);
        fixture.is_fine();
        fixture.preload().library = Some(LOCAL.into());
        fixture.refuses(Check::Apparmor, "no rule gives `mr` for it");
    }
}

#[test]
fn a_profile_that_only_reports_or_does_not_confine_is_no_matter() {
    for (loaded, current) in
        [("thing (complain)\n", "thing (complain)\n"), ("thing (enforce)\n", "unconfined\n")]
    {
        let mut fixture = host(loaded, Some(current), None);
        fixture.preload().library = Some(LOCAL.into());
        fixture.is_fine();
    }
}

#[test]
fn each_profile_of_a_stack_counts() {
    let mut fixture = host("thing (enforce)\nouter (enforce)\n", Some("outer//&thing (enforce)\n"), None);
    fixture.file("/etc/apparmor.d/outer", "profile outer {\n file,\n}\n");
    fixture.is_fine();
    fixture.preload().library = Some(LOCAL.into());
    fixture.refuses(Check::Apparmor, "the AppArmor profile thing");
}

#[test]
fn a_profile_without_text_cannot_be_told() {
    let fixture = host("odd (enforce)\n", Some("odd (enforce)\n"), None);
    fixture.warns(Check::Apparmor, "its text is not in /etc/apparmor.d");
}

#[test]
fn a_profile_that_is_asked_for_has_to_be_loaded_unless_it_is_optional() {
    host("", None, Some(("thing", true))).is_fine();
    host("", None, Some(("thing", false))).refuses(Check::Apparmor, "which is not loaded");
}

#[test]
fn profiles_that_cannot_be_listed_are_told_and_labels_of_others_are_not() {
    let mut fixture = Fixture::new();
    fixture.process_file("attr/current", "system_u:system_r:thing_t:s0\n");
    fixture.is_fine();
    fixture.process_file("attr/current", "thing (enforce)\n");
    fixture.warns(Check::Apparmor, "the profiles in force cannot be read");
    fixture.process_file("attr/current", "unconfined\n");
    fixture.unit().sandbox.apparmor_profile = None;
    fixture.is_fine();
}
