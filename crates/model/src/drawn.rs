//! The plan as drawn: a file that can be read, edited, and applied elsewhere.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::{About, Arm, HumanDuration, Metric, Pace, PlanId, ServiceName};

/// Who gets what, when, and how it is looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawnPlan {
    pub name: String,
    /// Distinguishes this drawing from any other: the start of a digest of the plan as drawn.
    pub id: PlanId,
    /// Version of Heaptrial that drew it.
    pub tool_version: String,
    pub seed: u64,
    pub metric: Metric,
    pub duration: HumanDuration,
    /// Looks as times since the start, ascending; the last is the end.
    pub looks: Vec<HumanDuration>,
    pub pace: Pace,
    /// What the trial is about.
    #[serde(default, skip_serializing_if = "About::is_empty")]
    pub about: About,
    /// The arms; exactly one is the control.
    pub arms: Vec<Arm>,
    /// The very build of each arm's allocator, by the arm's name; arms on the service's own C library have none.
    pub builds: BTreeMap<String, Vec<BuildOfHosts>>,
    /// The services in the order in which they are restarted.
    pub services: Vec<Assignment>,
}

/// Of a digest: a mark shows what was written by hand, and is no seal.
const MARK_BYTES: usize = 4;

impl DrawnPlan {
    /// Services that have another arm or block than was drawn for them.
    pub fn by_hand(&self) -> Vec<&Assignment> {
        let edited = |assignment: &&Assignment| {
            assignment.drawn.as_deref() != Some(assignment.mark(self.seed).as_str())
        };
        self.services.iter().filter(edited).collect()
    }

    pub fn hosts(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let mut hosts: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for assignment in &self.services {
            hosts.entry(&assignment.host).or_default().insert(assignment.service.as_str());
        }
        hosts
    }

    /// The looks; a plan without any, as a rollout's, has one at its end.
    pub fn looks_or_end(&self) -> &[HumanDuration] {
        if self.looks.is_empty() { std::slice::from_ref(&self.duration) } else { &self.looks }
    }

    /// The build that an arm's services run on a host.
    pub fn build(&self, arm: &str, host: &str) -> Option<&Build> {
        let group = self.builds.get(arm)?.iter().find(|group| group.hosts.iter().any(|own| own == host))?;
        Some(&group.build)
    }
}

/// A build for some hosts of a plan: hosts with different systems may have each a build of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildOfHosts {
    /// The hosts, by their host names.
    pub hosts: Vec<String>,
    pub build: Build,
}

/// The builds of a plan, by arm, from what each host has for its arms.
pub fn builds_of_hosts<'a>(
    hosts: impl IntoIterator<Item = (&'a str, &'a BTreeMap<String, Build>)>,
) -> BTreeMap<String, Vec<BuildOfHosts>> {
    let mut builds: BTreeMap<String, Vec<BuildOfHosts>> = BTreeMap::new();
    for (host, own) in hosts {
        for (arm, build) in own {
            let groups = builds.entry(arm.clone()).or_default();
            match groups.iter_mut().find(|group| group.build.sha256 == build.sha256) {
                Some(group) => group.hosts.push(host.to_owned()),
                None => groups.push(BuildOfHosts { hosts: vec![host.to_owned()], build: build.clone() }),
            }
        }
    }
    builds
}

/// The build that an arm's services run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// SHA-256 of the library in hexadecimal.
    pub sha256: String,
    /// Version as the loaded code reports it.
    pub version: Option<String>,
    /// Name of the file, such as `libmimalloc.so.2.0`.
    pub file: String,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assignment {
    pub service: ServiceName,
    /// The host it runs on, by its host name.
    pub host: String,
    pub arm: String,
    /// Block within which the arm was drawn, counted from 0.
    pub block: u32,
    /// What makes the block, such as `exit, 1.2 GiB to 2.0 GiB, older than 7d`.
    pub stratum: String,
    /// Services of one family are never restarted together; `None` has no family.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub family: Option<String>,
    /// A mark of service, arm and block as drawn, which an edit of them no longer fits; `None` where nothing was drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drawn: Option<String>,
}

impl Assignment {
    /// The mark of this service, arm and block in a plan of this seed.
    pub fn mark(&self, seed: u64) -> String {
        let of = format!("{seed}\n{}\n{}\n{}\n{}\n", self.host, self.service, self.arm, self.block);
        hex::encode(&Sha256::digest(of)[..MARK_BYTES])
    }
}
