//! Data out: a CSV, a row per sample, in the columns that an import takes and all others that were read.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;

use heaptrial_model::{LifeStart, ServiceName};
use heaptrial_store::{LifeRecord, SAMPLE_COLUMNS, SERVER, Store};
use serde_json::Value;

use crate::ExportError;

/// What a sample belongs to; the columns of [`SAMPLE_COLUMNS`] follow, with bytes as KiB. `life` counts a service's lives from 1,
/// `start` says how well `age_seconds` is known, `contaminated` is true in lives that reports exclude.
const COLUMNS: [&str; 10] = [
    "timestamp",
    "server",
    "type",
    "fingerprint",
    "nickname",
    "group",
    "life",
    "start",
    "age_seconds",
    "contaminated",
];

/// Writes all samples of a trial, of a lab run as of an import, in order of time, in the columns that an import takes and all others;
/// gives how many there were. Times are in UTC and say so, because the zone that a file was imported in need not be the reader's.
///
/// Samples are passed on one by one, so that memory does not grow with them.
pub fn export(store: &Store, trial_id: i64, writer: &mut dyn Write) -> Result<u64, ExportError> {
    let lives = lives(store, trial_id)?;
    let mut csv = csv::Writer::from_writer(writer);
    let measured = SAMPLE_COLUMNS.map(column);
    csv.write_record(COLUMNS.into_iter().chain(measured.iter().map(|column| column.as_ref()))).map_err(io)?;
    let mut written = 0;
    store.each_sample_in_time(trial_id, |sample| {
        let Some(life) = lives.get(&sample.life_id) else { return Ok(()) };
        let age_seconds = (sample.boottime_us - life.record.started_boottime_us) as f64 / 1e6;
        // Times outside of the calendar's reach are in no database that was not damaged.
        let time = jiff::Timestamp::from_microsecond(sample.wall_us).map(|time| time.to_string());
        let row: [&str; 10] = [
            &time.unwrap_or_default(),
            &life.server,
            "relay",
            &life.fingerprint,
            &life.nickname,
            &life.arm,
            &life.number.to_string(),
            start_word(&life.record.start),
            &age_seconds.to_string(),
            if life.record.contamination.is_some() { "true" } else { "false" },
        ];
        for text in row {
            csv.write_field(text).map_err(io)?;
        }
        for (name, value) in SAMPLE_COLUMNS.iter().zip(sample.values) {
            // A process has some resident memory: nothing stands for a reading that was not taken.
            let value = value.filter(|value| *name != "rss_bytes" || *value > 0);
            let kib = |value: i64| if name.ends_with(BYTES) { value / 1024 } else { value };
            csv.write_field(value.map_or_else(String::new, |value| kib(value).to_string())).map_err(io)?;
        }
        csv.write_record(None::<&[u8]>).map_err(io)?;
        written += 1;
        Ok::<(), ExportError>(())
    })?;
    csv.flush()?;
    Ok(written)
}

/// What does not change from sample to sample of a life.
struct Life {
    arm: String,
    nickname: String,
    server: String,
    fingerprint: String,
    /// Counts the lives of its service from 1.
    number: usize,
    record: LifeRecord,
}

/// The lives of a trial by their row ids.
fn lives(store: &Store, trial_id: i64) -> Result<HashMap<i64, Life>, ExportError> {
    if store.trials()?.iter().all(|trial| trial.id != trial_id) {
        return Err(ExportError::NoTrial(trial_id));
    }
    let arms: HashMap<i64, String> =
        store.arms(trial_id)?.into_iter().map(|record| (record.id, record.arm.name)).collect();
    let mut records = store.lives(trial_id)?;
    records.sort_by_key(|life| (life.started_boottime_us, life.id));
    let mut lives = HashMap::new();
    for service in store.services(trial_id)? {
        let attribute = |name: &str| {
            let text = service.attributes.as_ref().and_then(|attributes| attributes.get(name));
            text.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let own = attribute("nickname");
        let name = if own.is_empty() { &service.name } else { &own };
        let own = records.iter().filter(|life| life.service_id == service.id);
        for (record, number) in own.zip(1..) {
            let life = Life {
                arm: arms.get(&service.arm_id).cloned().unwrap_or_default(),
                nickname: nickname(name).into_owned(),
                server: attribute(SERVER),
                fingerprint: attribute("fingerprint"),
                number,
                record: record.clone(),
            };
            lives.insert(record.id, life);
        }
    }
    Ok(lives)
}

/// How the start of a life is known, in one word.
fn start_word(start: &LifeStart) -> &'static str {
    match start {
        LifeStart::Observed => "observed",
        LifeStart::Inferred { .. } => "inferred",
        LifeStart::Unknown => "unknown",
    }
}

const BYTES: &str = "_bytes";

/// What the scripts call a column, or would.
fn column(name: &'static str) -> Cow<'static, str> {
    match name.strip_suffix(BYTES) {
        Some("vsize") => "vmsize_kb".into(),
        Some(stem) => format!("{stem}_kb").into(),
        None => name.into(),
    }
}

/// A name as one of the scripts' nicknames, which is what an import takes: other characters as systemd-escape(1) writes them.
fn nickname(name: &str) -> Cow<'_, str> {
    if name.parse::<ServiceName>().is_ok() {
        return name.into();
    }
    let mut nickname = String::new();
    for byte in name.bytes() {
        let kept = byte.is_ascii_alphanumeric()
            || b":_@".contains(&byte)
            || b"-.".contains(&byte) && !nickname.is_empty();
        if kept {
            nickname.push(byte.into());
        } else {
            let _ = write!(nickname, "\\x{byte:02x}");
        }
    }
    nickname.into()
}

fn io(error: csv::Error) -> ExportError {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => ExportError::Write(error),
        other => ExportError::Write(std::io::Error::other(format!("{other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_name_is_a_nickname_and_none_is_that_of_another() {
        let names = [
            "tor@a",
            "a\\x2db",
            "h1:9256/tor@2",
            "h1:9256-tor@2",
            ".a b",
            "-a",
            "mimalloc@2.0.9?purge_delay=0-1",
            "é",
            "\\é",
        ];
        let nicknames = names.map(nickname);
        let expected = ["tor@a", "a\\x2db", "h1:9256\\x2ftor@2", "h1:9256-tor@2", "\\x2ea\\x20b", "\\x2da"];
        assert_eq!(nicknames[..6], expected);
        for (index, nickname) in nicknames.iter().enumerate() {
            assert!(nickname.parse::<ServiceName>().is_ok(), "{nickname}");
            assert!(!nicknames[..index].contains(nickname), "{nickname}");
        }
    }
}
