//! Memory measurements: a row per service and reading.

use std::path::Path;

use csv::ByteRecord;
use heaptrial_model::ServiceName;
use heaptrial_store::ImportedSample;

use super::mapping::{Mapping, further_memory};
use super::number::{Unit, amount};
use super::table::{Table, TimeColumns};
use crate::ImportError;
use crate::measured::{MeasuredService, Measurements, NOT_A_NICKNAME};
use crate::problem::ProblemKind;

/// An RSS beyond this is a misreading.
const RSS_AT_MOST: u64 = 4 << 40;
/// A peak below this share of the present RSS is a misreading.
const PEAK_SHARE: f64 = 0.9;

struct Columns {
    time: TimeColumns,
    service: Option<usize>,
    memory: (usize, Unit),
    server: Option<usize>,
    kind: Option<usize>,
    fingerprint: Option<usize>,
    group: Option<usize>,
    vsize: Option<(usize, Unit)>,
    hwm: Option<(usize, Unit)>,
}

pub(super) fn read(
    table: &mut Table<'_>,
    mapping: &Mapping,
    measurements: &mut Measurements,
) -> Result<(), ImportError> {
    let columns = Columns {
        time: table.time_columns(mapping.time.as_deref())?,
        service: mapping.service(table)?,
        memory: mapping.memory(table)?,
        server: table.column(&["server", "hostname", "host"]),
        kind: table.column(&["type"]),
        fingerprint: table.column(&["fingerprint"]),
        group: table.column(&["group", "arm"]),
        vsize: further_memory(table, &["vmsize", "vsize", "vsz", "vms"]),
        hwm: further_memory(table, &["hwm", "vmhwm"]),
    };
    let mut record = ByteRecord::new();
    while table.next(&mut record)? {
        // Sums over the relays of a collection, which their own rows have.
        let is_sum = columns.kind.is_some_and(|column| record[column].trim_ascii() == b"aggregate");
        if !is_sum {
            row(table, &record, &columns, measurements)?;
        }
    }
    Ok(())
}

fn row(
    table: &mut Table<'_>,
    record: &ByteRecord,
    columns: &Columns,
    measurements: &mut Measurements,
) -> Result<(), ImportError> {
    let Some(wall_us) = table.time(record, columns.time)? else { return Ok(()) };
    let (memory, unit) = columns.memory;
    let rss_bytes = match amount(&record[memory], unit) {
        Ok(Some(bytes)) if bytes > 0 => bytes,
        Ok(Some(_)) => return table.leave_out(record, memory, "no memory: there was no process"),
        Ok(None) => return table.leave_out(record, memory, "no value"),
        Err(what) => return table.skip(record, memory, what),
    };
    let mut optional = [None; 2];
    for (bytes, column) in optional.iter_mut().zip([columns.vsize, columns.hwm]) {
        let Some((column, unit)) = column else { continue };
        match amount(&record[column], unit) {
            // No process has a size of 0: the script could not read it.
            Ok(read) => *bytes = read.filter(|bytes| *bytes > 0),
            Err(what) => return table.skip(record, column, what),
        }
    }
    if rss_bytes > RSS_AT_MOST {
        return table.skip(record, memory, "more than 4 TiB in one process");
    }
    if optional[0].is_some_and(|vsize_bytes| vsize_bytes < rss_bytes) {
        return table.skip(record, memory, "more than the virtual size: one of the two is wrong");
    }
    // The kernel counts both a little apart; a peak far below the present is no peak, and would look like a restart.
    if optional[1].is_some_and(|hwm_bytes| (hwm_bytes as f64) < PEAK_SHARE * rss_bytes as f64) {
        let column = columns.hwm.map_or(0, |(column, _)| column);
        let what = "a peak below the present RSS; taken as not known";
        table.report(record, column, ProblemKind::Note, what)?;
        optional[1] = None;
    }
    let field = |column: Option<usize>| column.map_or(&b""[..], |column| record[column].trim_ascii());
    let of_file = Path::new(table.file).file_stem().unwrap_or_default().as_encoded_bytes();
    let nickname = columns.service.map_or(of_file, |column| record[column].trim_ascii());
    let server = field(columns.server);
    let fingerprint = field(columns.fingerprint).to_ascii_uppercase();
    let key = [nickname, server, &fingerprint].join(&b'\n');
    let place = match measurements.places.get(&key) {
        Some(place) => *place,
        None => {
            let wrong = |column: Option<usize>, what| (column.unwrap_or_default(), what);
            let service = match (name(nickname), server, &fingerprint[..]) {
                (None, ..) => Err(wrong(columns.service, NOT_A_NICKNAME)),
                (_, server, _) if !server.is_empty() && name(server).is_none() => {
                    Err(wrong(columns.server, "expected a host name, or nothing"))
                }
                (.., fingerprint) if !is_fingerprint(fingerprint) => Err(wrong(
                    columns.fingerprint,
                    "expected a fingerprint of 40 hexadecimal digits, or nothing",
                )),
                (Some(nickname), ..) => Ok(MeasuredService {
                    nickname,
                    server: name(server).unwrap_or_default(),
                    fingerprint: String::from_utf8_lossy(&fingerprint).into_owned(),
                    file: table.file.to_owned(),
                    ..MeasuredService::default()
                }),
            };
            match service {
                Ok(service) => measurements.services.push(service),
                Err((column, what)) => return table.skip(record, column, what),
            }
            let place = measurements.services.len() - 1;
            measurements.places.insert(key, place);
            place
        }
    };
    let sample = ImportedSample {
        wall_us,
        rss_bytes,
        vsize_bytes: optional[0],
        hwm_bytes: optional[1],
        ..ImportedSample::default()
    };
    measurements.services[place].push(sample, field(columns.group));
    Ok(())
}

fn name(field: &[u8]) -> Option<String> {
    let name: ServiceName = std::str::from_utf8(field).ok()?.parse().ok()?;
    Some(name.as_str().to_owned())
}

fn is_fingerprint(field: &[u8]) -> bool {
    field.iter().all(u8::is_ascii_hexdigit) && matches!(field.len(), 0 | 40)
}
