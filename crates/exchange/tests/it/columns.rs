//! Files of any origin: which columns are what, in which units, and what an error advises.

use std::fmt::Write as _;

use heaptrial_exchange::{CsvImport, ImportError, ImportSummary, Mapping, import_csv};
use heaptrial_store::{ImportedTrial, Store};

use crate::support::stored;

fn import_as(text: &str, mapping: Mapping) -> Result<(ImportedTrial, ImportSummary), ImportError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.csv");
    std::fs::write(&path, text).unwrap();
    let mut store = Store::create(&folder.path().join("heaptrial.db")).unwrap();
    let summary = import_csv(&mut store, &CsvImport { memory: vec![path], mapping, ..CsvImport::default() })?;
    Ok((stored::read(&store, "m"), summary))
}

fn import(text: &str) -> (ImportedTrial, ImportSummary) {
    import_as(text, Mapping::default()).unwrap_or_else(|error| panic!("{error}\n{}", &text[..80]))
}

/// A reading each five minutes from 2026-11-01 on: its line, by its number and its time in seconds since 1970.
fn file(header: &str, line: impl Fn(i64, i64) -> String) -> String {
    let mut text = format!("{header}\n");
    for number in 0..500 {
        writeln!(text, "{}", line(number, 1_793_491_200 + number * 300)).unwrap();
    }
    text
}

fn iso(seconds: i64) -> String {
    jiff::Timestamp::from_second(seconds).unwrap().to_string()
}

#[test]
fn common_forms_are_read_as_they_are() {
    let kib = |number: i64| 300_000 + number;
    for (text, service) in [
        (file("timestamp,pid,rss_kb", |number, at| format!("{},1234,{}", iso(at), kib(number))), "1234"),
        (file("timestamp,name,rss_kb", |number, at| format!("{at},a,{}", kib(number))), "a"),
        (file("Time,Container,Memory (bytes)", |number, at| format!("{at}.0,a,{}", kib(number) * 1024)), "a"),
        (
            file("time;process;pid;rss_mb", |number, at| {
                format!("{at}000;a;1234;{:.6}", kib(number) as f64 / 1024.0)
            }),
            "a",
        ),
        (
            file("Timestamp|PID|Process Name|RSS (KB)", |number, at| {
                format!("{}|1234|a|{}", iso(at), kib(number))
            }),
            "a",
        ),
        (
            file("timestamp,pid,rss_kb,vsz_kb", |number, at| {
                format!("{at}000000000,7,{},900000", kib(number))
            }),
            "7",
        ),
        (file("Timestamp\tNickname\tRSS (KB)", |number, at| format!("{}\ta\t{}", iso(at), kib(number))), "a"),
        (
            file("date,time,instance,vmrss_kib,command", |number, at| {
                let time = iso(at);
                format!("{},{},host:9100,{},x", &time[..10], &time[11..19], kib(number))
            }),
            "host:9100",
        ),
    ] {
        let (trial, summary) = import(&text);
        assert_eq!((summary.services, summary.samples, summary.lives_unknown), (1, 500, 1));
        assert!(summary.problems.counts.is_empty(), "{:?}", summary.problems);
        let found = &trial.services[0];
        assert_eq!(found.service.name, service);
        let samples = &found.lives[0].samples;
        assert_eq!((samples[0].wall_us, samples[0].rss_bytes), (1_793_491_200_000_000, 300_000 * 1024));
        assert_eq!(samples[499].rss_bytes, 300_499 * 1024);
    }
}

#[test]
fn columns_and_unit_can_be_named() {
    let text = file("when,process,used,rss_kb", |number, at| format!("{},a,{},1", iso(at), 300 + number));
    let error = import_as(&text, Mapping::default()).unwrap_err();
    assert!(error.to_string().ends_with("name it with --time COLUMN (`heaptrial import csv`)"), "{error}");
    let mut mapping = Mapping {
        time: Some("when".into()),
        service: Some("process".into()),
        memory: Some("Used".into()),
        ..Mapping::default()
    };
    let error = import_as(&text, mapping.clone()).unwrap_err();
    assert!(error.to_string().contains("the column `used` does not name its unit"), "{error}");
    mapping.unit = Some("MiB".parse().unwrap());
    let (trial, _) = import_as(&text, mapping.clone()).unwrap();
    assert_eq!(trial.services[0].lives[0].samples[7].rss_bytes, 307 << 20);
    mapping.time = Some("then".into());
    let error = import_as(&text, mapping).unwrap_err().to_string();
    assert!(error.contains("looked for `then`") && error.contains("when,process,used,rss_kb"), "{error}");
}

#[test]
fn a_file_can_be_the_service() {
    let text = file("Time,RSS(KB)", |number, at| format!("{at},{}", 300_000 + number));
    let error = import_as(&text, Mapping::default()).unwrap_err().to_string();
    assert!(error.contains("--service-by-file"), "{error}");
    let (trial, _) = import_as(&text, Mapping { service_by_file: true, ..Mapping::default() }).unwrap();
    assert_eq!((&trial.services[0].service.name[..], trial.services[0].lives[0].samples.len()), ("m", 500));
}
