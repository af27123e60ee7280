//! A treatment that is tried: a probe runs where the service would run, and reports what it runs.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use heaptrial_allocator::{Expected, PROBE_COMMAND, ProbeAnswer, prove};
use heaptrial_host::systemd::{Systemd, SystemdError, TransientCommand, TransientEnd};
use heaptrial_model::ServiceName;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use tempfile::TempDir;

use crate::Service;
use crate::preflight::finding::{Check, Finding, Findings};
use crate::preflight::planned::{PlannedPreload, PlannedTreatment};

/// A probe answers within a fraction of a second.
const LIMIT: Duration = Duration::from_secs(20);

/// Names of transient units and of folders for libraries begin with this.
const PREFIX: &str = "heaptrial-probe-";

const NOT_TRIED: &str =
    "whether the treatment takes hold is not known; the identity proof after the restart decides";

/// Starts probes in transient units of this host.
#[derive(Debug)]
pub struct Prober<'a> {
    systemd: &'a Systemd,
    /// The program with the command of the probe.
    program: PathBuf,
    /// Whether a library that is not installed may be copied to where services find it, for the time of the probe.
    copies: bool,
}

enum Ran {
    Answered(Box<ProbeAnswer>, String),
    Failed(Failure),
}

struct Failure {
    how: String,
    stderr: String,
    /// Whether the kernel killed it for a system call.
    by_filter: bool,
}

impl<'a> Prober<'a> {
    /// `None` where this process may not start units: without root, and for services of a user.
    pub fn of(systemd: &'a Systemd) -> Option<Self> {
        let may = systemd.scope().is_system() && rustix::process::geteuid().is_root();
        let program = std::env::current_exe().ok().filter(|_| may)?;
        Some(Self::with_program(systemd, program))
    }

    /// With another program that has the command of the probe.
    pub fn with_program(systemd: &'a Systemd, program: PathBuf) -> Self {
        Self { systemd, program, copies: true }
    }

    /// Tries what is installed alone, and writes nothing: a command that is killed must not leave what no journal has.
    pub fn without_copies(self) -> Self {
        Self { copies: false, ..self }
    }

    /// Tries the treatments of those services that are `to_try`, several at a time; in their order.
    pub(crate) fn try_all(
        &self,
        planned: &[(&Service, PlannedTreatment)],
        to_try: &[bool],
    ) -> Vec<Vec<Finding>> {
        let preloads: Vec<(&Service, Option<&PlannedPreload>)> = planned
            .iter()
            .zip(to_try)
            .map(|((service, treatment), to_try)| (*service, treatment.preload.as_ref().filter(|_| *to_try)))
            .collect();
        let mut placed = Placed::default();
        for preload in preloads.iter().filter_map(|(_, preload)| *preload) {
            if let (Some(library), Some(source), true) = (preload.library(), &preload.source, self.copies) {
                placed.add(library, source);
            }
        }
        let is_there = |preload: &&PlannedPreload| self.copies || preload.library().is_none_or(Path::exists);
        let try_one = |(service, preload): &(&Service, Option<&PlannedPreload>)| {
            let mut findings = Findings::new(service.name().clone());
            if let Some(preload) = preload.filter(is_there) {
                let library = preload.library().map(|library| placed.library(library)).transpose();
                match library {
                    Ok(library) => self.try_one(service.name(), preload, library, &mut findings),
                    Err(error) => {
                        not_tried(&format!("the library cannot be installed: {error}"), &mut findings)
                    }
                }
            }
            findings.into_sorted()
        };
        preloads.par_iter().map(try_one).collect()
    }

    fn try_one(
        &self,
        service: &ServiceName,
        preload: &PlannedPreload,
        library: Option<&Path>,
        findings: &mut Findings,
    ) {
        let environment = preload.environment_with(library);
        let failure = match self.run(service, &environment, &preload.unset) {
            Ok(Ran::Answered(answer, stderr)) => {
                let object = library.map(Path::to_owned);
                let expected = Expected { object, ..preload.expected.clone() };
                return compare((&expected, &environment), (&answer, &stderr), findings);
            }
            Ok(Ran::Failed(failure)) => failure,
            Err(error) => return not_tried(&error.to_string(), findings),
        };
        // What fails without the treatment as well says nothing about it.
        if !failure.by_filter {
            match self.run(service, &[], &[]) {
                Ok(Ran::Answered(..)) => {}
                Ok(Ran::Failed(without)) => return not_tried(&without.said(), findings),
                Err(error) => return not_tried(&error.to_string(), findings),
            }
        }
        findings.refuse(
            if failure.by_filter { Check::SystemCalls } else { Check::Probe },
            format!("a process in the unit's place {}", failure.said()),
            "the service would fail in the same way with this treatment",
            fix_of(&failure.stderr, failure.by_filter),
        );
    }

