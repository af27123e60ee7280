//! Identification of small programs made with the system's compiler. Stand-ins for allocators are
//! enough here; the real ones are identified in the tests of the binary.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use heaptrial_allocator::{Identity, Linkage, Unreached, identify};
use heaptrial_host::{HostRoot, Process};

const PROGRAM: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <unistd.h>
    int main(void) { char *p = malloc(1000); p[7] = 1; puts(p[7] ? "ready" : ""); fflush(stdout); sleep(100); free(p); return 0; }
"#;

/// Defines what mimalloc does, over a heap that only grows.
const STAND_IN: &str = r#"
    #include <stddef.h>
    #include <string.h>
    static char heap[1 << 24]; static size_t used;
    void *malloc(size_t n) { void *p = heap + used; used += (n + 31) & ~(size_t)15; return p; }
    void free(void *p) { (void)p; }
    void *calloc(size_t n, size_t m) { return memset(malloc(n * m), 0, n * m); }
    void *realloc(void *p, size_t n) { void *q = malloc(n); if (p) memcpy(q, p, n); return q; }
    void *mi_malloc(size_t n) { return malloc(n); }
    int mi_version(void) { return 30302; }
"#;

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("program.c"), PROGRAM).unwrap();
        fs::write(folder.path().join("standin.c"), STAND_IN).unwrap();
        Self(folder)
    }

    fn compile(&self, output: &str, arguments: &[&str]) -> PathBuf {
        let status = Command::new("cc")
            .current_dir(self.0.path())
            .args(["-O2", "-fno-builtin", "-w", "-o", output])
            .args(arguments)
            .status()
            .expect("a C compiler is needed for these tests");
        assert!(status.success(), "cc {arguments:?}");
        self.0.path().join(output)
    }

    fn library(&self) -> PathBuf {
        self.compile("libstandin.so", &["-shared", "-fPIC", "-Wl,-soname,libstandin.so", "standin.c"])
    }
}

