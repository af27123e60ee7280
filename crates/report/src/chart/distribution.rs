//! The last reading of every service, by arm.

use std::collections::HashMap;

use super::plot::{FOOT, Plot};
use super::scale::Scale;
use super::svg::{element, group, path_data, rectangle, text};
use super::{Canvas, Chart, WIDTH, metric_name, named_value};
use crate::terms::terms;

const RADIUS: f64 = 4.5;
/// Where an arm has so many services that their marks would reach further, they overlap.
const REACH_AT_MOST: f64 = 60.0;
const TOP: f64 = 12.0;

pub(super) fn draw(canvas: Canvas<'_>) -> Option<Chart> {
    let report = canvas.report;
    let lab = report.kind.is_lab();
    let last = |index: usize| Some((index, report.services[index].memory.as_ref()?.final_bytes as f64));
    let services = |arm: usize| -> Vec<(usize, f64)> {
        let own = canvas.services(arm).filter(|index| report.services[*index].counts || !lab);
        own.filter_map(last).collect()
    };
    let rows: Vec<(usize, Vec<(usize, f64)>)> =
        canvas.ranked_arms().into_iter().map(|arm| (arm, services(arm))).collect();
    let highest = rows.iter().flat_map(|(_, own)| own).map(|(_, bytes)| *bytes).max_by(f64::total_cmp)?;
    let across = (240.0, WIDTH - 40.0);
    let x = Scale::memory(highest, 7, across);
    let offsets: Vec<Vec<f64>> = rows.iter().map(|(_, own)| stacked(own, &x)).collect();
    let depth = |offsets: &[f64]| {
        2.0 * offsets.iter().fold(0.0f64, |reach, offset| reach.max(offset.abs())).min(REACH_AT_MOST) + 30.0
    };
    let bottom = TOP + offsets.iter().map(|offsets| depth(offsets)).sum::<f64>() + 2.0;
    let mut plot = Plot::new(across, (TOP, bottom));
    let mut top = TOP;
    for (row, offsets) in offsets.iter().enumerate() {
        if row % 2 == 0 {
            plot.push(rectangle("warm", (0.0, top), WIDTH, depth(offsets)));
        }
        top += depth(offsets);
    }
    let metric = metric_name(report.analysis.metric);
    plot.axis_of_rows(&x, &format!("{metric} at the end ({})", x.unit));
    let mut top = TOP;
    for ((arm, services), offsets) in rows.iter().zip(&offsets) {
        let depth = depth(offsets);
        let (middle, style) = (top + depth / 2.0, canvas.style(*arm));
        let label = text("end", (across.0 - 14.0, middle + 4.0), &canvas.arm_name(*arm, 28));
        plot.push(label.child(element("title").text(&report.arms[*arm].name)));
        let median = report.arms[*arm].result.as_assigned.final_median_bytes;
        if let Some(at) = median.filter(|_| services.len() > 1).map(|median| x.at(median)) {
            let half = depth / 2.0 - 4.0;
            let path = path_data([[(at, middle - half), (at, middle + half)]]);
            plot.push(element("path").class(&format!("thick {}", style.line_class())).attribute("d", &path));
        }
        for ((index, bytes), offset) in services.iter().zip(offsets) {
            let service = &report.services[*index];
            let at = (x.at(*bytes), middle + offset.clamp(-REACH_AT_MOST, REACH_AT_MOST));
            let dot = match service.counts {
                true => style.marker(at, RADIUS),
                false => {
                    let hollow = element("circle").class("off-treatment");
                    hollow.number("cx", at.0).number("cy", at.1).number("r", RADIUS - 0.7)
                }
            };
            let title = element("title").text(&named_value(&service.name, *bytes));
            plot.push(group("dot").child(title).child(dot));
        }
        top += depth;
    }
    let excluded = terms(report.kind).excluded;
    let hollow = match rows.iter().flat_map(|(_, own)| own).any(|(index, _)| !report.services[*index].counts)
    {
        true => format!(" Hollow marks are {excluded}, which the median excludes."),
        false => String::new(),
    };
    let counted = if lab { "every service that counts" } else { "every service" };
    let caption = format!(
        "Last {metric} reading of {counted}, one mark each; the line across a row is the arm's median.{hollow}"
    );
    let chart = canvas.chart("distribution-at-the-end", "Every service at the end", caption, bottom + FOOT);
    Some(Chart { body: plot.body(), ..chart })
}

/// Offsets across the axis: marks that would lie over each other are stacked, alternately above and below the middle.
fn stacked(services: &[(usize, f64)], x: &Scale) -> Vec<f64> {
    let mut stacks: HashMap<i64, usize> = HashMap::new();
    let offset = |(_, bytes): &(usize, f64)| {
        let place = stacks.entry((x.at(*bytes) / (2.0 * RADIUS)).floor() as i64).or_default();
        let steps = place.div_ceil(2) as f64 * if *place % 2 == 0 { 1.0 } else { -1.0 };
        *place += 1;
        steps * (2.0 * RADIUS - 1.0)
    };
    services.iter().map(offset).collect()
}
