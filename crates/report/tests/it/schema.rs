//! The JSON of reports against the schema in docs/.

use heaptrial_report::{Document, Report, report_schema};
use serde_json::Value;

const SCHEMA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/report.schema.json");

pub fn validate(report: &Report) {
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(SCHEMA).unwrap()).unwrap();
    let json = serde_json::from_str(&report.json().unwrap()).unwrap();
    let misfits = misfits(&schema, &schema, &json, "");
    assert!(misfits.is_empty(), "{misfits:#?}");
}

/// What of `value` is not as the schema says: fields that it lacks or that are missing, and values of other types.
fn misfits(root: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        return misfits(root, root.pointer(name.trim_start_matches('#')).unwrap(), value, at);
    }
    for of in ["anyOf", "oneOf"] {
        if let Some(branches) = schema[of].as_array() {
            let each = branches.iter().map(|branch| misfits(root, &with_own(schema, branch), value, at));
            return each.min_by_key(Vec::len).unwrap();
        }
    }
    let wrong = || vec![format!("{at}: {value} is not as {schema}")];
    let among = |allowed: &Value| allowed.as_array().is_some_and(|all| all.contains(value));
    let types = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
    let is_type = |name: &Value| match name.as_str() {
        Some("null") => value.is_null(),
        Some("integer") => value.is_u64() || value.is_i64(),
        Some("number") => value.is_number(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("array") => value.is_array(),
        Some("object") => value.is_object(),
        _ => true,
    };
    if !types.iter().any(is_type)
        || schema.get("enum").is_some_and(|allowed| !among(allowed))
        || schema.get("const").is_some_and(|only| only != value)
    {
        return wrong();
    }
    match value {
        Value::Array(items) if schema["items"].is_object() => {
            items.iter().flat_map(|item| misfits(root, &schema["items"], item, &format!("{at}[]"))).collect()
        }
        Value::Object(fields) if schema["properties"].is_object() => {
            let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let missing = required.filter(|name| !fields.contains_key(*name));
            let mut found: Vec<String> = missing.map(|name| format!("{at}.{name} is missing")).collect();
            for (name, value) in fields {
                match schema["properties"].get(name) {
                    Some(own) => found.extend(misfits(root, own, value, &format!("{at}.{name}"))),
                    None => found.push(format!("{at}.{name} is not in the schema")),
                }
            }
            found
        }
        _ => Vec::new(),
    }
}

/// A branch with the fields that all branches have.
fn with_own(schema: &Value, branch: &Value) -> Value {
    let mut branch = branch.clone();
    for (name, own) in schema["properties"].as_object().into_iter().flatten() {
        branch["properties"][name] = own.clone();
    }
    branch
}

#[test]
fn a_field_that_the_schema_lacks_is_found() {
    let schema =
        serde_json::json!({ "properties": { "a": { "type": ["integer", "null"] } }, "required": ["a"] });
    let found = |value: Value| misfits(&schema, &schema, &value, "");
    assert_eq!(found(serde_json::json!({ "a": null })), [""; 0]);
    assert_eq!(found(serde_json::json!({ "a": 1, "b": 2 })), [".b is not in the schema"]);
    assert_eq!(found(serde_json::json!({})), [".a is missing"]);
    assert_eq!(found(serde_json::json!({ "a": "1" })).len(), 1);
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
