//! Markers: each allocator family has its own, which distinguishes it where colours cannot.

use super::palette::PALETTES;
use super::svg::{Element, element, path_data};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Marker {
    Circle,
    Square,
    Up,
    Diamond,
    Down,
    Cross,
    Right,
    Hexagon,
    Left,
    Saltire,
    Star,
    Bar,
}

/// In the order of the families; the last is that of arms whose family is not known.
const MARKERS: [Marker; PALETTES] = [
    Marker::Circle,
    Marker::Up,
    Marker::Square,
    Marker::Diamond,
    Marker::Down,
    Marker::Cross,
    Marker::Right,
    Marker::Hexagon,
    Marker::Left,
    Marker::Saltire,
    Marker::Star,
    Marker::Bar,
];

/// The marker of the family at `family` in the palette.
pub(super) const fn of_family(family: usize) -> Marker {
    MARKERS[family]
}

impl Marker {
    pub(super) fn draw(self, at: (f64, f64), radius: f64) -> Element {
        let (x, y) = at;
        if self == Self::Circle {
            return element("circle").number("cx", x).number("cy", y).number("r", radius);
        }
        let corners = self.corners().into_iter().map(|(dx, dy)| (x + dx * radius, y + dy * radius));
        element("path").attribute("d", &format!("{}Z", path_data([corners])))
    }

    /// Corners of the form of radius 1 around 0.
    fn corners(self) -> Vec<(f64, f64)> {
        let turned = |corners: Vec<(f64, f64)>, by: f64| -> Vec<(f64, f64)> {
            let (sin, cos) = by.sin_cos();
            corners.into_iter().map(|(x, y)| (x * cos - y * sin, x * sin + y * cos)).collect()
        };
        match self {
            Self::Circle => Vec::new(),
            Self::Square => vec![(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
            Self::Up => vec![(0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)],
            Self::Down => vec![(0.0, 1.15), (1.1, -0.85), (-1.1, -0.85)],
            Self::Right => vec![(1.15, 0.0), (-0.85, 1.1), (-0.85, -1.1)],
            Self::Left => vec![(-1.15, 0.0), (0.85, 1.1), (0.85, -1.1)],
            Self::Diamond => vec![(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)],
            Self::Hexagon => {
                vec![(0.0, -1.1), (0.95, -0.55), (0.95, 0.55), (0.0, 1.1), (-0.95, 0.55), (-0.95, -0.55)]
            }
            Self::Bar => vec![(-1.25, -0.5), (1.25, -0.5), (1.25, 0.5), (-1.25, 0.5)],
            Self::Cross => {
                let arm = [(-0.4, -1.1), (0.4, -1.1), (0.4, -0.4)];
                (0..4)
                    .flat_map(|quarter| turned(arm.to_vec(), f64::from(quarter) * 90f64.to_radians()))
                    .collect()
            }
            Self::Saltire => turned(Self::Cross.corners(), 45f64.to_radians()),
            Self::Star => {
                let tip = [(0.0, -1.3), (0.32, -0.44)];
                (0..5).flat_map(|fifth| turned(tip.to_vec(), f64::from(fifth) * 72f64.to_radians())).collect()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_family_has_its_own() {
        for (place, marker) in MARKERS.iter().enumerate() {
            assert!(!MARKERS[..place].contains(marker), "{marker:?}");
            let drawn = marker.draw((0.0, 0.0), 4.0).to_string();
            let same = |other: &Marker| other.draw((0.0, 0.0), 4.0).to_string() == drawn;
            assert_eq!(MARKERS.iter().filter(|other| same(other)).count(), 1);
        }
    }
}
