//! `heaptrial import prometheus`: series of a Prometheus, or of a store that answers as one does.

use clap::Args;
use heaptrial_exchange::{Exporter, PrometheusImport, Queries, import_prometheus};
use heaptrial_model::{HumanDuration, Metric};

use super::access::AccessOptions;
use super::{SeriesOptions, answer, database_of, into, own_command};
use crate::answer::Answer;
use crate::commands::value::{ValueError, time};
use crate::exit::Failure;
use crate::options::GlobalOptions;

pub const EXAMPLES: &str = "\
Examples:
  heaptrial import prometheus http://localhost:9090 --exporter heaptrial --matching 'trial=\"five-way\"'
  heaptrial import prometheus http://localhost:9090 --exporter process-exporter --arm-label allocator --from 14d
  heaptrial import prometheus https://metrics.example.org --bearer-file token \\
      --query 'process_resident_memory_bytes{job=\"relays\"}' --start 'process_start_time_seconds{job=\"relays\"}' \\
      --service-label instance --groups glibc.txt mimalloc-2.0.9.txt";

#[derive(Debug, Args)]
pub struct PrometheusOptions {
    /// The store's address, below which /api/v1/query is
    #[arg(value_name = "URL")]
    url: String,
    /// Take the names of metrics and labels from a known exporter: heaptrial (the agent), process (a client library of
    /// Prometheus), process-exporter (groups of processes) or cadvisor (control groups)
    #[arg(long, value_name = "EXPORTER", value_parser = exporter)]
    exporter: Option<Exporter>,
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
    #[arg(long, value_name = "METRIC", hide_short_help = true)]
    metric: Option<Metric>,
    /// Memory in swap in bytes, which counts with anonymous memory: series with the same labels
    #[arg(long, value_name = "QUERY", hide_short_help = true)]
    swap: Option<String>,
    /// When the service was started, in seconds since 1970
    #[arg(long, value_name = "QUERY")]
    start: Option<String>,
    /// Label that names a service; several are joined by `/` [default: the exporter's, else instance]
    #[arg(long, value_name = "LABEL")]
    service_label: Vec<String>,
    /// Label that names the arm of a service
    #[arg(long, value_name = "LABEL", conflicts_with = "groups")]
    arm_label: Option<String>,
    /// Label that names the server of a service, with or without a port: services are compared with those of their server
    #[arg(long, value_name = "LABEL", default_value = "instance", hide_short_help = true)]
    server_label: String,
    /// Label that names which of several servers scraped a series, such as prometheus_replica: series that differ in it alone are one
    #[arg(long, value_name = "LABEL", hide_short_help = true)]
    replica_label: Option<String>,
    #[command(flatten)]
    series: SeriesOptions,
    /// From when on: a time, a date or how long back, such as 14d
    #[arg(long, value_name = "TIME", default_value = "30d", hide_short_help = true)]
    from: String,
    /// Until when: a time, a date or how long back [default: now]
    #[arg(long, value_name = "TIME", hide_short_help = true)]
    to: Option<String>,
    /// A reading is the median of so long a time, with its maximum
    #[arg(long, value_name = "DURATION", default_value = "15m", hide_short_help = true)]
    step: HumanDuration,
    #[command(flatten)]
    access: AccessOptions,
    /// What the trial is called here
    #[arg(long, value_name = "NAME", default_value = "prometheus")]
    name: String,
}

fn exporter(text: &str) -> Result<Exporter, ValueError> {
    match text {
        "heaptrial" => Ok(Exporter::Heaptrial),
        "process" => Ok(Exporter::Process),
        "process-exporter" => Ok(Exporter::ProcessExporter),
        "cadvisor" => Ok(Exporter::Cadvisor),
        _ => Err(ValueError::Expected("heaptrial, process, process-exporter or cadvisor")),
    }
}

pub fn run(options: PrometheusOptions, global: &GlobalOptions) -> Result<Answer, Failure> {
    let now = jiff::Timestamp::now().as_microsecond();
    let to_us = options.to.as_deref().map(|text| time(text, "--to", now)).transpose()?.unwrap_or(now);
    let from_us = time(&options.from, "--from", to_us)?;
    // Whole milliseconds, as stores keep time.
    let step_us =
        i64::try_from(options.step.0.as_millis()).map_or(i64::MAX, |step| step.saturating_mul(1000));
    if !(1..=86_400_000_000).contains(&step_us) {
        return Err(Failure::usage("--step must be from a millisecond to a day"));
    }
    let about = options.series.about()?;
    let database = database_of(&options.name, global);
    let (queries, metric) = queries(&options)?;
    let access = options.access.access(&queries.url);
    let request = PrometheusImport {
        queries,
        metric,
        access,
        groups: options.series.groups,
        from_us,
        to_us,
        step_us,
        about,
        name: options.name,
        control: options.series.control,
        tool_version: env!("CARGO_PKG_VERSION").to_owned(),
        command: own_command(),
    };
    let summary = into(&database, |store| import_prometheus(store, &request))?;
    Ok(answer(&summary, "", &database, global))
}

/// What is asked for: of an exporter, with what was given in its place.
fn queries(options: &PrometheusOptions) -> Result<(Queries, Metric), Failure> {
    let names = options.exporter.map(|exporter| exporter.names(&options.matching));
    let usual = names.as_ref().and_then(|names| Some(names.memory.first()?.0));
    let metric = options.metric.or(usual).unwrap_or(Metric::Rss);
    if metric == Metric::Pss {
        return Err(Failure::usage(
            "--metric is rss, anon or cgroup: no exporter reports the proportional memory of a service",
        ));
    }
    let of_exporter = names.as_ref().and_then(|names| names.memory.iter().find(|memory| memory.0 == metric));
    let (memory, swap) = match (&options.query, of_exporter) {
        (Some(query), _) => (query.clone(), None),
        (None, Some((_, memory, swap))) => (memory.clone(), swap.clone()),
        (None, None) => {
            return Err(Failure::usage(format!(
                "this exporter does not report {metric}; --query names what does"
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
    let arm_label =
        options.arm_label.clone().or(arm_of_exporter).filter(|_| options.series.groups.is_empty());
    let url = options.url.trim_end_matches('/').to_owned();
    let contaminated = names.as_ref().and_then(|names| names.contaminated.clone());
    let start = options.start.clone().or(names.map(|names| names.start));
    let queries = Queries {
        url,
        memory,
        swap,
        start,
        contaminated,
        service_labels,
        arm_label,
        server_label: options.server_label.clone(),
        replica_label: options.replica_label.clone(),
    };
    Ok((queries, metric))
}
