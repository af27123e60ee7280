#![no_main]

use heaptrial_exchange::Problems;
use heaptrial_exchange::tables::read_group;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // Bytes most of whose lines are no nicknames are refused.
    let Ok(group) = read_group("fuzz", bytes, &mut Problems::new(false)) else { return };
    assert!(2 * group.skipped <= group.rows);
    assert!(group.members.len() as u64 + group.skipped <= group.rows);
    assert!(group.members.iter().all(|name| name.parse::<heaptrial_model::ServiceName>().is_ok()));
});
