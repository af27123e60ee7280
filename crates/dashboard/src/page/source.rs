//! Where the readings of a trial are, if the database has its ledger alone.

use heaptrial_report::embedded::printable;
use maud::{Markup, html};

use crate::data::{Source, Trial};

/// Empty where the database has them.
pub(super) fn note(trial: &Trial) -> Markup {
    html! {
        @match &trial.source {
            Source::Database => {}
            Source::Store { address, remarks } => {
                p class="quiet" { "Readings are those that " (printable(address)) " has, until the last tick of the ledger." }
                @if !remarks.is_empty() {
                    aside class="warnings" aria-label="Warning" {
                        @for remark in remarks { p { (printable(remark)) } }
                    }
                }
            }
            Source::Asked => p class="quiet" { "The store is being asked for the readings. They appear here by themselves, or when you " a href="" { "reload" } "." },
            Source::Failed(why) => aside class="warnings" aria-label="Warning" {
                h2 { "No readings" }
                p { "This database has the ledger of the trial, and its store did not tell the readings: " (printable(why)) }
                p { "It is asked again while this page is open, and when you " a href="" { "reload" } "." }
            },
        }
    }
}
