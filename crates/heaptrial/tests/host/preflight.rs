//! What the preflight refuses really does not take hold, and what it lets pass does: each case is a service of a real
//! systemd, examined first and then given the treatment.

use crate::support;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use heaptrial_allocator::Examiner;
use heaptrial_host::HostRoot;
use heaptrial_inspect::Service;
use heaptrial_inspect::preflight::{Check, PlannedPreload, PlannedTreatment, check};
use heaptrial_testbed::{Container, drawn};
use serde_json::Value;

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
    case("setuid-as-root", &[], None).program("setuid"),
    case("setuid-nnp", &[NOBODY, "NoNewPrivileges=yes"], None).program("setuid"),
    case("setgid", &[NOBODY], Some(Check::SecureExecution)).program("setgid"),
    case("setgid-as-root", &[], Some(Check::SecureExecution)).program("setgid"),
    case("setgid-own", &[NOBODY, "Group=daemon"], None).program("setgid"),
    case("setgid-nnp", &[NOBODY, "NoNewPrivileges=yes"], None).program("setgid"),
    case("filecap", &[NOBODY], Some(Check::SecureExecution)).program("filecap"),
    case("filecap-as-root", &[], None).program("filecap"),
    case("filecap-nnp", &[NOBODY, "NoNewPrivileges=yes"], Some(Check::SecureExecution)).program("filecap"),
    case("filecap-p", &[NOBODY], Some(Check::SecureExecution)).program("filecap-p"),
    case("filecap-p-nnp", &[NOBODY, "NoNewPrivileges=yes"], None).program("filecap-p"),
    case("filecap-i", &[NOBODY], None).program("filecap-i"),
    case("ambient", &[NOBODY, "AmbientCapabilities=CAP_NET_BIND_SERVICE"], None),
    // Programs.
    case("static", &[], Some(Check::Program)).program("static"),
    case("static-pie", &[], Some(Check::Program)).program("static-pie"),
    case("own-malloc", &[], Some(Check::OwnAllocator)).program("own"),
    case("script", &[], None).program("script"),
    // The environment.
    case("envfile", &["EnvironmentFile=/etc/case-preload"], Some(Check::Environment)),
    case("envfile-glob", &["EnvironmentFile=/etc/case-pre*"], Some(Check::Environment)),
    case("envfile-other", &["EnvironmentFile=/etc/case-other"], None),
    case("later", &[], Some(Check::Environment)).drop_in("zzz-x.conf", "Environment=LD_PRELOAD=/nothing.so"),
    case("later-reset", &[], Some(Check::Environment)).drop_in("zzz-x.conf", "Environment="),
    case("edited", &[], None).drop_in("override.conf", "Environment=LD_PRELOAD=/nothing.so"),
    case("edited-reset", &[], None).drop_in("override.conf", "Environment="),
    case("earlier", &[], None).drop_in("10-x.conf", "Environment=LD_PRELOAD=/nothing.so"),
    case("earlier-reset", &[], None).drop_in("10-x.conf", "Environment="),
    case("unset", &["UnsetEnvironment=LD_PRELOAD"], Some(Check::Environment)),
    case("unset-value", &["UnsetEnvironment=LD_PRELOAD=/nothing.so"], None),
    // Where the library is.
    case("tmpfs", &["TemporaryFileSystem=/usr/lib/heaptrial"], Some(Check::HiddenPath)),
    case(
        "tmpfs-bound",
        &["TemporaryFileSystem=/usr/lib/heaptrial", "BindReadOnlyPaths=-/usr/lib/heaptrial/allocators"],
        None,
    ),
    case("inaccessible", &["InaccessiblePaths=/usr/lib/heaptrial"], Some(Check::HiddenPath)),
    case(
        "inaccessible-bound",
        &["InaccessiblePaths=/usr/lib/heaptrial", "BindReadOnlyPaths=-/usr/lib/heaptrial/allocators"],
        Some(Check::HiddenPath),
    ),
    case("privatetmp", &["PrivateTmp=yes"], Some(Check::HiddenPath))
        .library("/var/tmp/case/libjemalloc.so.2"),
    case("protecthome", &["ProtectHome=yes"], Some(Check::HiddenPath)).library("/root/case/libjemalloc.so.2"),
    case("protecthome-bound", &["ProtectHome=yes", "BindReadOnlyPaths=/root/case"], Some(Check::HiddenPath))
        .library("/root/case/libjemalloc.so.2"),
    case("protecthome-tmpfs-bound", &["ProtectHome=tmpfs", "BindReadOnlyPaths=/root/case"], None)
        .library("/root/case/libjemalloc.so.2"),
    case("protecthome-ro", &["ProtectHome=read-only"], None).library("/root/case/libjemalloc.so.2"),
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
    case("noexec", &["NoExecPaths=/usr/lib/heaptrial"], Some(Check::NoExec)),
    case(
        "noexec-exec",
        &["NoExecPaths=/usr/lib/heaptrial", "ExecPaths=-/usr/lib/heaptrial/allocators"],
        None,
    ),
    case("noexec-mount", &[], Some(Check::NoExec)).library("/mnt/noexec/libjemalloc.so.2"),
    case("closed", &[NOBODY], Some(Check::LibraryPath)).library("/usr/lib/case-closed/libjemalloc.so.2"),
    case("closed-root", &[], None).library("/usr/lib/case-closed/libjemalloc.so.2"),
    // What the library is.
    case("newer-glibc", &[], Some(Check::LibraryNeeds)).library("/usr/lib/case/libnewer.so"),
    case("mdwe", &["MemoryDenyWriteExecute=yes"], None),
    case("textrel", &[], None).library("/usr/lib/case/libtextrel.so"),
    case("textrel-mdwe", &["MemoryDenyWriteExecute=yes"], Some(Check::MemoryDenyWriteExecute))
        .library("/usr/lib/case/libtextrel.so"),
    case("execstack", &[], None).library("/usr/lib/case/libexecstack.so"),
    case("execstack-mdwe", &["MemoryDenyWriteExecute=yes"], Some(Check::MemoryDenyWriteExecute))
        .library("/usr/lib/case/libexecstack.so"),
    // System calls.
    case("calls", &["SystemCallFilter=@system-service"], None),
    case(
        "calls-madvise",
        &["SystemCallFilter=@system-service", "SystemCallFilter=~madvise"],
        Some(Check::SystemCalls),
    ),
    case("calls-affinity", &["SystemCallFilter=~sched_getaffinity"], Some(Check::SystemCalls)),
    case("calls-other", &["SystemCallFilter=~ptrace mount"], None),
    case("calls-error", &["SystemCallFilter=~madvise", "SystemCallErrorNumber=EPERM"], None),
];

