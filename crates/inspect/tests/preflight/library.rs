use heaptrial_host::systemd::BindPath;
use heaptrial_model::Version;

use crate::fixture::Fixture;
use heaptrial_inspect::preflight::{Check, Severity, check_all};

#[test]
fn others_must_not_be_able_to_change_what_is_installed() {
    let mut fixture = Fixture::new();
    fixture.file("/var/cache/heaptrial/x.so", "");
    fixture.preload().source = Some("/var/cache/heaptrial/x.so".into());
    fixture.is_fine();
    fixture.mode("/var/cache/heaptrial", 0o777);
    fixture.refuses(Check::LibraryPath, "/var/cache/heaptrial can be written by everybody");
}

#[test]
fn a_c_library_of_its_own_and_a_root_without_the_library() {
    let mut fixture = Fixture::new();
    fixture.unit().sandbox.root_directory = Some("/srv/jail".into());
    fixture.refuses(Check::HiddenPath, "the service's root is /srv/jail");
    let folder = std::path::PathBuf::from("/usr/lib/heaptrial/allocators");
    fixture.unit().sandbox.bind_paths = vec![BindPath { source: folder.clone(), target: folder }];
    fixture.is_fine();
    fixture.preload().other_glibc = Some(Version::new("2.41"));
    fixture.refuses(Check::LibraryNeeds, "has to be run under glibc 2.41");
}

#[test]
fn memory_near_the_limit_of_the_unit_or_the_host() {
    let mut fixture = Fixture::new();
    // It uses 100 MiB.
    fixture.unit().memory_max_bytes = Some(210 << 20);
    fixture.is_fine();
    fixture.unit().memory_max_bytes = Some(190 << 20);
    fixture.warns(Check::MemoryLimit, "it uses 100 MiB of MemoryMax=190 MiB");
    fixture.unit().memory_max_bytes = None;

    let of_host = |available_kib: u64| {
        let text = format!("MemTotal: 8388608 kB\nMemAvailable: {available_kib} kB\nSwapFree: 0 kB\n");
        fixture.file("/proc/meminfo", &text);
        check_all(&fixture.root, &[(&fixture.service, fixture.planned.clone())], None)
    };
    assert_eq!(of_host(103_000), []);
    let found = of_host(102_000);
    assert_eq!((found.len(), found[0].check, found[0].severity), (1, Check::HeadRoom, Severity::Warn));
    assert!(
        found[0].what.starts_with("1 service to get another allocator: 100 MiB in use, 100 MiB more"),
        "{found:?}"
    );
}