    fn run(
        &self,
        service: &ServiceName,
        environment: &[(String, String)],
        unset: &[String],
    ) -> Result<Ran, SystemdError> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let unit = format!("{PREFIX}{}-{number}.service", std::process::id());
        let unit: ServiceName = unit.parse().map_err(|error: heaptrial_model::InvalidText| {
            SystemdError::Call { doing: format!("naming {unit}"), said: error.to_string() }
        })?;
        let command = TransientCommand {
            unit: &unit,
            program: &self.program,
            arguments: &[PROBE_COMMAND],
            environment,
            unset,
            limit: LIMIT,
        };
        Ok(Ran::of(self.systemd.run_like(service, &command)?))
    }
}

impl Ran {
    fn of(end: TransientEnd) -> Self {
        const SIGSYS: i32 = 31;
        let TransientEnd { stdout, stderr, status } = end;
        let killed = matches!(status.exec_main_code, 2 | 3);
        let how = match ProbeAnswer::read(&stdout) {
            Ok(answer) if status.result == "success" => return Self::Answered(Box::new(answer), stderr),
            _ if status.result == "timeout" => format!("did not end within {} s", LIMIT.as_secs()),
            _ if killed => format!("was killed by signal {}", status.exec_main_status),
            _ if status.exec_main_status != 0 => format!("ended with exit code {}", status.exec_main_status),
            Err(how) if status.result == "success" => how,
            _ => format!("did not run ({})", status.result),
        };
        let by_filter = killed && status.exec_main_status == SIGSYS;
        Self::Failed(Failure { how, stderr, by_filter })
    }
}

impl Failure {
    fn said(&self) -> String {
        match self.stderr.lines().find(|line| !line.trim().is_empty()) {
            _ if self.by_filter => {
                "was killed for a system call that SystemCallFilter= does not allow".to_owned()
            }
            Some(line) => format!("{}: {}", self.how, line.trim()),
            None => self.how.clone(),
        }
    }
}

fn not_tried(why: &str, findings: &mut Findings) {
    findings.warn(
        Check::Probe,
        format!("the treatment could not be tried: {why}"),
        NOT_TRIED,
        "see `journalctl -u 'heaptrial-probe-*'`; exit code 203 means that the unit does not let Heaptrial's own program run",
    );
}

/// Whether the probe ran what the treatment says.
fn compare(
    (expected, environment): (&Expected, &[(String, String)]),
    (answer, stderr): (&ProbeAnswer, &str),
    findings: &mut Findings,
) {
    for (name, wanted) in environment {
        let found = answer.environment.get(name);
        if found == Some(wanted) {
            continue;
        }
        findings.refuse(
            Check::Environment,
            match found {
                Some(found) => format!("{name} is set to `{found}` by a file of EnvironmentFile="),
                None => format!("{name} is removed by UnsetEnvironment="),
            },
            "EnvironmentFile= and UnsetEnvironment= win over any Environment=, so the treatment would not take hold",
            "take the variable out there: `systemctl cat UNIT` shows the lines",
        );
        return;
    }
    if let Err(mismatch) = prove(expected, &answer.identity(expected)) {
        let mismatch = mismatch.with_stderr(stderr);
        let reason = mismatch.loader_message.unwrap_or(mismatch.why);
        findings.refuse(
            Check::Probe,
            format!(
                "a process in the unit's place runs {} and not {}: {reason}",
                mismatch.found, mismatch.expected
            ),
            "the unit would be active without the treatment",
            fix_of(&reason, false),
        );
    }
}

