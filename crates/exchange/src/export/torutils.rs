//! The unified CSV of the TorUtils scripts.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::Write;

use heaptrial_model::ServiceName;
use heaptrial_store::{AggregateRow, SAMPLE_COLUMNS, Store};

use super::series::{Service, Trial};
use crate::ExportError;

const HEADER: [&str; 14] = [
    "timestamp",
    "server",
    "type",
    "fingerprint",
    "nickname",
    "rss_kb",
    "vmsize_kb",
    "hwm_kb",
    "frag_ratio",
    "count",
    "total_kb",
    "avg_kb",
    "min_kb",
    "max_kb",
];

/// Collections in order of time, each with its sums before its relays, as the scripts write them. Times are in UTC and
/// say so, because the zone that a file was imported in need not be the reader's.
pub(super) fn write(
    store: &Store,
    trial: &Trial,
    writer: &mut (dyn Write + Send),
) -> Result<u64, ExportError> {
    let by_life: HashMap<i64, &Service> = trial
        .services
        .iter()
        .flat_map(|service| service.lives.iter().map(move |life| (life.id, service)))
        .collect();
    let mut sums = store.aggregates(trial.id)?.into_iter().peekable();
    let mut csv = csv::Writer::from_writer(writer);
    csv.write_record(HEADER).map_err(io)?;
    let mut times = Times::default();
    let mut written = 0;
    store.each_sample_in_time(trial.id, |sample| {
        while let Some(row) = sums.next_if(|row| row.wall_us <= sample.wall_us) {
            aggregate(&mut csv, &row, &mut times)?;
        }
        if let Some(service) = by_life.get(&sample.life_id) {
            let values = trial.measured(sample);
            let rss = SAMPLE_COLUMNS
                .iter()
                .zip(values)
                .any(|(column, value)| *column == "rss_bytes" && value.is_some());
            if !rss {
                return Err(ExportError::NoRss { trial: trial.name.clone(), service: service.name.clone() });
            }
            relay(&mut csv, service, (sample.wall_us, values), &mut times)?;
            written += 1;
        }
        Ok::<(), ExportError>(())
    })?;
    for row in sums {
        aggregate(&mut csv, &row, &mut times)?;
    }
    csv.flush()?;
    Ok(written)
}

fn relay<W: Write>(
    csv: &mut csv::Writer<W>,
    service: &Service,
    (wall_us, values): (i64, [Option<i64>; SAMPLE_COLUMNS.len()]),
    times: &mut Times,
) -> Result<(), ExportError> {
    let value =
        |name: &str| SAMPLE_COLUMNS.iter().position(|column| *column == name).and_then(|at| values[at]);
    let kib = |name: &str| value(name).map_or_else(String::new, |bytes| (bytes / 1024).to_string());
    // The scripts' ratio of address space to resident memory; it says nothing about fragmentation.
    let ratio = match (value("vsize_bytes"), value("rss_bytes")) {
        (Some(vsize), Some(rss)) if rss > 0 => format!("{:.2}", vsize as f64 / rss as f64),
        _ => String::new(),
    };
    let fields = [
        times.text(wall_us),
        &service.server,
        "relay",
        &service.fingerprint,
        &nickname(&service.nickname),
        &kib("rss_bytes"),
        &kib("vsize_bytes"),
        &kib("hwm_bytes"),
        &ratio,
        "",
        "",
        "",
        "",
        "",
    ];
    csv.write_record(fields).map_err(io)
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

fn aggregate<W: Write>(
    csv: &mut csv::Writer<W>,
    row: &AggregateRow,
    times: &mut Times,
) -> Result<(), ExportError> {
    let [total, mean, min, max] = [row.total_bytes, row.mean_bytes, row.min_bytes, row.max_bytes]
        .map(|bytes| (bytes / 1024).to_string());
    let count = row.count.to_string();
    let fields = [
        times.text(row.wall_us),
        &row.server,
        "aggregate",
        "",
        "",
        "",
        "",
        "",
        "",
        &count,
        &total,
        &mean,
        &min,
        &max,
    ];
    csv.write_record(fields).map_err(io)
}

/// The last time as text: the rows of a collection share it.
#[derive(Default)]
struct Times {
    last: Option<(i64, String)>,
}

impl Times {
    fn text(&mut self, wall_us: i64) -> &str {
        if self.last.as_ref().is_none_or(|(time, _)| *time != wall_us) {
            // Times outside of the calendar's reach are in no database that was not damaged.
            let text =
                jiff::Timestamp::from_microsecond(wall_us).map(|time| time.to_string()).unwrap_or_default();
            self.last = Some((wall_us, text));
        }
        self.last.as_ref().map_or("", |(_, text)| text)
    }
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
        let told = ["tor@a", "a\\x2db", "h1:9256\\x2ftor@2", "h1:9256-tor@2", "\\x2ea\\x20b", "\\x2da"];
        assert_eq!(nicknames[..6], told);
        for (index, nickname) in nicknames.iter().enumerate() {
            assert!(nickname.parse::<ServiceName>().is_ok(), "{nickname}");
            assert!(!nicknames[..index].contains(nickname), "{nickname}");
        }
    }
}
