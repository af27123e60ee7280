//! The frame that all charts share: axes with their grid, and what is drawn between them.

use super::legend::{self, Label};
use super::scale::Scale;
use super::svg::{Element, element, group, line, path_data, text};
use super::{ArmStyle, WIDTH};

/// Room below a plot for the labels and the title of its axis.
pub(crate) const FOOT: f64 = 46.0;

/// A rectangle between axes, and what is drawn into it. Points are coordinates.
pub(crate) struct Plot {
    pub(crate) left: f64,
    pub(crate) right: f64,
    pub(crate) top: f64,
    pub(crate) bottom: f64,
    body: Element,
}

impl Plot {
    pub(crate) fn new((left, right): (f64, f64), (top, bottom): (f64, f64)) -> Self {
        Self { left, right, top, bottom, body: group("plot") }
    }

    /// With room at the right for what stands for so many lines, and at least so deep.
    pub(crate) fn beside_labels<'a>(
        left: f64,
        least: f64,
        names: impl ExactSizeIterator<Item = &'a str>,
    ) -> Self {
        let depth = least.max(names.len() as f64 * legend::LABEL_DISTANCE);
        Self::new((left, WIDTH - legend::width_beside(names)), (34.0, 34.0 + depth))
    }

    pub(crate) fn across(&self) -> (f64, f64) {
        (self.left, self.right)
    }

    pub(crate) fn upwards(&self) -> (f64, f64) {
        (self.bottom, self.top)
    }

    pub(crate) fn push(&mut self, element: Element) {
        self.body.push(element);
    }

    /// An axis at the left, with its grid and, above, its title.
    pub(crate) fn axis_left(&mut self, y: &Scale, title: &str) {
        for tick in &y.ticks {
            let at = y.at(tick.value);
            let class = if tick.value == 0.0 { "axis" } else { "grid" };
            self.push(line(class, (self.left, at), (self.right, at)));
            self.push(text("quiet end", (self.left - 8.0, at + 4.0), &tick.label));
        }
        self.title("quiet", (8.0, self.top - 16.0), title);
    }

    /// An axis below, at `top`, without a grid.
    pub(crate) fn axis_below(&mut self, top: f64, ticks: impl Iterator<Item = (f64, String)>, title: &str) {
        for (at, label) in ticks {
            self.push(line("axis", (at, top), (at, top + 5.0)));
            self.push(text("quiet middle", (at, top + 19.0), &label));
        }
        self.title("quiet end", (self.right, top + 37.0), title);
    }

    /// Panels of one chart say what their axes are in its caption.
    fn title(&mut self, class: &str, at: (f64, f64), title: &str) {
        if !title.is_empty() {
            self.push(text(class, at, title));
        }
    }

    /// An axis below rows, with its grid.
    pub(crate) fn axis_of_rows(&mut self, x: &Scale, title: &str) {
        for tick in &x.ticks {
            let at = x.at(tick.value);
            let class = if tick.value == 0.0 { "axis" } else { "grid" };
            self.push(line(class, (at, self.top), (at, self.bottom)));
            self.push(text("quiet middle", (at, self.bottom + 18.0), &tick.label));
        }
        self.push(text("quiet end", (self.right, self.bottom + 37.0), title));
    }

    /// An area between a lower and an upper line; each run has x, low and high.
    pub(crate) fn band(
        &mut self,
        class: &str,
        style: ArmStyle,
        runs: impl IntoIterator<Item = Vec<(f64, f64, f64)>>,
    ) {
        let runs = runs.into_iter().filter(|run| run.len() > 1).map(|run| {
            let upper = run.iter().map(|(x, _, high)| (*x, *high));
            let lower = run.iter().rev().map(|(x, low, _)| (*x, *low));
            upper.chain(lower).collect::<Vec<_>>()
        });
        let data = path_data(runs);
        self.push(element("path").class(&format!("{class} {}", style.fill_class())).attribute("d", &data));
    }

    pub(crate) fn line(&mut self, style: ArmStyle, runs: impl IntoIterator<Item = Vec<(f64, f64)>>) {
        self.push(style.line("thick", &path_data(runs)));
    }

    /// A line with what it is as its title.
    pub(crate) fn named_line(
        &mut self,
        class: &str,
        name: &str,
        runs: impl IntoIterator<Item = Vec<(f64, f64)>>,
    ) {
        let path = element("path").class(class).attribute("d", &path_data(runs));
        self.push(path.child(element("title").text(name)));
    }

    /// Names and values at the right of the lines' ends.
    pub(super) fn labels(&mut self, mut labels: Vec<Label>) {
        let range = (self.top + 4.0, self.bottom - 2.0);
        legend::beside(&mut labels, (self.right, WIDTH), range)
            .into_iter()
            .for_each(|label| self.push(label));
    }

    pub(crate) fn body(&self) -> String {
        self.body.to_string()
    }
}

/// Ticks of a scale as coordinates and labels.
pub(crate) fn ticks(scale: &Scale) -> impl Iterator<Item = (f64, String)> + '_ {
    scale.ticks.iter().map(|tick| (scale.at(tick.value), tick.label.clone()))
}