/// What helps against what the loader, or the kernel, said.
fn fix_of(said: &str, by_filter: bool) -> &'static str {
    const FIXES: [(&str, &str); 6] = [
        (
            "cannot open shared object file",
            "let the unit's user see the library: `chmod o+rX` of the folders, or BindReadOnlyPaths=-/usr/lib/heaptrial/allocators where the unit hides them (InaccessiblePaths= and ProtectHome=yes cannot be undone so)",
        ),
        (
            "failed to map segment",
            "let code run from there: ExecPaths=-/usr/lib/heaptrial/allocators in the unit, a file system without noexec, an AppArmor profile that has `mr` for it; or take LimitAS= out",
        ),
        (
            "executable stack",
            "build the library with a stack that is not executable, or take MemoryDenyWriteExecute= out",
        ),
        (
            "for relocation",
            "build the library as position-independent code, or take MemoryDenyWriteExecute= out",
        ),
        (
            "version `GLIBC",
            "give a version that was built for this host's release, or build it here (`--source crate,git`)",
        ),
        (
            "is no part of the treatment",
            "take the setting out of the unit, or make it part of the arm's spec",
        ),
    ];
    if by_filter {
        return "add SystemCallFilter=@system-service to the unit";
    }
    let known = FIXES.iter().find(|(message, _)| said.contains(message));
    known.map_or(
        "see `journalctl -u 'heaptrial-probe-*'`, and the limits and the sandbox of the unit",
        |(_, fix)| fix,
    )
}

/// Libraries where services would find them: as they are installed, or for the time of the probes in a folder alongside.
#[derive(Debug, Default)]
struct Placed {
    /// Where each is, by where it is to be installed.
    libraries: BTreeMap<PathBuf, io::Result<PathBuf>>,
    folders: Vec<TempDir>,
}

impl Placed {
    /// One that was not added is where it is installed.
    fn library<'p>(&'p self, installed: &'p Path) -> Result<&'p Path, &'p io::Error> {
        match self.libraries.get(installed) {
            None => Ok(installed),
            Some(placed) => placed.as_ref().map(PathBuf::as_path),
        }
    }

    fn add(&mut self, installed: &Path, source: &Path) {
        if !self.libraries.contains_key(installed) && !installed.exists() {
            let placed = self.place(installed, source);
            self.libraries.insert(installed.to_owned(), placed);
        }
    }

    fn place(&mut self, installed: &Path, source: &Path) -> io::Result<PathBuf> {
        let all = installed.ancestors().nth(2).unwrap_or(installed);
        remove_left_over(all);
        fs::create_dir_all(all)?;
        for folder in all.ancestors().take(2) {
            fs::set_permissions(folder, Permissions::from_mode(0o755))?;
        }
        let folder = tempfile::Builder::new()
            .prefix(&format!("{PREFIX}{}-", std::process::id()))
            .permissions(Permissions::from_mode(0o755))
            .tempdir_in(all)?;
        let library = folder.path().join(installed.file_name().unwrap_or_default());
        self.folders.push(folder);
        fs::copy(source, &library)?;
        fs::set_permissions(&library, Permissions::from_mode(0o644))?;
        Ok(library)
    }
}

impl Drop for Placed {
    fn drop(&mut self) {
        let all = self.folders.first().and_then(|folder| folder.path().parent()).map(Path::to_owned);
        self.folders.clear();
        // The folders of all libraries, where no trial has any.
        for folder in all.iter().flat_map(|all| all.ancestors().take(2)) {
            let _ = fs::remove_dir(folder);
        }
    }
}

/// Removes what a preflight that was killed left.
fn remove_left_over(all: &Path) {
    for entry in fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_there_for_the_time_of_a_probe_and_left_overs_go() {
        let folder = tempfile::tempdir().unwrap();
        let all = folder.path().join("heaptrial/allocators");
        let source = folder.path().join("source.so");
        fs::write(&source, "x").unwrap();
        let installed = [all.join("a-1/lib.so"), all.join("b-2/lib.so")];
        let mut placed = Placed::default();
        for installed in &installed {
            placed.add(installed, &source);
            let library = placed.library(installed).unwrap();
            assert!(library.starts_with(&all) && library.ends_with("lib.so"));
            assert_eq!(fs::read(library).unwrap(), b"x");
        }
        let left_over = all.join(format!("{PREFIX}{}-b", i32::MAX));
        fs::create_dir_all(&left_over).unwrap();
        placed.add(&all.join("c-3/lib.so"), &source);
        assert!(!left_over.exists());
        drop(placed);
        assert!(!folder.path().join("heaptrial").exists());
    }
}
