//! What a reader of an import must know about its data.

use heaptrial_model::Metric;

use super::PrometheusImport;
use super::series::Fetched;

pub(super) fn notes_of(fetched: &Fetched, request: &PrometheusImport) -> Vec<String> {
    let mut notes: Vec<String> =
        fetched.warnings.iter().map(|warning| format!("the store warns: {warning}")).collect();
    if fetched.no_memory > 0 {
        notes.push(format!(
            "{} of memory that are zero or no number were left out: exporters tell them of what does not run",
            count(fetched.no_memory, "reading")
        ));
    }
    if fetched.pauses > 0 {
        notes.push(format!(
            "{} of pause containers were left out: they hold the names that a pod's containers share",
            count(fetched.pauses, "series")
        ));
    }
    if fetched.unnamed > 0 {
        notes.push(format!(
            "{} without the labels {} were left out",
            count(fetched.unnamed, "series"),
            request.queries.service_labels.join(", ")
        ));
    }
    if request.metric == Metric::Anon && request.queries.swap.is_none() {
        notes.push(
            "swap was not asked for: anonymous memory that was swapped out counts as given back".into(),
        );
    }
    let untold = fetched.services.values().filter(|told| told.swap.is_empty()).count() as u64;
    if request.queries.swap.is_some() && untold > 0 {
        notes.push(format!("of {} no swap is told: they are taken to have none", count(untold, "service")));
    }
    let off =
        fetched.services.values().filter(|told| told.contaminated.iter().any(|(_, is)| *is > 0.5)).count()
            as u64;
    if off > 0 {
        notes.push(format!(
            "what {} did while not running the treatment of the arm is left out",
            count(off, "service")
        ));
    }
    match (&request.queries.start, &request.queries.counter) {
        (None, None) => notes.push(
            "no query tells starts or a counter: restarts are guessed from falls of memory to less than 0.3"
                .into(),
        ),
        (None, Some(_)) => notes.push("restarts are taken from falls of the counter".into()),
        (Some(_), _) => {
            let untold = fetched.services.values().filter(|told| told.start.is_empty()).count() as u64;
            if untold > 0 {
                notes.push(format!(
                    "of {} no start is told: their lives are taken from {}",
                    count(untold, "service"),
                    if request.queries.counter.is_some() { "the counter" } else { "falls of memory" }
                ));
            }
        }
    }
    notes
}

/// So many of them, in words.
pub(super) fn count(number: u64, what: &str) -> String {
    let plural = if number == 1 || what == "series" { "" } else { "s" };
    format!("{} {what}{plural}", heaptrial_model::units::count(number))
}
