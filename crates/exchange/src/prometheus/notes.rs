//! What a reader of an import must know about its data.

use std::ops::Range;

use heaptrial_model::Metric;

use super::PrometheusImport;
use super::series::{Fetched, Told};

/// Where most readings are outside of this, as in the files of operators, the unit may be another one.
const USUAL_BYTES: Range<f64> = 16_777_216.0..68_719_476_736.0;

/// Of how many services something is not told, or told, and readings of an unusual size.
#[derive(Debug, Default)]
pub(super) struct Services {
    without_swap: u64,
    without_start: u64,
    off_treatment: u64,
    readings: u64,
    small: u64,
    large: u64,
    /// Readings of no memory that were left out.
    pub zeros: u64,
}

impl Services {
    pub fn count(&mut self, told: &Told) {
        self.without_swap += u64::from(told.swap.is_empty());
        self.without_start += u64::from(told.start.is_empty());
        self.readings += told.memory.len() as u64;
        let of =
            |unusual: fn(f64) -> bool| told.memory.iter().filter(|(_, bytes)| unusual(*bytes)).count() as u64;
        self.small += of(|bytes| bytes < USUAL_BYTES.start);
        self.large += of(|bytes| bytes > USUAL_BYTES.end);
        self.off_treatment += u64::from(told.contaminated.iter().any(|(_, is)| *is > 0.5));
    }
}

pub(super) fn notes_of(fetched: &Fetched, services: &Services, request: &PrometheusImport) -> Vec<String> {
    let mut notes: Vec<String> =
        fetched.warnings.iter().map(|warning| format!("the store warns: {warning}")).collect();
    let no_memory = fetched.no_memory + services.zeros;
    if no_memory > 0 {
        notes.push(format!(
            "{} of memory that are zero or no number were left out: exporters tell them of what does not run",
            count(no_memory, "reading")
        ));
    }
    for (unusual, what, times) in
        [(services.small, "below 16 MiB", "1024"), (services.large, "above 64 GiB", "a part of 1")]
    {
        if 2 * unusual > services.readings {
            notes.push(format!(
                "most readings are {what}: if the query tells no bytes, multiply it by {times} in --query, and give another --name"
            ));
        }
    }
    if !fetched.pauses.is_empty() {
        notes.push(format!(
            "{} of pause containers were left out: they hold the names that a pod's containers share",
            count(fetched.pauses.len() as u64, "series")
        ));
    }
    if !fetched.unnamed.is_empty() {
        notes.push(format!(
            "{} without the labels {} were left out",
            count(fetched.unnamed.len() as u64, "series"),
            request.queries.service_labels.join(", ")
        ));
    }
    if request.metric == Metric::Anon && request.queries.swap.is_none() {
        notes.push(
            "swap was not asked for: anonymous memory that was swapped out counts as given back".into(),
        );
    }
    let untold = services.without_swap;
    if request.queries.swap.is_some() && untold > 0 {
        notes.push(format!("of {} no swap is told: they are taken to have none", count(untold, "service")));
    }
    let off = services.off_treatment;
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
            let untold = services.without_start;
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
