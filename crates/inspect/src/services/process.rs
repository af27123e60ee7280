use std::path::PathBuf;

use heaptrial_allocator::Identifier;
use heaptrial_host::systemd::Unit;
use heaptrial_host::{HostError, HostRoot, Instant, Process, ProcessTree, ServiceSampler};
use heaptrial_model::{Identity, LifeKey, Sample};
use serde::{Deserialize, Serialize};

use crate::{NextStart, Preload};

/// The main process of a service.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MainProcess {
    pub life: LifeKey,
    pub age_seconds: f64,
    /// Its program; without permission to see it, what its command line names.
    pub program: PathBuf,
    /// Memory of all its processes now: those of its control group, or where it has none of its own, the main one and all below it.
    pub sample: Sample,
    /// Its allocator; `None` where it cannot be examined, with the reason in `unidentified`. Where the evidence does not
    /// decide, the family is `unknown`, with the reason there too.
    pub identity: Option<Identity>,
    pub unidentified: Option<String>,
    /// Libraries that `LD_PRELOAD` asks for in its environment, or, where that cannot be read, by its unit.
    #[serde(default)]
    pub preloads: Vec<Preload>,
}

impl MainProcess {
    /// Reads the process `pid` of a unit. An error when it ended meanwhile.
    pub(crate) fn read(
        root: &HostRoot,
        tree: &ProcessTree,
        identifier: &Identifier,
        unit: &Unit,
        pid: i32,
    ) -> Result<Self, HostError> {
        let process = Process::new(root, pid);
        let life = process.life_key()?;
        let mut sampler = ServiceSampler::of_unit(root, pid, &unit.status.control_group)?;
        if !sampler.follow_unit()? {
            sampler.follow(tree);
        }
        let sample = sampler.read()?;
        let passed = || Some(NextStart::of(root, unit).variables());
        let (identity, unidentified) = match identifier.identify(&process, &passed) {
            Ok(identity) if identity.family == "unknown" => {
                let reason = identity.evidence.join("; ");
                (Some(identity), Some(reason))
            }
            Ok(identity) => (Some(identity), None),
            Err(error) => (None, Some(error.to_string())),
        };
        let named = || {
            let first = process.cmdline().ok()?.into_iter().next().map(PathBuf::from);
            first.filter(|path| path.is_absolute())
        };
        let started = || unit.exec_start.first()?.first().map(PathBuf::from);
        Ok(Self {
            age_seconds: Instant::now().age_seconds(life.start_ticks),
            life,
            program: process.exe().ok().or_else(named).or_else(started).unwrap_or_default(),
            sample,
            identity,
            unidentified,
            preloads: Preload::of(root, &process, unit),
        })
    }
}
