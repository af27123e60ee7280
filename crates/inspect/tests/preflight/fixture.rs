//! Services in fixture trees, for tests.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use heaptrial_allocator::{Examiner, Expected};
use heaptrial_host::HostRoot;
use heaptrial_host::systemd::Unit;
use heaptrial_inspect::Service;
use heaptrial_inspect::preflight::{Check, Finding, PlannedPreload, PlannedTreatment, Severity, check};

pub(crate) const LIBRARY: &str = "/usr/lib/heaptrial/allocators/0a/libjemalloc.so.2";
pub(crate) const PROGRAM: &str = "/usr/bin/thing";
const PID: i32 = 321;

/// A host with one service that nothing speaks against.
pub(crate) struct Fixture {
    folder: tempfile::TempDir,
    pub(crate) root: HostRoot,
    pub(crate) service: Service,
    pub(crate) planned: PlannedTreatment,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = HostRoot::at(folder.path());
        let service = serde_json::from_str(include_str!("fixture_service.json")).unwrap();
        let fixture = Self { folder, root, service, planned: planned() };
        fixture.file(LIBRARY, "");
        fixture.bytes(PROGRAM, &program(Some("/lib64/ld-linux-x86-64.so.2"), b""));
        fixture.mode(PROGRAM, 0o755);
        let unit = format!("[Service]\nExecStart={PROGRAM}\n");
        fixture.file("/etc/systemd/system/thing.service", &unit);
        fixture.environ("PATH=/bin\0INVOCATION_ID=0a\0");
        let exe = fixture.root.path(format!("/proc/{PID}/exe"));
        std::os::unix::fs::symlink(fixture.root.path(PROGRAM), exe).unwrap();
        fixture
    }

    pub(crate) fn file(&self, path: &str, text: &str) {
        self.bytes(path, text.as_bytes());
    }

    /// What its process was started with.
    pub(crate) fn environ(&self, text: &str) {
        self.file(&format!("/proc/{PID}/environ"), text);
    }

    pub(crate) fn bytes(&self, path: &str, bytes: &[u8]) {
        let path = self.root.path(path);
        let folders = path.strip_prefix(self.folder.path()).unwrap().ancestors().skip(1);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        for folder in folders {
            fs::set_permissions(self.folder.path().join(folder), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::write(&path, bytes).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    }

    pub(crate) fn mode(&self, path: &str, mode: u32) {
        fs::set_permissions(self.root.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }

    pub(crate) fn unit(&mut self) -> &mut Unit {
        &mut self.service.unit
    }

    pub(crate) fn preload(&mut self) -> &mut PlannedPreload {
        self.planned.preload.as_mut().unwrap()
    }

    /// The service's own C library in place of a library.
    pub(crate) fn own_c_library(&mut self) {
        self.preload().expected = Expected::own_c_library("glibc".parse().unwrap(), Vec::new());
    }

    pub(crate) fn findings(&self) -> Vec<Finding> {
        check(&self.root, &self.service, &self.planned, &Examiner::default())
    }

    /// The only finding has to be this one.
    #[track_caller]
    fn finds(&self, severity: Severity, check: Check, what: &str) {
        let found = self.findings();
        assert_eq!(found.len(), 1, "{found:#?}");
        assert_eq!((found[0].severity, found[0].check), (severity, check), "{found:#?}");
        assert!(found[0].what.contains(what), "{found:#?}");
    }

    #[track_caller]
    pub(crate) fn refuses(&self, check: Check, what: &str) {
        self.finds(Severity::Refuse, check, what);
    }

    #[track_caller]
    pub(crate) fn warns(&self, check: Check, what: &str) {
        self.finds(Severity::Warn, check, what);
    }

    #[track_caller]
    pub(crate) fn is_fine(&self) {
        assert_eq!(self.findings(), []);
    }
}

fn planned() -> PlannedTreatment {
    let expected = Expected {
        object: Some(LIBRARY.into()),
        ..Expected::own_c_library("jemalloc@5.3.0".parse().unwrap(), Vec::new())
    };
    let preload = PlannedPreload { expected, source: None, unset: Vec::new(), other_glibc: None };
    PlannedTreatment { preload: Some(preload), ..PlannedTreatment::default() }
}

/// A program for this machine: a header, the name of its loader, and constants.
pub(crate) fn program(interpreter: Option<&str>, constants: &[u8]) -> Vec<u8> {
    const HEADERS: u64 = 64 + 2 * 56;
    let loader = interpreter.map(|name| [name.as_bytes(), b"\0"].concat()).unwrap_or_default();
    let size = HEADERS + loader.len() as u64 + constants.len() as u64;
    let mut bytes = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
    bytes.extend([3_u16, machine].iter().flat_map(|half| half.to_le_bytes()));
    bytes.extend(1_u32.to_le_bytes());
    bytes.extend([0_u64, 64, 0].iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend(0_u32.to_le_bytes());
    bytes.extend([64_u16, 56, 2, 0, 0, 0].iter().flat_map(|half| half.to_le_bytes()));
    let mut segment = |kind: u32, flags: u32, offset: u64, length: u64| {
        bytes.extend([kind, flags].iter().flat_map(|half| half.to_le_bytes()));
        bytes.extend([offset, offset, offset, length, length, 1].iter().flat_map(|word| word.to_le_bytes()));
    };
    let (load, interp, stack) = (1, 3, 0x6474_e551);
    segment(load, 4, 0, size);
    match interpreter {
        Some(_) => segment(interp, 4, HEADERS, loader.len() as u64),
        None => segment(stack, 6, 0, 0),
    }
    bytes.extend(loader);
    bytes.extend(constants);
    bytes
}
