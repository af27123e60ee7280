//! Services by what they run.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_allocator::Expected;
use heaptrial_change::{PRELOAD, expected_of};
use heaptrial_host::HostRoot;
use heaptrial_host::systemd::Unit;
use heaptrial_inspect::{Service, files_with_preload};
use heaptrial_model::{Arm, Identity, Linkage, ServiceName, Treatment};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Services as they are found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Adoption {
    /// What is run, most services first.
    pub arms: Vec<AdoptedArm>,
    /// Services of which it is not sure what they run, or will run after their next start.
    pub left_out: Vec<(ServiceName, LeftOut)>,
}

/// Services that run the same: the same build with the same settings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdoptedArm {
    /// Its name and the allocator.
    pub arm: Arm,
    /// What its processes run.
    pub expected: Expected,
    /// The services.
    pub services: Vec<AdoptedService>,
}

/// A service as it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdoptedService {
    /// Its unit.
    pub service: ServiceName,
    /// The unit's file and its drop-ins, and the files of variables.
    pub files: Vec<BaselineFile>,
    /// Those of them that set `LD_PRELOAD`; empty where the process has its library from elsewhere, such as a wrapper.
    pub preload_files: Vec<PathBuf>,
    /// What else a trial records of a service.
    #[serde(skip)]
    pub attributes: Value,
}

/// A file as it was found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BaselineFile {
    /// Where.
    pub path: PathBuf,
    /// SHA-256 in hexadecimal; `None` where it cannot be read.
    pub sha256: Option<String>,
}

/// Why a service is not taken over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize)]
#[serde(tag = "why", content = "what", rename_all = "snake_case")]
pub enum LeftOut {
    /// Nothing runs.
    #[error("it does not run ({0})")]
    NotRunning(String),
    /// Its allocator cannot be told.
    #[error("what it runs cannot be told: {0}")]
    Unidentified(String),
    /// Its unit preloads what its process was not started with.
    #[error(
        "its unit preloads {library} and its process, which runs {runs}, was started without it: restart it, then adopt it"
    )]
    NotRestarted {
        /// What the unit names.
        library: String,
        /// What the process runs.
        runs: String,
    },
    /// The loader did not take what the unit preloads.
    #[error(
        "{library} is preloaded and not loaded: it runs {runs}. `heaptrial preflight` tells what keeps it out"
    )]
    NotLoaded {
        /// What was asked for.
        library: String,
        /// What the process runs.
        runs: String,
    },
    /// The next start would run another file.
    #[error(
        "{path} is gone or another file since its process was started, and the next start would run that: restart it, then adopt it"
    )]
    Replaced {
        /// The library.
        path: PathBuf,
    },
    /// systemd has not read its files.
    #[error(
        "its unit's files were changed and systemd has not read them: `systemctl daemon-reload`, then adopt it"
    )]
    NotReloaded,
}

impl Adoption {
    /// Puts services together by what they run. `root` is where their files are.
    pub fn of(root: &HostRoot, services: &[Service]) -> Self {
        let mut adoption = Self::default();
        for service in services {
            match examined(root, service) {
                Ok(identity) => adoption.add(root, service, identity),
                Err(why) => adoption.left_out.push((service.name().clone(), why)),
            }
        }
        adoption.arms.sort_by(|a, b| {
            b.services.len().cmp(&a.services.len()).then_with(|| a.arm.name.cmp(&b.arm.name))
        });
        // What every service would run that nobody had touched.
        let own = adoption.arms.iter().position(|arm| arm.expected.object.is_none()).unwrap_or(0);
        if let Some(control) = adoption.arms.get_mut(own) {
            control.arm.control = true;
        }
        adoption
    }

    /// Every service that is taken over.
    pub fn services(&self) -> impl Iterator<Item = &AdoptedService> {
        self.arms.iter().flat_map(|arm| &arm.services)
    }

