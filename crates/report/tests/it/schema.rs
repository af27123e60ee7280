//! The JSON of reports against the schema in docs/.

use heaptrial_report::{Document, Report, report_schema};
use serde_json::Value;

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.schema.json");

pub fn validate(report: &Report) {
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(SCHEMA).unwrap()).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let text = report.json().unwrap();
    let json = serde_json::from_str(&text).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&json).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let back: Report = serde_json::from_str(&text).unwrap();
    assert_eq!(back.json().unwrap(), text);
}

/// `UPDATE_SCHEMA=1 cargo test -p heaptrial-report schema` writes it.
#[test]
fn the_schema_in_docs_is_that_of_the_types() {
    let wanted = format!("{}\n", serde_json::to_string_pretty(&report_schema()).unwrap());
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        std::fs::write(SCHEMA, &wanted).unwrap();
    }
    let written = std::fs::read_to_string(SCHEMA).unwrap();
    assert!(written == wanted, "UPDATE_SCHEMA=1 cargo test -p heaptrial-report writes it");
}
