//! A bar for each arm: the memory that is compared, and where that memory is.

use heaptrial_model::MemorySplit;

use super::plot::{FOOT, Plot};
use super::scale::Scale;
use super::svg::{element, line, rectangle, text};
use super::{Canvas, Chart, WIDTH, metric_name, named_value, shorten, text_width};
use crate::terms::terms;
use crate::{table, units};

const TOP: f64 = 36.0;
/// Distance of rows, and depth of a bar.
const ROW: f64 = 32.0;
const DEPTH: f64 = 20.0;
/// What the parts of memory are called, with the opacity in which they are drawn: what is in use in the full colour of the arm.
const PARTS: [(&str, f64); 4] =
    [("in use", 1.0), ("free in pages in use", 0.6), ("kept free", 0.3), ("stacks and other", 0.12)];

/// A frame with a row for each arm, named at its left, over an axis of memory.
fn rows(canvas: Canvas<'_>, arms: &[usize], (highest, what): (f64, &str), room: f64) -> (Plot, Scale) {
    let mut plot = Plot::new((240.0, WIDTH - room), (TOP, TOP + arms.len() as f64 * ROW + 6.0));
    let x = Scale::memory(highest, 6, plot.across());
    plot.axis_of_rows(&x, &format!("{what} ({})", x.unit));
    for (row, arm) in arms.iter().enumerate() {
        let middle = top_of(row) + DEPTH / 2.0;
        plot.push(canvas.style(*arm).marker((plot.left - 14.0, middle), 4.5));
        let name =
            text("end", (plot.left - 28.0, middle + 4.0), &shorten(&canvas.report.arms[*arm].name, 28));
        plot.push(name.child(element("title").text(&canvas.report.arms[*arm].name)));
    }
    (plot, x)
}

fn top_of(row: usize) -> f64 {
    TOP + 6.0 + row as f64 * ROW
}

/// The level of each arm against the control's.
pub(super) fn compared(canvas: Canvas<'_>) -> Option<Chart> {
    let report = canvas.report;
    let end = |arm: usize| report.arms[arm].result.treated().final_mean_bytes;
    let bars: Vec<(usize, f64)> =
        canvas.ranked_arms().into_iter().filter_map(|arm| Some((arm, report.arms[arm].level()?))).collect();
    let arms: Vec<usize> = bars.iter().map(|(arm, _)| *arm).collect();
    let highest =
        bars.iter().map(|(arm, bytes)| bytes.max(end(*arm).unwrap_or(0.0))).max_by(f64::total_cmp)?;
    let metric = metric_name(report.analysis.metric);
    let (mut plot, x) = rows(canvas, &arms, (highest, metric), 200.0);
    if let Some((control, bytes)) = bars.iter().find(|(arm, _)| report.arms[*arm].control) {
        let at = x.at(*bytes);
        plot.push(line("control", (at, TOP - 8.0), (at, plot.bottom)));
        let class = if at > WIDTH / 2.0 { "quiet small end" } else { "quiet small" };
        let label = format!("control: {}", shorten(&report.arms[*control].name, 28));
        plot.push(text(class, (at, TOP - 13.0), &label));
    }
    for (row, (arm, bytes)) in bars.iter().enumerate() {
        let (top, middle) = (top_of(row), top_of(row) + DEPTH / 2.0);
        let style = canvas.style(*arm);
        let bar = rectangle(&style.bar_class(), (plot.left, top), x.at(*bytes) - plot.left, DEPTH);
        let title = named_value(&report.arms[*arm].name, *bytes);
        plot.push(bar.child(element("title").text(&title)));
        let (value, ratio) = (units::memory(*bytes), table::ratio(&report.arms[*arm]));
        let after = x.at(bytes.max(end(*arm).unwrap_or(0.0))) + 8.0;
        let written = text_width(&value, 12.0) + text_width(&ratio, 12.0) + 8.0;
        // The control's line does not run through the figures.
        plot.push(rectangle("ground", (after - 3.0, top), written + 6.0, DEPTH));
        let value = element("tspan").class("bold").text(&value);
        let ratio = element("tspan").class("quiet").attribute("dx", "8").text(&ratio);
        plot.push(text("", (after, middle + 4.0), "").child(value).child(ratio));
        if let Some(at) = end(*arm).map(|end| x.at(end)) {
            plot.push(line("at-end", (at, top - 3.0), (at, top + DEPTH + 3.0)));
            plot.push(line("at-end", (x.at(*bytes).min(at), middle), (at, middle)));
        }
    }
    let without = match report.arms.iter().any(|arm| arm.result.as_treated.is_some()) {
        true => format!(", without {}", terms(report.kind).excluded),
        false => String::new(),
    };
    let caption = format!(
        "Bar: level of {metric}, geometric mean over the services of an arm{without}; at its right the level and its ratio to the \
         control's. Thin upright mark: the mean of last readings."
    );
    let chart = canvas.chart("final-memory", "Memory compared with the control", caption, plot.bottom + FOOT);
    let values = bars.iter().map(|(arm, bytes)| named_value(&report.arms[*arm].name, *bytes));
    let description = format!("{}.", values.collect::<Vec<_>>().join(", "));
    Some(Chart { description, body: plot.body(), ..chart })
}

