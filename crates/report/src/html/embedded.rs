//! Parts of a report for the pages of the dashboard.

use heaptrial_analysis::Fleet;
use heaptrial_model::Metric;
use maud::{Markup, PreEscaped, html};

use super::{body, figure, policy, style};
pub use crate::chart::Looks;
use crate::chart::element;
use crate::chart::running::{self, LifeSeries};
use crate::table::Detail;
use crate::{Report, ReportError, Trajectories, chart, escape, page};

/// The style sheet that all parts here need.
pub fn style_sheet() -> String {
    style()
}

/// The policy under which the page of [`Report::html`] works.
pub fn page_policy() -> String {
    policy(&style())
}

/// The sections of a report, as in its page.
pub fn sections(report: &Report, trajectories: &Trajectories) -> Result<Markup, ReportError> {
    let report = escape::printable_report(report)?;
    let sections = page::sections(&report, Detail::Full);
    Ok(body(&sections, &chart::all(&report, trajectories), &Looks::of_report(&report)))
}

/// What was read of a trial that still runs: no interval, no test, no verdict. `None` where nothing was read.
pub fn running(fleet: &Fleet, looks: &Looks, metric: Metric) -> Option<Markup> {
    Some(figure(&running::arms(fleet, looks, metric)?))
}

/// The memory of a service over its lives, in the colour of its arm. `None` where nothing was read.
pub fn lives(lives: &[LifeSeries], metric: Metric, looks: &Looks, arm: usize) -> Option<Markup> {
    Some(figure(&running::lives(lives, metric, looks.get(arm))?))
}

/// The marker of the arm at `arm`, as in the charts.
pub fn swatch(looks: &Looks, arm: usize) -> Markup {
    let marker = looks.get(arm).marker((7.0, 7.0), 5.0);
    let drawing =
        element("svg").class("swatch").attribute("viewBox", "0 0 14 14").attribute("aria-hidden", "true");
    html! { (PreEscaped(drawing.child(marker).to_string())) }
}

/// `text` with nothing in it that acts on whoever shows it, or disguises itself.
pub fn printable(text: &str) -> String {
    escape::printable(text)
}
