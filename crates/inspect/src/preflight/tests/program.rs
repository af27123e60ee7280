use std::os::unix::fs::MetadataExt as _;

use heaptrial_model::{Identity, Linkage};

use crate::preflight::fixture::{Fixture, PROGRAM, c_library, program};
use crate::preflight::{Check, Severity};

const LOADER: Option<&str> = Some("/lib64/ld-linux-x86-64.so.2");

fn identity(linkage: Linkage) -> Option<Identity> {
    Some(Identity {
        family: "jemalloc".to_owned(),
        version: None,
        version_range: None,
        path: None,
        build_id: None,
        sha256: None,
        linkage,
        settings: Default::default(),
        evidence: Vec::new(),
        libraries: Vec::new(),
    })
}

#[test]
fn static_and_go_programs_and_other_c_libraries() {
    let fixture = Fixture::new();
    fixture.bytes(PROGRAM, &program(None, b""));
    fixture.refuses(Check::Program, "linked statically");
    let mut build = b"\xff Go buildinf:".to_vec();
    build.extend([8, 2]);
    build.resize(32, 0);
    build.extend(b"\x08go1.24.1");
    fixture.bytes(PROGRAM, &program(LOADER, &build));
    fixture.refuses(Check::Program, "a Go program");
    fixture.bytes(PROGRAM, &program(Some("/lib/ld-musl-x86_64.so.1"), b""));
    fixture.refuses(Check::Program, "runs under musl");
    fixture.bytes(PROGRAM, &program(Some("/opt/loader"), b""));
    fixture.warns(Check::Program, "/opt/loader, which is not glibc's usual loader");
    let mut other = program(LOADER, b"");
    (other[4], other[18]) = (1, 3);
    fixture.bytes(PROGRAM, &other);
    fixture.refuses(Check::Program, "32-bit x86");
    std::fs::remove_file(fixture.root.path(PROGRAM)).unwrap();
    fixture.warns(Check::Program, "was not found");
}

#[test]
fn a_treatment_without_a_library_does_not_mind_a_static_program() {
    let mut fixture = Fixture::new();
    fixture.own_c_library();
    fixture.bytes(PROGRAM, &program(None, b""));
    fixture.is_fine();
}

#[test]
fn a_program_with_its_own_malloc_is_refused_and_one_that_is_linked_to_another_is_told() {
    let mut fixture = Fixture::new();
    fixture.bytes(PROGRAM, &c_library());
    fixture.refuses(Check::OwnAllocator, "has an allocator of its own");
    fixture.bytes(PROGRAM, &program(LOADER, b""));
    fixture.service.process.as_mut().unwrap().identity = identity(Linkage::Static);
    fixture.refuses(Check::OwnAllocator, "has an allocator of its own");
    fixture.service.process.as_mut().unwrap().identity = identity(Linkage::Linked);
    fixture.warns(Check::OwnAllocator, "is linked against jemalloc");
    fixture.own_c_library();
    fixture.refuses(Check::OwnAllocator, "is linked against jemalloc");
    fixture.service.process.as_mut().unwrap().identity = identity(Linkage::Libc);
    fixture.is_fine();
}

#[test]
fn a_program_that_carries_another_allocator_is_refused() {
    let mut fixture = Fixture::new();
    // Put together at run time: this test's own program must not carry it.
    let version =
        format!("\0\0{}-0-g{}\0", [5, 3, 0].map(|part| part.to_string()).join("."), "5e".repeat(20));
    fixture.bytes(PROGRAM, &program(LOADER, version.as_bytes()));
    fixture.refuses(Check::OwnAllocator, "carries jemalloc");
    fixture.own_c_library();
    fixture.refuses(Check::OwnAllocator, "carries jemalloc");
}

#[test]
fn the_mimalloc_that_python_carries_is_no_allocator_of_its_own() {
    let fixture = Fixture::new();
    let names = ["eager_commit_delay", "reserve_huge_os_pages", "use_numa_nodes", "arena_purge_mult"];
    let marks = |more: &str| format!("\0{}\0{more}\0", names.join("\0"));
    fixture.bytes(PROGRAM, &program(LOADER, marks("").as_bytes()));
    fixture.refuses(Check::OwnAllocator, "carries mimalloc");
    let more = ["PYTHON", "MALLOC"].concat();
    fixture.bytes(PROGRAM, &program(LOADER, marks(&more).as_bytes()));
    fixture.is_fine();
}

