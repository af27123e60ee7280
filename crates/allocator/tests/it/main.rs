//! Obtaining and identifying real libraries.

mod damaged_library;
mod identify;
mod obtain;
