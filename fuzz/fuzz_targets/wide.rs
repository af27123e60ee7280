#![no_main]

mod memory;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    memory::check("group,relay,day0,day1,day2,day9\n", bytes);
});