    fn add(&mut self, root: &HostRoot, service: &Service, identity: &Identity) {
        let expected = expected_of(identity);
        let own = AdoptedService {
            service: service.name().clone(),
            files: files(root, service),
            preload_files: files_with_preload(root, &service.unit),
            attributes: service.attributes(None),
        };
        if let Some(arm) = self.arms.iter_mut().find(|arm| arm.expected == expected) {
            arm.services.push(own);
            return;
        }
        let name = self.free_name(&expected);
        let treatment = Treatment { allocator: Some(expected.spec.clone()), ..Treatment::default() };
        let arm = Arm { name, control: false, treatment };
        self.arms.push(AdoptedArm { arm, expected, services: vec![own] });
    }

    /// The allocator with what is set of it; another build of the same has a number.
    fn free_name(&self, expected: &Expected) -> String {
        let settings: Vec<String> =
            expected.settings.iter().map(|(name, value)| format!(" {name}={value}")).collect();
        let name = format!("{}{}", expected.spec, settings.concat());
        let name: String = name.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
        let taken = |name: &str| self.arms.iter().any(|arm| arm.arm.name == name);
        let mut free = name.clone();
        for number in 2.. {
            if !taken(&free) {
                break;
            }
            free = format!("{name} #{number}");
        }
        free
    }
}

/// Characters of an arm's name, with room for a number.
const LONGEST: usize = 100;

/// What a service runs, if its next start will run the same.
fn examined<'s>(root: &HostRoot, service: &'s Service) -> Result<&'s Identity, LeftOut> {
    let status = &service.unit.status;
    let Some(process) = &service.process else {
        return Err(LeftOut::NotRunning(format!("{}, {}", status.active_state, status.sub_state)));
    };
    let identity = match (&process.identity, &process.unidentified) {
        (Some(identity), None) => identity,
        (_, why) => return Err(LeftOut::Unidentified(why.clone().unwrap_or_default())),
    };
    if service.unit.needs_reload || has_unread_drop_in(root, &service.unit) {
        return Err(LeftOut::NotReloaded);
    }
    let by_unit = service.unit.environment_value(PRELOAD).unwrap_or_default();
    let has = |library: &&str| process.preloads.iter().any(|preload| preload.library == **library);
    if let Some(library) = libraries(by_unit).find(|library| !has(library)) {
        return Err(LeftOut::NotRestarted { library: library.to_owned(), runs: identity.label() });
    }
    if let Some(preload) = process.preloads.iter().find(|preload| preload.loaded == Some(false)) {
        return Err(LeftOut::NotLoaded { library: preload.library.clone(), runs: identity.label() });
    }
    let own = identity.path.as_ref().filter(|_| identity.linkage != Linkage::Libc);
    if let (Some(path), Some(sha256)) = (own, &identity.sha256) {
        if digest(root, path).as_ref() != Some(sha256) {
            return Err(LeftOut::Replaced { path: path.clone() });
        }
    }
    Ok(identity)
}

/// Where drop-ins lie.
const FOLDERS: [&str; 3] = ["/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system"];

/// Whether a unit has a drop-in that systemd does not know: of a new folder it does not tell that it has to be read. What is
/// called like one that it knows is hidden by that.
fn has_unread_drop_in(root: &HostRoot, unit: &Unit) -> bool {
    let known = |name: &OsStr| unit.drop_ins.iter().any(|path| path.file_name() == Some(name));
    let units = [Some(unit.name.as_str()), unit.template.as_ref().map(|(template, _)| template.as_str())];
    let folders = FOLDERS.iter().flat_map(|folder| {
        units.iter().flatten().map(move |unit| Path::new(folder).join(format!("{unit}.d")))
    });
    let entries = folders.filter_map(|folder| fs::read_dir(root.path(&folder)).ok()).flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| Path::new(&name).extension() == Some(OsStr::new("conf")) && !known(&name))
}

fn libraries(preload: &str) -> impl Iterator<Item = &str> {
    preload.split([':', ' ']).filter(|library| !library.is_empty())
}

fn files(root: &HostRoot, service: &Service) -> Vec<BaselineFile> {
    let unit = &service.unit;
    let paths = unit.unit_file.iter().chain(&unit.drop_ins).chain(&unit.environment_files);
    paths.map(|path| BaselineFile { path: path.clone(), sha256: digest(root, path) }).collect()
}

fn digest(root: &HostRoot, path: &Path) -> Option<String> {
    Some(hex::encode(Sha256::digest(fs::read(root.path(path)).ok()?)))
}
