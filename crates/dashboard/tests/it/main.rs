//! The dashboard over HTTP and in a browser.

#[path = "../../../report/tests/it/fleet/mod.rs"]
mod fleet;

mod browser;
mod client;
mod fixture;
mod http;
