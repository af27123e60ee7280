//! OpenMetrics 1.0 text: a metric family per measured column, a metric per service.
//!
//! <https://github.com/OpenObservability/OpenMetrics/blob/main/specification/OpenMetrics.md>

use std::fmt::Write as _;
use std::io::{BufWriter, Write};

use heaptrial_model::LifeStart;
use heaptrial_store::{LifeRecord, SAMPLE_COLUMNS, Store};

use super::series::{Service, Trial};
use crate::ExportError;

/// What a column is called, and how it is scaled.
struct Family {
    name: &'static str,
    unit: Option<&'static str>,
    counter: bool,
    help: &'static str,
}

const fn gauge(name: &'static str, unit: Option<&'static str>, help: &'static str) -> Family {
    Family { name, unit, counter: false, help }
}

const BYTES: Option<&str> = Some("bytes");

/// In the order of the columns.
const FAMILIES: [Family; SAMPLE_COLUMNS.len()] = [
    gauge("heaptrial_service_rss_bytes", BYTES, "Resident memory (VmRSS)."),
    gauge("heaptrial_service_anon_bytes", BYTES, "Resident anonymous memory (RssAnon)."),
    gauge("heaptrial_service_file_bytes", BYTES, "Resident file pages (RssFile)."),
    gauge("heaptrial_service_shmem_bytes", BYTES, "Resident shared memory (RssShmem)."),
    gauge("heaptrial_service_swap_bytes", BYTES, "Anonymous memory in swap (VmSwap)."),
    gauge("heaptrial_service_vsize_bytes", BYTES, "Address space (VmSize)."),
    gauge("heaptrial_service_hwm_bytes", BYTES, "Peak resident memory (VmHWM)."),
    Family {
        name: "heaptrial_service_minor_faults",
        unit: None,
        counter: true,
        help: "Minor page faults since the start of the process.",
    },
    Family {
        name: "heaptrial_service_major_faults",
        unit: None,
        counter: true,
        help: "Major page faults since the start of the process.",
    },
    Family {
        name: "heaptrial_service_cpu_seconds",
        unit: Some("seconds"),
        counter: true,
        help: "CPU time since the start of the process.",
    },
    gauge("heaptrial_service_threads", None, "Threads."),
    gauge("heaptrial_service_processes", None, "Processes in the tree."),
    gauge("heaptrial_service_cgroup_current_bytes", BYTES, "Memory of the control group."),
    gauge("heaptrial_service_cgroup_peak_bytes", BYTES, "Peak memory of the control group."),
    gauge("heaptrial_service_pss_bytes", BYTES, "Proportional memory (Pss)."),
    gauge("heaptrial_service_private_dirty_bytes", BYTES, "Private dirty pages."),
    gauge("heaptrial_service_lazyfree_bytes", BYTES, "Pages given back that still count (LazyFree)."),
    gauge("heaptrial_service_anon_huge_bytes", BYTES, "Anonymous huge pages."),
];

/// Of lives of which it was looked into what runs.
const CONTAMINATED: Family = gauge(
    "heaptrial_service_contaminated",
    None,
    "1 where the process does not run its arm's treatment, or a lab left it out.",
);

/// Of lives whose start is known, if only between two readings.
const STARTED: Family =
    gauge("heaptrial_service_start_time_seconds", Some("seconds"), "When the life began, since 1970.");

/// A pass over the samples per family, because the lines of a family must stand together.
pub(super) fn write(
    store: &Store,
    trial: &Trial,
    writer: &mut (dyn Write + Send),
) -> Result<u64, ExportError> {
    let mut out = BufWriter::new(writer);
    let mut samples = 0;
    let mut present = [true; SAMPLE_COLUMNS.len()];
    for (position, family) in FAMILIES.iter().enumerate() {
        // The first pass tells which columns have values at all.
        if !present[position] {
            continue;
        }
        let mut any = [false; SAMPLE_COLUMNS.len()];
        describe(&mut out, family)?;
        for service in &trial.services {
            let labels = metric_of(service, trial);
            let mut last = i64::MIN;
            for life in &service.lives {
                store.each_sample_of_life(life, |sample| {
                    let values = trial.measured(sample);
                    if position == 0 {
                        samples += 1;
                        any.iter_mut().zip(&values).for_each(|(any, value)| *any |= value.is_some());
                    }
                    // The points of a metric go forward in time, also where the wall clock did not.
                    if let Some(value) = values[position].filter(|_| sample.wall_us > last) {
                        last = sample.wall_us;
                        point(&mut out, family, &labels, value, sample.wall_us)?;
                    }
                    Ok::<(), ExportError>(())
                })?;
            }
        }
        if position == 0 {
            present = any;
        }
    }
    of_lives(store, trial, &CONTAMINATED, is_contaminated, &mut out)?;
    of_lives(store, trial, &STARTED, started, &mut out)?;
    out.write_all(b"# EOF\n")?;
    out.flush()?;
    Ok(samples)
}

