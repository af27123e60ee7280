use crate::preflight::Check;
use crate::preflight::fixture::{Fixture, LIBRARY, c_library, program};

#[test]
fn an_environment_file_wins_and_is_named_with_its_line() {
    let mut fixture = Fixture::new();
    fixture.file("/etc/default/thing", "# LD_PRELOAD=/no.so\n\nLD_PRELOAD=/other.so\n");
    fixture.is_fine();
    fixture.unit().environment_files = vec!["/etc/default/thing".into()];
    fixture.refuses(Check::Environment, "LD_PRELOAD is set to `/other.so` by /etc/default/thing line 3");
    fixture.file("/etc/default/thing", &format!("LD_PRELOAD={LIBRARY}\n"));
    fixture.is_fine();
}

#[test]
fn a_later_drop_in_wins_and_an_earlier_one_is_replaced() {
    let mut fixture = Fixture::new();
    fixture.drop_in("zzz-local.conf", "Environment=LD_PRELOAD=/other.so");
    fixture.refuses(Check::Environment, "by /etc/systemd/system/thing.service.d/zzz-local.conf line 2");
    let mut fixture = Fixture::new();
    fixture.drop_in("10-local.conf", "Environment=\"LD_PRELOAD=/other.so\"");
    fixture.warns(Check::PresentPreload, "by /etc/systemd/system/thing.service.d/10-local.conf line 2");
    fixture.drop_in("20-local.conf", "Environment=");
    fixture.is_fine();
    // What `systemctl edit` writes.
    let mut fixture = Fixture::new();
    fixture.drop_in("override.conf", "Environment=LD_PRELOAD=/other.so");
    fixture.warns(Check::PresentPreload, "by /etc/systemd/system/thing.service.d/override.conf line 2");
    fixture.drop_in("override.conf", "Environment=");
    fixture.is_fine();
}

#[test]
fn an_empty_environment_undoes_the_treatment_only_if_it_comes_later() {
    let mut fixture = Fixture::new();
    fixture.drop_in("10-local.conf", "Environment=");
    fixture.is_fine();
    fixture.drop_in("zzz-local.conf", "Environment=");
    fixture.refuses(
        Check::Environment,
        "an empty Environment= in /etc/systemd/system/thing.service.d/zzz-local.conf",
    );
}

#[test]
fn unset_variables_undo_the_treatment() {
    let mut fixture = Fixture::new();
    fixture.drop_in("10-local.conf", "UnsetEnvironment=LANG LD_PRELOAD");
    fixture.unit().unset_environment = vec!["LANG".to_owned()];
    fixture.is_fine();
    fixture.unit().unset_environment.push("LD_PRELOAD".to_owned());
    fixture.refuses(
        Check::Environment,
        "LD_PRELOAD is removed by /etc/systemd/system/thing.service.d/10-local.conf line 2",
    );
    fixture.unit().unset_environment = vec!["LD_PRELOAD=/other.so".to_owned()];
    fixture.is_fine();
}

#[test]
fn a_preload_that_is_there_speaks_against_the_own_c_library() {
    let mut fixture = Fixture::new();
    fixture.own_c_library();
    fixture.drop_in("10-local.conf", "Environment=LD_PRELOAD=/other.so");
    fixture.refuses(Check::PresentPreload, "LD_PRELOAD is set to `/other.so`");
    fixture.preload().unset = vec!["LD_PRELOAD".to_owned()];
    fixture.warns(Check::PresentPreload, "LD_PRELOAD names /other.so, which is not known to be an allocator");
    fixture.bytes("/other.so", &c_library());
    fixture.is_fine();
    fixture.drop_in("10-local.conf", "Environment=\"LD_PRELOAD=/other.so libfaketime.so.1\"");
    fixture.warns(
        Check::PresentPreload,
        "names libfaketime.so.1, which is not known to be an allocator, by /etc/",
    );
}

#[test]
fn tunables_that_are_no_allocator_s_are_not_taken_away_silently() {
    let mut fixture = Fixture::new();
    fixture
        .drop_in("10-local.conf", "Environment=GLIBC_TUNABLES=glibc.malloc.arena_max=2:glibc.pthread.rseq=0");
    fixture.is_fine();
    fixture.preload().unset = vec!["GLIBC_TUNABLES".to_owned()];
    fixture.warns(
        Check::ForeignSetting,
        "GLIBC_TUNABLES has glibc.pthread.rseq=0, which is not known to be of glibc",
    );
    fixture.drop_in("10-local.conf", "Environment=GLIBC_TUNABLES=glibc.malloc.arena_max=2");
    fixture.is_fine();
}

#[test]
fn a_preload_of_unknown_origin_is_told() {
    let fixture = Fixture::new();
    fixture.process_file("environ", "LD_PRELOAD=/wrapped.so\0");
    fixture.warns(Check::PresentPreload, "by the environment of the running process");
}

#[test]
fn the_hosts_preload_counts_where_it_has_a_malloc() {
    let mut fixture = Fixture::new();
    fixture.file("/etc/ld.so.preload", "# none\n/usr/lib/libsnoop.so /usr/lib/liballoc.so\n");
    fixture.bytes("/usr/lib/libsnoop.so", &program(None, b""));
    fixture.is_fine();
    fixture.bytes("/usr/lib/liballoc.so", &c_library());
    fixture.warns(Check::PresentPreload, "names /usr/lib/liballoc.so, which has a `malloc`");
    fixture.own_c_library();
    fixture.refuses(Check::PresentPreload, "names /usr/lib/liballoc.so");
}

#[test]
fn settings_of_the_allocator_must_be_part_of_the_treatment() {
    let mut fixture = Fixture::new();
    fixture.drop_in("10-local.conf", "Environment=MALLOC_ARENA_MAX=2 MALLOC_CONF=narenas:1");
    fixture.refuses(Check::ForeignSetting, "MALLOC_CONF=narenas:1 is set by");
    fixture.preload().settings = vec![("MALLOC_CONF".to_owned(), "narenas:2".to_owned())];
    fixture.is_fine();
    fixture.own_c_library();
    fixture.preload().settings.clear();
    fixture.refuses(Check::ForeignSetting, "MALLOC_ARENA_MAX=2 is set by");
    fixture.preload().unset = vec!["MALLOC_ARENA_MAX".to_owned()];
    fixture.is_fine();
}

#[test]
fn a_link_that_the_allocator_reads_as_settings_is_none_of_the_treatment() {
    let mut fixture = Fixture::new();
    let link = |path: &str| std::os::unix::fs::symlink("narenas:1", fixture.root.path(path)).unwrap();
    link("/etc/malloc.conf");
    fixture.refuses(Check::ForeignSetting, "/etc/malloc.conf is a link to `narenas:1`");
    fixture.own_c_library();
    fixture.is_fine();
}

#[test]
fn settings_in_an_environment_file_win_over_those_of_the_treatment() {
    let mut fixture = Fixture::new();
    fixture.preload().settings = vec![("MALLOC_CONF".to_owned(), "narenas:2".to_owned())];
    fixture.file("/etc/default/a.conf", "MALLOC_CONF=narenas:1\n");
    fixture.unit().environment_files = vec!["/etc/default/*.conf".into()];
    fixture.refuses(Check::Environment, "MALLOC_CONF is set to `narenas:1` by /etc/default/a.conf line 1");
}
