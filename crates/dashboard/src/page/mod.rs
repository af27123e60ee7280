//! The pages as HTML, made from what was read.

mod asset;
mod events;
mod frame;
mod looks;
mod overview;
mod problem;
mod service;
mod services;
mod trial;
mod words;

pub(crate) use asset::asset;
pub(crate) use frame::Frame;
pub(crate) use overview::overview;
pub(crate) use problem::problem;
pub(crate) use service::service;
pub(crate) use trial::trial;
