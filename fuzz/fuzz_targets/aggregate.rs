#![no_main]

mod memory;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    memory::check(
        "date,time,num_relays,total_mb,avg_mb,min_mb,max_mb,total_kb,avg_kb,min_kb,max_kb\n",
        bytes,
    );
});
