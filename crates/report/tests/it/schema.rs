//! The schema of reports in docs/.

use heaptrial_report::report_schema;

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.schema.json");

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
