//! The memory that is compared, of each arm against the control.

use super::plot::{FOOT, Plot};
use super::scale::Scale;
use super::svg::{Element, element, line, rectangle, text};
use super::{Canvas, Chart, WIDTH, metric_name, named_value, shorten, text_width};
use crate::terms::terms;
use crate::{table, units};

/// A row of the chart.
struct Bar {
    arm: usize,
    /// What the bar shows, in bytes.
    bytes: f64,
    /// Whether that is the figure that ratios are of; else it is the mean at the end.
    compared: bool,
    /// The mean of the last readings, for the thin mark.
    end: Option<f64>,
    /// The ratio to the control, as text.
    ratio: String,
}

pub(super) fn draw(canvas: Canvas<'_>) -> Option<Chart> {
    let bars: Vec<Bar> = canvas.ranked_arms().into_iter().filter_map(|arm| bar(canvas, arm)).collect();
    let highest = bars.iter().map(|bar| bar.bytes.max(bar.end.unwrap_or(0.0))).max_by(f64::total_cmp)?;
    let is_control = |bar: &&Bar| canvas.report.arms[bar.arm].control && bar.compared;
    let control = bars.iter().find(is_control).map(|bar| bar.bytes);
    let metric = metric_name(canvas.report.analysis.metric);

    let row = 32.0;
    let (top, depth) = (30.0, bars.len() as f64 * row + 6.0);
    let mut plot = Plot::new((240.0, WIDTH - 200.0), (top, top + depth));
    let x = Scale::memory(highest, 6, plot.across());
    let value = |bar: &Bar| {
        let of = if bar.compared { "" } else { " (mean of last readings)" };
        named_value(&canvas.report.arms[bar.arm].name, bar.bytes) + of
    };
    plot.axis_of_rows(&x, &format!("{metric} ({})", x.unit));
    if let Some(control) = control {
        let at = x.at(control);
        plot.push(line("control", (at, top - 8.0), (at, top + depth)));
        let name = canvas.report.control().map_or("", |arm| arm.name.as_str());
        let label = format!("control: {}", shorten(name, 28));
        let anchor = if at > WIDTH / 2.0 { ("quiet small end", at + 4.0) } else { ("quiet small", at - 4.0) };
        plot.push(text(anchor.0, (anchor.1, top - 13.0), &label));
    }
    for (index, bar) in bars.iter().enumerate() {
        row_of(canvas, bar, top + 6.0 + index as f64 * row, &x).into_iter().for_each(|part| plot.push(part));
    }
    let caption = caption(canvas, &bars, control.is_some());
    let chart = canvas.chart("final-memory", "Memory compared with the control", caption, plot.bottom + FOOT);
    let description = format!("{}.", bars.iter().map(value).collect::<Vec<_>>().join(", "));
    Some(Chart { description, body: plot.body(), ..chart })
}

fn bar(canvas: Canvas<'_>, arm: usize) -> Option<Bar> {
    let treated = canvas.report.arms[arm].result.treated();
    let (end, compared) = (treated.final_mean_bytes, treated.level_bytes);
    Some(Bar {
        arm,
        bytes: compared.or(end)?,
        compared: compared.is_some(),
        end: end.filter(|_| compared.is_some()),
        ratio: if compared.is_some() {
            table::ratio(&canvas.report.arms[arm])
        } else {
            "last readings".to_owned()
        },
    })
}

fn caption(canvas: Canvas<'_>, bars: &[Bar], has_control: bool) -> String {
    let metric = metric_name(canvas.report.analysis.metric);
    let figure = if !canvas.report.has_days() {
        "median after warm-up".to_owned()
    } else {
        match canvas.report.analysis.matched_age_seconds {
            Some(age) => format!("level at an age of {}", units::duration(age)),
            None => "level at the matched age".to_owned(),
        }
    };
    let without = match canvas.report.arms.iter().any(|arm| arm.result.as_treated.is_some()) {
        true => format!(", without {}", terms(canvas.report.kind).excluded),
        false => String::new(),
    };
    let several = canvas.report.services.iter().any(|service| service.block > 0);
    let blocks = if several { ", compared within blocks" } else { "" };
    let mut caption = format!(
        "Bar: {metric}, {figure}, geometric mean over the services of an arm{without}; at its right the ratio of that to the \
         control's{blocks}."
    );
    if canvas.report.arms.iter().any(|arm| arm.result.sawtooth.is_some()) {
        caption.push_str(" Arms restarted at intervals are compared by their averages over time.");
    }
    if bars.iter().any(|bar| !bar.compared) {
        caption.push_str(
            " Pale bars are arms without that figure: they show the mean of last readings, at whatever age, and have no \
             ratio.",
        );
    }
    if bars.iter().any(|bar| bar.end.is_some()) {
        caption.push_str(" Thin upright mark: the mean of last readings.");
    }
    if has_control {
        caption.push_str(" Dashed line: the control.");
    }
    caption
}

fn row_of(canvas: Canvas<'_>, bar: &Bar, top: f64, x: &Scale) -> Vec<Element> {
    let name = &canvas.report.arms[bar.arm].name;
    let style = canvas.style(bar.arm);
    let depth = 20.0;
    let hover = match bar.end {
        Some(end) => format!("{}, {} at the end", named_value(name, bar.bytes), units::memory(end)),
        None => named_value(name, bar.bytes),
    };
    let class = format!("{}{}", if bar.compared { "" } else { "pale " }, style.bar_class());
    let area = rectangle(&class, (x.range.0, top), x.at(bar.bytes) - x.range.0, depth)
        .child(element("title").text(&hover));
    let value = units::memory(bar.bytes);
    let middle = top + depth / 2.0;
    let furthest = x.at(bar.bytes.max(bar.end.unwrap_or(0.0)));
    let label = text("end", (x.range.0 - 28.0, middle + 4.0), &canvas.arm_name(bar.arm, 28));
    let end = furthest + 8.0;
    let written = text_width(&value, 12.0) + text_width(&bar.ratio, 12.0) + 8.0;
    let mut elements = vec![
        style.marker((x.range.0 - 14.0, middle), 4.5),
        label.child(element("title").text(name)),
        area,
        // The control's line does not run through the figures.
        rectangle("ground", (end - 3.0, top), written + 6.0, depth),
        element("text")
            .number("x", end)
            .number("y", middle + 4.0)
            .child(element("tspan").class("bold").text(&value))
            .child(element("tspan").class("quiet").attribute("dx", "8").text(&bar.ratio)),
    ];
    if let Some(at) = bar.end.map(|end| x.at(end)) {
        elements.push(line("at-end", (at, top - 3.0), (at, top + depth + 3.0)));
        if at > x.at(bar.bytes) {
            elements.push(line("at-end", (x.at(bar.bytes), middle), (at, middle)));
        }
    }
    elements
}
