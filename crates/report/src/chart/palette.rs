//! How arms look: the same colour, dash and marker in every chart, and texts for style sheets.
//!
//! The hues are those of M. Okabe and K. Ito, "Color Universal Design" (2008), made darker or lighter
//! where the background asks for it. Dash and marker tell arms apart without colour.

use std::fmt::Write;

use super::svg::{Element, element, path_data};
use crate::Report;

/// Colours; the first is the control's alone.
pub(crate) const LIGHT: [&str; COLOURS] =
    ["#2b2f36", "#0072b2", "#c44f13", "#00916a", "#b4508f", "#c98400", "#3e97c9", "#6c5b24"];
/// The same hues on a dark background.
pub(crate) const DARK: [&str; COLOURS] =
    ["#eceef1", "#4aa3df", "#f5793a", "#27c093", "#e08fc0", "#ffa427", "#9ad5f5", "#e8dc5a"];
pub(crate) const COLOURS: usize = 8;

const DASHES: [&str; 7] = ["", "9 4", "3 3", "12 3 3 3", "6 2", "16 5", "2 5"];

/// Looks of one arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) colour: usize,
    pub(crate) dash: &'static str,
    marker: Marker,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker {
    Circle,
    Square,
    Up,
    Diamond,
    Down,
    Cross,
    Right,
    Hexagon,
}

const MARKERS: [Marker; 7] = [
    Marker::Square,
    Marker::Up,
    Marker::Diamond,
    Marker::Down,
    Marker::Cross,
    Marker::Right,
    Marker::Hexagon,
];

impl Look {
    /// Of the arm at `index` of the report: the control has the text's colour, the others theirs in the
    /// order given. From the eighth on colours come again with another dash and marker.
    pub(crate) fn of(report: &Report, index: usize) -> Self {
        let controls: Vec<bool> = report.arms.iter().map(|arm| arm.control).collect();
        Self::among(&controls, index)
    }

    /// The same where only `controls` is known: of each arm whether it is the control.
    pub(crate) fn among(controls: &[bool], index: usize) -> Self {
        if controls.get(index).is_some_and(|control| *control) {
            return Self { colour: 0, dash: "", marker: Marker::Circle };
        }
        let place = controls.iter().take(index).filter(|control| !**control).count();
        let round = place / MARKERS.len();
        let turned = (place + 2 * round) % MARKERS.len();
        Self { colour: 1 + place % (COLOURS - 1), dash: DASHES[turned], marker: MARKERS[turned] }
    }

    /// Class of a line in the arm's colour.
    pub(crate) fn line_class(self) -> String {
        format!("l{}", self.colour)
    }

    /// Class of an area in the arm's colour.
    pub(crate) fn fill_class(self) -> String {
        format!("f{}", self.colour)
    }

    /// A line through `segments`, dashed as the arm is.
    pub(crate) fn line(self, class: &str, data: &str) -> Element {
        let path = element("path").class(&format!("{class} {}", self.line_class())).attribute("d", data);
        if self.dash.is_empty() { path } else { path.attribute("stroke-dasharray", self.dash) }
    }

    /// The arm's marker around `at`.
    pub(crate) fn marker(self, at: (f64, f64), radius: f64) -> Element {
        let (x, y) = at;
        let class = format!("marker {}", self.fill_class());
        let corners: Vec<(f64, f64)> = match self.marker {
            Marker::Circle => {
                return element("circle").class(&class).number("cx", x).number("cy", y).number("r", radius);
            }
            Marker::Square => vec![(-0.88, -0.88), (0.88, -0.88), (0.88, 0.88), (-0.88, 0.88)],
            Marker::Up => vec![(0.0, -1.15), (1.1, 0.85), (-1.1, 0.85)],
            Marker::Down => vec![(0.0, 1.15), (1.1, -0.85), (-1.1, -0.85)],
            Marker::Right => vec![(1.15, 0.0), (-0.85, 1.1), (-0.85, -1.1)],
            Marker::Diamond => vec![(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)],
            Marker::Cross => vec![
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
            ],
            Marker::Hexagon => {
                vec![(0.0, -1.1), (0.95, -0.55), (0.95, 0.55), (0.0, 1.1), (-0.95, 0.55), (-0.95, -0.55)]
            }
        };
        let corners = corners.into_iter().map(|(dx, dy)| (x + dx * radius, y + dy * radius));
        element("path").class(&class).attribute("d", &format!("{}Z", path_data([corners])))
    }
}

/// Where a style sheet is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sheet {
    /// In the page of a report, whose own sheet sets the variables.
    Page,
    /// In a file of its own that may be shown on light and dark.
    File,
    /// For the renderer of pictures, which knows no variables: light.
    Picture,
}

