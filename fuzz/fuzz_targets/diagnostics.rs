#![no_main]

use heaptrial_exchange::Problems;
use heaptrial_exchange::tables::{Content, Timezone, read_diagnostics};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let header = b"date,time,hostname,tor_version,os_release,kernel,allocator,mem_total_mb,mem_available_mb,relay_count\n";
    for bytes in [&[header, bytes].concat()[..], bytes] {
        let content = Content { file: "fuzz", bytes };
        if let Ok((host, rows, _)) = read_diagnostics(content, &Timezone::utc(), &mut Problems::new(false)) {
            assert_eq!(host.wall_us.is_some(), rows.read > rows.skipped);
            assert!(
                [host.ram_bytes, host.available_bytes].into_iter().flatten().all(|bytes| bytes <= i64::MAX as u64)
            );
            host.to_json();
        }
    }
});
