//! The plan as drawn: a file that can be read, edited, and applied elsewhere.

use std::collections::BTreeMap;

use heaptrial_model::{About, Arm, HumanDuration, Metric, Pace, PlanId, ServiceName};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Who gets what, when, and how it is looked at.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DrawnPlan {
    pub name: String,
    /// Tells this drawing from any other: of the digest of all that was drawn.
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
    pub builds: BTreeMap<String, Builds>,
    /// The services in the order in which they are restarted.
    pub services: Vec<Assignment>,
}

/// Of a digest; a mark is no seal, and tells what somebody wrote by hand.
const MARK_BYTES: usize = 4;

impl DrawnPlan {
    /// Services that have another arm or block than was drawn for them. None of a plan without any marks: nothing tells.
    pub fn by_hand(&self) -> Vec<&Assignment> {
        if self.services.iter().all(|assignment| assignment.drawn.is_none()) {
            return Vec::new();
        }
        let edited = |assignment: &&Assignment| {
            assignment.drawn.as_deref() != Some(assignment.mark(self.seed).as_str())
        };
        self.services.iter().filter(edited).collect()
    }

    /// The build that an arm's services run on a host.
    pub fn build(&self, arm: &str, host: &str) -> Option<&Build> {
        self.builds.get(arm)?.on(host)
    }
}

/// What an arm's services run on the hosts of a plan. Hosts with different systems may have each a build of their own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Builds {
    /// The same on every host.
    One(Build),
    /// One for some hosts, others for others.
    OfHosts(Vec<BuildOfHosts>),
}

/// A build for some hosts of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BuildOfHosts {
    /// The hosts, by their host names.
    pub hosts: Vec<String>,
    pub build: Build,
}

impl Builds {
    /// Of what each host has; `None` where no host has any.
    pub fn of(hosts: impl IntoIterator<Item = (String, Build)>) -> Option<Self> {
        let mut groups: Vec<BuildOfHosts> = Vec::new();
        for (host, build) in hosts {
            match groups.iter_mut().find(|group| group.build.sha256 == build.sha256) {
                Some(group) => group.hosts.push(host),
                None => groups.push(BuildOfHosts { hosts: vec![host], build }),
            }
        }
        if groups.len() > 1 {
            return Some(Self::OfHosts(groups));
        }
        groups.pop().map(|group| Self::One(group.build))
    }

    pub fn on(&self, host: &str) -> Option<&Build> {
        match self {
            Self::One(build) => Some(build),
            Self::OfHosts(groups) => {
                let own = groups.iter().find(|group| group.hosts.iter().any(|own| own == host));
                own.map(|group| &group.build)
            }
        }
    }

    /// Each of them once, with its hosts where it is not that of all.
    pub fn each(&self) -> impl Iterator<Item = (&[String], &Build)> {
        let (one, groups) = match self {
            Self::One(build) => (Some(build), [].as_slice()),
            Self::OfHosts(groups) => (None, groups.as_slice()),
        };
        let one = one.into_iter().map(|build| ([].as_slice(), build));
        one.chain(groups.iter().map(|group| (group.hosts.as_slice(), &group.build)))
    }
}

impl From<Build> for Builds {
    fn from(build: Build) -> Self {
        Self::One(build)
    }
}

/// The build that an arm's services run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Build {
    /// SHA-256 of the library in hexadecimal.
    pub sha256: String,
    /// Version as the loaded code told it.
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
    /// Tells whether arm and block are those that were drawn for this service; `None` of plans that no draw made, or a draw
    /// by version 0.1.0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn: Option<String>,
}

impl Assignment {
    /// The mark of this service, arm and block in a plan of this seed.
    pub(crate) fn mark(&self, seed: u64) -> String {
        let of = format!("{seed}\n{}\n{}\n{}\n{}\n", self.host, self.service, self.arm, self.block);
        hex::encode(&Sha256::digest(of)[..MARK_BYTES])
    }
}
