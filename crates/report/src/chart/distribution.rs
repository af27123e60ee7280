//! The last reading of every service, by arm.

use super::plot::{FOOT, Plot};
use super::scale::Scale;
use super::svg::{element, group, path_data, rectangle, text};
use super::{Canvas, Chart, WIDTH, metric_name, named_value};
use crate::terms::terms;

const RADIUS: f64 = 4.5;
/// Where an arm has so many services that their marks would reach further, they overlap.
const REACH_AT_MOST: f64 = 60.0;
/// Marks of an arm, besides its excluded services.
const MARKS_AT_MOST: usize = 120;

pub(super) fn draw(canvas: Canvas<'_>) -> Option<Chart> {
    let arms = canvas.ranked_arms();
    let lab = canvas.report.kind.is_lab();
    let last = |i: usize| Some((i, canvas.report.services[i].memory.as_ref()?.final_bytes as f64));
    let all: Vec<Vec<(usize, f64)>> = (0..canvas.report.arms.len())
        .map(|arm| canvas.counted(arm).into_iter().filter_map(last).collect())
        .collect();
    let excluded: Vec<Vec<(usize, f64)>> = (0..canvas.report.arms.len())
        .map(|arm| if lab { Vec::new() } else { canvas.excluded(arm).into_iter().filter_map(last).collect() })
        .collect();
    let finals = |arm: usize| -> Vec<(usize, f64)> {
        let own = evenly(&all[arm], MARKS_AT_MOST);
        own.into_iter().chain(excluded[arm].iter().copied()).collect()
    };
    let highest = arms.iter().flat_map(|arm| finals(*arm)).map(|(_, bytes)| bytes).fold(0.0, f64::max);
    if arms.is_empty() {
        return None;
    }
    let metric = metric_name(canvas.report.analysis.metric);
    let across = (240.0, WIDTH - 40.0);
    let x = Scale::memory(highest, 7, across);

    let mut rows = Vec::new();
    let mut top = 12.0;
    for arm in arms {
        let services = finals(arm);
        let places: Vec<f64> = services.iter().map(|(_, bytes)| x.at(*bytes)).collect();
        let mut offsets = swarm(&places, 2.0 * RADIUS - 1.0);
        let widest = offsets.iter().fold(0.0f64, |reach, offset| reach.max(offset.abs()));
        let reach = widest.min(REACH_AT_MOST);
        if widest > reach {
            offsets.iter_mut().for_each(|offset| *offset *= reach / widest);
        }
        let depth = 2.0 * reach + 30.0;
        rows.push((arm, services, offsets, top, depth));
        top += depth;
    }
    let bottom = top + 2.0;
    let some = if all.iter().any(|own| own.len() > MARKS_AT_MOST) {
        format!(" Of large arms {MARKS_AT_MOST} services are drawn, evenly chosen by memory.")
    } else {
        String::new()
    };
    let hollow = match excluded.iter().any(|arm| !arm.is_empty()) {
        true => {
            let who = terms(canvas.report.kind).excluded;
            format!(" Hollow marks are {who}, which the median excludes.")
        }
        false => String::new(),
    };
    let counted = if lab { "every service that counts" } else { "every service" };
    let caption = format!(
        "Last {metric} reading of {counted}, one mark each; the line across a row is the arm's median.{hollow}{some}"
    );
    let mut plot = Plot::new(across, (12.0, bottom));
    for (_, _, _, top, depth) in rows.iter().step_by(2) {
        plot.push(rectangle("warm", (0.0, *top), WIDTH, *depth));
    }
    plot.axis_of_rows(&x, &format!("{metric} at the end ({})", x.unit));
    for (arm, services, offsets, top, depth) in &rows {
        let middle = top + depth / 2.0;
        let style = canvas.style(*arm);
        let label = text("end", (across.0 - 14.0, middle + 4.0), &canvas.arm_name(*arm, 28));
        plot.push(label.child(element("title").text(&canvas.report.arms[*arm].name)));
        let median = canvas.report.arms[*arm].result.as_assigned.final_median_bytes;
        if let (Some(median), true) = (median, all[*arm].len() > 1) {
            let half = depth / 2.0 - 4.0;
            let at = x.at(median);
            let path = path_data([[(at, middle - half), (at, middle + half)]]);
            plot.push(element("path").class(&format!("thick {}", style.line_class())).attribute("d", &path));
        }
        for ((index, bytes), offset) in services.iter().zip(offsets) {
            let value = named_value(&canvas.report.services[*index].name, *bytes);
            let at = (x.at(*bytes), middle + offset);
            let dot = if canvas.report.services[*index].counts {
                style.marker(at, RADIUS)
            } else {
                let hollow = element("circle").class("off-treatment");
                hollow.number("cx", at.0).number("cy", at.1).number("r", RADIUS - 0.7)
            };
            plot.push(group("dot").child(element("title").text(&value)).child(dot));
        }
    }
    let chart = canvas.chart("distribution-at-the-end", "Every service at the end", caption, bottom + FOOT);
    Some(Chart { body: plot.body(), ..chart })
}

/// At most `limit` of `services`, evenly spaced by memory with both ends.
fn evenly(services: &[(usize, f64)], limit: usize) -> Vec<(usize, f64)> {
    if services.len() <= limit {
        return services.to_vec();
    }
    let mut sorted = services.to_vec();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    (0..limit).map(|mark| sorted[mark * (sorted.len() - 1) / (limit - 1)]).collect()
}

/// Offsets across the axis that keep marks at `places` at least `distance` apart: each mark goes to the
/// free offset nearest to the middle.
fn swarm(places: &[f64], distance: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..places.len()).collect();
    order.sort_by(|a, b| places[*a].total_cmp(&places[*b]));
    let mut offsets = vec![0.0; places.len()];
    let mut placed: Vec<(f64, f64)> = Vec::new();
    for index in order {
        let near: Vec<(f64, f64)> =
            placed.iter().rev().take_while(|other| places[index] - other.0 < distance).copied().collect();
        // Candidates touch a neighbour from above or below.
        let mut candidates = vec![0.0];
        for (place, offset) in &near {
            let across = (distance.powi(2) - (places[index] - place).powi(2)).max(0.0).sqrt();
            candidates.extend([offset + across, offset - across]);
        }
        candidates.sort_by(|a: &f64, b: &f64| a.abs().total_cmp(&b.abs()));
        let free = |candidate: &f64| {
            near.iter().all(|(place, offset)| {
                (places[index] - place).powi(2) + (candidate - offset).powi(2) >= distance.powi(2) - 1e-6
            })
        };
        offsets[index] = candidates.into_iter().find(free).unwrap_or(0.0);
        placed.push((places[index], offsets[index]));
    }
    offsets
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn marks_do_not_overlap(places in prop::collection::vec(0.0f64..200.0, 1..40)) {
            let offsets = swarm(&places, 8.0);
            for a in 0..places.len() {
                for b in a + 1..places.len() {
                    let apart = (places[a] - places[b]).hypot(offsets[a] - offsets[b]);
                    prop_assert!(apart >= 8.0 - 1e-3, "{apart}");
                }
            }
        }
    }
}
