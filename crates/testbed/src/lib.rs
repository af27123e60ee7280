//! Throw-away hosts with a real systemd, for tests, benchmarks and demonstrations.
//!
//! A [`Base`] is a root file system with systemd, Tor and the distribution's allocators, built once per cargo
//! target folder. A [`Container`] boots it with a disk of its own, no network but loopback, and a cgroup of its
//! own, in less than a second; power can be cut and the container booted again. Everything is removed on drop,
//! and what a killed test process left behind is removed by the next [`Testbed::prepare`].
//!
//! ```no_run
//! use heaptrial_testbed::{Container, Options, Snapshot, Testbed};
//!
//! let Some(base) = Testbed::for_test() else { return };
//! let mut host = Container::boot(&base, Options::new().bind("target/debug", "/ht")).unwrap();
//! let before = Snapshot::of(&host, &["/etc"]).unwrap();
//! host.ok(&["systemctl", "is-system-running"]);
//! host.power_cut().unwrap();
//! host.boot_again().unwrap();
//! assert_eq!(before.difference(&Snapshot::of(&host, &["/etc"]).unwrap()), Vec::<String>::new());
//! ```

mod base;
pub mod browser;
mod cgroup;
mod churn;
mod container;
mod controller;
mod disk;
mod draw;
mod error;
mod files;
mod folder;
mod launch;
mod machine;
mod network;
mod recipe;
mod skip;
mod slurm;
mod snapshot;
mod state;
mod tor;
mod tree;

pub use base::{Base, Testbed};
pub use churn::ChurnService;
pub use container::{Container, Options};
pub use controller::Controller;
pub use draw::{Draw, drawn};
pub use error::{TestbedError, Unavailable};
pub use folder::example_program;
pub use machine::{Machine, USER_MANAGER_FILES};
pub use network::Network;
pub use skip::skip;
pub use slurm::SlurmCluster;
pub use snapshot::Snapshot;
pub use tor::{FIVE_WAY, PrivateDirectory, TorInstances};
