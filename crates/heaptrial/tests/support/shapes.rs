//! Services of several processes whose memory is known by construction.

use std::process::Command;

use serde_json::Value;

use super::arm;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/shapes.c");
pub const MIB: f64 = 1024.0 * 1024.0;
/// What the C library and the stack of a small program hold, in MiB for each process.
pub const BARE_MIB: f64 = 0.15;

/// A folder with the program.
pub fn shapes() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let compiled = Command::new("cc")
        .args(["-O1", "-pthread", "-o", "shapes", SOURCE])
        .current_dir(folder.path())
        .status()
        .expect("cc, from the package gcc");
    assert!(compiled.success());
    folder
}

/// Asserts that the last reading of an arm is within 2% of the truth.
#[track_caller]
pub fn assert_anon(report: &Value, name: &str, truth_mib: f64) {
    assert_eq!(report["analysis"]["metric"], "anon");
    let memory = &arm(report, name)["memory"];
    let bytes = memory["final_bytes"].as_f64().unwrap_or_else(|| panic!("{report:#}"));
    let off = (bytes / MIB - truth_mib).abs() / truth_mib;
    assert!(off < 0.02, "{name}: {} MiB where {truth_mib} are true: {report:#}", bytes / MIB);
}
