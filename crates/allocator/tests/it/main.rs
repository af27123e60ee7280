//! Obtaining and identifying real libraries.

mod damaged_library;
mod explain;
mod identify;
mod obtain;
