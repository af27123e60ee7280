//! The charts of a report as SVG.

mod bars;
mod calendar;
mod legend;
pub(crate) mod lives;
mod marker;
pub(crate) mod over_age;
mod palette;
pub(crate) mod plot;
pub(crate) mod scale;
mod style;
pub(crate) mod svg;

pub(crate) use palette::{style_sheet, variables};
pub(crate) use style::ArmStyle;
pub use style::ArmStyles;
pub(crate) use svg::element;

use heaptrial_evaluate::judgement::{Point, Trajectories};
use heaptrial_model::Metric;
use svg::{Element, coordinate, rectangle, text};

use crate::{Report, units};

/// Width of every chart; it scales with the page, and a phone scrolls it.
pub(crate) const WIDTH: f64 = 900.0;
/// Height of title and subtitle of a chart in a file of its own.
const HEADING: f64 = 52.0;

#[derive(Debug, Clone)]
pub struct Chart {
    /// Stem of its file's name.
    pub name: &'static str,
    pub title: String,
    pub caption: String,
    /// Its figures in words, for readers who do not see it.
    pub description: String,
    pub(crate) subtitle: String,
    pub(crate) height: f64,
    pub(crate) body: String,
}

#[derive(Clone, Copy)]
struct Canvas<'a> {
    report: &'a Report,
    trajectories: &'a Trajectories,
}

/// All charts of a report that has series and a figure to show.
pub(crate) fn all(report: &Report) -> Vec<Chart> {
    let Some(trajectories) = &report.trajectories else { return Vec::new() };
    let canvas = Canvas { report, trajectories };
    let charts = [
        bars::compared(canvas),
        bars::split(canvas),
        over_age::of_report(canvas),
        calendar::draw(canvas),
        over_age::each_arm(canvas),
    ];
    charts.into_iter().flatten().collect()
}

impl Chart {
    pub(crate) fn new(name: &'static str, title: &str, caption: String, height: f64) -> Self {
        Self {
            name,
            title: title.to_owned(),
            caption,
            description: String::new(),
            subtitle: String::new(),
            height,
            body: String::new(),
        }
    }

    /// The drawing for a page that has the style sheet of pages, and names it by `id`.
    pub(crate) fn inline(&self, id: &str, class: &str) -> String {
        let labels = format!("{id}-title {id}-description");
        self.root(0.0)
            .class(class)
            .attribute("role", "img")
            .attribute("aria-labelledby", &labels)
            .child(element("title").attribute("id", &format!("{id}-title")).text(&self.title))
            .child(
                element("desc")
                    .attribute("id", &format!("{id}-description"))
                    .text(&format!("{} {}", self.caption, self.description)),
            )
            .raw(&self.body)
            .to_string()
    }

    /// A file of its own: follows the light or dark scheme of whoever shows it.
    pub fn file(&self) -> String {
        let root = self
            .root(HEADING)
            .number("width", WIDTH)
            .number("height", self.height + HEADING)
            .child(element("title").text(&format!("{}. {} {}", self.title, self.caption, self.description)))
            .child(element("style").raw(&palette::style_sheet_of_file()))
            .child(rectangle("ground", (0.0, -HEADING), WIDTH, self.height + HEADING))
            .child(text("title", (16.0, -HEADING + 26.0), &self.title))
            .child(text("quiet", (16.0, -HEADING + 45.0), &self.subtitle))
            .raw(&self.body);
        format!("{root}\n")
    }

    fn root(&self, heading: f64) -> Element {
        let numbers = [0.0, -heading, WIDTH, self.height + heading].map(coordinate);
        element("svg")
            .attribute("xmlns", "http://www.w3.org/2000/svg")
            .attribute("viewBox", &numbers.join(" "))
    }
}

impl Canvas<'_> {
    fn style(self, arm: usize) -> ArmStyle {
        ArmStyles::of_report(self.report).get(arm)
    }

    /// Positions of the services of an arm that count.
    fn counted(self, arm: usize) -> Vec<usize> {
        let services = self.trajectories.services.iter().zip(&self.report.services).enumerate();
        let counted = services.filter(|(_, (line, service))| line.arm == arm && service.counts);
        counted.map(|(index, _)| index).collect()
    }

    /// Arms that have a figure, least memory first.
    fn ranked_arms(self) -> Vec<usize> {
        let order = self.report.ranking().into_iter();
        order.filter(|arm| self.report.arms[*arm].memory.is_some()).collect()
    }

    /// The arm's median over its services that count.
    fn median_line(self, arm: usize) -> Vec<Vec<Point>> {
        self.trajectories.median_line(&self.counted(arm))
    }

    /// The interval of an arm's median: age, low and high.
    fn median_band(self, arm: usize) -> Vec<Vec<(f64, f64, f64)>> {
        self.trajectories.median_band(&self.counted(arm), self.report.analysis.confidence_level)
    }

    fn chart(self, name: &'static str, title: &str, caption: String, height: f64) -> Chart {
        let Self { report, .. } = self;
        let allocators = if report.arms.len() == 1 { "arm" } else { "arms" };
        let seed = if report.kind.is_lab() { format!(", seed {}", report.seed) } else { String::new() };
        let subtitle = format!(
            "{}: {}, {} {allocators}, {}{seed}",
            shorten(&report.name, 40),
            report.kind.describe(),
            report.arms.len(),
            report.started_at.get(..10).unwrap_or_default(),
        );
        Chart { subtitle, ..Chart::new(name, title, caption, height) }
    }
}

/// The metric as a short name for labels.
pub(crate) fn metric_name(metric: Metric) -> &'static str {
    match metric {
        Metric::Rss => "RSS",
        Metric::Anon => "anonymous memory",
        Metric::Pss => "PSS",
        Metric::Cgroup => "cgroup memory",
    }
}

/// `text` in at most `limit` characters, cut in its middle: names often differ at their ends.
pub(crate) fn shorten(text: &str, limit: usize) -> String {
    let characters: Vec<char> = text.chars().collect();
    if characters.len() <= limit {
        return text.to_owned();
    }
    let kept = limit.saturating_sub(1);
    let head: String = characters[..kept.div_ceil(2)].iter().collect();
    let tail: String = characters[characters.len() - kept / 2..].iter().collect();
    format!("{head}…{tail}")
}

/// Width of a text, somewhat more than any usual font needs.
fn text_width(text: &str, size: f64) -> f64 {
    unicode_width::UnicodeWidthStr::width(text) as f64 * size * 0.62
}

/// `name: 1.2 GiB`: the title of a mark.
fn named_value(name: &str, bytes: f64) -> String {
    format!("{name}: {}", units::memory(bytes))
}