/// Commands that make the programs and libraries of the cases out of sources, in a folder of this machine.
fn build(folder: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/preflight");
    std::fs::write(folder.join("stub.c"), "void newer(void) {}\n").unwrap();
    std::fs::write(folder.join("stub.map"), "GLIBC_2.99 { newer; };\n").unwrap();
    std::fs::write(folder.join("newer.c"), "void newer(void); void call(void) { newer(); }\n").unwrap();
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
        format!("-O1 -static-pie -o static-pie {sleeper}"),
        format!("-O1 -fno-builtin -o own {own}"),
        "-shared -fPIC -nostdlib -Wl,-soname,libc.so.6 -Wl,--version-script=stub.map -o stub.so stub.c"
            .to_owned(),
        "-shared -fPIC -nostdlib -o libnewer.so newer.c ./stub.so".to_owned(),
        "-shared -Wl,-z,notext -o libtextrel.so textrel.s".to_owned(),
        "-shared -o libexecstack.so stack.s".to_owned(),
    ] {
        let output = Command::new("cc").current_dir(folder).args(words.split(' ')).output().unwrap();
        assert!(output.status.success(), "cc {words}\n{}", stderr(&output));
    }
}

/// Puts programs, libraries and units in their places and starts the services without a treatment.
fn install(host: &Container, folder: &Path) {
    let multiarch = host.ok(&["sh", "-c", "dirname /usr/lib/*/libjemalloc.so.2"]).trim().to_owned();
    let name = multiarch.rsplit('/').next().unwrap();
    for program in ["sleeper", "static", "static-pie", "own"] {
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
        "set -e; cd /opt/cases; for p in setuid setgid filecap filecap-p filecap-i; do cp sleeper $p; done
         chmod 4755 setuid; chgrp daemon setgid; chmod 2755 setgid
         setcap cap_net_bind_service+ep filecap; setcap cap_net_bind_service+p filecap-p
         setcap cap_net_bind_service+i filecap-i
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

fn planned(library: &str, root: &HostRoot) -> PlannedTreatment {
    let needed = heaptrial_allocator::examine_object(&root.path(library)).unwrap().needed_glibc;
    let preload = PlannedPreload {
        spec: "jemalloc".parse().unwrap(),
        version: None,
        library: Some(PathBuf::from(library)),
        source: Some(PathBuf::from(library)),
        settings: Vec::new(),
        unset: Vec::new(),
        needed_glibc: needed,
        other_glibc: None,
    };
    PlannedTreatment { preload: Some(preload), ..PlannedTreatment::default() }
}

#[test]
#[ignore = "needs root and a container"]
fn what_is_refused_does_not_take_hold_and_what_is_not_does() {
    let Some(bed) = Bed::boot() else { return };
    let host = &bed.container;
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    install(host, folder.path());

    let listed = bed.json("services case-* --json");
    let listed: Vec<Value> = serde_json::from_value(listed["services"].clone()).unwrap();
    let services: Vec<Service> =
        listed.into_iter().map(|service| serde_json::from_value(service).unwrap()).collect();
    assert_eq!(services.len(), CASES.len());
    let root = HostRoot::at(host.root());
    let mut wrong = Vec::new();
    for case in CASES {
        let service = services.iter().find(|service| service.name().as_str() == case.unit()).unwrap();
        let findings = check(&root, service, &planned(case.library, &root), &Examiner::default());
        let mut refused: Vec<Check> = findings.iter().filter(|f| f.refuses()).map(|f| f.check).collect();
        // That /var/tmp is open to all is another reason, which says nothing about taking hold.
        refused.retain(|check| *check != Check::LibraryPath || case.refusal == Some(Check::LibraryPath));
        if refused.iter().any(|check| Some(*check) != case.refusal)
            || refused.is_empty() != case.refusal.is_none()
        {
            wrong.push(format!("{}: expected {:?}, found {findings:#?}", case.name, case.refusal));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));

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
fn the_command_tells_by_its_exit_code() {
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
        text.contains("refuse environment: LD_PRELOAD is set to `/nothing.so` by /etc/bad.env line 1"),
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
    for (arguments, code, said) in [
        ("preflight nonesuch -a jemalloc --offline", 3, "there is no unit of this name"),
        ("preflight nonesuch* -a jemalloc --offline", 3, "no loaded service matches `nonesuch*`"),
        ("preflight tor@ -a jemalloc --offline", 3, "whose instances are `tor@*`"),
        ("preflight pf-good -a nosuch --offline", 2, "there is no allocator `nosuch`"),
        ("preflight pf;good -a jemalloc --offline", 2, "is not a pattern of services"),
        ("preflight pf-good", 2, "--allocator"),
    ] {
        let output = bed.heaptrial(arguments);
        let told = stdout(&output) + &stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{arguments}: {told}");
        assert!(told.contains(said), "{arguments}: {told}");
    }
}
