use heaptrial_model::Version;

use crate::preflight::Check;
use crate::preflight::fixture::{Fixture, LIBRARY, c_library};

const GIB: u64 = 1 << 30;

#[test]
fn others_must_not_be_able_to_change_the_library_or_its_source() {
    let mut fixture = Fixture::new();
    fixture.mode("/usr/lib/heaptrial", 0o777);
    fixture.refuses(Check::LibraryPath, "/usr/lib/heaptrial can be written by everybody");
    fixture.mode("/usr/lib/heaptrial", 0o755);
    fixture.file("/tmp/x.so", "");
    fixture.mode("/tmp", 0o1777);
    fixture.preload().source = Some("/tmp/x.so".into());
    fixture.refuses(Check::LibraryPath, "/tmp can be written by everybody");
}

#[test]
fn the_service_has_to_be_able_to_read_the_library() {
    let mut fixture = Fixture::new();
    fixture.mode("/usr/lib/heaptrial", 0o700);
    fixture.refuses(Check::LibraryPath, "the user thing cannot get through /usr/lib/heaptrial (mode 0700)");
    fixture.unit().user = "root".to_owned();
    fixture.is_fine();
}

#[test]
fn the_c_library_has_to_be_new_enough() {
    let mut fixture = Fixture::new();
    fixture.preload().needed_glibc = Some(Version::new("2.17"));
    fixture.is_fine();
    fixture.preload().needed_glibc = Some(Version::new("2.99"));
    fixture.refuses(Check::LibraryNeeds, "needs glibc 2.99 and this host has");
    fixture.bytes("/usr/lib/libc.so.6", &c_library());
    fixture.process_file("maps", "7f0000000000-7f0000001000 r-xp 00000000 08:01 7  /usr/lib/libc.so.6\n");
    fixture.refuses(Check::LibraryNeeds, "needs glibc 2.99 and it runs with 2.");
    fixture.preload().other_glibc = Some(Version::new("2.41"));
    fixture.refuses(Check::LibraryNeeds, "has to be run under glibc 2.41");
}

#[test]
fn settings_that_hide_the_library() {
    for (setting, path) in [
        ("TemporaryFileSystem", "/usr/lib"),
        ("InaccessiblePaths", "/usr/lib/heaptrial"),
        ("PrivateTmp", "/tmp"),
        ("ProtectHome", "/root"),
        ("RootDirectory", "/srv/jail"),
        ("RootImage", "/srv/jail.raw"),
    ] {
        let mut fixture = Fixture::new();
        let sandbox = &mut fixture.unit().sandbox;
        let library = match setting {
            "TemporaryFileSystem" => {
                sandbox.temporary_file_systems.push(format!("{path}:ro").into());
                LIBRARY
            }
            "InaccessiblePaths" => {
                sandbox.inaccessible_paths.push(format!("-{path}").into());
                LIBRARY
            }
            "RootDirectory" => {
                sandbox.root_directory = Some(path.into());
                fixture.bytes(
                    "/srv/jail/usr/bin/thing",
                    &std::fs::read(fixture.root.path("/usr/bin/thing")).unwrap(),
                );
                LIBRARY
            }
            "RootImage" => {
                sandbox.root_image = Some(path.into());
                LIBRARY
            }
            "PrivateTmp" => "/tmp/a/x.so",
            _ => "/root/a/x.so",
        };
        fixture.file(library, "");
        fixture.preload().library = Some(library.into());
        fixture.refuses(Check::HiddenPath, setting);
        let folder = library.rsplit_once('/').unwrap().0;
        fixture.drop_in("a.conf", &format!("BindReadOnlyPaths=-{folder}"));
        match setting {
            // systemd mounts nothing below what is inaccessible.
            "InaccessiblePaths" | "ProtectHome" => {
                fixture.refuses(Check::HiddenPath, setting);
                if setting == "ProtectHome" {
                    fixture.unit().sandbox.protect_home = "tmpfs".to_owned();
                    fixture.is_fine();
                }
            }
            _ => fixture.is_fine(),
        }
    }
}

#[test]
fn what_is_hidden_deeper_than_it_is_bound_stays_hidden() {
    let mut fixture = Fixture::new();
    fixture.unit().sandbox.temporary_file_systems = vec!["/usr/lib/heaptrial".into()];
    fixture.drop_in("a.conf", "BindReadOnlyPaths=/usr");
    fixture.refuses(Check::HiddenPath, "TemporaryFileSystem hides /usr/lib/heaptrial");
    fixture.drop_in("b.conf", "BindReadOnlyPaths=/usr/lib/heaptrial/allocators");
    fixture.is_fine();
}

