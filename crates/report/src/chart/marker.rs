//! Markers: each allocator family has its own, which distinguishes it where colours cannot.

use super::palette::PALETTES;
use super::svg::{Element, element, path_data};

type Corners = &'static [(f64, f64)];

/// Corners of forms of radius 1 around 0, in the order of the families: the first is a circle, the last of no family.
const MARKERS: [Corners; PALETTES] = [
    &[],
    &[(0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)],
    &[(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
    &[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)],
    &[(0.0, 1.15), (1.1, -0.85), (-1.1, -0.85)],
    CROSS,
    &[(1.15, 0.0), (-0.85, 1.1), (-0.85, -1.1)],
    &[(0.0, -1.1), (0.95, -0.55), (0.95, 0.55), (0.0, 1.1), (-0.95, 0.55), (-0.95, -0.55)],
    &[(-1.15, 0.0), (0.85, 1.1), (0.85, -1.1)],
    &[(-1.1, -1.1), (1.1, 1.1), (-1.1, 1.1), (1.1, -1.1)],
    STAR,
    &[(-1.25, -0.5), (1.25, -0.5), (1.25, 0.5), (-1.25, 0.5)],
];

const CROSS: Corners = &[
    (-0.4, -1.1),
    (0.4, -1.1),
    (0.4, -0.4),
    (1.1, -0.4),
    (1.1, 0.4),
    (0.4, 0.4),
    (0.4, 1.1),
    (-0.4, 1.1),
    (-0.4, 0.4),
    (-1.1, 0.4),
    (-1.1, -0.4),
    (-0.4, -0.4),
];

const STAR: Corners = &[
    (0.0, -1.3),
    (0.45, -0.45),
    (1.3, 0.0),
    (0.45, 0.45),
    (0.0, 1.3),
    (-0.45, 0.45),
    (-1.3, 0.0),
    (-0.45, -0.45),
];

/// The marker of the family at `family` in the palette.
pub(super) fn draw(family: usize, at: (f64, f64), radius: f64) -> Element {
    let corners = MARKERS[family];
    if corners.is_empty() {
        return element("circle").number("cx", at.0).number("cy", at.1).number("r", radius);
    }
    let corners = corners.iter().map(|(x, y)| (at.0 + x * radius, at.1 + y * radius));
    element("path").attribute("d", &format!("{}Z", path_data([corners])))
}
