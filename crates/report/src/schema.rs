//! The JSON schema of `report.json`.

use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::Report;

/// The schema of [`Report`] as JSON (draft 2020-12), derived from the types: what `docs/report.schema.json` holds.
pub fn report_schema() -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<Report>();
    schema.insert("title".to_owned(), "Heaptrial report".into());
    schema.to_value()
}