#[test]
fn settings_that_hide_something_else() {
    let mut fixture = Fixture::new();
    fixture.unit().sandbox.temporary_file_systems = vec!["/var".into(), "/usr/lib64".into()];
    fixture.unit().sandbox.inaccessible_paths = vec!["/usr/lib/other".into()];
    fixture.unit().sandbox.root_directory = Some("/".into());
    fixture.is_fine();
    fixture.file("/root/a/x.so", "");
    fixture.preload().library = Some("/root/a/x.so".into());
    fixture.unit().sandbox.protect_home = "read-only".to_owned();
    fixture.is_fine();
}

#[test]
fn code_must_be_allowed_to_run_from_its_folder() {
    let mut fixture = Fixture::new();
    fixture.unit().sandbox.no_exec_paths = vec!["/".into()];
    fixture.refuses(Check::NoExec, "NoExecPaths=/ covers");
    fixture.unit().sandbox.exec_paths = vec!["/usr/lib".into()];
    fixture.is_fine();
    fixture.unit().sandbox.no_exec_paths.push("/usr/lib/heaptrial".into());
    fixture.refuses(Check::NoExec, "NoExecPaths=/usr/lib/heaptrial covers");
    let fixture = Fixture::new();
    fixture
        .process_file("mountinfo", "20 1 8:1 / / rw - ext4 a rw\n21 20 8:2 / /usr ro,noexec - ext4 b ro\n");
    fixture.refuses(Check::NoExec, "mounted noexec (/usr)");
}

#[test]
fn a_folder_that_is_a_link_leads_to_where_it_leads() {
    let mut fixture = Fixture::new();
    let link = |from: &str, to: &str| {
        std::fs::remove_dir_all(fixture.root.path(from)).unwrap();
        std::os::unix::fs::symlink(to, fixture.root.path(from)).unwrap();
    };
    fixture.file("/home/ht/0a/libjemalloc.so.2", "");
    link("/usr/lib/heaptrial/allocators", "/home/ht");
    fixture.unit().sandbox.protect_home = "no".to_owned();
    fixture.is_fine();
    fixture
        .process_file("mountinfo", "20 1 8:1 / / rw - ext4 a rw\n21 20 8:2 / /home rw,noexec - ext4 b rw\n");
    fixture.refuses(Check::NoExec, "mounted noexec (/home)");
    fixture.process_file("mountinfo", "20 1 8:1 / / rw - ext4 a rw\n");
    fixture.unit().sandbox.no_exec_paths = vec!["/usr/lib/heaptrial/allocators".into()];
    fixture.refuses(Check::NoExec, "NoExecPaths=/home/ht covers");
    fixture.unit().sandbox.no_exec_paths.clear();
    fixture.unit().sandbox.protect_home = "tmpfs".to_owned();
    fixture.refuses(Check::HiddenPath, "ProtectHome hides /home, and with it /home/ht/0a/libjemalloc.so.2");
    fixture.drop_in("a.conf", "BindReadOnlyPaths=-/usr/lib/heaptrial/allocators");
    fixture.is_fine();
}

#[test]
fn memory_deny_write_execute_matters_to_libraries_with_text_relocations_or_executable_stacks() {
    let mut fixture = Fixture::new();
    fixture.unit().sandbox.memory_deny_write_execute = true;
    fixture.is_fine();
    let path = fixture.root.path("/usr/lib/source.so");
    fixture.preload().source = Some("/usr/lib/source.so".into());
    fixture.bytes("/usr/lib/source.so", &c_library());
    fixture.is_fine();
    // Without a PT_GNU_STACK the loader takes the stack to be executable.
    let bytes = crate::preflight::fixture::program(Some("/lib64/ld-linux-x86-64.so.2"), b"");
    std::fs::write(path, bytes).unwrap();
    fixture.refuses(Check::MemoryDenyWriteExecute, "wants an executable stack");
    fixture.unit().sandbox.memory_deny_write_execute = false;
    fixture.is_fine();
}

