#![no_main]

use heaptrial_exchange::tables::{Timezone, read_time};

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    // A timezone up to the first line end, then a time.
    let split = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(0);
    let named = std::str::from_utf8(&bytes[..split]).ok().and_then(|text| text.parse::<Timezone>().ok());
    if let Some(timezone) = &named {
        assert!(timezone.to_string().parse::<Timezone>().is_ok());
    }
    let text = bytes.get(split + 1..).unwrap_or_default();
    for timezone in [named.unwrap_or_else(Timezone::utc), "Europe/Dublin".parse().unwrap()] {
        if let Some(wall_us) = read_time(text, &timezone) {
            let shown = jiff::Timestamp::from_microsecond(wall_us).unwrap().to_string();
            // The other path of the reader agrees.
            assert_eq!(read_time(shown.as_bytes(), &timezone), Some(wall_us));
        }
    }
});