struct Running(Child);

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    fn identity(&self) -> Identity {
        identify(&Process::new(&HostRoot::default(), self.0.id() as i32)).unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn identity_of(program: &Path) -> Identity {
    Running::start(&mut Command::new(program)).identity()
}

fn version(identity: &Identity) -> Option<&str> {
    identity.version.as_ref().map(|version| version.as_str())
}

#[test]
fn the_c_library_is_found_where_nothing_else_is() {
    let identity = identity_of(&Folder::new().compile("program", &["program.c"]));
    assert_eq!((identity.family.as_str(), identity.linkage), ("glibc", Linkage::Libc), "{identity:?}");
    assert_eq!(version(&identity), Some(heaptrial_allocator::host_glibc().as_str()));
}

/// At a fixed address the program's stub of `malloc` stands for the function everywhere, so that the
/// slots of libraries point into the program.
#[test]
fn a_program_at_a_fixed_address_that_takes_the_address_of_malloc_does_not_define_it() {
    let folder = Folder::new();
    let user = "#include <stdlib.h>\nvoid *(*volatile allocate)(size_t) = malloc;\nvoid *user(void) { return malloc(64); }\n";
    fs::write(folder.0.path().join("user.c"), user).unwrap();
    let library = folder.compile("libuser.so", &["-shared", "-fPIC", "user.c"]);
    let main = PROGRAM.replace("malloc(1000)", "((void *(*)(size_t))taken)(1000); user()");
    let main =
        format!("#include <stdlib.h>\nvoid *user(void); void *(*volatile taken)(size_t) = malloc;\n{main}");
    fs::write(folder.0.path().join("program.c"), main).unwrap();
    let program = folder.compile("fixed", &["-no-pie", "-fno-pic", "program.c", library.to_str().unwrap()]);
    let identity = identity_of(&program);
    assert_eq!((identity.family.as_str(), identity.linkage), ("glibc", Linkage::Libc), "{identity:#?}");
}

#[test]
fn a_preload_is_found_with_its_settings() {
    let folder = Folder::new();
    let (library, program) = (folder.library(), folder.compile("program", &["program.c"]));
    let mut command = Command::new(&program);
    command.env("LD_PRELOAD", &library).env("MIMALLOC_PURGE_DELAY", "0").env("MALLOC_ARENA_MAX", "1");
    let identity = Running::start(&mut command).identity();
    assert_eq!(
        (identity.family.as_str(), identity.linkage),
        ("mimalloc", Linkage::Preloaded),
        "{identity:?}"
    );
    assert_eq!(version(&identity), Some("3.3.2"));
    assert_eq!(identity.path.as_deref(), Some(library.canonicalize().unwrap().as_path()));
    let settings: Vec<_> = identity.settings.keys().map(String::as_str).collect();
    assert_eq!(settings, ["MIMALLOC_PURGE_DELAY"]);
}

#[test]
fn a_preload_that_the_loader_refuses_is_not_believed() {
    let folder = Folder::new();
    let program = folder.compile("program", &["program.c"]);
    let mut command = Command::new(&program);
    command.env("LD_PRELOAD", folder.0.path().join("libmimalloc.so"));
    let identity = Running::start(&mut command).identity();
    assert_eq!((identity.family.as_str(), identity.linkage), ("glibc", Linkage::Libc), "{identity:?}");
}

#[test]
fn a_linked_library_is_found_even_when_its_file_was_replaced() {
    let folder = Folder::new();
    let library = folder.library();
    let runpath = format!("-Wl,--no-as-needed,-rpath,{}", folder.0.path().display());
    let program = folder.compile("program", &["program.c", &runpath, "libstandin.so"]);
    let process = Running::start(&mut Command::new(program));
    assert_eq!(process.identity().linkage, Linkage::Linked);
    fs::remove_file(&library).unwrap();
    fs::write(&library, "something else").unwrap();
    let identity = process.identity();
    assert_eq!((identity.family.as_str(), version(&identity)), ("mimalloc", Some("3.3.2")), "{identity:?}");
}

#[test]
fn a_library_that_was_replaced_since_has_not_the_version_of_todays_package() {
    let folder = Folder::new();
    let library = folder.library();
    let program = folder.compile("program", &["program.c"]);
    let running = Running::start(Command::new(&program).env("LD_PRELOAD", &library));
    // A host with these packages and this process.
    let host = tempfile::tempdir().unwrap();
    let lists = host.path().join("var/lib/dpkg/info");
    fs::create_dir_all(&lists).unwrap();
    let real = library.canonicalize().unwrap();
    fs::write(lists.join("libstandin.list"), format!("{}\n", real.display())).unwrap();
    let status = "Package: libstandin\nStatus: install ok installed\nVersion: 2.0.9-1\n";
    fs::write(host.path().join("var/lib/dpkg/status"), status).unwrap();
    fs::create_dir(host.path().join("proc")).unwrap();
    let id = running.0.id();
    std::os::unix::fs::symlink(format!("/proc/{id}"), host.path().join(format!("proc/{id}"))).unwrap();
    let builds = || {
        let found = identify(&Process::new(&HostRoot::at(host.path()), id as i32)).unwrap();
        let own = found.libraries.into_iter().find(|library| library.name == "libstandin.so").unwrap();
        (own.build(), own.build_id.is_some())
    };
    assert_eq!(builds(), ("2.0.9-1".to_owned(), true));
    fs::remove_file(&library).unwrap();
    fs::write(&library, "another").unwrap();
    assert!(builds().0.starts_with("build id "), "{:?}", builds());
}

#[test]
fn an_allocator_inside_the_program_is_found() {
    let folder = Folder::new();
    for flags in [&["-no-pie"][..], &["-pie", "-fPIE"], &["-rdynamic"], &["-static"]] {
        let program = folder.compile("program", &[&["program.c", "standin.c"], flags].concat());
        let identity = identity_of(&program);
        assert_eq!(
            (identity.family.as_str(), identity.linkage),
            ("mimalloc", Linkage::Static),
            "{flags:?} {identity:?}"
        );
        assert_eq!(version(&identity), Some("3.3.2"), "{flags:?}");
    }
}

#[test]
fn a_stripped_program_without_marks_is_unknown() {
    let folder = Folder::new();
    for flags in [&["-s"][..], &["-s", "-static"]] {
        let program = folder.compile("program", &[&["program.c", "standin.c"], flags].concat());
        let identity = identity_of(&program);
        assert_eq!(identity.family, "unknown", "{flags:?} {identity:?}");
        assert_eq!(identity.linkage, Linkage::Static, "{flags:?}");
        assert!(
            identity.evidence.iter().any(|line| line.contains("no mark of a known allocator")),
            "{identity:?}"
        );
    }
}

#[test]
fn glibc_in_a_static_program_is_known_by_its_messages() {
    let folder = Folder::new();
    for flags in [&["-static"][..], &["-static", "-s"], &["-static-pie", "-fPIE"]] {
        let program = folder.compile("program", &[&["program.c"], flags].concat());
        let identity = identity_of(&program);
        assert_eq!(
            (identity.family.as_str(), identity.linkage),
            ("glibc", Linkage::Static),
            "{flags:?} {identity:?}"
        );
    }
}

#[test]
fn an_allocator_of_the_programs_own_beside_malloc_is_named() {
    let folder = Folder::new();
    let own = "#include <stddef.h>\nvoid *mi_malloc(size_t n) { return 0; }\nint mi_version(void) { return 217; }\n";
    fs::write(folder.0.path().join("own.c"), own).unwrap();
    let program = folder.compile("program", &["program.c", "own.c"]);
    let identity = identity_of(&program);
    assert_eq!((&*identity.family, identity.carried.as_deref()), ("glibc", Some("mimalloc")), "{identity:?}");
    assert!(identity.label().ends_with(" + mimalloc"), "{}", identity.label());
}

#[test]
fn packed_relocations_need_the_glibc_that_reads_them() {
    let folder = Folder::new();
    let flags = ["-shared", "-fPIC", "-Wl,-z,pack-relative-relocs", "standin.c"];
    let facts = heaptrial_allocator::check_library(&folder.compile("libpacked.so", &flags)).unwrap();
    assert_eq!(facts.needed_glibc.unwrap().as_str(), "2.36");
}

/// With RTLD_DEEPBIND a plugin is bound to an allocator of its own.
#[test]
fn the_allocator_of_a_plugin_is_not_that_of_the_process() {
    let folder = Folder::new();
    let plugin = "#include <stdlib.h>\nvoid *plugin(void) { return malloc(64); }\n";
    fs::write(folder.0.path().join("plugin.c"), plugin).unwrap();
    let library = folder.library();
    let runpath = format!("-Wl,-rpath,{}", folder.0.path().display());
    folder.compile("libplugin.so", &["-shared", "-fPIC", "plugin.c", &runpath, library.to_str().unwrap()]);
    let open = "void *h = dlopen(getenv(\"PLUGIN\"), RTLD_NOW | RTLD_DEEPBIND); ((void *(*)(void))dlsym(h, \"plugin\"))();";
    let main = PROGRAM.replace("int main(void) {", &format!("int main(void) {{ {open}"));
    let main = format!("#define _GNU_SOURCE\n#include <dlfcn.h>\n{main}");
    fs::write(folder.0.path().join("program.c"), main).unwrap();
    for flags in [&["-pie", "-fPIE"][..], &["-no-pie"]] {
        let program = folder.compile("program", &[&["program.c"], flags].concat());
        let plugin = folder.0.path().join("libplugin.so");
        let identity = Running::start(Command::new(program).env("PLUGIN", plugin)).identity();
        let told = |name: &str| {
            identity.evidence.iter().any(|line| line.contains("bound slots") && line.ends_with(name))
        };
        assert!(told("libstandin.so") && told("libc.so.6"), "{identity:#?}");
        assert_eq!((identity.family.as_str(), identity.linkage), ("glibc", Linkage::Libc), "{identity:#?}");
    }
}

/// A library keeps a pointer to `malloc` that the program may replace (libuv, jansson, hiredis): that is data, and no binding.
#[test]
fn a_pointer_to_malloc_that_the_program_replaces_is_no_binding() {
    let folder = Folder::new();
    let hooked = "#include <stdlib.h>\nvoid *(*hook)(size_t) = malloc;\n";
    fs::write(folder.0.path().join("hooked.c"), hooked).unwrap();
    let other = "#include <stddef.h>\nvoid *counted(size_t n) { return 0; }\n";
    fs::write(folder.0.path().join("other.c"), other).unwrap();
    let runpath = format!("-Wl,-rpath,{}", folder.0.path().display());
    for name in ["hooked", "other"] {
        folder.compile(&format!("lib{name}.so"), &["-shared", "-fPIC", &format!("{name}.c")]);
    }
    let main = PROGRAM.replace("int main(void) {", "int main(void) { hook = counted;");
    let declared = "#include <stddef.h>\nextern void *(*hook)(size_t); void *counted(size_t n);";
    fs::write(folder.0.path().join("program.c"), format!("{declared}\n{main}")).unwrap();
    let program = folder.compile("program", &["program.c", &runpath, "-L.", "-lhooked", "-lother"]);
    let identity = identity_of(&program);
    assert_eq!((identity.family.as_str(), identity.linkage), ("glibc", Linkage::Libc), "{identity:#?}");
}

/// Whoever may not follow `/proc/PID/map_files`, as root in a container.
#[test]
fn a_preload_whose_file_is_gone_is_not_taken_for_the_c_library() {
    let folder = Folder::new();
    let (library, program) = (folder.library(), folder.compile("program", &["program.c"]));
    let process = Running::start(Command::new(&program).env("LD_PRELOAD", &library));
    give_up_following_mapped_files();
    assert_eq!(process.identity().family, "mimalloc");
    fs::remove_file(&program).unwrap();
    fs::write(&program, "another program").unwrap();
    assert_eq!(process.identity().family, "mimalloc", "the program's own file can be read");
    fs::remove_file(&library).unwrap();
    fs::write(&library, "another library").unwrap();
    let identity = process.identity();
    assert_eq!(identity.family, "unknown", "{identity:#?}");
    let why = identity.evidence.last().unwrap();
    assert!(why.contains("libstandin.so, which is not known to define it"), "{identity:#?}");
}

/// Only of this thread, and so of this test.
fn give_up_following_mapped_files() {
    use rustix::thread::{CapabilitySet, capabilities, set_capabilities};
    let mut sets = capabilities(None).unwrap();
    sets.effective.remove(CapabilitySet::SYS_ADMIN | CapabilitySet::CHECKPOINT_RESTORE);
    set_capabilities(None, sets).unwrap();
}

#[test]
fn mimalloc_in_a_program_counts_unless_it_is_python() {
    let folder = Folder::new();
    let names = ["eager_commit_delay", "reserve_huge_os_pages", "use_numa_nodes", "arena_purge_mult"];
    for (more, carried) in [("PYTHONMALLOC", None), ("PYTHON", Some("mimalloc"))] {
        let texts: Vec<String> = names.iter().chain([&more]).map(|name| format!("{name:?}")).collect();
        let main = format!("const char *const marks[] = {{ \"\", {} }};\n{PROGRAM}", texts.join(", "));
        fs::write(folder.0.path().join("program.c"), main).unwrap();
        let program = folder.compile("program", &["-rdynamic", "program.c"]);
        let identity = Running::start(&mut Command::new(program)).identity();
        assert_eq!((&*identity.family, identity.carried.as_deref()), ("glibc", carried), "{identity:?}");
    }
}

#[test]
fn of_a_variable_that_is_there_twice_the_first_counts() {
    let folder = Folder::new();
    let program = folder.compile("program", &["program.c"]);
    let twice = "#include <unistd.h>\nint main(int c, char **v) { char *e[] = { \"MALLOC_ARENA_MAX=1\", \"MALLOC_ARENA_MAX=4\", 0 }; return execve(v[1], v + 1, e); }\n";
    fs::write(folder.0.path().join("twice.c"), twice).unwrap();
    let starter = folder.compile("twice", &["twice.c"]);
    let identity = Running::start(Command::new(starter).arg(program)).identity();
    assert_eq!(identity.settings["MALLOC_ARENA_MAX"], "1", "{identity:?}");
}

#[test]
fn a_process_that_is_gone_is_an_error() {
    let error = identify(&Process::new(&HostRoot::default(), i32::MAX)).unwrap_err().to_string();
    assert!(error.contains("cannot examine process 2147483647"), "{error}");
}

#[test]
fn programs_that_no_allocator_reaches() {
    let folder = Folder::new();
    let unreached = |name: &str, allocator: Option<&str>, arguments: &[&str]| {
        let program = folder.compile(name, arguments);
        Unreached::of_program(&program, allocator.map(|spec| spec.parse().unwrap()).as_ref())
    };
    let jemalloc = Some("jemalloc@5.3.0");
    assert_eq!(unreached("plain", jemalloc, &["program.c"]), None);
    assert_eq!(unreached("static", jemalloc, &["-static", "program.c"]), Some(Unreached::Static));
    assert_eq!(unreached("static", Some("glibc?arena_max=1"), &["-static", "program.c"]), None);
    let musl = "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1";
    assert!(matches!(unreached("musl", Some("glibc"), &["program.c", musl]), Some(Unreached::Musl(_))));
    let own = unreached("own", jemalloc, &["program.c", "standin.c"]);
    assert_eq!(own, Some(Unreached::OwnMalloc));
    let beside = "void *mi_malloc(unsigned long n) { return 0; }\n";
    fs::write(folder.0.path().join("beside.c"), beside).unwrap();
    let carried = unreached("carried", Some("glibc"), &["program.c", "beside.c"]);
    assert!(matches!(carried, Some(Unreached::Carried(family, _)) if family == "mimalloc"));
    assert_eq!(unreached("own", None, &["program.c", "standin.c"]), None);
}

/// Databases free by functions that jemalloc alone has; a weak import of them (as of folly) is looked at before it is called.
#[test]
fn a_program_that_calls_functions_of_one_allocator_is_bound_to_it() {
    let folder = Folder::new();
    let library = "#include <stdlib.h>\nvoid sdallocx(void *p, size_t n, int f) { free(p); }\n";
    fs::write(folder.0.path().join("own.c"), library).unwrap();
    let library = folder.compile("libown.so", &["-shared", "-fPIC", "own.c"]);
    let bound = |attribute: &str| {
        let main = PROGRAM.replace("free(p);", "if (sdallocx) sdallocx(p, 1000, 0);");
        let main = format!("#include <stddef.h>\n{attribute} void sdallocx(void *, size_t, int);\n{main}");
        fs::write(folder.0.path().join("program.c"), main).unwrap();
        let program = folder.compile("program", &["program.c", library.to_str().unwrap()]);
        Unreached::of_program(&program, Some(&"mimalloc".parse().unwrap()))
    };
    assert_eq!(bound(""), Some(Unreached::Calls("sdallocx", "jemalloc")));
    assert_eq!(bound("__attribute__((weak))"), None);
}
