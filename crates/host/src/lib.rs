//! What the kernel and systemd know of processes, control groups and the host.
//!
//! This is the only crate that reads `/proc` and `/sys`. Everything goes through a [`HostRoot`], so
//! that tests read fixture trees.

mod cgroup;
mod clock;
mod confined;
mod cpu;
mod error;
mod facts;
#[cfg(test)]
mod fixture;
pub mod listen;
mod mark;
mod own_cgroup;
mod packages;
mod pagemap;
mod paths;
mod process;
mod reader;
mod root;
mod sampler;
mod scope;
pub mod systemd;
mod tree;
pub mod trusted;
mod unit_cgroup;

pub use cgroup::{AnonymousMemory, Cgroup, CgroupReader, CgroupVersion};
pub use clock::Instant;
pub use confined::confined;
pub use cpu::CpuUsage;
pub use error::HostError;
pub use facts::{HostFacts, boot_id, codename, host_name, release};
pub use mark::Mark;
pub use own_cgroup::{CgroupPlace, OwnCgroup};
pub use packages::{PACKAGE_STATUS, Package, apt_options, package_of, packages_of};
pub use pagemap::{PAGE, PageMap};
pub use paths::{DROP_IN, NoFolders, Paths, is_drop_in};
pub use process::{Mapping, Process, ProcessMemory};
pub use reader::{ProcessReader, ProcessReading};
pub use root::HostRoot;
pub use sampler::{Member, ServiceSampler, SlowBudget, TickCost};
pub use scope::Scope;
pub use tree::{ProcessTree, ServiceProcesses};
