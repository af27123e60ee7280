use heaptrial_model::{Identity, Linkage};

use crate::fixture::{Fixture, PROGRAM, program};
use heaptrial_inspect::preflight::Check;

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
        ..Identity::default()
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
    fixture.warns(Check::Program, "No such file");
    let mut fixture = Fixture::new();
    fixture.own_c_library();
    fixture.bytes(PROGRAM, &program(None, b""));
    fixture.is_fine();
}

#[test]
fn a_program_with_its_own_malloc_is_refused_and_for_one_linked_to_another_is_a_warning() {
    let mut fixture = Fixture::new();
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
fn a_program_or_a_library_of_it_that_frees_by_another_allocator() {
    let folder = tempfile::tempdir().unwrap();
    let compile = |text: &str, arguments: &str| {
        std::fs::write(folder.path().join("p.c"), text).unwrap();
        let mut command = std::process::Command::new("cc");
        command.current_dir(&folder).arg("p.c").args(arguments.split(' '));
        assert!(command.status().unwrap().success());
        std::fs::read(folder.path().join("p")).unwrap()
    };
    compile("void sdallocx(void) {}\n", "-shared -fPIC -o p");
    std::fs::rename(folder.path().join("p"), folder.path().join("libx.so")).unwrap();
    let frees = "void sdallocx(void *, unsigned long, int);\nint main(void) { sdallocx(0, 1, 0); }\n";
    let (refusal, mimalloc) = ("calls sdallocx of jemalloc", "mimalloc".parse().unwrap());

    let mut fixture = Fixture::new();
    fixture.bytes(PROGRAM, &compile(frees, "-o p ./libx.so"));
    fixture.is_fine();
    fixture.preload().expected.spec = mimalloc;
    fixture.refuses(Check::OwnAllocator, refusal);
    fixture.bytes(PROGRAM, &program(LOADER, b""));
    fixture.is_fine();
    fixture.file("/proc/321/maps", "7f0000000000-7f0000001000 r-xp 00000000 08:01 4711 /usr/lib/libdb.so\n");
    fixture.bytes("/usr/lib/libdb.so", &compile(&frees.replace("main", "db"), "-shared -fPIC -o p"));
    fixture.refuses(Check::OwnAllocator, &format!("/usr/lib/libdb.so {refusal}"));
}