#[test]
fn wrappers_and_helpers() {
    let mut fixture = Fixture::new();
    fixture.file("/usr/bin/start", "#!/bin/sh\nexec thing\n");
    fixture.unit().exec_start = vec![vec!["/usr/bin/start".to_owned()]];
    fixture.warns(Check::Wrapper, "ExecStart runs /usr/bin/start (a script)");
    // What is examined then is the program that runs.
    fixture.bytes(PROGRAM, &program(None, b""));
    let found = fixture.findings();
    let told: Vec<_> = found.iter().map(|finding| (finding.severity, finding.check)).collect();
    assert_eq!(told, [(Severity::Refuse, Check::Program), (Severity::Warn, Check::Wrapper)]);
    let mut fixture = Fixture::new();
    fixture.unit().exec_start = vec![["/usr/bin/env", "-i", PROGRAM].map(str::to_owned).to_vec()];
    let why = fixture.findings().pop().unwrap().why;
    assert!(why.contains("clears the environment"), "{why}");
    let mut fixture = Fixture::new();
    fixture.drop_in("a.conf", &format!("ExecStartPre={PROGRAM} --verify"));
    fixture.is_fine();
    fixture.drop_in(
        "b.conf",
        "ExecStartPre=-/usr/bin/install -d /run/thing\nExecReload=/bin/kill -HUP $MAINPID",
    );
    fixture.warns(Check::Wrapper, "other programs too: install, kill");
}

#[test]
fn a_program_without_a_path_is_found_where_systemd_finds_it() {
    let (folder, name) = PROGRAM.rsplit_once('/').unwrap();
    let mut fixture = Fixture::new();
    fixture.mode(PROGRAM, 0o755);
    fixture.unit().exec_start = vec![vec![name.to_owned()]];
    fixture.is_fine();
    // What is no program, or in no such folder, is none.
    fixture.mode(PROGRAM, 0o644);
    fixture.warns(
        Check::Program,
        &format!("{name} was not found where systemd looks for it (/usr/local/sbin, "),
    );
    fixture.mode(PROGRAM, 0o755);
    fixture.drop_in("a.conf", "ExecSearchPath=/opt/bin:/srv/bin");
    fixture.warns(Check::Program, "(/opt/bin, /srv/bin)");
    fixture.drop_in("b.conf", &format!("ExecSearchPath={folder}"));
    fixture.is_fine();
}

#[test]
fn setuid_counts_for_another_user_who_may_gain_rights() {
    let mut fixture = Fixture::new();
    fixture.mode(PROGRAM, 0o4755);
    fixture.refuses(Check::SecureExecution, "is setuid to user ");
    fixture.unit().sandbox.no_new_privileges = true;
    fixture.is_fine();
    fixture.unit().sandbox.no_new_privileges = false;
    fixture.process_file("mountinfo", "20 1 8:1 / / rw,nosuid - ext4 a rw\n");
    fixture.is_fine();
    let mut fixture = Fixture::new();
    let owner = std::fs::metadata(fixture.root.path(PROGRAM)).unwrap().uid();
    fixture.mode(PROGRAM, 0o4755);
    fixture.file("/etc/passwd", &format!("same:x:{owner}:1::/:/bin/sh\n"));
    fixture.unit().user = "same".to_owned();
    fixture.is_fine();
    fixture.mode(PROGRAM, 0o2755);
    fixture.file("/etc/passwd", &format!("same:x:{owner}:4711::/:/bin/sh\n"));
    fixture.refuses(Check::SecureExecution, "is setgid to group ");
    // The loader ignores tunables as well; nothing else of the C library would be set.
    fixture.own_c_library();
    fixture.preload().settings.clear();
    fixture.is_fine();
    fixture.preload().settings =
        vec![("GLIBC_TUNABLES".to_owned(), "glibc.malloc.tcache_count=5".to_owned())];
    fixture.refuses(Check::SecureExecution, "is setgid to group ");
    assert!(fixture.findings()[0].why.contains("ignores GLIBC_TUNABLES"));
}

#[test]
#[ignore = "needs root"]
fn file_capabilities_count_for_users_other_than_root() {
    let mut fixture = Fixture::new();
    // cap_net_bind_service, permitted; the flag in the first byte makes it effective.
    let value = |effective: u8| [effective, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let set = |fixture: &Fixture, effective| {
        let flags = rustix::fs::XattrFlags::empty();
        rustix::fs::setxattr(fixture.root.path(PROGRAM), "security.capability", &value(effective), flags)
    };
    if set(&fixture, 1).is_err() {
        return heaptrial_testbed::skip("file capabilities cannot be set here; run as root");
    }
    fixture.refuses(Check::SecureExecution, "has file capabilities");
    fixture.unit().sandbox.no_new_privileges = true;
    fixture.refuses(Check::SecureExecution, "has file capabilities");
    set(&fixture, 0).unwrap();
    fixture.is_fine();
    fixture.unit().sandbox.no_new_privileges = false;
    fixture.refuses(Check::SecureExecution, "has file capabilities");
    fixture.unit().user = String::new();
    fixture.is_fine();
}

#[test]
fn secure_execution_of_the_running_process_is_seen() {
    let fixture = Fixture::new();
    let auxv = |secure: u64| {
        [6, 4096, 23, secure, 0, 0].iter().flat_map(|n: &u64| n.to_ne_bytes()).collect::<Vec<_>>()
    };
    fixture.bytes("/proc/321/auxv", &auxv(0));
    fixture.is_fine();
    fixture.bytes("/proc/321/auxv", &auxv(1));
    fixture.refuses(Check::SecureExecution, "AT_SECURE is 1");
}
