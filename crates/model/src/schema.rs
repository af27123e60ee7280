//! JSON schemas of types that are texts to serde.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{AllocatorSpec, HumanDuration, Version};

/// Gives a type the schema of a text.
macro_rules! text {
    ($($name:ident: $about:literal,)+) => {
        $(impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "description": $about })
            }
        })+
    };
}

text! {
    AllocatorSpec: "`family@version+variant?setting=value&...`",
    HumanDuration: "A length of time such as `48h` or `10d`",
    Version: "A version such as `2.0.9`",
}
