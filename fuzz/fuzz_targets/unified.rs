#![no_main]

mod memory;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    memory::check(
        "timestamp,server,type,fingerprint,nickname,group,rss_kb,vmsize_kb,hwm_kb,count,total_kb,avg_kb,min_kb,max_kb\n",
        bytes,
    );
});