/// Values of the style sheet's variables: text, quiet text, grid, background, raised background.
const LIGHT_BASE: [&str; 5] = ["#1d2129", "#5a6270", "#e1e4e9", "#ffffff", "#f6f7f9"];
const DARK_BASE: [&str; 5] = ["#e8eaee", "#a2aab6", "#333a45", "#14171c", "#1d2229"];
const BASE_NAMES: [&str; 5] = ["ink", "quiet", "grid", "ground", "raised"];

/// Declarations of the variables that chart styles use.
pub(crate) fn variables(dark: bool) -> String {
    let (base, colours) = if dark { (DARK_BASE, DARK) } else { (LIGHT_BASE, LIGHT) };
    let mut text = String::new();
    for (name, value) in BASE_NAMES.iter().zip(base) {
        let _ = write!(text, "--{name}:{value};");
    }
    for (index, value) in colours.iter().enumerate() {
        let _ = write!(text, "--c{index}:{value};");
    }
    text
}

/// The style sheet of the charts.
pub(crate) fn style_sheet(sheet: Sheet) -> String {
    let mut rules = String::new();
    for index in 0..COLOURS {
        let _ = write!(rules, ".l{index}{{stroke:var(--c{index})}}.f{index}{{fill:var(--c{index})}}");
    }
    rules.push_str(include_str!("chart.css"));
    match sheet {
        Sheet::Page => rules + include_str!("hover.css"),
        Sheet::File => format!(
            "svg{{{}}}@media (prefers-color-scheme:dark){{svg{{{}}}}}{rules}{}",
            variables(false),
            variables(true),
            include_str!("hover.css")
        ),
        Sheet::Picture => {
            let values = BASE_NAMES.iter().zip(LIGHT_BASE);
            let with_base =
                values.fold(rules, |rules, (name, value)| rules.replace(&format!("var(--{name})"), value));
            let colours = LIGHT.iter().enumerate();
            colours.fold(with_base, |rules, (index, value)| rules.replace(&format!("var(--c{index})"), value))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linear RGB.
    fn linear(colour: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn apply(matrix: &[[f64; 3]; 3], v: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| (0..3).map(|i| row[i] * v[i]).sum::<f64>().clamp(0.0, 1.0))
    }

    /// CIE L*a*b* (D65) of linear RGB.
    fn lab(rgb: [f64; 3]) -> [f64; 3] {
        let to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]];
        let white = [0.9505, 1.0, 1.089];
        let f = |t: f64| if t > 0.008856 { t.cbrt() } else { 7.787 * t + 16.0 / 116.0 };
        let xyz: Vec<f64> = to_xyz
            .iter()
            .zip(white)
            .map(|(row, w)| f((0..3).map(|i| row[i] * rgb[i]).sum::<f64>() / w))
            .collect();
        [116.0 * xyz[1] - 16.0, 500.0 * (xyz[0] - xyz[1]), 200.0 * (xyz[1] - xyz[2])]
    }

    #[test]
    fn arms_can_be_told_apart_by_colour_blind_readers() {
        // Full dichromacy after G. M. Machado et al., "A Physiologically-based Model for Simulation of
        // Color Vision Deficiency" (2009), table of severity 1.0.
        let identity = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
        let protan = [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ];
        let deutan = [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ];
        let mut nearest = (f64::INFINITY, String::new());
        for palette in [LIGHT, DARK] {
            for (name, sight) in [("all", identity), ("protan", protan), ("deutan", deutan)] {
                let seen = palette.map(|colour| lab(apply(&sight, linear(colour))));
                for a in 0..COLOURS {
                    for b in a + 1..COLOURS {
                        let distance = (0..3).map(|i| (seen[a][i] - seen[b][i]).powi(2)).sum::<f64>().sqrt();
                        if distance < nearest.0 {
                            nearest = (distance, format!("{} {} {name}", palette[a], palette[b]));
                        }
                    }
                }
            }
        }
        // A difference of 10 is seen at a glance; 2.3 is just noticeable.
        assert!(nearest.0 >= 10.0, "{nearest:?}");
    }

    #[test]
    fn lines_stand_out_from_the_background() {
        let luminance = |colour: &str| {
            let [r, g, b] = linear(colour);
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        for (palette, base) in [(LIGHT, LIGHT_BASE), (DARK, DARK_BASE)] {
            let contrast = |colour: &str| {
                let (a, b) = (luminance(colour), luminance(base[3]));
                (a.max(b) + 0.05) / (a.min(b) + 0.05)
            };
            // Web Content Accessibility Guidelines 2.1: 3 for graphics, 4.5 for text.
            for colour in palette {
                assert!(contrast(colour) >= 3.0, "{colour} {}", contrast(colour));
            }
            assert!(contrast(base[0]) >= 4.5 && contrast(base[1]) >= 4.5);
        }
    }
}
