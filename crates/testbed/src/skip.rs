//! Tests that this machine cannot run.

use std::fs::OpenOptions;
use std::io::{Write as _, stderr};

/// Names the file to which skipped tests are added, one a line.
const SKIPPED: &str = "HEAPTRIAL_SKIPPED";
/// Where this is `1` nothing may be skipped.
const REQUIRE_ALL: &str = "HEAPTRIAL_REQUIRE_ALL";

/// Says that the running test is skipped, and why: past the harness, which hides what a test prints and would count
/// it as passed. `make test` counts those that were skipped and lists them at the end.
///
/// # Panics
///
/// If nothing may be skipped.
pub fn skip(why: &str) {
    let required = std::env::var_os(REQUIRE_ALL).is_some_and(|value| value == "1");
    assert!(!required, "{why}, and {REQUIRE_ALL}=1 forbids skipping");
    let program = std::env::current_exe().unwrap_or_default();
    // Cargo adds a digest to the name.
    let target = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let target = target.rsplit_once('-').map_or(target.as_str(), |(name, _)| name);
    let thread = std::thread::current();
    let line = format!("{target}: {}: {why}\n", thread.name().unwrap_or("a test"));
    let _ = stderr().write_all(format!("SKIPPED: {line}").as_bytes());
    if let Some(path) = std::env::var_os(SKIPPED) {
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file| file.write_all(line.as_bytes()))
            .unwrap_or_else(|error| panic!("{SKIPPED}: {error}"));
    }
}