/// What is known of whole lives: a point with each sample, so that it can be joined to the others, and put into a store.
fn of_lives(
    store: &Store,
    trial: &Trial,
    family: &Family,
    value: fn(&LifeRecord) -> Option<i64>,
    out: &mut impl Write,
) -> Result<(), ExportError> {
    if !trial.services.iter().flat_map(|service| &service.lives).any(|life| value(life).is_some()) {
        return Ok(());
    }
    describe(out, family)?;
    for service in &trial.services {
        let labels = metric_of(service, trial);
        let mut last = i64::MIN;
        for (life, value) in service.lives.iter().filter_map(|life| Some((life, value(life)?))) {
            store.each_sample_of_life(life, |sample| {
                if sample.wall_us > last {
                    last = sample.wall_us;
                    point(out, family, &labels, value, sample.wall_us)?;
                }
                Ok::<(), ExportError>(())
            })?;
        }
    }
    Ok(())
}

fn is_contaminated(life: &LifeRecord) -> Option<i64> {
    let told = life.contamination.is_some() || life.identity.is_some();
    told.then(|| i64::from(life.contamination.is_some()))
}

/// In microseconds since 1970.
fn started(life: &LifeRecord) -> Option<i64> {
    (life.start != LifeStart::Unknown).then_some(life.started_wall_us)
}

fn metric_of(service: &Service, trial: &Trial) -> String {
    labels(&[("service", &service.name), ("arm", &service.arm), ("trial", &trial.name)])
}

fn describe(out: &mut impl Write, family: &Family) -> std::io::Result<()> {
    writeln!(out, "# TYPE {} {}", family.name, if family.counter { "counter" } else { "gauge" })?;
    if let Some(unit) = family.unit {
        writeln!(out, "# UNIT {} {unit}", family.name)?;
    }
    writeln!(out, "# HELP {} {}", family.name, family.help)
}

fn point(
    out: &mut impl Write,
    family: &Family,
    labels: &str,
    value: i64,
    wall_us: i64,
) -> std::io::Result<()> {
    let suffix = if family.counter { "_total" } else { "" };
    let (seconds, micros) = (wall_us.div_euclid(1_000_000), wall_us.rem_euclid(1_000_000));
    match family.unit {
        Some("seconds") => {
            let (whole, part) = (value / 1_000_000, value % 1_000_000);
            writeln!(out, "{}{suffix}{labels} {whole}.{part:06} {seconds}.{micros:06}", family.name)
        }
        _ => writeln!(out, "{}{suffix}{labels} {value} {seconds}.{micros:06}", family.name),
    }
}

/// How the start of a life is known, in one word.
pub(super) fn start_word(start: &LifeStart) -> &'static str {
    match start {
        LifeStart::Observed => "observed",
        LifeStart::Inferred { .. } => "inferred",
        LifeStart::Unknown => "unknown",
    }
}

fn labels(pairs: &[(&str, &str)]) -> String {
    let mut text = String::from("{");
    for (index, (name, value)) in pairs.iter().enumerate() {
        let comma = if index == 0 { "" } else { "," };
        let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let _ = write!(text, "{comma}{name}=\"{value}\"");
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_stand_in_the_order_of_the_columns() {
        for (family, column) in FAMILIES.iter().zip(SAMPLE_COLUMNS) {
            let named = family.name.strip_prefix("heaptrial_service_").unwrap();
            assert_eq!(named.replace("cpu_seconds", "cpu_us"), column);
            assert!(
                family.unit.is_none_or(|unit| family.name.ends_with(&format!("_{unit}"))),
                "{}",
                family.name
            );
        }
    }

    #[test]
    fn label_values_are_escaped() {
        assert_eq!(labels(&[("a", "x\\\"\ny"), ("b", "")]), r#"{a="x\\\"\ny",b=""}"#);
    }
}
