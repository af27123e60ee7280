//! What is known of a service beside its readings.

use heaptrial_model::units;
use heaptrial_report::embedded::printable;
use maud::{Markup, html};
use serde_json::{Map, Value};

use crate::data::{STARTS, Service};

/// Settings, and values of one of them, that are shown.
const SHOWN: usize = 60;
/// What an attribute is called on the page; others by their own names.
const TITLES: [(&str, &str); 5] = [
    ("config", "Configured"),
    ("memory_max_bytes", "MemoryMax"),
    ("fingerprint", "Fingerprint"),
    ("nickname", "Nickname"),
    ("server", "Server"),
];

pub(super) fn settings(service: &Service) -> Markup {
    let none = Map::new();
    let attributes = service.record.attributes.as_ref().and_then(Value::as_object).unwrap_or(&none);
    // How lives began stands in the table of lives.
    let attributes = attributes.iter().filter(|(name, value)| *name != STARTS && !value.is_null());
    html! {
        section id="settings" {
            h2 { "Settings" }
            dl {
                @if !service.trial.is_import() {
                    div { dt { "Block" } dd { (service.record.block) } }
                    div { dt { "Order of starting" } dd { (units::count(u64::from(service.record.position) + 1)) } }
                }
                div { dt { "Metric" } dd { (service.metric.describe()) } }
                @for (name, value) in attributes.take(SHOWN) {
                    div { dt { (title(name)) } dd { (told(name, value)) } }
                }
            }
        }
    }
}

fn title(name: &str) -> String {
    let known = TITLES.iter().find(|(attribute, _)| *attribute == name);
    known.map_or_else(|| printable(name).replace('_', " "), |(_, title)| (*title).to_owned())
}

/// A value as a reader would write it: no braces, amounts with their units, times as dates.
fn told(name: &str, value: &Value) -> Markup {
    html! {
        @match value {
            Value::Null => "–",
            Value::Bool(true) => "yes",
            Value::Bool(false) => "no",
            Value::String(text) => (printable(text)),
            Value::Number(number) => (amount(name, number)),
            Value::Array(values) => {
                ul class="plain" {
                    @for value in values.iter().take(SHOWN) { li { (told(name, value)) } }
                    @if values.len() > SHOWN { li { (values.len() - SHOWN) " more" } }
                }
            }
            Value::Object(members) => {
                ul class="plain" {
                    @for (name, value) in members.iter().take(SHOWN) {
                        li { (title(name)) ": " (told(name, value)) }
                    }
                    @if members.len() > SHOWN { li { (members.len() - SHOWN) " more" } }
                }
            }
        }
    }
}

fn amount(name: &str, number: &serde_json::Number) -> String {
    match (number.as_u64(), number.as_f64()) {
        (Some(bytes), _) if name.ends_with("_bytes") => units::memory(bytes as f64),
        (Some(number), _) => units::count(number),
        (None, Some(number)) => number.to_string(),
        (None, None) => "–".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_are_read_without_braces() {
        let config = json!({"dircache": "0", "notes": "as \"before\" <b>", "limits": {"memory_max_bytes": 1_073_741_824}});
        let shown = told("config", &config).into_string();
        assert_eq!(
            shown,
            "<ul class=\"plain\"><li>dircache: 0</li><li>limits: <ul class=\"plain\"><li>MemoryMax: 1.00 GiB</li></ul></li>\
             <li>notes: as &quot;before&quot; &lt;b&gt;</li></ul>"
        );
    }
}
