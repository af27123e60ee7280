//! Services of this host, and whether a treatment would take hold on them. Nothing is changed.

pub mod preflight;
mod services;

pub use services::{MainProcess, Preload, Service, examine, files_with_preload, service, services};
