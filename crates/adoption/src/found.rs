//! Services by what they run.

use std::fs;
use std::path::{Path, PathBuf};

use heaptrial_allocator::Expected;
use heaptrial_host::HostRoot;
use heaptrial_inspect::{Service, files_with_preload};
use heaptrial_model::{Arm, ServiceName, Treatment};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::examined::{LeftOut, examined};

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
    pub expected: Expected,
    pub services: Vec<AdoptedService>,
}

/// A service as it is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AdoptedService {
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
    pub path: PathBuf,
    /// SHA-256 in hexadecimal; `None` where it cannot be read.
    pub sha256: Option<String>,
}

impl Adoption {
    /// Puts services together by what they run. `root` is where their files are.
    pub fn of(root: &HostRoot, services: &[Service]) -> Self {
        let mut adoption = Self::default();
        for service in services {
            match examined(root, service) {
                Ok(expected) => adoption.add(root, service, expected),
                Err(why) => adoption.left_out.push((service.name().clone(), why)),
            }
        }
        adoption.arms.sort_by(|a, b| {
            b.services.len().cmp(&a.services.len()).then_with(|| a.arm.name.cmp(&b.arm.name))
        });
        adoption.choose_control();
        adoption
    }

    /// What every service would run that nobody had touched.
    fn choose_control(&mut self) {
        let own = |arm: &AdoptedArm| arm.expected.object.is_none();
        let untouched = |arm: &AdoptedArm| own(arm) && arm.expected.settings.is_empty();
        let place = |is: &dyn Fn(&AdoptedArm) -> bool| self.arms.iter().position(is);
        let control = place(&untouched).or_else(|| place(&own)).unwrap_or(0);
        for (place, arm) in self.arms.iter_mut().enumerate() {
            arm.arm.control = place == control;
        }
    }

    /// Every service that is taken over.
    pub fn services(&self) -> impl Iterator<Item = &AdoptedService> {
        self.arms.iter().flat_map(|arm| &arm.services)
    }

    /// Leaves a service out after all.
    pub fn leave_out(&mut self, service: &ServiceName, why: LeftOut) {
        self.arms.iter_mut().for_each(|arm| arm.services.retain(|own| own.service != *service));
        self.arms.retain(|arm| !arm.services.is_empty());
        self.choose_control();
        self.left_out.push((service.clone(), why));
    }

    fn add(&mut self, root: &HostRoot, service: &Service, expected: Expected) {
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

fn files(root: &HostRoot, service: &Service) -> Vec<BaselineFile> {
    let unit = &service.unit;
    let paths = unit.unit_file.iter().chain(&unit.drop_ins).chain(&unit.environment_files);
    paths.map(|path| BaselineFile { path: path.clone(), sha256: digest(root, path) }).collect()
}

pub(crate) fn digest(root: &HostRoot, path: &Path) -> Option<String> {
    Some(hex::encode(Sha256::digest(fs::read(root.path(path)).ok()?)))
}
