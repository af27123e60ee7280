//! Apache Parquet: a row per sample, in groups of bounded size.

use std::io::Write;
use std::sync::Arc;

use heaptrial_model::LifeStart;
use heaptrial_store::{SAMPLE_COLUMNS, Store};
use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::series::Trial;
use crate::ExportError;

/// Rows that are held at once: 13 MB.
const GROUP: usize = 65_536;

/// One group of rows, by column.
#[derive(Default)]
struct Group {
    service: Vec<ByteArray>,
    arm: Vec<ByteArray>,
    start: Vec<ByteArray>,
    life: Vec<i64>,
    wall_us: Vec<i64>,
    age_seconds: Vec<f64>,
    contaminated: Vec<bool>,
    /// Values that are there, and for each row whether one is.
    measured: [(Vec<i64>, Vec<i16>); SAMPLE_COLUMNS.len()],
}

/// The schema. `time` is UTC; `life` counts a service's lives from 1; `start` tells how well the age is known;
/// `contaminated` is true in lives that reports leave out.
fn schema() -> String {
    let mut text = String::from(
        "message heaptrial {
           REQUIRED BINARY trial (STRING);
           REQUIRED BINARY service (STRING);
           REQUIRED BINARY arm (STRING);
           REQUIRED INT64 life;
           REQUIRED BINARY start (STRING);
           REQUIRED INT64 time (TIMESTAMP(MICROS,true));
           REQUIRED DOUBLE age_seconds;
           REQUIRED BOOLEAN contaminated;\n",
    );
    for column in SAMPLE_COLUMNS {
        text.push_str(&format!("OPTIONAL INT64 {column};\n"));
    }
    text.push('}');
    text
}

pub(super) fn write(
    store: &Store,
    trial: &Trial,
    writer: &mut (dyn Write + Send),
) -> Result<u64, ExportError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::SNAPPY)
        .set_created_by("heaptrial".to_owned())
        .build();
    let mut file =
        SerializedFileWriter::new(writer, Arc::new(parse_message_type(&schema())?), Arc::new(properties))?;
    let trial_name = ByteArray::from(trial.name.as_str());
    let mut group = Group::default();
    let mut written = 0;
    for service in &trial.services {
        let name = ByteArray::from(service.name.as_str());
        let arm = ByteArray::from(service.arm.as_str());
        for (number, life) in service.lives.iter().enumerate() {
            let start = ByteArray::from(start_word(&life.start));
            store.each_sample_of_life(life, |sample| {
                group.service.push(name.clone());
                group.arm.push(arm.clone());
                group.start.push(start.clone());
                group.life.push(number as i64 + 1);
                group.wall_us.push(sample.wall_us);
                group.age_seconds.push((sample.boottime_us - life.started_boottime_us) as f64 / 1e6);
                group.contaminated.push(life.contamination.is_some());
                for ((values, levels), value) in group.measured.iter_mut().zip(trial.measured(sample)) {
                    values.extend(value);
                    levels.push(i16::from(value.is_some()));
                }
                written += 1;
                if group.wall_us.len() == GROUP {
                    std::mem::take(&mut group).write(&mut file, &trial_name)?;
                }
                Ok::<(), ExportError>(())
            })?;
        }
    }
    if !group.wall_us.is_empty() {
        group.write(&mut file, &trial_name)?;
    }
    file.close()?;
    Ok(written)
}

impl Group {
    fn write<W: Write + Send>(
        self,
        file: &mut SerializedFileWriter<W>,
        trial: &ByteArray,
    ) -> Result<(), parquet::errors::ParquetError> {
        let mut out = file.next_row_group()?;
        let trials = vec![trial.clone(); self.wall_us.len()];
        let mut measured = self.measured.iter();
        let mut position = 0;
        while let Some(mut column) = out.next_column()? {
            let texts =
                |texts: &[ByteArray], column: &mut parquet::file::writer::SerializedColumnWriter<'_>| {
                    column.typed::<ByteArrayType>().write_batch(texts, None, None).map(drop)
                };
            let numbers =
                |numbers: &[i64], column: &mut parquet::file::writer::SerializedColumnWriter<'_>| {
                    column.typed::<Int64Type>().write_batch(numbers, None, None).map(drop)
                };
            match position {
                0 => texts(&trials, &mut column)?,
                1 => texts(&self.service, &mut column)?,
                2 => texts(&self.arm, &mut column)?,
                3 => numbers(&self.life, &mut column)?,
                4 => texts(&self.start, &mut column)?,
                5 => numbers(&self.wall_us, &mut column)?,
                6 => drop(column.typed::<DoubleType>().write_batch(&self.age_seconds, None, None)?),
                7 => drop(column.typed::<BoolType>().write_batch(&self.contaminated, None, None)?),
                _ => {
                    if let Some((values, levels)) = measured.next() {
                        column.typed::<Int64Type>().write_batch(values, Some(levels), None)?;
                    }
                }
            }
            column.close()?;
            position += 1;
        }
        out.close().map(drop)
    }
}

/// How the start of a life is known, in one word.
fn start_word(start: &LifeStart) -> &'static str {
    match start {
        LifeStart::Observed => "observed",
        LifeStart::Inferred { .. } => "inferred",
        LifeStart::Unknown => "unknown",
    }
}
