//! `heaptrial import prometheus`: series of a Prometheus, or of a store that answers as one does.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use heaptrial_exchange::{Exporter, PrometheusImport, PrometheusSummary, Queries, import_prometheus};
use heaptrial_model::{HumanDuration, Metric, units};

use super::access::AccessOptions;
use super::{arm_line, database_of, into, own_command, print_next, read_about};
use crate::commands::value::time;
use crate::exit::Failure;
use crate::options::GlobalOptions;

/// Who asks for more waits for it.
const LONG_SECONDS: f64 = 2.0 * 86_400.0;

pub const EXAMPLES: &str = "\
Examples:
  heaptrial import prometheus http://localhost:9090 --exporter heaptrial --matching 'trial=\"five-way\"'
  heaptrial import prometheus http://localhost:9090 --exporter process-exporter --arm-label allocator --from 14d
  heaptrial import prometheus https://metrics.example.org --bearer-file token \\
      --query 'process_resident_memory_bytes{job=\"relays\"}' --start 'process_start_time_seconds{job=\"relays\"}' \\
      --service-label instance --groups glibc.txt mimalloc-2.0.9.txt";

/// What is asked for, and where.
#[derive(Debug, Args)]
pub struct PrometheusOptions {
    /// The store's address, below which /api/v1/query is
    #[arg(value_name = "URL")]
    url: String,
    /// Take the names of metrics and labels from a known exporter
    #[arg(long, value_name = "EXPORTER")]
    exporter: Option<KnownExporter>,
    /// Of the exporter's series only those with these matchers, such as job="relays",instance=~"a.*"
    #[arg(
        long,
        value_name = "MATCHERS",
        requires = "exporter",
        default_value = "",
        hide_default_value = true
    )]
    matching: String,
    /// Memory in bytes, one series for each service: a selector, or any expression [default: the exporter's]
    #[arg(long, value_name = "QUERY", required_unless_present = "exporter")]
    query: Option<String>,
    /// Which reading that is: rss, anon or cgroup [default: the exporter's usual one, else rss]
    #[arg(long, value_name = "METRIC")]
    metric: Option<Metric>,
    /// Memory in swap in bytes, which counts with anonymous memory
    #[arg(long, value_name = "QUERY")]
    swap: Option<String>,
    /// When the service was started, in seconds since 1970
    #[arg(long, value_name = "QUERY")]
    start: Option<String>,
    /// A counter that begins at nothing with each start, such as CPU seconds: tells restarts where no start is told, and
    /// beside --start where a clock was set
    #[arg(long, value_name = "QUERY")]
    counter: Option<String>,
    /// Label that names a service; several are joined by `/` [default: the exporter's, else instance]
    #[arg(long, value_name = "LABEL")]
    service_label: Vec<String>,
    /// Label that names the arm of a service
    #[arg(long, value_name = "LABEL", conflicts_with = "groups")]
    arm_label: Option<String>,
    /// Label that names the server of a service, with or without a port: services are compared with those of their server
    #[arg(long, value_name = "LABEL", default_value = "instance")]
    server_label: String,
    /// Label that names which of several servers scraped a series, such as prometheus_replica: series that differ in it alone are one
    #[arg(long, value_name = "LABEL")]
    replica_label: Option<String>,
    /// Lists of services, one per line, by their names here; each file is an arm and names it
    #[arg(long, value_name = "FILE", num_args = 1..)]
    groups: Vec<PathBuf>,
    /// From when on: a time, a date or how long back, such as 14d [default: 30d, or where the stored trial ends]
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Where the stored trial is continued, ask again for so long before its end: readings may have come late into the store
    #[arg(long, value_name = "DURATION", default_value = "6h")]
    late: HumanDuration,
    /// Until when [default: now]
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Keep one reading of a service in so long a time; expressions are evaluated so often
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    step: HumanDuration,
    #[command(flatten)]
    access: AccessOptions,
    /// What the trial is about, for its report: TOML with the texts hypothesis, notes and next_steps
    #[arg(long, value_name = "FILE")]
    about: Option<PathBuf>,
    /// Name of the trial
    #[arg(long, value_name = "NAME", default_value = "prometheus")]
    name: String,
    /// The control arm [default: the one called control, else that of glibc, else the first]
    #[arg(long, value_name = "ARM")]
    control: Option<String>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum KnownExporter {
    /// Heaptrial's agent
    Heaptrial,
    /// Programs with a client library of Prometheus in them
    Process,
    /// process-exporter, groups of processes
    ProcessExporter,
    /// cAdvisor, control groups
    Cadvisor,
}

impl From<KnownExporter> for Exporter {
    fn from(known: KnownExporter) -> Self {
        match known {
            KnownExporter::Heaptrial => Self::Heaptrial,
            KnownExporter::Process => Self::Process,
            KnownExporter::ProcessExporter => Self::ProcessExporter,
            KnownExporter::Cadvisor => Self::Cadvisor,
        }
    }
}

