//! Where the memory of each arm is: in use, free in pages, kept free, or elsewhere.

use heaptrial_model::MemorySplit;

use super::plot::{FOOT, Plot};
use super::scale::Scale;
use super::svg::{element, rectangle, text};
use super::{Canvas, Chart, WIDTH, text_width};
use crate::units;

/// What the parts are called, with the opacity in which they are drawn: what is in use in the full colour of the arm.
const PARTS: [(&str, f64); 4] =
    [("in use", 1.0), ("free in pages in use", 0.6), ("kept free", 0.3), ("stacks and other", 0.12)];

pub(super) fn draw(canvas: Canvas<'_>) -> Option<Chart> {
    let arms: Vec<(usize, Option<MemorySplit>, u64)> = canvas
        .ranked_arms()
        .into_iter()
        .filter_map(|arm| {
            let found = &canvas.report.arms[arm];
            let whole =
                found.memory_split.map(|split| split.parts().iter().sum()).or(found.anon_bytes_final)?;
            Some((arm, found.memory_split, whole))
        })
        .collect();
    if arms.iter().all(|(_, split, _)| split.is_none()) {
        return None;
    }
    let highest = arms.iter().map(|(_, _, whole)| *whole).max()? as f64;
    let (row, top, depth) = (32.0, 34.0, 20.0);
    let mut plot = Plot::new((240.0, WIDTH - 120.0), (top, top + arms.len() as f64 * row + 6.0));
    let x = Scale::memory(highest, 6, plot.across());
    let left = plot.left;
    let caption = "Anonymous memory at the end of each service's run, read from its processes; mean over the services of an \
                   arm. Kept free: whole free pages that the allocator has not returned. Free in pages in use is \
                   fragmentation. A frame without parts: the heap of this allocator cannot be read from outside.";
    let value = |(arm, split, whole): &(usize, Option<MemorySplit>, u64)| {
        let name = &canvas.report.arms[*arm].name;
        let parts = split.map(|split| {
            let parts = PARTS.iter().zip(split.parts());
            parts
                .map(|((part, _), bytes)| format!("{} {part}", units::memory(bytes as f64)))
                .collect::<Vec<_>>()
                .join(", ")
        });
        format!("{name}: {}", parts.unwrap_or_else(|| units::memory(*whole as f64)))
    };
    let mut at = left;
    for (name, opacity) in PARTS {
        plot.push(rectangle("f", (at, 6.0), 12.0, 12.0).attribute("opacity", &opacity.to_string()));
        plot.push(text("small quiet", (at + 17.0, 16.0), name));
        at += 34.0 + text_width(name, 11.0);
    }
    plot.axis_of_rows(&x, &format!("anonymous memory ({})", x.unit));
    for (index, arm) in arms.iter().enumerate() {
        let (number, split, whole) = *arm;
        let style = canvas.style(number);
        let top = top + 6.0 + index as f64 * row;
        let middle = top + depth / 2.0;
        plot.push(style.marker((left - 14.0, middle), 4.5));
        plot.push(text("end", (left - 28.0, middle + 4.0), &canvas.arm_name(number, 28)));
        let mut from = 0.0;
        for ((_, opacity), bytes) in PARTS.iter().zip(split.map_or([0; 4], |split| split.parts())) {
            let to = from + bytes as f64;
            let part = rectangle(&style.bar_class(), (x.at(from), top), x.at(to) - x.at(from), depth);
            plot.push(part.attribute("opacity", &opacity.to_string()));
            from = to;
        }
        let frame = rectangle("frame", (left, top), x.at(whole as f64) - left, depth);
        plot.push(frame.child(element("title").text(&value(arm))));
        plot.push(text("bold", (x.at(whole as f64) + 8.0, middle + 4.0), &units::memory(whole as f64)));
    }
    let chart =
        canvas.chart("where-the-memory-is", "Where the memory is", caption.to_owned(), plot.bottom + FOOT);
    let description = format!("{}.", arms.iter().map(value).collect::<Vec<_>>().join("; "));
    Some(Chart { description, body: plot.body(), ..chart })
}
