//! What is frozen when a transaction begins.

use std::path::PathBuf;

use heaptrial_host::Mark;
use heaptrial_model::{DrawnPlan, ServiceName};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::treatment::ServiceTreatment;

/// Everything that a start needs, frozen when it begins, so that a resume or a revert depends on nothing else.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prepared {
    /// [`Self::VERSION`], of the folder as a whole.
    pub schema_version: u32,
    pub plan: DrawnPlan,
    /// What the plan calls this host, which may get another name later.
    pub host: String,
    /// The services of this host, in the order in which they are restarted.
    pub services: Vec<ServiceTreatment>,
    pub libraries: Vec<Library>,
    /// Further files of the host, and the unit to start once they are there.
    pub agent: Option<HostUnit>,
    /// What the transaction is for.
    pub owner: Owner,
}

impl Prepared {
    /// Version of what a transaction's folder holds, its journal included.
    pub const VERSION: u32 = 1;

    /// The services of this host, in the order in which they are restarted.
    pub fn names(&self) -> impl Iterator<Item = &ServiceName> + Clone {
        self.services.iter().map(|treatment| &treatment.service)
    }

    /// What the files bear that are written for it.
    pub fn mark(&self) -> Mark {
        Mark { name: self.plan.name.clone(), id: self.plan.id.as_str().to_owned() }
    }

    pub fn treatment(&self, service: &ServiceName) -> Option<&ServiceTreatment> {
        self.services.iter().find(|treatment| treatment.service == *service)
    }
}

/// What a transaction is for: known to the crate that began it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Owner {
    /// What it is called, such as `trial`.
    pub kind: String,
    /// Whether it takes the place of what ended ones left on its services.
    pub takes_over: bool,
    /// What its crate froze beside the plan; it is not looked at here.
    pub frozen: Value,
}

impl Owner {
    /// A trial, which freezes nothing beside the plan.
    pub fn trial() -> Self {
        Self { kind: "trial".to_owned(), takes_over: false, frozen: Value::Null }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Library {
    pub source: PathBuf,
    pub installed: PathBuf,
    /// SHA-256 of it in hexadecimal.
    pub sha256: String,
}

/// A unit file that the trial brings along.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostUnit {
    pub name: ServiceName,
    pub text: String,
}
