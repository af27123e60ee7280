#![no_main]

use std::collections::HashSet;

use heaptrial_exchange::tables::{Content, Mapping, Timezone, read_memory};
use heaptrial_exchange::{ProblemKind, Problems};

const HEADER: &[u8] =
    b"timestamp,server,type,fingerprint,nickname,group,rss_kb,vmsize_kb,hwm_kb,count,total_kb,avg_kb,min_kb,max_kb\n";

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    read(&[HEADER, bytes].concat());
    read(bytes);
});

fn read(bytes: &[u8]) {
    let timezone: Timezone = "America/Los_Angeles".parse().unwrap();
    let mut problems = Problems::new(false);
    let contents = [Content { file: "fuzz", bytes }];
    let Ok((measurements, rows, _)) = read_memory(&contents, &Mapping::default(), &timezone, &mut problems) else { return };
    let mut keys = HashSet::new();
    for service in &measurements.services {
        assert!(service.nickname.parse::<heaptrial_model::ServiceName>().is_ok(), "{}", service.nickname);
        assert!(keys.insert((&service.nickname, &service.server, &service.fingerprint)), "{service:?} twice");
        assert!(service.samples.windows(2).all(|pair| pair[0].wall_us < pair[1].wall_us));
        assert!(
            service.samples.iter().all(|sample| sample.rss_bytes > 0 && sample.rss_bytes <= i64::MAX as u64)
        );
        assert!(service.samples.iter().all(|sample| sample.hwm_bytes != Some(0)));
    }
    assert!(problems.details.iter().all(|problem| problem.value.chars().count() <= 400));
    assert_eq!(problems.count(ProblemKind::MalformedRow), rows[0].skipped);
    assert!(rows[0].skipped <= rows[0].read);
    // Strict mode refuses exactly the files that have problems.
    let refused = read_memory(&contents, &Mapping::default(), &timezone, &mut Problems::new(true)).is_err();
    let found = problems.count(ProblemKind::MalformedRow) + problems.count(ProblemKind::ConflictingReading);
    assert_eq!(refused, found > 0);
}
