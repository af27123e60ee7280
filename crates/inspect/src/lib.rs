//! Services of this host, and whether a treatment would take hold on them. Nothing is changed.

mod discover;
mod environment_file;
pub mod preflight;
mod services;
mod unit_environment;

pub use discover::{Discovered, discover};
pub use services::{
    MainProcess, NextStart, Preload, Service, examine, files_with_preload, host_preloads, named, service,
};
