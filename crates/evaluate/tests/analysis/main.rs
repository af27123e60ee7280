//! The procedure on fleets whose truth is known.

mod ages;
mod any_fleet;
mod any_trial;
mod arms;
mod build;
mod calibration;
mod extremes;
mod forecast;
mod long_and_wide;
mod looks;
mod minority;
mod pitfalls;
mod readings;
mod simulation;
mod usual_work;
mod verdicts;
mod work;
