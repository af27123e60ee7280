//! The read-only dashboard: what a database holds, as pages in a browser.
//!
//! Read-only by construction: the database is opened for reading, and no request but GET and HEAD is answered. Between
//! the planned looks of a running trial no page shows an interval, a test or a verdict.

mod compute;
mod config;
mod data;
mod error;
mod headers;
mod page;
mod routes;
mod server;

pub use config::Config;
pub use error::DashboardError;
pub use heaptrial_host::listen::Listen;
pub use server::{Dashboard, asked_to_end};
