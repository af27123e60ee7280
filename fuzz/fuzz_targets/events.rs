#![no_main]

use heaptrial_exchange::Problems;
use heaptrial_exchange::tables::{Content, Timezone, read_events};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let timezone: Timezone = "America/Los_Angeles".parse().unwrap();
    let header = b"timestamp,event_type,description,group\n";
    for bytes in [&[header, bytes].concat()[..], bytes] {
        let content = Content { file: "fuzz", bytes };
        if let Ok((events, rows, _)) = read_events(content, &timezone, &mut Problems::new(false)) {
            assert_eq!(events.len() as u64 + rows.skipped, rows.read);
            assert!(events.is_sorted_by_key(|event| event.wall_us));
            for event in &events {
                assert!(!event.kind.is_empty() && event.is_about(&event.group));
            }
        }
    }
});
