#![no_main]

use heaptrial_exchange::Problems;
use heaptrial_exchange::tables::read_config;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let header = b"fingerprint,nickname,group,allocator,config,notes\n";
    for content in [&[header, bytes].concat()[..], bytes] {
        if let Ok((relays, rows, skipped)) = read_config("fuzz", content, &mut Problems::new(false)) {
            assert!(relays.len() as u64 + skipped <= rows);
        }
    }
});
