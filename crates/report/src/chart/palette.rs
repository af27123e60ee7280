//! The colours of allocator families, and the texts for style sheets.
//!
//! Each family has one hue in four shades, light enough for a dark background in one set and dark enough for a light
//! one in the other. They were searched for so that they keep the distances that the tests below ask for.

use heaptrial_model::FAMILIES;

/// Shades of a colour, from dark to light.
pub(super) const SHADES: usize = 4;
/// Families, and one more for arms whose family is not known.
pub(super) const PALETTES: usize = FAMILIES.len() + 1;
/// The palette of arms whose family is not known.
pub(super) const NEUTRAL: usize = FAMILIES.len();

type Palette = [[&'static str; SHADES]; PALETTES];

/// In the order of [`FAMILIES`], the neutral one last.
const LIGHT: Palette = [
    ["#0027ab", "#1146d2", "#2c66f3", "#558afe"],
    ["#5e0e00", "#8b1b00", "#b03a20", "#d25a3f"],
    ["#04543b", "#046e4d", "#028860", "#15a275"],
    ["#56004a", "#7e006d", "#a71390", "#c83daf"],
    ["#604300", "#7d5900", "#9b6f02", "#b88613"],
    ["#094f68", "#006888", "#0281a7", "#079ac8"],
    ["#37006e", "#5300a1", "#6d2ac5", "#874ce5"],
    ["#4b1523", "#632b38", "#7c424d", "#965964"],
    ["#0f3502", "#174e00", "#236901", "#2f8506"],
    ["#5c1f89", "#753ca6", "#8f57c2", "#aa72e0"],
    ["#023236", "#00494f", "#0b6269", "#0a7c85"],
    ["#3a3d43", "#53565d", "#6d7078", "#888c93"],
];
/// The same hues on a dark background.
const DARK: Palette = [
    ["#537be8", "#7098ff", "#99b8fe", "#c3d5fe"],
    ["#a05b05", "#c46f00", "#e18a32", "#ffa551"],
    ["#12a668", "#04c67b", "#10e590", "#6dffb2"],
    ["#c81d8a", "#e742a5", "#ff6cbe", "#fda6d2"],
    ["#ab8712", "#cca100", "#ecbb09", "#feda7b"],
    ["#029bbd", "#05b9e0", "#42d5fe", "#aaeaff"],
    ["#8348e2", "#9a63fe", "#ae8bfe", "#c3adff"],
    ["#d60a41", "#f93e5c", "#ff8089", "#ffb4b6"],
    ["#5a7349", "#728c62", "#8ca77b", "#a7c296"],
    ["#835aab", "#a178cc", "#c197ed", "#dcbdfe"],
    ["#007880", "#03929d", "#0aaeba", "#12cbd9"],
    ["#888c94", "#a3a7ae", "#bec2ca", "#dadee6"],
];

/// Values of the style sheet's variables: text, quiet text, grid, background, raised background.
const LIGHT_BASE: [&str; 5] = ["#1d2129", "#5a6270", "#e1e4e9", "#ffffff", "#f6f7f9"];
const DARK_BASE: [&str; 5] = ["#e8eaee", "#a2aab6", "#333a45", "#14171c", "#1d2229"];
const BASE_NAMES: [&str; 5] = ["ink", "quiet", "grid", "ground", "raised"];

/// Declarations of the variables that chart styles use.
pub(crate) fn variables(dark: bool) -> String {
    let (base, palette) = if dark { (DARK_BASE, DARK) } else { (LIGHT_BASE, LIGHT) };
    let base = BASE_NAMES.iter().zip(base).map(|(name, value)| format!("--{name}:{value};"));
    let colours = palette.iter().flatten().enumerate();
    base.chain(colours.map(|(index, value)| format!("--c{index}:{value};"))).collect()
}

/// The style sheet of the charts in a page, whose own sheet sets the variables.
pub(crate) fn style_sheet() -> String {
    let colour =
        |index: usize| format!(".l{index}{{stroke:var(--c{index})}}.f{index}{{fill:var(--c{index})}}");
    (0..PALETTES * SHADES).map(colour).chain([include_str!("chart.css").to_owned()]).collect()
}

/// The style sheet of a drawing in a file of its own.
pub(super) fn style_sheet_of_file() -> String {
    format!(
        "svg{{{}}}@media (prefers-color-scheme:dark){{svg{{{}}}}}{}",
        variables(false),
        variables(true),
        style_sheet()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shade of a family that has one version.
    const BASE: usize = 1;
    const USUAL: usize = 4;

    type Matrix = [[f64; 3]; 3];

    const ALL: Matrix = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]];
    /// Full protanopia and deuteranopia after G. M. Machado et al., "A Physiologically-based Model for Simulation of Color Vision
    /// Deficiency" (2009), table of severity 1.0.
    const BLIND: [Matrix; 2] = [
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    ];

    fn linear(colour: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let value = f64::from(u8::from_str_radix(&colour[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        })
    }

    fn apply(matrix: &Matrix, v: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| (0..3).map(|i| row[i] * v[i]).sum::<f64>())
    }

    /// OKLab (B. Ottosson, "A perceptual color space for image processing", 2020) of linear RGB, times 100: a distance
    /// of 2 is just noticeable.
    fn oklab(rgb: [f64; 3]) -> [f64; 3] {
        const TO_CONES: Matrix = [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ];
        const TO_LAB: Matrix = [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ];
        apply(&TO_LAB, apply(&TO_CONES, rgb).map(|cone| 100.0 * cone.max(0.0).cbrt()))
    }

    fn contrast(a: &str, b: &str) -> f64 {
        let luminance = |colour: &str| {
            let [r, g, b] = linear(colour);
            0.2126 * r + 0.7152 * g + 0.0722 * b
        };
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    /// Least distance over pairs of the colours at `(family, shade)` that `chosen` asks for.
    fn nearest(sight: &Matrix, chosen: impl Fn((usize, usize), (usize, usize)) -> bool) -> f64 {
        let places: Vec<(usize, usize)> =
            (0..PALETTES).flat_map(|family| (0..SHADES).map(move |shade| (family, shade))).collect();
        let seen = |colour| oklab(apply(sight, linear(colour)).map(|part| part.clamp(0.0, 1.0)));
        let mut nearest = f64::INFINITY;
        for palette in [LIGHT, DARK] {
            for a in &places {
                for b in places.iter().filter(|b| a < b && chosen(*a, **b)) {
                    let (a, b) = (seen(palette[a.0][a.1]), seen(palette[b.0][b.1]));
                    nearest = nearest.min((0..3).map(|i| (a[i] - b[i]).powi(2)).sum::<f64>().sqrt());
                }
            }
        }
        nearest
    }

    #[test]
    fn families_and_their_shades_differ_for_all_readers() {
        let bases = |a: (usize, usize), b: (usize, usize)| a.0 != b.0 && a.1 == BASE && b.1 == BASE;
        assert!(nearest(&ALL, bases) >= 9.0);
        assert!(nearest(&ALL, |a, b| a.0 != b.0 && b.0 < USUAL) >= 12.0);
        for sight in &BLIND {
            assert!(nearest(sight, |a, b| a.0 == b.0) >= 6.5);
            assert!(nearest(sight, |a, b| bases(a, b) && b.0 < USUAL) >= 8.0);
            // Of the others the markers differ.
            assert!(nearest(sight, bases) >= 4.0);
        }
    }

    /// Web Content Accessibility Guidelines 2.1: 3 for graphics, 4.5 for text.
    #[test]
    fn lines_stand_out_from_the_background() {
        for (palette, base) in [(LIGHT, LIGHT_BASE), (DARK, DARK_BASE)] {
            for colour in palette.iter().flatten() {
                assert!(base[3..].iter().all(|ground| contrast(colour, ground) >= 3.0), "{colour}");
            }
            assert!(contrast(base[0], base[3]) >= 4.5 && contrast(base[1], base[3]) >= 4.5);
        }
    }
}
