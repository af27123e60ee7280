//! Types that are texts to serde, with the schemas of such texts.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::{AllocatorSpec, HumanDuration};

/// A type is written as it is shown, and read as it is parsed.
macro_rules! text {
    ($($name:ident: $about:literal,)+) => {
        $(impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({ "type": "string", "description": $about })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        })+
    };
}

text! {
    AllocatorSpec: "`family@version+variant?setting=value&...`",
    HumanDuration: "A length of time such as `48h` or `10d`",
}