#[test]
fn system_calls_that_allocators_need() {
    let mut fixture = Fixture::new();
    let usual = "access brk futex getrandom gettid madvise mmap mprotect munmap open prctl readlink sched_getaffinity sysinfo";
    let list = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    fixture.unit().sandbox.system_calls = list(usual);
    fixture.is_fine();
    fixture.unit().sandbox.system_calls =
        list(&usual.replace("madvise ", "").replace("sched_getaffinity ", ""));
    fixture.refuses(Check::SystemCalls, "does not allow madvise, sched_getaffinity, which jemalloc calls");
    fixture.unit().sandbox.system_calls = list(&usual.replace("open ", "").replace("prctl ", ""));
    fixture.refuses(Check::SystemCalls, "does not allow open, which jemalloc calls");
    fixture.preload().spec = "jemalloc@5.3.0?background_thread=true".parse().unwrap();
    fixture.refuses(Check::SystemCalls, "does not allow prctl, open, which jemalloc calls");
    fixture.preload().spec = "jemalloc@5.2.1".parse().unwrap();
    fixture.preload().version = Some(heaptrial_model::Version::new("5.2.1"));
    fixture.unit().sandbox.system_calls = list(&usual.replace("sched_getaffinity ", ""));
    fixture.is_fine();
    fixture.preload().spec = "mimalloc@3.0.1".parse().unwrap();
    fixture.preload().version = Some(heaptrial_model::Version::new("3.0.1"));
    fixture.unit().sandbox.system_calls = list(&usual.replace("prctl ", ""));
    fixture.is_fine();
    fixture.unit().sandbox.system_calls = list(&usual.replace("madvise ", ""));
    fixture.refuses(Check::SystemCalls, "does not allow madvise, which mimalloc calls");
    fixture.drop_in("a.conf", "SystemCallErrorNumber=EPERM");
    fixture.warns(Check::SystemCalls, "makes madvise fail");
    fixture.unit().sandbox.system_calls = list("madvise ptrace");
    fixture.unit().sandbox.system_calls_deny = true;
    fixture.warns(Check::SystemCalls, "makes madvise fail");
    fixture.drop_in("b.conf", "SystemCallErrorNumber=kill");
    fixture.refuses(Check::SystemCalls, "does not allow madvise");
    fixture.unit().sandbox.system_calls = list("madvise:ENOSYS ptrace");
    fixture.warns(Check::SystemCalls, "makes madvise fail");
    fixture.unit().sandbox.system_calls = list("ptrace @mount");
    fixture.is_fine();
}

#[test]
fn mappings_near_their_limit() {
    let mut fixture = Fixture::new();
    let maps: String =
        (0..40).map(|i| format!("{:x}-{:x} rw-p 00000000 00:00 0 \n", i << 12, (i + 1) << 12)).collect();
    fixture.process_file("maps", &maps);
    fixture.is_fine();
    fixture.file("/proc/sys/vm/max_map_count", "79\n");
    fixture.warns(Check::MapCount, "it has 40 mappings of at most 79");
    fixture.file("/proc/sys/vm/max_map_count", "65530\n");
    fixture.preload().spec = "hardened_malloc".parse().unwrap();
    fixture.warns(Check::MapCount, "hardened_malloc puts guard pages");
}

#[test]
fn limits_of_address_space() {
    let mut fixture = Fixture::new();
    let limit = |fixture: &Fixture, bytes: u64| {
        fixture.process_file("limits", &format!("Max address space         {bytes}  unlimited  bytes\n"));
    };
    limit(&fixture, 8 * GIB);
    fixture.is_fine();
    limit(&fixture, GIB / 4);
    fixture.warns(Check::AddressSpace, "LimitAS is 256 MiB");
    fixture.process_file("limits", "Max data size             100000000  unlimited  bytes\n");
    fixture.preload().spec = "jemalloc".parse().unwrap();
    fixture.is_fine();
    fixture.preload().spec = "snmalloc".parse().unwrap();
    fixture.refuses(Check::AddressSpace, "snmalloc reserves 256 GiB of data");
    limit(&fixture, 8 * GIB);
    fixture.preload().spec = "scudo".parse().unwrap();
    fixture.refuses(Check::AddressSpace, "scudo reserves 180 GiB of addresses");
    fixture.preload().spec = "mimalloc@3.0.1".parse().unwrap();
    fixture.preload().version = Some(Version::new("3.0.1"));
    fixture.is_fine();
    fixture.file("/proc/sys/vm/overcommit_memory", "2\n");
    fixture.file("/proc/meminfo", "CommitLimit: 4194304 kB\nCommitted_AS: 3145728 kB\n");
    fixture.warns(Check::AddressSpace, "vm.overcommit_memory is 2, 1.00 GiB are left");
    fixture.preload().version = Some(Version::new("2.0.9"));
    fixture.is_fine();
}

#[test]
fn memory_max_near_what_is_used() {
    let mut fixture = Fixture::new();
    fixture.unit().memory_max_bytes = Some(GIB);
    fixture.is_fine();
    fixture.unit().memory_max_bytes = Some(150 << 20);
    fixture.warns(Check::MemoryLimit, "it uses 100 MiB of MemoryMax=150 MiB");
}
