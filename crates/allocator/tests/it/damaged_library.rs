//! Whatever is in a file, checking it ends with an answer.

use std::fs;
use std::process::Command;
use std::sync::OnceLock;

use heaptrial_allocator::check_library;
use proptest::prelude::*;

/// A small shared library.
fn library() -> &'static [u8] {
    static LIBRARY: OnceLock<Vec<u8>> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let source = folder.path().join("a.c");
        fs::write(&source, "#include <stdlib.h>\nvoid *take(void) { return malloc(1); }\n").unwrap();
        let output = folder.path().join("liba.so");
        let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&output).arg(&source).status();
        assert!(status.expect("a C compiler is needed for these tests").success());
        fs::read(output).unwrap()
    })
}

#[test]
fn a_whole_library_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("liba.so");
    fs::write(&path, library()).unwrap();
    let facts = check_library(&path).unwrap();
    assert!(facts.needed_glibc.is_some() && facts.build_id.is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn a_damaged_library_ends_with_an_answer(
        changes in prop::collection::vec((0_usize..0x1000, any::<u8>()), 1..40),
        headers in prop::collection::vec((0_usize..0x300, any::<u8>()), 0..20),
        length in 0_usize..0x5000,
    ) {
        let mut bytes = library().to_vec();
        for (at, value) in changes.into_iter().chain(headers) {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        bytes.truncate(length.max(64));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("liba.so");
        fs::write(&path, bytes).unwrap();
        let _ = check_library(&path);
    }
}
