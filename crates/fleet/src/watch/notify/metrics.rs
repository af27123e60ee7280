//! Alerts as OpenMetrics text, for the textfile collector of node_exporter and then Alertmanager.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use crate::watch::plan::WatchPlan;
use crate::watch::schedule::look_days;
use crate::watch::state::WatchState;

pub(super) fn metrics_text(plan: &WatchPlan, state: &WatchState) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Watch { plan: plan.clone(), state: state.clone() }));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Watch {
    plan: WatchPlan,
    state: WatchState,
}

impl Collector for Watch {
    fn encode(&self, mut to: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Self { plan, state } = self;
        let watch = ("watch", plan.name.as_str());
        let help = "A service of an alert that stands.";
        let mut family = to.encode_descriptor("heaptrial_watch_alert", help, None, MetricType::Gauge)?;
        for standing in state.standing.values() {
            let kind = standing.alert.kind;
            for service in standing.alert.services() {
                let labels = [
                    watch,
                    ("kind", kind.as_str()),
                    ("severity", kind.severity().as_str()),
                    ("service", service),
                ];
                ConstGauge::new(1_u64).encode(family.encode_family(&labels)?)?;
            }
        }
        let mut gauge = |name: &str, unit, help: &str, metric: &dyn EncodeMetric| {
            let name = format!("heaptrial_watch_{name}");
            let mut family = to.encode_descriptor(&name, help, unit, MetricType::Gauge)?;
            metric.encode(family.encode_family(&[watch])?)
        };
        let seconds = Some(&Unit::Seconds);
        let checked = ConstGauge::new(state.checked_at.unwrap_or(plan.started_at));
        gauge("alerts", None, "Alerts that stand.", &ConstGauge::new(state.standing.len()))?;
        gauge("last_check_timestamp", seconds, "When the last check was.", &checked)?;
        gauge("end_timestamp", seconds, "When the watch ends.", &ConstGauge::new(plan.ends_at()))?;
        gauge("services", None, "Services under watch.", &ConstGauge::new(plan.services.len()))?;
        gauge("looks_taken", None, "Looks that were taken.", &ConstGauge::new(state.looks.len()))?;
        let planned = look_days(plan.days).len();
        gauge("looks_planned", None, "Looks that were planned.", &ConstGauge::new(planned))
    }
}
