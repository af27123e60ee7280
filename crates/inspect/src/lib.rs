//! Services of this host, and whether a treatment would take hold on them. Nothing is changed.

mod discover;
pub mod preflight;
mod services;

pub use discover::{Discovered, discover};
pub use services::{MainProcess, Preload, Service, examine, files_with_preload, named, service};
