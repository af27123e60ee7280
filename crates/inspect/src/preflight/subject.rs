//! What is examined: a service and what is to be applied to it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::Service;
use heaptrial_allocator::Examiner;
use heaptrial_host::systemd::Unit;
use heaptrial_host::{HostRoot, Mapping, Process};

use crate::preflight::planned::PlannedTreatment;
use crate::preflight::unit_text::UnitText;
use heaptrial_host::trusted::resolve;

/// Where systemd looks for programs (`systemd-path search-binaries-default`); it is compiled in, and some builds have the
/// last two.
const SEARCH_PATH: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

pub(crate) struct Subject<'a> {
    pub(crate) root: &'a HostRoot,
    pub(crate) service: &'a Service,
    pub(crate) planned: &'a PlannedTreatment,
    pub(crate) examiner: &'a Examiner,
    pub(crate) text: UnitText,
    /// The main process, if there is one.
    pub(crate) process: Option<Process>,
    /// Its mappings, where they may be read.
    pub(crate) mappings: Option<Vec<Mapping>>,
}

impl<'a> Subject<'a> {
    pub(crate) fn new(
        root: &'a HostRoot,
        service: &'a Service,
        planned: &'a PlannedTreatment,
        examiner: &'a Examiner,
    ) -> Self {
        let process = service.process.as_ref().map(|process| Process::new(root, process.life.pid));
        let mappings = process.as_ref().and_then(|process| process.mappings().ok());
        let text = UnitText::read(root, &service.unit);
        Self { root, service, planned, examiner, text, process, mappings }
    }

    pub(crate) fn unit(&self) -> &'a Unit {
        &self.service.unit
    }

    /// The folder that the service has as its root, where it is not the host's.
    pub(crate) fn root_directory(&self) -> Option<&'a Path> {
        self.unit().sandbox.root_directory.as_deref().filter(|path| *path != Path::new("/"))
    }

    /// Where a file of the service is on the host, symbolic links followed.
    pub(crate) fn file(&self, path: &Path) -> Option<PathBuf> {
        resolve(self.root, &self.in_root_directory(path)).map(|path| self.root.path(path))
    }

    /// The same path in the folder that the service has as its root.
    pub(crate) fn in_root_directory(&self, path: &Path) -> PathBuf {
        match self.root_directory() {
            Some(folder) => folder.join(path.strip_prefix("/").unwrap_or(path)),
            None => path.to_owned(),
        }
    }

    pub(crate) fn started(&self) -> Option<PathBuf> {
        let word = self.unit().exec_start.last()?.first()?;
        Some(self.program(word))
    }

    /// The program that a word of a unit names, which systemd looks for itself where it has no slash. One that is nowhere
    /// stays as it is written.
    pub(crate) fn program(&self, word: &str) -> PathBuf {
        let named = PathBuf::from(word.trim_start_matches(['@', '-', ':', '+', '!', '|']));
        if named.is_absolute() {
            return named;
        }
        let found = self.search_path().into_iter().map(|folder| folder.join(&named));
        let is_program = |path: &PathBuf| {
            let metadata = self.file(path).and_then(|file| fs::metadata(file).ok());
            metadata.is_some_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
        };
        found.into_iter().find(is_program).unwrap_or(named)
    }

    /// The folders in which systemd looks for programs that are named without one.
    pub(crate) fn search_path(&self) -> Vec<PathBuf> {
        let own = self.text.collected("Service", "ExecSearchPath");
        let folders: Vec<&str> = own.iter().flat_map(|found| found.value.split(':')).collect();
        let folders = if folders.is_empty() { SEARCH_PATH.to_vec() } else { folders };
        folders.into_iter().filter(|folder| folder.starts_with('/')).map(PathBuf::from).collect()
    }

    /// User and group id that the service runs as, where they can be told.
    pub(crate) fn user(&self) -> Option<(u32, u32)> {
        let name = self.unit().user.as_str();
        if name.is_empty() && !self.unit().scope.is_system() {
            let own = self.unit().scope.owner();
            return Some((own, rustix::process::getegid().as_raw()));
        }
        if name.is_empty() || name == "root" || name == "0" {
            return Some((0, self.group().unwrap_or(0)));
        }
        let passwd = fs::read_to_string(self.root.path("/etc/passwd")).ok()?;
        let mut entries = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let entry = entries.find(|fields| {
            fields.first() == Some(&name) || (fields.get(2) == Some(&name) && name.parse::<u32>().is_ok())
        });
        let fields = entry?;
        let group = self.group().or_else(|| fields.get(3)?.parse().ok())?;
        Some((fields.get(2)?.parse().ok()?, group))
    }

    fn group(&self) -> Option<u32> {
        let name = &self.text.last("Service", "Group")?.value;
        if let Ok(id) = name.parse() {
            return Some(id);
        }
        let groups = fs::read_to_string(self.root.path("/etc/group")).ok()?;
        let mut entries = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
        entries.find(|fields| fields.first() == Some(&name.as_str()))?.get(2)?.parse().ok()
    }

    pub(crate) fn process_file(&self, name: &str) -> Option<Vec<u8>> {
        let pid = self.process.as_ref()?.pid();
        fs::read(self.root.process_dir(pid).join(name)).ok()
    }

    /// A file of the host with one number in it, such as those below `/proc/sys`.
    pub(crate) fn number(&self, path: &str) -> Option<u64> {
        fs::read_to_string(self.root.path(path)).ok()?.trim().parse().ok()
    }
}
