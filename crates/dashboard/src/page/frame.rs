//! What all pages have around their content.

use axum::response::{Html, IntoResponse, Response};
use heaptrial_report::embedded::printable;
use maud::{DOCTYPE, Markup, html};

use super::{asset, words};

pub(crate) struct Frame<'a> {
    pub(crate) title: &'a str,
    pub(crate) version: String,
    pub(crate) now_us: i64,
}

impl Frame<'_> {
    pub(crate) fn show(&self, content: Markup) -> Response {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    title { (printable(self.title)) " – Heaptrial" }
                    link rel="stylesheet" href=(asset::STYLE.address());
                    link rel="icon" type="image/svg+xml" href=(asset::ICON.address());
                    script defer src=(asset::SCRIPT.address()) {}
                }
                body data-version=(self.version) {
                    a class="skip" href="#main" { "Skip to the content" }
                    header class="bar" {
                        a class="brand" href="/" { "Heaptrial" }
                        p class="live" id="live" {
                            span class="dot" aria-hidden="true" {}
                            span id="state" role="status" { "As of" }
                            " " time id="as-of" datetime=(words::rfc3339(self.now_us)) { (words::clock(self.now_us)) }
                            " " a id="reload" href="" { "Reload" }
                        }
                    }
                    main id="main" tabindex="-1" { (content) }
                    footer {
                        p { "Heaptrial " (env!("CARGO_PKG_VERSION")) ". This page only shows; nothing can be changed here. Times are UTC. " (heaptrial_model::units::LEGEND) }
                    }
                }
            }
        };
        Html(page.into_string()).into_response()
    }
}
