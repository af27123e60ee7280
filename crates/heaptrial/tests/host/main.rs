//! Commands that change a host: they need root, containers, Tor or services.

#[path = "../support/mod.rs"]
mod support;

mod agent;
mod field_bad_input;
mod field_faults;
mod field_tor;
mod field_trial;
mod host_agent;
mod host_debian;
mod host_faults;
mod host_files;
mod host_fleet;
mod host_fleet_by_hand;
mod host_fleet_faults;
mod host_units;
mod host_user;
mod host_watch;
mod lab_like;
mod lab_machine;
mod lab_processes;
mod lab_services;
mod lab_slurm;
mod lab_tor;
mod limits;
mod packages;
mod preflight;
mod prometheus;
mod rollout;
mod services;
mod trial_plan;
mod userland;
mod watch;