pub fn run(options: PrometheusOptions, global: &GlobalOptions) -> Result<ExitCode, Failure> {
    let now = jiff::Timestamp::now().as_microsecond();
    let to_us = options.to.as_deref().map(|text| time(text, "--to", now)).transpose()?.unwrap_or(now);
    let from_us = options.from.as_deref().map(|text| time(text, "--from", to_us)).transpose()?;
    if options.step.0.as_millis() == 0 {
        return Err(Failure::usage("--step must be at least a millisecond"));
    }
    let about = options.about.as_deref().map(read_about).transpose()?;
    let database = database_of(&options.name, global);
    let (queries, metric) = queries(&options)?;
    let access = options.access.access(&queries.url);
    let url = queries.url.clone();
    let request = PrometheusImport {
        queries,
        metric,
        access,
        groups: options.groups,
        from_us,
        late_us: i64::try_from(options.late.0.as_micros()).unwrap_or(i64::MAX),
        to_us,
        step_us: i64::try_from(options.step.0.as_micros()).unwrap_or(i64::MAX),
        about,
        name: options.name,
        control: options.control,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: own_command(),
    };
    let summary = into(&database, |store| import_prometheus(store, &request, &|asked| tell(&url, asked)))?;
    if global.json {
        let json = serde_json::json!({ "schema_version": 1, "database": database, "import": summary });
        println!("{json:#}");
    } else {
        print_summary(&summary, &database, global);
    }
    Ok(ExitCode::SUCCESS)
}

/// Tells who waits long what becomes of it when it is interrupted.
fn tell(url: &str, asked: Range<i64>) {
    let seconds = (asked.end - asked.start) as f64 / 1e6;
    if seconds > LONG_SECONDS {
        eprintln!(
            "{url} is asked for {}. Nothing of it is kept until all is here: interrupted, it begins anew. A part is taken with --to; the \
             same without --from and --to then goes on from there",
            units::duration(seconds)
        );
    }
}

/// What is asked for: of an exporter, with what was given in its place.
fn queries(options: &PrometheusOptions) -> Result<(Queries, Metric), Failure> {
    let names = options.exporter.map(|exporter| Exporter::from(exporter).names(&options.matching));
    let usual = names.as_ref().and_then(|names| Some(names.memory.first()?.0));
    let metric = options.metric.or(usual).unwrap_or(Metric::Rss);
    if metric == Metric::Pss {
        return Err(Failure::usage(
            "--metric is rss, anon or cgroup: no exporter tells the proportional memory of a service",
        ));
    }
    let of_exporter = names.as_ref().and_then(|names| names.memory.iter().find(|memory| memory.0 == metric));
    let (memory, swap) = match (&options.query, of_exporter) {
        (Some(query), _) => (query.clone(), None),
        (None, Some((_, memory, swap))) => (memory.clone(), swap.clone()),
        (None, None) => {
            return Err(Failure::usage(format!(
                "this exporter does not tell {metric}; --query says what does"
            )));
        }
    };
    let swap = options.swap.clone().or(swap);
    if swap.is_some() && metric != Metric::Anon {
        return Err(Failure::usage(format!("--swap counts with --metric anon, not with {metric}")));
    }
    let service_labels = match (&options.service_label[..], &names) {
        ([], Some(names)) => names.service_labels.iter().map(|label| (*label).to_owned()).collect(),
        ([], None) => vec!["instance".to_owned()],
        (labels, _) => labels.to_vec(),
    };
    let arm_of_exporter = names.as_ref().and_then(|names| names.arm_label).map(str::to_owned);
    let arm_label = options.arm_label.clone().or(arm_of_exporter).filter(|_| options.groups.is_empty());
    let url = options.url.trim_end_matches('/').to_owned();
    let contaminated = names.as_ref().and_then(|names| names.contaminated.clone());
    let start = options.start.clone().or(names.map(|names| names.start));
    let queries = Queries {
        url,
        memory,
        swap,
        start,
        counter: options.counter.clone(),
        contaminated,
        service_labels,
        arm_label,
        server_label: options.server_label.clone(),
        replica_label: options.replica_label.clone(),
    };
    Ok((queries, metric))
}

fn print_summary(summary: &PrometheusSummary, database: &Path, global: &GlobalOptions) {
    let what = match (summary.updated, summary.new_samples) {
        (true, 0) => "nothing new".to_owned(),
        (true, new) => format!("{} new samples", units::count(new)),
        (false, new) => format!("{} samples", units::count(new)),
    };
    println!("{}: {what} of {} services", summary.trial, units::count(summary.services as u64));
    for arm in &summary.arms {
        println!("  {}", arm_line(arm));
    }
    println!(
        "{} lives: the starts of {} are told, those of {} inferred; {} began before their first reading.",
        units::count(summary.lives_told + summary.lives_inferred + summary.lives_unknown),
        units::count(summary.lives_told),
        units::count(summary.lives_inferred),
        units::count(summary.lives_unknown)
    );
    for note in &summary.notes {
        println!("- {note}");
    }
    print_next(&summary.trial, database, global);
}
