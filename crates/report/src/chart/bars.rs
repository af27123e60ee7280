//! Final memory of each arm against the control.

use super::scale::Scale;
use super::svg::{Element, element, group, line, rectangle, text};
use super::{Canvas, Chart, metric_name, named_value, text_width};
use crate::document::Arm;
use crate::{table, units};

pub(super) fn draw(canvas: Canvas<'_>) -> Option<Chart> {
    let arms = canvas.ranked_arms();
    let both = |arm: &usize| canvas.report.arms[*arm].final_bytes().max(treated(&canvas.report.arms[*arm]));
    let highest = arms.iter().filter_map(both).max()?;
    let control = canvas.report.control().and_then(|control| treated(control).or(control.final_bytes()));
    let metric = metric_name(canvas.report.analysis.metric);

    let (left, right, row) = if canvas.is_wide() { (240.0, 232.0, 32.0) } else { (12.0, 12.0, 46.0) };
    let top = 30.0;
    let bottom = top + arms.len() as f64 * row + 6.0;
    let x =
        Scale::memory(highest as f64, if canvas.is_wide() { 6 } else { 4 }, (left, canvas.width() - right));
    let values: Vec<String> = arms
        .iter()
        .map(|arm| {
            named_value(
                &canvas.report.arms[*arm].name,
                canvas.report.arms[*arm].final_bytes().unwrap_or(0) as f64,
            )
        })
        .collect();
    let ratio =
        if canvas.report.kind.is_lab() { "the control's median" } else { "the control at the matched age" };
    let strangers = canvas.report.arms.iter().any(|arm| treated(arm).is_some());
    let import = canvas.report.kind.is_import();
    let caption = format!(
        "Last {metric} reading, mean over the services of an arm{}; beside it the ratio to {ratio}{}.",
        match (strangers, import) {
            (true, true) => " as listed (bar), and upright across it without strangers",
            (true, false) => " as assigned (bar), and upright across it without contaminated services",
            (false, _) => "",
        },
        if control.is_some() && strangers && import {
            ". The dashed line is the control, without strangers"
        } else if control.is_some() && strangers {
            ". The dashed line is the control, without contaminated services"
        } else if control.is_some() {
            ". The dashed line is the control"
        } else {
            ""
        }
    );
    let mut chart = canvas.chart("final-memory", "Memory at the end", caption, bottom + 46.0);
    chart.description = format!("{}.", values.join(", "));
    let mut body = group("plot");
    for tick in &x.ticks {
        let at = x.at(tick.value);
        body.push(line(if tick.value == 0.0 { "axis" } else { "grid" }, (at, top), (at, bottom)));
        body.push(text("quiet middle", (at, bottom + 18.0), &tick.label));
    }
    let unit = format!("{metric} at the end ({})", x.unit);
    body.push(text("quiet end", (canvas.width() - right, bottom + 37.0), &unit));
    if let Some(control) = control {
        let at = x.at(control as f64);
        body.push(line("control", (at, top - 8.0), (at, bottom)));
        let name = canvas.report.control().map_or("", |arm| arm.name.as_str());
        let label = format!("control: {}", super::shorten(name, 28));
        let anchor =
            if at > canvas.width() / 2.0 { ("quiet small end", at + 4.0) } else { ("quiet small", at - 4.0) };
        body.push(text(anchor.0, (anchor.1, top - 13.0), &label));
    }
    for (index, arm) in arms.iter().enumerate() {
        let base = top + 6.0 + index as f64 * row;
        for element in bar(canvas, *arm, base, &x) {
            body.push(element);
        }
    }
    chart.body = body.to_string();
    Some(chart)
}

fn bar(canvas: Canvas<'_>, arm: usize, base: f64, x: &Scale) -> Vec<Element> {
    let figures = &canvas.report.arms[arm];
    let bytes = figures.final_bytes().unwrap_or(0) as f64;
    let look = canvas.look(arm);
    let (top, depth) = if canvas.is_wide() { (base, 20.0) } else { (base + 18.0, 18.0) };
    let hover = element("title").text(&named_value(&figures.name, bytes));
    let area = rectangle(&look.fill_class(), (x.range.0, top), x.at(bytes) - x.range.0, depth);
    let treated = treated(figures);
    let value = match treated {
        Some(treated) if canvas.is_wide() => {
            format!("{} ({} without)", units::memory(bytes), units::memory(treated as f64))
        }
        _ => units::memory(bytes),
    };
    let ratio = table::ratio(figures);
    let middle = top + depth / 2.0;
    let mark = treated.map(|treated| {
        let at = x.at(treated as f64);
        line("treated", (at, top - 3.0), (at, top + depth + 3.0))
    });
    let furthest = x.at(treated.map_or(bytes, |treated| bytes.max(treated as f64)));
    let mut elements = if canvas.is_wide() {
        let name = text("end", (x.range.0 - 28.0, middle + 4.0), &canvas.arm_name(arm, 28));
        let end = furthest + 8.0;
        let written = text_width(&value, 12.0) + text_width(&ratio, 12.0) + 8.0;
        vec![
            look.marker((x.range.0 - 14.0, middle), 4.5),
            name.child(element("title").text(&figures.name)),
            area.child(hover),
            // The control's line does not run through the figures.
            rectangle("ground", (end - 3.0, top), written + 6.0, depth),
            element("text")
                .number("x", end)
                .number("y", middle + 4.0)
                .child(element("tspan").class("bold").text(&value))
                .child(element("tspan").class("quiet").attribute("dx", "8").text(&ratio)),
        ]
    } else {
        let end = canvas.width() - 12.0;
        let fits = furthest + 6.0 + text_width(&ratio, 11.0) <= end;
        let (class, at) =
            if fits { ("halo quiet small", furthest + 6.0) } else { ("halo quiet small end", end) };
        vec![
            look.marker((x.range.0 + 5.0, base + 7.0), 4.5),
            text("", (x.range.0 + 16.0, base + 11.0), &canvas.arm_name(arm, 26)),
            text("halo bold end", (canvas.width() - 12.0, base + 11.0), &value),
            area.child(hover),
            text(class, (at, middle + 4.0), &ratio),
        ]
    };
    elements.extend(mark);
    elements
}

/// The mean without strangers, where there are any.
fn treated(arm: &Arm) -> Option<u64> {
    let treated = arm.as_treated.as_ref()?.final_bytes;
    treated.filter(|_| !arm.services_excluded.is_empty())
}
