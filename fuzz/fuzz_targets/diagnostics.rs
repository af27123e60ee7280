#![no_main]

use heaptrial_exchange::Problems;
use heaptrial_exchange::tables::{Content, Timezone, read_diagnostics};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let header = b"date,time,hostname,tor_version,os_release,kernel,allocator,mem_total_mb,mem_available_mb,relay_count\n";
    for bytes in [&[header, bytes].concat()[..], bytes] {
        let content = Content { file: "fuzz", bytes };
        if let Ok((facts, rows, _)) = read_diagnostics(content, &Timezone::utc(), &mut Problems::new(false)) {
            assert_eq!(facts["told_at_wall_us"].is_i64(), rows.read > rows.skipped);
        }
    }
});
