//! Parts of a report for the pages of the dashboard.

use heaptrial_evaluate::analysis::Fleet;
use heaptrial_model::Metric;
use maud::{Markup, PreEscaped, html};

use super::{body, figure, policy, style};
pub use crate::chart::ArmStyles;
use crate::chart::lives::{LifeSeries, draw};
use crate::chart::{element, over_age};
use crate::escape;
use crate::forms::{Content, Document};
use crate::table::Detail;

/// The style sheet that all parts here need.
pub fn style_sheet() -> String {
    style()
}

/// The policy under which the page of [`Document::html`](crate::Document::html) works.
pub fn page_policy() -> String {
    policy(&style())
}

/// The sections of a document, as in its page.
pub fn sections(document: &impl Document, styles: ArmStyles) -> Markup {
    let content = Content { styles, ..Content::of(document, Detail::Full) };
    PreEscaped(escape::printable_lines(&body(&content).into_string()))
}

/// What was read of a trial that still runs: no interval, no test, no verdict. `None` where nothing was read.
pub fn running(fleet: &Fleet, styles: &ArmStyles, metric: Metric) -> Option<Markup> {
    let markup = figure(&over_age::of_running(fleet, styles, metric)?);
    Some(PreEscaped(escape::printable_lines(&markup.into_string())))
}

/// The memory of a service over its process lifetimes, in the colour of its arm. `None` where nothing was read.
pub fn lives(lives: &[LifeSeries], metric: Metric, styles: &ArmStyles, arm: usize) -> Option<Markup> {
    let markup = figure(&draw(lives, metric, styles.get(arm))?);
    Some(PreEscaped(escape::printable_lines(&markup.into_string())))
}

/// The marker of the arm at `arm`, as in the charts.
pub fn swatch(styles: &ArmStyles, arm: usize) -> Markup {
    let marker = styles.get(arm).marker((7.0, 7.0), 5.0);
    let drawing =
        element("svg").class("swatch").attribute("viewBox", "0 0 14 14").attribute("aria-hidden", "true");
    html! { (PreEscaped(drawing.child(marker).to_string())) }
}

/// `text` with nothing in it that acts on whoever shows it, or disguises itself.
pub fn printable(text: &str) -> String {
    escape::printable(text)
}