/// Where the memory of each arm is, as far as the heap of its allocator can be read from outside.
pub(super) fn split(canvas: Canvas<'_>) -> Option<Chart> {
    let report = canvas.report;
    let whole = |arm: &usize| {
        let found = &report.arms[*arm];
        found.memory_split.map(|split| split.parts().iter().sum()).or(found.anon_bytes_final)
    };
    let mut arms = canvas.ranked_arms();
    arms.retain(|arm| whole(arm).is_some());
    if arms.iter().all(|arm| report.arms[*arm].memory_split.is_none()) {
        return None;
    }
    let highest: u64 = arms.iter().filter_map(whole).max()?;
    let (mut plot, x) = rows(canvas, &arms, (highest as f64, "anonymous memory"), 120.0);
    let mut at = plot.left;
    for (name, opacity) in PARTS {
        plot.push(rectangle("part", (at, 6.0), 12.0, 12.0).attribute("opacity", &opacity.to_string()));
        plot.push(text("small quiet", (at + 17.0, 16.0), name));
        at += 34.0 + text_width(name, 11.0);
    }
    let mut values = Vec::new();
    for (row, arm) in arms.iter().enumerate() {
        let (found, whole) = (&report.arms[*arm], whole(arm).unwrap_or(0) as f64);
        let parts = found.memory_split.as_ref().map_or([0; 4], MemorySplit::parts);
        let mut from = 0.0;
        for ((_, opacity), bytes) in PARTS.iter().zip(parts) {
            let to = from + bytes as f64;
            let part = rectangle(
                &canvas.style(*arm).bar_class(),
                (x.at(from), top_of(row)),
                x.at(to) - x.at(from),
                DEPTH,
            );
            plot.push(part.attribute("opacity", &opacity.to_string()));
            from = to;
        }
        let named =
            |((part, _), bytes): (&(&str, f64), u64)| format!("{} {part}", units::memory(bytes as f64));
        let named: Vec<String> = PARTS.iter().zip(parts).map(named).collect();
        let value = match found.memory_split {
            Some(_) => format!("{}: {}", found.name, named.join(", ")),
            None => named_value(&found.name, whole),
        };
        let frame = rectangle("frame", (plot.left, top_of(row)), x.at(whole) - plot.left, DEPTH);
        plot.push(frame.child(element("title").text(&value)));
        let middle = top_of(row) + DEPTH / 2.0;
        plot.push(text("bold", (x.at(whole) + 8.0, middle + 4.0), &units::memory(whole)));
        values.push(value);
    }
    let read = match report.kind.is_lab() {
        true => "at the end of each service's run, read from its processes; mean over the services of an arm",
        false => "of one service of each arm at the last look, read from its processes",
    };
    let caption = format!(
        "Anonymous memory {read}. Kept free: whole free pages that the allocator has not returned. Free in pages in use is \
         fragmentation. A frame without parts: the heap of this allocator cannot be read from outside; under the same work the program uses \
         about what it uses under glibc."
    );
    let chart = canvas.chart("where-the-memory-is", "Where the memory is", caption, plot.bottom + FOOT);
    Some(Chart { description: format!("{}.", values.join("; ")), body: plot.body(), ..chart })
}
