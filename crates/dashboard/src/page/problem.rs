//! A page for what is not there, or cannot be shown.

use heaptrial_report::embedded::printable;
use maud::{Markup, html};

pub(crate) fn problem(title: &str, text: &str) -> Markup {
    html! {
        h1 { (title) }
        p { (printable(text)) }
        p { a href="/" { "The overview" } " lists every trial and service. " a href="" { "Reload" } }
    }
}
