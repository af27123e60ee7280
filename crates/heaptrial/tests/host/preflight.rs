//! What the preflight refuses really does not take hold, and what it lets pass does: each case is a service of a real
//! systemd, on which the treatment is tried first and then applied.

use crate::support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use heaptrial_inspect::preflight::{Check, Finding};
use heaptrial_testbed::{Container, drawn};

use support::bed::Bed;
use support::{stderr, stdout, wait_for};

/// A service, a treatment, and what the preflight is to say.
struct Case {
    name: &'static str,
    /// What ExecStart names, below `/opt/cases` unless it is a path.
    program: &'static str,
    /// Further lines of `[Service]`.
    lines: &'static [&'static str],
    /// The library to preload.
    library: &'static str,
    /// Another drop-in: its name and its lines.
    drop_in: Option<(&'static str, &'static str)>,
    /// The refusal, if there is to be one.
    refusal: Option<Check>,
}

const JEMALLOC: &str = "/usr/lib/heaptrial/allocators/case/libjemalloc.so.2";
const NOBODY: &str = "User=nobody";

const fn case(name: &'static str, lines: &'static [&'static str], refusal: Option<Check>) -> Case {
    Case { name, program: "sleeper", lines, library: JEMALLOC, drop_in: None, refusal }
}

impl Case {
    const fn program(self, program: &'static str) -> Self {
        Self { program, ..self }
    }

    const fn library(self, library: &'static str) -> Self {
        Self { library, ..self }
    }

    const fn drop_in(self, name: &'static str, line: &'static str) -> Self {
        Self { drop_in: Some((name, line)), ..self }
    }

    fn unit(&self) -> String {
        format!("case-{}.service", self.name)
    }
}

const CASES: &[Case] = &[
    case("plain", &[], None),
    case("nobody", &[NOBODY], None),
    // Secure execution.
    case("setuid", &[NOBODY], Some(Check::SecureExecution)).program("setuid"),
    case("setgid", &[NOBODY], Some(Check::SecureExecution)).program("setgid"),
    case("filecap", &[NOBODY], Some(Check::SecureExecution)).program("filecap"),
    case("ambient", &[NOBODY, "AmbientCapabilities=CAP_NET_BIND_SERVICE"], None),
    // Programs.
    case("static", &[], Some(Check::Program)).program("static"),
    case("own-malloc", &[], Some(Check::OwnAllocator)).program("own"),
    case("script", &[], None).program("script"),
    // The environment.
    case("envfile", &["EnvironmentFile=/etc/case-preload"], Some(Check::Environment)),
    case("envfile-other", &["EnvironmentFile=/etc/case-other"], None),
    case("later", &[], Some(Check::Environment)).drop_in("zzz-x.conf", "Environment=LD_PRELOAD=/nothing.so"),
    case("later-reset", &[], Some(Check::Environment)).drop_in("zzz-x.conf", "Environment="),
    case("edited", &[], None).drop_in("override.conf", "Environment=LD_PRELOAD=/nothing.so"),
    case("earlier", &[], None).drop_in("10-x.conf", "Environment=LD_PRELOAD=/nothing.so"),
    case("unset", &["UnsetEnvironment=LD_PRELOAD"], Some(Check::Environment)),
    case("unset-value", &["UnsetEnvironment=LD_PRELOAD=/nothing.so"], None),
    // Where the library is.
    case("tmpfs", &["TemporaryFileSystem=/usr/lib/heaptrial"], Some(Check::Probe)),
    case(
        "tmpfs-bound",
        &["TemporaryFileSystem=/usr/lib/heaptrial", "BindReadOnlyPaths=-/usr/lib/heaptrial/allocators"],
        None,
    ),
    case("inaccessible", &["InaccessiblePaths=/usr/lib/heaptrial"], Some(Check::Probe)),
    case("privatetmp", &["PrivateTmp=yes"], Some(Check::Probe)).library("/var/tmp/case/libjemalloc.so.2"),
    case("protecthome", &["ProtectHome=yes"], Some(Check::Probe)).library("/root/case/libjemalloc.so.2"),
    case("protecthome-tmpfs-bound", &["ProtectHome=tmpfs", "BindReadOnlyPaths=/root/case"], None)
        .library("/root/case/libjemalloc.so.2"),
    case(
        "rootdir",
        &["RootDirectory=/srv/jail", "BindReadOnlyPaths=/opt /usr/lib/JAIL"],
        Some(Check::HiddenPath),
    ),
    case(
        "hardened",
        &[NOBODY, "PrivateTmp=yes", "ProtectHome=yes", "ProtectSystem=strict", "NoNewPrivileges=yes"],
        None,
    ),
    case("noexec", &["NoExecPaths=/usr/lib/heaptrial"], Some(Check::Probe)),
    case(
        "noexec-exec",
        &["NoExecPaths=/usr/lib/heaptrial", "ExecPaths=-/usr/lib/heaptrial/allocators"],
        None,
    ),
    case("noexec-mount", &[], Some(Check::Probe)).library("/mnt/noexec/libjemalloc.so.2"),
    case("closed", &[NOBODY], Some(Check::Probe)).library("/usr/lib/case-closed/libjemalloc.so.2"),
    case("closed-root", &[], None).library("/usr/lib/case-closed/libjemalloc.so.2"),
    // What the library is.
    case("newer-glibc", &[], Some(Check::Probe)).library("/usr/lib/case/libnewer.so"),
    case("mdwe", &["MemoryDenyWriteExecute=yes"], None),
    case("textrel", &[], None).library("/usr/lib/case/libtextrel.so"),
    case("textrel-mdwe", &["MemoryDenyWriteExecute=yes"], Some(Check::Probe))
        .library("/usr/lib/case/libtextrel.so"),
    case("execstack", &[], None).library("/usr/lib/case/libexecstack.so"),
    case("execstack-mdwe", &["MemoryDenyWriteExecute=yes"], Some(Check::Probe))
        .library("/usr/lib/case/libexecstack.so"),
    // Limits and system calls.
    case("limit-as", &["LimitAS=4G"], None),
    case("calls", &["SystemCallFilter=@system-service"], None),
    case(
        "calls-madvise",
        &["SystemCallFilter=@system-service", "SystemCallFilter=~madvise"],
        Some(Check::SystemCalls),
    ),
    case("calls-affinity", &["SystemCallFilter=~sched_getaffinity"], Some(Check::SystemCalls)),
    case("calls-error", &["SystemCallFilter=~madvise", "SystemCallErrorNumber=EPERM"], None),
];

/// The least that an allocator can be.
const BUMP: &str = "\
#include <stddef.h>
#include <string.h>
static char heap[1 << 27];
static size_t used;
static char *take(size_t size) { return heap + __atomic_fetch_add(&used, (size + 79) & ~63ul, __ATOMIC_RELAXED) + 64; }
void *malloc(size_t size) { char *block = take(size + 64); ((size_t *)block)[-1] = size; return block; }
void free(void *block) { (void)block; }
void *calloc(size_t count, size_t size) { return memset(malloc(count * size), 0, count * size); }
void *realloc(void *block, size_t size) {
    void *moved = malloc(size);
    size_t old = block ? ((size_t *)block)[-1] : 0;
    return block ? memcpy(moved, block, old < size ? old : size) : moved;
}
int posix_memalign(void **out, size_t align, size_t size) {
    size_t at = (size_t)malloc(size + align);
    *out = (void *)((at + align - 1) / align * align);
    return 0;
}
void *aligned_alloc(size_t align, size_t size) { void *out; posix_memalign(&out, align, size); return out; }
void *memalign(size_t align, size_t size) { return aligned_alloc(align, size); }
";

/// Commands that make the programs and libraries of the cases out of sources, in a folder of this machine.
fn build(folder: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preflight");
    std::fs::write(folder.join("stub.c"), "void newer(void) {}\n").unwrap();
    std::fs::write(folder.join("stub.map"), "GLIBC_2.99 { newer; };\n").unwrap();
    std::fs::write(folder.join("newer.c"), "void newer(void); void call(void) { newer(); }\n").unwrap();
    std::fs::write(folder.join("bump.c"), BUMP).unwrap();
    std::fs::write(
        folder.join("textrel.s"),
        ".text\n.globl own\nown: .quad own\n.section .note.GNU-stack,\"\",%progbits\n",
    )
    .unwrap();
    std::fs::write(
        folder.join("stack.s"),
        ".text\n.globl own\nown: nop\n.section .note.GNU-stack,\"x\",%progbits\n",
    )
    .unwrap();
    let source = |name: &str| sources.join(name).display().to_string();
    let (sleeper, own) = (source("sleeper.c"), source("own_malloc.c"));
    for words in [
        format!("-O1 -o sleeper {sleeper}"),
        format!("-O1 -static -o static {sleeper}"),
        format!("-O1 -fno-builtin -o own {own}"),
        "-shared -fPIC -nostdlib -Wl,-soname,libc.so.6 -Wl,--version-script=stub.map -o stub.so stub.c"
            .to_owned(),
        "-shared -fPIC -nostdlib -o libnewer.so newer.c ./stub.so".to_owned(),
        "-shared -fPIC -fno-builtin -Wl,-z,notext -o libtextrel.so bump.c textrel.s".to_owned(),
        "-shared -fPIC -fno-builtin -o libexecstack.so bump.c stack.s".to_owned(),
    ] {
        let output = Command::new("cc").current_dir(folder).args(words.split(' ')).output().unwrap();
        assert!(output.status.success(), "cc {words}\n{}", stderr(&output));
    }
}

/// Puts programs, libraries and units in their places and starts the services without a treatment.
fn install(host: &Container, folder: &Path) {
    let multiarch = host.ok(&["sh", "-c", "dirname /usr/lib/*/libjemalloc.so.2"]).trim().to_owned();
    let name = multiarch.rsplit('/').next().unwrap();
    for program in ["sleeper", "static", "own"] {
        let bytes = std::fs::read(folder.join(program)).unwrap();
        host.write(format!("/opt/cases/{program}"), bytes, 0o755).unwrap();
    }
    host.write("/opt/cases/script", "#!/bin/sh\nexec /opt/cases/sleeper\n", 0o755).unwrap();
    for library in ["libnewer.so", "libtextrel.so", "libexecstack.so"] {
        host.write(format!("/usr/lib/case/{library}"), std::fs::read(folder.join(library)).unwrap(), 0o644)
            .unwrap();
    }
    host.write("/etc/case-preload", "A=1\nLD_PRELOAD=/nothing.so\n", 0o644).unwrap();
    host.write("/etc/case-other", "A=1\n", 0o644).unwrap();
    let places: Vec<&str> =
        CASES.iter().map(|case| case.library).filter(|path| path.contains("jemalloc")).collect();
    let script = format!(
        "set -e; cd /opt/cases; for p in setuid setgid filecap; do cp sleeper $p; done
         chmod 4755 setuid; chgrp daemon setgid; chmod 2755 setgid
         setcap cap_net_bind_service+ep filecap
         mkdir -p /mnt/noexec /srv/jail; mount -t tmpfs -o noexec,mode=755 tmpfs /mnt/noexec
         for l in {}; do mkdir -p $(dirname $l); cp {multiarch}/libjemalloc.so.2 $l; done
         chmod 700 /usr/lib/case-closed
         cd /srv/jail; mkdir -p usr/lib; for l in lib lib64; do ln -sfn usr/$l $l; done
         mkdir -p usr/lib64; cp -L /lib64/ld-* usr/lib64/ 2>/dev/null || true; cp -L {multiarch}/../ld-* usr/lib/ 2>/dev/null || true",
        places.join(" ")
    );
    host.ok(&["sh", "-c", &script]);
    for case in CASES {
        let program = format!("/opt/cases/{}", case.program);
        let lines = case.lines.join("\n").replace("JAIL", name);
        let text = format!("[Service]\nType=exec\nExecStart={program}\n{lines}\n");
        host.write(format!("/etc/systemd/system/{}", case.unit()), text, 0o644).unwrap();
        if let Some((name, line)) = case.drop_in {
            let path = format!("/etc/systemd/system/{}.d/{name}", case.unit());
            host.write(path, format!("[Service]\n{line}\n"), 0o644).unwrap();
        }
    }
    restart(host);
}

fn restart(host: &Container) {
    host.ok(&["systemctl", "daemon-reload"]);
    let mut words = vec!["systemctl".to_owned(), "restart".to_owned()];
    words.extend(CASES.iter().map(Case::unit));
    // Services that cannot start are among the cases.
    host.run(&words);
}

/// Whether the unit's process is up with code of the library mapped and, where the library has a `malloc`, used.
fn takes_hold(bed: &Bed, case: &Case) -> bool {
    let host = &bed.container;
    let (unit, library) = (case.unit(), case.library);
    let pid = wait_for(&format!("the start of {unit}"), Duration::from_secs(20), || {
        let told = host.ok(&["systemctl", "show", "-P", "MainPID", "-P", "ActiveState", &unit]);
        let (pid, state) = (told.lines().next()?.parse::<u32>().ok()?, told.lines().nth(1)?.to_owned());
        if ["failed", "inactive"].contains(&state.as_str()) {
            return Some(None);
        }
        let comm = host.read_text(format!("/proc/{pid}/comm")).ok()?;
        (comm == "ready\n").then_some(Some(pid))
    });
    let Some(pid) = pid else { return false };
    let maps = host.read_text(format!("/proc/{pid}/maps")).unwrap();
    if !maps.lines().any(|line| line.ends_with(library) && line.contains(" r-x")) {
        return false;
    }
    if !library.contains("jemalloc") {
        return true;
    }
    let value = bed.json(&format!("allocators identify {pid} --json"));
    value["processes"][0]["identity"]["family"] == "jemalloc"
}

/// What the preflight says of each case, tried on the host itself.
fn findings(bed: &Bed) -> Vec<Vec<Finding>> {
    let mut words = ["/ht/examples/preflight_cases", "/ht/heaptrial"].map(str::to_owned).to_vec();
    words.extend(CASES.iter().map(|case| format!("{}={}", case.unit(), case.library)));
    let lines = bed.container.ok(&words);
    lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
#[ignore = "needs root and a container"]
fn what_is_refused_does_not_take_hold_and_what_is_not_does() {
    let Some(bed) = Bed::boot() else { return };
    let host = &bed.container;
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    install(host, folder.path());
    let before = bed.snapshot();
    let pids = || CASES.iter().map(|case| bed.property(&case.unit(), "MainPID")).collect::<Vec<_>>();
    let pids_before = pids();

    let mut wrong = Vec::new();
    for (case, findings) in CASES.iter().zip(findings(&bed)) {
        let mut refused: Vec<Check> = findings.iter().filter(|f| f.refuses()).map(|f| f.check).collect();
        if case.library.starts_with("/var/tmp") {
            // That it is open to all is another reason, which says nothing about taking hold.
            refused = if refused == [Check::LibraryPath] { vec![Check::Probe] } else { refused };
        }
        let expected: Vec<Check> = case.refusal.into_iter().collect();
        if refused != expected || findings.iter().any(|f| !f.refuses() && f.check == Check::Probe) {
            wrong.push(format!("{}: expected {:?}, found {findings:#?}", case.name, case.refusal));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // Nothing is left of the probes, and the services were not touched.
    assert_eq!(before.difference(&bed.snapshot()), Vec::<String>::new());
    assert_eq!(pids(), pids_before);
    let left = host.ok(&["systemctl", "list-units", "--all", "--plain", "--no-legend", "heaptrial-probe-*"]);
    assert_eq!(left, "");

    for case in CASES {
        let path = format!("/etc/systemd/system/{}.d/zz-heaptrial.conf", case.unit());
        host.write(path, format!("[Service]\nEnvironment=LD_PRELOAD={}\n", case.library), 0o644).unwrap();
    }
    restart(host);
    for case in CASES {
        let holds = takes_hold(&bed, case);
        println!("{:<16} refused: {:<5} takes hold: {holds}", case.name, case.refusal.is_some());
        if holds != case.refusal.is_none() {
            let log = host.ok(&["journalctl", "-u", &case.unit(), "-n", "5", "-o", "cat", "--no-pager"]);
            wrong.push(format!("{}: refused {:?}, takes hold {holds}\n{log}", case.name, case.refusal));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "needs root and a container"]
fn the_exit_code_says_whether_it_takes_hold() {
    let Some(()) = drawn(0, 4) else { return };
    let Some(bed) = Bed::boot() else { return };
    let host = &bed.container;
    host.write("/etc/good.env", "A=1\n", 0o644).unwrap();
    host.write("/etc/bad.env", "LD_PRELOAD=/nothing.so\n", 0o644).unwrap();
    for name in ["good", "bad"] {
        let text = format!("[Service]\nExecStart=/usr/bin/sleep infinity\nEnvironmentFile=/etc/{name}.env\n");
        host.write(format!("/etc/systemd/system/pf-{name}.service"), text, 0o644).unwrap();
    }
    host.ok(&["systemctl", "daemon-reload"]);
    host.ok(&["systemctl", "start", "pf-good", "pf-bad"]);

    let good = bed.succeeds("preflight pf-good -a jemalloc --offline");
    assert!(stdout(&good).contains("jemalloc would take hold on 1 service"), "{}", stdout(&good));
    let both = bed.heaptrial("preflight pf-* -a jemalloc --offline");
    assert_eq!(both.status.code(), Some(3));
    let text = stdout(&both);
    assert!(
        text.contains(
            "refuse environment: LD_PRELOAD is set to `/nothing.so` by a file of EnvironmentFile=\n"
        ),
        "{text}"
    );
    assert!(text.ends_with("jemalloc is refused on 1 of 2 services.\n"), "{text}");
    let value = support::json(&bed.heaptrial("preflight pf-* -a jemalloc --offline --json"));
    assert_eq!(value["refused"], true);
    assert_eq!(value["services"], serde_json::json!(["pf-bad.service", "pf-good.service"]));
    let finding = &value["findings"][0];
    assert_eq!((&finding["check"], &finding["severity"]), (&"environment".into(), &"refuse".into()));

    let own = bed.heaptrial("preflight pf-good -a glibc?arena_max=1 --offline");
    assert_eq!(own.status.code(), Some(0), "{}{}", stdout(&own), stderr(&own));
    assert_eq!(bed.json("preflight pf-good -a jemalloc --offline --json")["tried"], true);
    // Without probes what an EnvironmentFile says is not known.
    let read = bed.succeeds("preflight pf-bad -a jemalloc --offline --no-probe");
    assert!(stderr(&read).contains("No probe was started"), "{}", stderr(&read));
    let user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=/tmp"];
    let read = ["/ht/heaptrial", "preflight", "pf-good", "-a", "jemalloc", "--offline"];
    let read = host.run(&[user.as_slice(), read.as_slice()].concat());
    assert!(stderr(&read).contains("No probe was started"), "{}{}", stdout(&read), stderr(&read));
    // What a treatment takes away is announced with its value, and only what the arm's allocator reads is taken.
    let text = "[Service]\nExecStart=/usr/bin/sleep infinity\nEnvironment=MALLOC_ARENA_MAX=2\n";
    host.write("/etc/systemd/system/pf-arena.service", text, 0o644).unwrap();
    host.ok(&["systemctl", "daemon-reload"]);
    host.ok(&["systemctl", "start", "pf-arena"]);
    let own = bed.succeeds("preflight pf-arena -a glibc --offline");
    assert!(stdout(&own).contains("MALLOC_ARENA_MAX is `2` today and is removed"), "{}", stdout(&own));
    let other = bed.succeeds("preflight pf-arena -a jemalloc --offline");
    assert!(!stdout(&other).contains("MALLOC_ARENA_MAX"), "{}", stdout(&other));
    for (arguments, code) in [
        ("preflight nonesuch -a jemalloc --offline", 3),
        ("preflight nonesuch* -a jemalloc --offline", 3),
        ("preflight pf-good -a nosuch --offline", 2),
        ("preflight pf;good -a jemalloc --offline", 2),
    ] {
        let output = bed.heaptrial(arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {}", stderr(&output));
    }
}
